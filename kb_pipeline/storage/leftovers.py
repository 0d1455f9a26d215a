"""Files that nobody will come back for: temporary ones of writers that died, damaged ones that were set aside."""

import shutil
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from kb_pipeline.schemas import CHUNKS, PARQUET_TABLES
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.lance_damage import DAMAGED
from kb_pipeline.storage.layout import Layout

DEAD_AFTER = timedelta(days=1)
"""A temporary file this old has no writer any more."""
KEEP_DAMAGED = timedelta(days=7)
"""Time to look into what damaged a file; its documents were made anew at once."""


def remove_of_sources(layout: Layout, sources: Iterable[SourceRow], now: float | None = None) -> int:
    """Remove what is left over beside the rows of sources; returns how many files.

    Args:
        now: seconds since 1970.

    """
    sources = list(sources)
    folders = [layout.dataset(table.name, s.kb_id, s.source_id) for s in sources for table in PARQUET_TABLES]
    dead = (path for folder in folders for path in folder.rglob(".*.tmp"))
    damaged = (path for folder in folders for path in folder.rglob("*.damaged"))
    split = (layout.dataset(CHUNKS.name, source.kb_id, source.source_id) for source in sources)
    unsplit = (path for folder in split for path in folder.glob("part-*.parquet"))  # of before there were spaces
    removed = _remove(dead, DEAD_AFTER, now) + _remove(damaged, KEEP_DAMAGED, now)
    return removed + _remove(unsplit, timedelta(), now)


def remove_of_home(layout: Layout, now: float | None = None) -> int:
    """Remove what is left over beside the blobs, the empty files and the search tables; returns how many."""
    return _remove(_temporary(layout), DEAD_AFTER, now) + remove_damaged_tables(layout, now)


def remove_damaged_tables(layout: Layout, now: float | None = None) -> int:
    """Remove search tables that were set aside; returns how many."""
    limit = (time.time() if now is None else now) - KEEP_DAMAGED.total_seconds()
    old = [path for path in (layout.root / "lance").glob(f"*/*{DAMAGED}*") if _changed_at(path) < limit]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return len(old)


def _temporary(layout: Layout) -> Iterator[Path]:
    yield from layout.blobs.glob("??/.new-*")
    yield from layout.parquet.glob("*/.*.tmp")


def _remove(paths: Iterable[Path], older_than: timedelta, now: float | None) -> int:
    limit = (time.time() if now is None else now) - older_than.total_seconds()
    removed = 0
    for path in list(paths):
        if _changed_at(path) < limit:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _changed_at(path: Path) -> float:
    """When it was written, or got its name: a file that is set aside keeps the time of its writing."""
    try:
        return path.stat().st_ctime
    except FileNotFoundError:  # its writer was alive after all
        return float("inf")
