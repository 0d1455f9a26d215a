"""Kill -9 in a run of Dagster: the next one converges, and nothing is embedded twice.

Each single commit of every kind of work is in laws/test_kills.py, without Dagster around it.
"""

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


ROWS = [{"id": str(n), "title": f"Buoy {n}", "text": f"Buoy {n} rings at depth {n}."} for n in range(5)]


def prepare(settings, folder):
    """A home with a source that was never synced."""
    records = folder / "r.jsonl"
    records.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    store = Store(Settings(**{**settings.model_dump(), "batch_documents": 2}))
    store.initialise()
    store.catalog.create_knowledge_base("k")
    store.catalog.add_source("k", "records", str(records))
    return store


def run(store, at=None, when="after"):
    """A sync in a process of its own that dies around its n-th commit."""
    order = {"settings": store.settings.model_dump(mode="json"), "at": at, "when": when}
    return subprocess.run(
        [sys.executable, "-m", "kb_pipeline_tests.assets.killed"],
        input=json.dumps(order), cwd=ROOT, text=True, capture_output=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def commits(tmp_path_factory):
    """How many commits a sync takes that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    store = prepare(Settings(kb_home=folder / "home", embedding_model="fake:test:32"), folder)
    done = run(store)
    store.catalog.engine.dispose()
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.parametrize(("share", "when"), [(0.2, "before"), (0.45, "after"), (0.7, "before"), (0.95, "after")])
def test_a_run_that_is_killed_is_finished_by_the_next_one(settings, folder, commits, share, when):
    from kb_pipeline.automation.run import open_syncer

    store = prepare(settings, folder)
    done = run(store, int(commits * share), when)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    with open_syncer(store, SilentProgress()) as syncer:
        home = Home(store, syncer)
        (source,) = store.catalog.sources()
        finished_before = len(home.indexed())
        report = home.sync(source)
        assert report.status == "ok"
        assert report.embedded <= 5 - finished_before
        assert sorted(text for _, text in home.indexed().values()) == [row["text"] for row in ROWS]
        assert {row["status"] for row in home.documents().values()} == {"ready"}
        assert home.rows(source) == {"raw_items": 5, "documents": 5, "chunks": 5}
        assert not list(store.layout.root.rglob("*.tmp"))
        before = home.files()
        again = home.sync(source)
        assert (again.new, again.changed, again.embedded, home.files()) == (0, 0, 0, before)
    store.catalog.engine.dispose()
