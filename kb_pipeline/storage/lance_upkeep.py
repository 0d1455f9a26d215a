"""Upkeep of a search table after a sync's writes: indexes that cover every row, at a cost that goes with the change.

The caller holds the table's lease. What costs with the size of the table is in lance_overhaul.py.
"""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kb_pipeline.storage.lance_segments import (
    FRAGMENT_ROWS,
    age_s,
    due_to_merge,
    joinable,
    manifests,
    segment_rows,
    unindexed,
)
from kb_pipeline.storage.lance_table import TERMS_INDEX, VECTOR_INDEX, open_table

if TYPE_CHECKING:
    import lance

VECTOR_INDEX_ROWS = 20_000
"""Below, a flat scan is as fast and exact."""
KEEP_VERSIONS = timedelta(hours=1)
"""Readers that opened an older version go on reading it for this long."""
_MAX_VERSIONS = 100  # with fewer, a sync removes them half as often
_SAMPLE_RATE = 64
"""Vectors that each partition is trained from. Of 24,000 sentences' real vectors the 50 nearest are found as often as
with the engine's 256 (recall .960 and .957), in half of the time and memory."""
DEAD_SHARE = 0.1
"""Deleted rows in a fragment, or in the full-text index, before it is written anew."""

_SCALAR: dict[str, Literal["BITMAP", "BTREE"]] = {"kb_id": "BITMAP", "document_id": "BTREE", "indexed_hash": "BTREE"}
_SUFFIX = "_idx"
_WORDS_AS_GIVEN: dict[str, Any] = {
    "base_tokenizer": "whitespace", "language": "English", "lower_case": False, "stem": False,
    "remove_stop_words": False, "ascii_folding": False, "max_token_length": None, "with_position": False,
}  # fmt: skip
"""`stages.terms` has done all of it; the engine only splits."""


def create_scalar_indexes(table: "lance.LanceDataset") -> None:
    """Full text over the terms, knowledge bases, documents, hashes; works on an empty table."""
    index_terms(table)
    for column in _SCALAR:
        _index_column(table, column)


def _index_column(table: "lance.LanceDataset", column: str) -> None:
    """Make a column's index, anew if there is one."""
    table.create_scalar_index(column, _SCALAR[column], name=f"{column}{_SUFFIX}")


def maintain(path: Path, vector_index_rows: int, keep_versions: timedelta) -> list[str]:
    """After a sync's writes: indexes that cover every row, first of all. Costs with what was written."""
    done: list[str] = []
    table = reopened(path)
    if table.count_rows() >= vector_index_rows and not has_vector_index(table):
        train(table)
        done.append("vector index trained")
    if _cover(path):
        done += ["indexes extended", *_join_neighbours(path)]  # before a merge: what moves is in small segments still
        if _merge_segments(path):
            done += ["index segments merged", *_join_neighbours(path)]
    found = manifests(path)
    patience = keep_versions * (1 if len(found) > _MAX_VERSIONS else 2)
    if len(found) > 1 and age_s(found[-1]) > patience.total_seconds():
        done += remove_old_versions(path, keep_versions)
    return done


def _cover(path: Path) -> bool:
    """Let the indexes cover new rows, by a segment more."""
    table = reopened(path)
    behind = [name for name, rows in unindexed(table).items() if rows]
    if behind:
        table.optimize.optimize_indices(num_indices_to_merge=0, index_names=behind)
    return bool(behind)


def _merge_segments(path: Path) -> bool:
    """Make one of an index's newest segments where there are several of a size; one index after the other."""
    segments = segment_rows(reopened(path))
    due = {name: newest for name, rows in segments.items() if (newest := due_to_merge(rows))}
    for name, newest in due.items():
        table = reopened(path)
        if newest < len(segments[name]) or name == VECTOR_INDEX:
            table.optimize.optimize_indices(num_indices_to_merge=newest, index_names=[name])
        elif name == TERMS_INDEX:  # as fast as to merge them, in half the memory
            index_terms(table)
        else:
            _index_column(table, name.removesuffix(_SUFFIX))
    return bool(due)


def _join_neighbours(path: Path) -> list[str]:
    if not joinable(reopened(path)):
        return []
    join(path, materialize_deletions=False)
    return ["fragments joined"]


def remove_old_versions(path: Path, keep_versions: timedelta) -> list[str]:
    """Versions older than `keep_versions` and the files only they name; what a dead writer left goes after a week."""
    cleaned = reopened(path).cleanup_old_versions(older_than=keep_versions, error_if_tagged_old_versions=False)
    return ["old versions removed"] if cleaned.old_versions else []


def index_terms(table: "lance.LanceDataset") -> None:
    """Make the full-text index, anew if there is one."""
    table.create_scalar_index("terms", "INVERTED", name=TERMS_INDEX, **_WORDS_AS_GIVEN)


def join(path: Path, materialize_deletions: bool) -> None:
    """Join small fragments, and write those anew that hold many deleted rows if `materialize_deletions`."""
    reopened(path).optimize.compact_files(
        target_rows_per_fragment=FRAGMENT_ROWS,
        materialize_deletions=materialize_deletions,
        materialize_deletions_threshold=DEAD_SHARE,
    )


def train(table: "lance.LanceDataset") -> None:
    """Make the vector index, anew if there is one."""
    partitions = max(1, int(table.count_rows() ** 0.5))
    table.create_index(
        "vector", "IVF_SQ", name=VECTOR_INDEX, metric="cosine", num_partitions=partitions, replace=True,
        sample_rate=_SAMPLE_RATE,
    )  # fmt: skip


def reopened(path: Path) -> "lance.LanceDataset":
    """The newest version of a table that is there."""
    table = open_table(path)
    if table is None:
        raise FileNotFoundError(f"{path} vanished")
    return table


def has_vector_index(table: "lance.LanceDataset") -> bool:
    """Whether vectors are indexed; a small table's are not."""
    return any(index.name == VECTOR_INDEX for index in table.describe_indices())
