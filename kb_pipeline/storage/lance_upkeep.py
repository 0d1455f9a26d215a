"""Upkeep of a search table: the little a sync does after its writes, and the overhaul that maintenance gives it.

The caller holds the table's lease. Every step asks first, and makes no version where nothing is due.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kb_pipeline.schemas import chunk_index
from kb_pipeline.storage.lance_segments import (
    FRAGMENT_ROWS,
    dead_terms,
    due_to_merge,
    holds_deleted,
    joinable,
    manifests,
    segment_rows,
    unindexed,
)
from kb_pipeline.storage.lance_table import KEY, TERMS_INDEX, VECTOR_INDEX, open_table, systemic

if TYPE_CHECKING:
    import lance

VECTOR_INDEX_ROWS = 20_000
"""Below, a flat scan is as fast and exact."""
KEEP_VERSIONS = timedelta(hours=1)
"""Readers that opened an older version go on reading it for this long."""
_MAX_VERSIONS = 100  # a sync leaves fewer to maintenance
_RETRAIN_GROWTH = 4  # the vector index is trained anew when the table has grown, or shrunk, this much
_DEAD_SHARE = 0.1  # of deleted rows in a fragment, or in the full-text index, before it is written anew

_SCALAR: dict[str, Literal["BITMAP", "BTREE"]] = {"kb_id": "BITMAP", "document_id": "BTREE", "indexed_hash": "BTREE"}
_WORDS_AS_GIVEN: dict[str, Any] = {
    "base_tokenizer": "whitespace", "language": "English", "lower_case": False, "stem": False,
    "remove_stop_words": False, "ascii_folding": False, "max_token_length": None, "with_position": False,
}  # fmt: skip
"""`stages.terms` has done all of it; the engine only splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatistics:
    """State of one table.

    Attributes:
        versions: of the table; `old_versions` of them are older than readers need.
        segments: of the index that has most.
        unindexed: rows not covered yet, by index; they are found all the same, more slowly.
        duplicate_keys: rows beyond the first of their chunk id; 0 unless something is broken.

    """

    rows: int = 0
    versions: int = 0
    old_versions: int = 0
    fragments: int = 0
    segments: int = 0
    unindexed: Mapping[str, int] = field(default_factory=dict)
    duplicate_keys: int = 0
    schema_matches: bool = True
    files: int = 0
    size_bytes: int = 0

    @property
    def unindexed_rows(self) -> int:
        """Rows that at least one index does not cover."""
        return max(self.unindexed.values(), default=0)


def create_scalar_indexes(table: "lance.LanceDataset") -> None:
    """Full text over the terms, knowledge bases, documents, hashes; works on an empty table."""
    _index_terms(table)
    for column, kind in _SCALAR.items():
        table.create_scalar_index(column, kind, name=f"{column}_idx")


def maintain(path: Path, vector_index_rows: int, keep_versions: timedelta) -> list[str]:
    """After a sync's writes: indexes that cover every row, first of all. Costs with what was written."""
    done: list[str] = []
    table = _reopened(path)
    if table.count_rows() >= vector_index_rows and not _has_vector_index(table):
        _train(table)
        done.append("vector index trained")
    if _extend(path):
        done.append("indexes extended")
        if joinable(_reopened(path)):
            _join(path, materialize_deletions=False)
            done.append("fragments joined")
    found = manifests(path)
    if len(found) > _MAX_VERSIONS and _age_s(found[-1]) > keep_versions.total_seconds():
        done += remove_old_versions(path, vector_index_rows, keep_versions)
    return done


def _extend(path: Path) -> bool:
    """Let the indexes cover new rows, newest segments merged where there are several of a size."""
    table = _reopened(path)
    rows = segment_rows(table)
    by_merged: dict[int, list[str]] = {}
    for name, fresh in unindexed(table).items():
        if fresh:
            by_merged.setdefault(max(0, due_to_merge([*rows[name], fresh]) - 1), []).append(name)
    for merged, names in by_merged.items():
        _reopened(path).optimize.optimize_indices(num_indices_to_merge=merged, index_names=names)
    return bool(by_merged)


def merge_segments(path: Path, _vector_index_rows: int, _keep_versions: timedelta) -> list[str]:
    """One segment an index, which covers every row."""
    table = _reopened(path)
    most = max(map(len, segment_rows(table).values()))
    if most == 1 and not any(unindexed(table).values()):
        return []
    table.optimize.optimize_indices(num_indices_to_merge=most)
    return ["index segments merged"]


def join_fragments(path: Path, _vector_index_rows: int, _keep_versions: timedelta) -> list[str]:
    """All small fragments into as few as their rows need, without the rows that were deleted from them."""
    table = _reopened(path)
    if not joinable(table, at_least=2) and not holds_deleted(table, _DEAD_SHARE):
        return []
    _join(path, materialize_deletions=True)
    return ["fragments joined"]


