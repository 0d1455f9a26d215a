"""A sync in a process of its own that is killed before or after the n-th call of a commit point."""

import functools
import importlib
import json
import os
import signal
import sys

from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store

POINTS = {
    "blob": ("kb_pipeline.storage.blobs", "Blobs", "put"),
    "parquet": ("kb_pipeline.storage.parquet", "Dataset", "replace"),
    "status": ("kb_pipeline.storage.documents", "Documents", "update"),
    "ledger": ("kb_pipeline.storage.ledger", "Ledger", "record"),
    "lance": ("kb_pipeline.storage.lance", "ChunkIndex", "replace_documents"),
    "upkeep": ("kb_pipeline.storage.lance", "ChunkIndex", "maintain"),
    "listed": ("kb_pipeline.storage.catalog", "Catalog", "source_was_listed"),
    "ready": ("kb_pipeline.storage.documents", "Documents", "settle"),
}


def strike_at(point: str, call: int, when: str) -> None:
    """Arrange for SIGKILL around the n-th call of a commit point."""
    module, owner, name = POINTS[point]
    holder = getattr(importlib.import_module(module), owner)
    real = getattr(holder, name)
    count = 0

    @functools.wraps(real)
    def struck(*args, **kwargs):
        nonlocal count
        count += 1
        if count == call and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **kwargs)
        if count == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(holder, name, struck)


def main() -> None:
    """Read the order from standard input, sync, die."""
    order = json.load(sys.stdin)
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline_tests.assets.conftest import SilentProgress

    strike_at(order["point"], order["call"], order["when"])
    store = Store(Settings(**order["settings"]))
    with open_syncer(store, SilentProgress()) as syncer:
        for source in store.catalog.sources():
            syncer.sync(source)


if __name__ == "__main__":
    main()
