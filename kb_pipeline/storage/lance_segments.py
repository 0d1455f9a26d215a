"""How a search table lies on disk: fragments of rows, segments of its indexes, and which of them are due to be joined.

An index grows by a segment per write of new rows, and only fragments that the same segments cover can be joined. So
segments are merged first: the newest ones, where several are of a size, as a merge then costs with what was written.
"""

import itertools
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb_pipeline.storage.lance_table import TERMS_INDEX

if TYPE_CHECKING:
    import lance

FRAGMENT_ROWS = 16_384
"""Fragments of this size are left alone, so that joining costs with the change."""
_ALIKE = 4
"""Segments of a size that are merged; each costs a search of words about a millisecond, whatever its size."""
_SMALLEST_CLASS = 16_384  # rows; to merge fewer costs a sync nothing that it would notice
_NEIGHBOURS = 16
"""Small fragments that are joined at a sync; they cost a search next to nothing, but to join them moves all vectors."""


def unindexed(table: "lance.LanceDataset") -> dict[str, int]:
    """Rows that an index does not cover, by index."""
    names = [index.name for index in table.describe_indices()]
    return {name: int(table.stats.index_stats(name)["num_unindexed_rows"]) for name in names}


def segment_rows(table: "lance.LanceDataset") -> dict[str, list[int]]:
    """Living rows of each segment by index, oldest first; an index nothing was added to yet has one of 0."""
    living = {fragment.fragment_id: fragment.count_rows() for fragment in table.get_fragments()}
    return {
        index.name: [sum(living.get(fragment, 0) for fragment in segment.fragment_ids) for segment in index.segments]
        for index in table.describe_indices()
    }


def due_to_merge(rows: Sequence[int]) -> int:
    """How many of the newest segments are due to become one; 0 while no four are of a size.

    Size classes end at 16,384 rows, 65,536 and so on. Four of a class make one of the next, with what is newer: however
    large the table, what a sync merges goes with what was written since.

    Args:
        rows: of each segment, oldest first.

    """
    low, limit = 0, _SMALLEST_CLASS
    while True:
        newest = list(itertools.takewhile(limit.__gt__, reversed(rows)))
        if sum(size >= low for size in newest) >= _ALIKE:
            return len(newest)
        if len(newest) == len(rows):
            return 0
        low, limit = limit, limit * _ALIKE


def joinable(table: "lance.LanceDataset", at_least: int = _NEIGHBOURS) -> bool:
    """Whether so many neighbouring small fragments can become one: the same segments cover them."""
    covers = [
        frozenset(segment.fragment_ids)
        for index in table.describe_indices()
        for segment in index.segments
        if len(segment.fragment_ids)
    ]
    streak, last = 0, None
    for fragment in table.get_fragments():
        if fragment.physical_rows >= FRAGMENT_ROWS:
            last = None
            continue
        membership = tuple(fragment.fragment_id in cover for cover in covers)
        streak = streak + 1 if membership == last else 1
        last = membership
        if streak >= at_least:
            return True
    return False


def holds_deleted(table: "lance.LanceDataset", share: float) -> bool:
    """Whether more than this share of some fragment's rows is deleted."""
    return any(fragment.num_deletions > share * fragment.physical_rows for fragment in table.get_fragments())


def dead_terms(table: "lance.LanceDataset") -> int:
    """Rows the full-text index still counts that are deleted: they shift the weights of words until it is made anew."""
    stats: dict[str, Any] = table.stats.index_stats(TERMS_INDEX)
    counted = sum(int(segment.get("num_docs", 0)) for segment in stats["indices"])
    return max(0, counted + int(stats["num_unindexed_rows"]) - table.count_rows())


def manifests(path: Path) -> list[Path]:
    """Files of the table's versions, newest first."""
    return sorted((path / "_versions").glob("*.manifest"))


def is_unwritten(path: Path, for_time: timedelta) -> bool:
    """Whether the newest version is that old."""
    return age_s(manifests(path)[0]) > for_time.total_seconds()


def age_s(file: Path) -> float:
    """Seconds since it was written."""
    return time.time() - file.stat().st_mtime
