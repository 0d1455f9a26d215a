"""What costs with the size of a search table: bringing it to the shape of one freshly built, or writing it anew.

The caller holds the table's lease. Every step of an overhaul asks first, and makes no version where nothing is due.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from kb_pipeline.storage.lance_segments import (
    FRAGMENT_ROWS,
    dead_terms,
    holds_deleted,
    joinable,
    segment_rows,
    unindexed,
)
from kb_pipeline.storage.lance_table import VECTOR_INDEX
from kb_pipeline.storage.lance_upkeep import (
    DEAD_SHARE,
    create_scalar_indexes,
    has_vector_index,
    index_terms,
    join,
    remove_old_versions,
    reopened,
    train,
)

_RETRAIN_GROWTH = 4  # the vector index is trained anew when the table has grown, or shrunk, this much


def steps(vector_index_rows: int, keep_versions: timedelta) -> tuple[Callable[[Path], list[str]], ...]:
    """What an overhaul does to the table of a path, in order: only what the same segments cover can be joined."""
    renew = partial(renew_indexes, vector_index_rows=vector_index_rows)
    return merge_segments, join_fragments, renew, partial(remove_old_versions, keep_versions=keep_versions)


def merge_segments(path: Path) -> list[str]:
    """One segment an index, which covers every row."""
    table = reopened(path)
    most = max(map(len, segment_rows(table).values()))
    if most == 1 and not any(unindexed(table).values()):
        return []
    table.optimize.optimize_indices(num_indices_to_merge=most)
    return ["index segments merged"]


def join_fragments(path: Path) -> list[str]:
    """All small fragments into as few as their rows need, without the rows that were deleted from them."""
    table = reopened(path)
    if not joinable(table, at_least=2) and not holds_deleted(table, DEAD_SHARE):
        return []
    join(path, materialize_deletions=True)
    return ["fragments joined"]


def renew_indexes(path: Path, vector_index_rows: int) -> list[str]:
    """Make indexes anew whose rows have drifted from those they were made of."""
    done = []
    table = reopened(path)
    rows = table.count_rows()
    if dead_terms(table) > DEAD_SHARE * rows:
        index_terms(table)
        done.append("full-text index made anew")
    if has_vector_index(table):
        trained = table.stats.index_stats(VECTOR_INDEX)["indices"][0]["num_partitions"] ** 2
        if rows < vector_index_rows / 2:
            reopened(path).drop_index(VECTOR_INDEX)
            done.append("vector index dropped")
        elif rows > _RETRAIN_GROWTH * trained or rows < trained / _RETRAIN_GROWTH:
            train(reopened(path))
            done.append("vector index trained anew")
    elif rows >= vector_index_rows:
        train(reopened(path))
        done.append("vector index trained")
    return done


def rewrite(path: Path, vector_index_rows: int) -> None:
    """Write rows and indexes anew and drop every older version: nothing that was deleted is left in any file."""
    table = reopened(path)
    table.optimize.compact_files(
        target_rows_per_fragment=FRAGMENT_ROWS, materialize_deletions=True, materialize_deletions_threshold=0.0
    )
    create_scalar_indexes(reopened(path))
    table = reopened(path)
    if has_vector_index(table):
        if table.count_rows() >= vector_index_rows:
            train(table)
        else:
            table.drop_index(VECTOR_INDEX)
    reopened(path).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
