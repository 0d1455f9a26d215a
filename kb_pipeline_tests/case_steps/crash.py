"""A sync in a process of its own that is killed within a stage, as a power cut would."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from kb_pipeline.automation.run import open_syncer
from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store

STAGES = {
    "raw_items": "raw_items list listing fetch fetching download raw",
    "documents": "documents parse parsing normalize normalise normalizing extract extracting convert",
    "chunks": "chunks chunk chunking split splitting",
    "chunk_index": "chunk_index embed embedding index indexing store vectors write",
}


class Killer:
    """Progress that ends the process at a point of a stage: `begin` before its first unit, `advance` after a batch."""

    def __init__(self, stage: str, point: str) -> None:
        self._stage, self._point, self._here = stage, point, ""

    def begin(self, stage: str, source: str, total: int | None) -> None:
        self._here = stage
        self._strike("begin")

    def advance(self, units: int) -> None:
        self._strike("advance")

    def _strike(self, point: str) -> None:
        if (self._here, point) == (self._stage, self._point):
            os.kill(os.getpid(), signal.SIGKILL)


def sync_and_die(settings: Settings, kb_ids: list[str], stage: str, point: str) -> bool:
    """Sync in a child that is killed at the point; False if it lived through it."""
    database = settings.model_dump(mode="json", exclude={"kb_database_url"})
    order = {"settings": database, "kb_ids": kb_ids, "stage": stage, "point": point}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "kb_pipeline_tests.case_steps.crash"],
        input=json.dumps(order).encode(), cwd=root, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode == -signal.SIGKILL


def main() -> None:
    """The child: reads its order from standard input."""
    order = json.load(sys.stdin)
    store = Store(Settings(**order["settings"]))
    with open_syncer(store, Killer(order["stage"], order["point"])) as syncer:
        for kb_id in order["kb_ids"]:
            for source in store.catalog.sources(kb_id):
                syncer.sync(source)


if __name__ == "__main__":
    main()