def renew_indexes(path: Path, vector_index_rows: int, _keep_versions: timedelta) -> list[str]:
    """Make indexes anew whose rows have drifted from those they were made of."""
    done = []
    table = _reopened(path)
    rows = table.count_rows()
    if dead_terms(table) > _DEAD_SHARE * rows:
        _index_terms(table)
        done.append("full-text index made anew")
    if _has_vector_index(table):
        trained = table.stats.index_stats(VECTOR_INDEX)["indices"][0]["num_partitions"] ** 2
        if rows < vector_index_rows / 2:
            _reopened(path).drop_index(VECTOR_INDEX)
            done.append("vector index dropped")
        elif rows > _RETRAIN_GROWTH * trained or rows < trained / _RETRAIN_GROWTH:
            _train(_reopened(path))
            done.append("vector index trained anew")
    elif rows >= vector_index_rows:
        _train(_reopened(path))
        done.append("vector index trained")
    return done


def remove_old_versions(path: Path, _vector_index_rows: int, keep_versions: timedelta) -> list[str]:
    """Versions older than `keep_versions` and the files only they name; what a dead writer left goes after a week."""
    cleaned = _reopened(path).cleanup_old_versions(older_than=keep_versions, error_if_tagged_old_versions=False)
    return ["old versions removed"] if cleaned.old_versions else []


OVERHAUL: tuple[Callable[[Path, int, timedelta], list[str]], ...] = (
    merge_segments, join_fragments, renew_indexes, remove_old_versions,
)  # fmt: skip
"""The steps of an overhaul in order; each gets path, rows from which vectors are indexed, age of versions to keep."""


def rewrite(path: Path, vector_index_rows: int) -> None:
    """Write rows and indexes anew and drop every older version: nothing that was deleted is left in any file."""
    table = _reopened(path)
    table.optimize.compact_files(
        target_rows_per_fragment=FRAGMENT_ROWS, materialize_deletions=True, materialize_deletions_threshold=0.0
    )
    create_scalar_indexes(_reopened(path))
    table = _reopened(path)
    if _has_vector_index(table):
        if table.count_rows() >= vector_index_rows:
            _train(table)
        else:
            table.drop_index(VECTOR_INDEX)
    _reopened(path).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


def _index_terms(table: "lance.LanceDataset") -> None:
    table.create_scalar_index("terms", "INVERTED", name=TERMS_INDEX, **_WORDS_AS_GIVEN)


def _join(path: Path, materialize_deletions: bool) -> None:
    _reopened(path).optimize.compact_files(
        target_rows_per_fragment=FRAGMENT_ROWS,
        materialize_deletions=materialize_deletions,
        materialize_deletions_threshold=_DEAD_SHARE,
    )


def _train(table: "lance.LanceDataset") -> None:
    partitions = max(1, int(table.count_rows() ** 0.5))
    table.create_index("vector", "IVF_SQ", name=VECTOR_INDEX, metric="cosine", num_partitions=partitions, replace=True)


def statistics(path: Path, keep_versions: timedelta) -> IndexStatistics:
    """Counted afresh; zeros if the table was never written."""
    table = open_table(path)
    if table is None:
        return IndexStatistics()
    import pyarrow.compute as pc

    with systemic(path, "read"):
        keys = table.to_table(columns=[KEY])[KEY]
        expected = chunk_index(table.schema.field("vector").type.list_size).schema
        found, files = manifests(path), [file for file in path.rglob("*") if file.is_file()]
        return IndexStatistics(
            rows=len(keys),
            versions=len(found),
            old_versions=sum(_age_s(manifest) > keep_versions.total_seconds() for manifest in found[1:]),
            fragments=len(table.get_fragments()),
            segments=max(map(len, segment_rows(table).values()), default=0),
            unindexed=unindexed(table),
            duplicate_keys=len(keys) - int(pc.count_distinct(keys).as_py()),
            schema_matches=expected.equals(table.schema),
            files=len(files),
            size_bytes=sum(file.stat().st_size for file in files),
        )


def _reopened(path: Path) -> "lance.LanceDataset":
    table = open_table(path)
    if table is None:
        raise FileNotFoundError(f"{path} vanished")
    return table


def _has_vector_index(table: "lance.LanceDataset") -> bool:
    return any(index.name == VECTOR_INDEX for index in table.describe_indices())


def is_unwritten(path: Path, for_time: timedelta) -> bool:
    """Whether the newest version is that old."""
    return _age_s(manifests(path)[0]) > for_time.total_seconds()


def _age_s(file: Path) -> float:
    return time.time() - file.stat().st_mtime
