"""Kill -9 at every commit point: the next sync converges, and nothing is embedded twice."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.assets.conftest import Home, SilentProgress

ROOT = Path(__file__).parents[2]


def sync_and_die(settings, point, call, when):
    order = {"settings": settings.model_dump(mode="json"), "point": point, "call": call, "when": when}
    done = subprocess.run(
        [sys.executable, "-m", "kb_pipeline_tests.assets.killed"],
        input=json.dumps(order), cwd=ROOT, text=True, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


POINTS = [
    ("blob", 2), ("parquet", 1), ("parquet", 4), ("status", 2), ("ledger", 2), ("ledger", 5), ("lance", 2),
    ("upkeep", 1), ("listed", 1), ("ready", 1),
]  # fmt: skip
ALWAYS = {("parquet", 4, "after"), ("ledger", 2, "before"), ("lance", 2, "after"), ("listed", 1, "after")}
"""Points that every run of the tests tries; `make soak` tries them all."""


def _points():
    for point, call in POINTS:
        for when in ("before", "after"):
            marks = () if (point, call, when) in ALWAYS else pytest.mark.slow
            yield pytest.param(point, call, when, marks=marks)


@pytest.mark.parametrize(("point", "call", "when"), list(_points()))
def test_a_sync_killed_anywhere_is_finished_by_the_next_one(settings, folder, tmp_path, point, call, when):
    from kb_pipeline.automation.run import open_syncer

    settings = Settings(**{**settings.model_dump(), "batch_documents": 2})
    records = folder / "r.jsonl"
    rows = [{"id": str(n), "title": f"Buoy {n}", "text": f"Buoy {n} rings at depth {n}."} for n in range(5)]
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = Store(settings)
    store.initialise()
    store.catalog.create_knowledge_base("k")
    store.catalog.add_source("k", "records", str(records))
    sync_and_die(settings, point, call, when)
    with open_syncer(store, SilentProgress()) as syncer:
        home = Home(store, syncer)
        (source,) = store.catalog.sources()
        finished_before = len(home.indexed())
        report = home.sync(source)
        assert report.status == "ok"
        assert report.embedded <= 5 - finished_before
        assert sorted(text for _, text in home.indexed().values()) == [row["text"] for row in rows]
        assert {row["status"] for row in home.documents().values()} == {"ready"}
        assert home.rows(source) == {"raw_items": 5, "documents": 5, "chunks": 5}
        assert not list(store.layout.root.rglob("*.tmp"))
        before = home.files()
        again = home.sync(source)
        assert (again.new, again.changed, again.embedded, home.files()) == (0, 0, 0, before)
    store.catalog.engine.dispose()
