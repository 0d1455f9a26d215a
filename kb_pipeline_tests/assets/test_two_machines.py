"""Two homes with one Postgres and one storage, as two machines have them: together they do what one does."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from kb_pipeline.automation.run import open_syncer
from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline.storage.tables import ledger
from kb_pipeline_tests.assets.conftest import Home, SilentProgress

pytestmark = pytest.mark.databases("postgres")
ROOT = Path(__file__).parents[2]
DOCUMENTS = 12


@pytest.fixture
def store(settings, tmp_path):
    """The store as the first machine sees it."""
    made = Store(Settings(**{**settings.model_dump(), "kb_storage": str(tmp_path / "shared")}))
    made.initialise()
    made.catalog.create_knowledge_base("k")
    yield made
    made.catalog.engine.dispose()


def syncing(home, storage):
    """`kb sync` on a machine of its own."""
    environment = {
        **os.environ, "KB_HOME": str(home), "KB_STORAGE": str(storage), "EMBEDDING_MODEL": "fake:test:32",
        "BATCH_DOCUMENTS": "2", "THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "kb_pipeline.cli", "sync", "--all", "--json"]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_machines_syncing_at_once_make_one_set_of_rows(store, folder, tmp_path):
    for n in range(DOCUMENTS):
        (folder / f"f{n}.md").write_text(f"Buoy number {n} rings.")
    source = store.catalog.add_source("k", "document", str(folder))
    machines = [syncing(tmp_path / name, store.layout.root) for name in ("one", "other")]
    answers = [(*machine.communicate(timeout=100), machine.returncode) for machine in machines]
    assert [code for _, _, code in answers] == [0, 0], answers
    runs = [run for out, _, _ in answers for run in json.loads(out)["runs"]]
    assert [run["status"] for run in runs] == ["ok", "ok"]
    assert sum(run["embedded"] for run in runs) == DOCUMENTS
    with open_syncer(store, SilentProgress()) as syncer:
        home = Home(store, syncer)
        assert home.documents("ready").keys() == {f"f{n}.md" for n in range(DOCUMENTS)}
        assert [index.statistics().duplicate_keys for index in home.index()] == [0]
        assert len(home.indexed()) == DOCUMENTS
        assert set(home.rows(source).values()) == {DOCUMENTS}
        before = home.files()
        assert home.sync(source).unchanged == DOCUMENTS
        assert home.files() == before
    with store.catalog.engine.connect() as connection:
        stages = Counter(connection.execute(sa.select(ledger.c.stage)).scalars())
    assert stages == dict.fromkeys(("raw_items", "documents", "chunks", "chunk_index"), DOCUMENTS)
