"""Indexes of a search table: made, extended to new rows, merged, and what there is to know about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kb_pipeline.schemas import chunk_index
from kb_pipeline.storage.lance_table import KEY, TERMS_INDEX, VECTOR_INDEX, open_table, systemic

if TYPE_CHECKING:
    import lance

VECTOR_INDEX_ROWS = 20_000
"""Below, a flat scan is as fast and exact."""
_MAX_SMALL_FRAGMENTS = 8
_FRAGMENT_ROWS = 20_000  # fragments of this size are left alone, so that compaction costs with the change
_MAX_INDEX_SEGMENTS = 16  # a segment per sync is cheap to write; merging them costs with the size of the table
_MAX_VERSIONS = 100
_KEEP_VERSIONS = timedelta(hours=1)  # readers that opened one go on reading it
_RETRAIN_GROWTH = 4  # the vector index is trained anew when the table has grown this much

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
        unindexed: rows not covered yet, by index; they are found all the same, more slowly.
        duplicate_keys: rows beyond the first of their chunk id; 0 unless something is broken.

    """

    rows: int = 0
    versions: int = 0
    fragments: int = 0
    unindexed: Mapping[str, int] = field(default_factory=dict)
    duplicate_keys: int = 0
    schema_matches: bool = True
    size_bytes: int = 0

    @property
    def unindexed_rows(self) -> int:
        """Rows that at least one index does not cover."""
        return max(self.unindexed.values(), default=0)


def create_scalar_indexes(table: "lance.LanceDataset") -> None:
    """Full text over the terms, knowledge bases, documents, hashes; works on an empty table."""
    table.create_scalar_index("terms", "INVERTED", name=TERMS_INDEX, **_WORDS_AS_GIVEN)
    for column, kind in _SCALAR.items():
        table.create_scalar_index(column, kind, name=f"{column}_idx")


def maintain(path: Path, vector_index_rows: int) -> list[str]:
    """Do what is due: fewer files, a vector index, coverage, fewer versions. The caller holds the table's lease."""
    done: list[str] = []
    table = _reopened(path)
    if sum(fragment.count_rows() < _FRAGMENT_ROWS for fragment in table.get_fragments()) > _MAX_SMALL_FRAGMENTS:
        table.optimize.compact_files(target_rows_per_fragment=_FRAGMENT_ROWS)
        table = _reopened(path)
        done.append("compacted")
    if _vector_index_is_due(table, vector_index_rows):
        _train(table)
        table = _reopened(path)
        done.append("vector index trained")
    if any(_unindexed(table).values()):
        segments = max(len(index.segments) for index in table.describe_indices())
        table.optimize.optimize_indices(num_indices_to_merge=segments if segments >= _MAX_INDEX_SEGMENTS else 0)
        table = _reopened(path)
        done.append("indexes extended")
    if (
        _versions(path) > _MAX_VERSIONS
        and table.cleanup_old_versions(older_than=_KEEP_VERSIONS, error_if_tagged_old_versions=False).old_versions
    ):
        done.append("old versions removed")
    return done


def rewrite(path: Path, vector_index_rows: int) -> None:
    """Write rows and indexes anew and drop every older version: nothing that was deleted is left in any file."""
    table = _reopened(path)
    table.optimize.compact_files(
        target_rows_per_fragment=_FRAGMENT_ROWS, materialize_deletions=True, materialize_deletions_threshold=0.0
    )
    create_scalar_indexes(_reopened(path))
    table = _reopened(path)
    if any(index.name == VECTOR_INDEX for index in table.describe_indices()):
        if table.count_rows() >= vector_index_rows:
            _train(table)
        else:
            table.drop_index(VECTOR_INDEX)
    _reopened(path).cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


def _train(table: "lance.LanceDataset") -> None:
    partitions = max(1, int(table.count_rows() ** 0.5))
    table.create_index("vector", "IVF_SQ", name=VECTOR_INDEX, metric="cosine", num_partitions=partitions, replace=True)


def statistics(path: Path) -> IndexStatistics:
    """Counted afresh; zeros if the table was never written."""
    table = open_table(path)
    if table is None:
        return IndexStatistics()
    import pyarrow.compute as pc

    with systemic(path, "read"):
        keys = table.to_table(columns=[KEY])[KEY]
        expected = chunk_index(table.schema.field("vector").type.list_size).schema
        return IndexStatistics(
            rows=len(keys),
            versions=_versions(path),
            fragments=len(table.get_fragments()),
            unindexed=_unindexed(table),
            duplicate_keys=len(keys) - int(pc.count_distinct(keys).as_py()),
            schema_matches=expected.equals(table.schema),
            size_bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        )


def _reopened(path: Path) -> "lance.LanceDataset":
    table = open_table(path)
    if table is None:
        raise FileNotFoundError(f"{path} vanished")
    return table


def _vector_index_is_due(table: "lance.LanceDataset", threshold: int) -> bool:
    rows = table.count_rows()
    if rows < threshold:
        return False
    if VECTOR_INDEX not in {index.name for index in table.describe_indices()}:
        return True
    partitions = table.stats.index_stats(VECTOR_INDEX)["indices"][0]["num_partitions"]
    return bool(rows > _RETRAIN_GROWTH * partitions**2)


def _unindexed(table: "lance.LanceDataset") -> dict[str, int]:
    names = [index.name for index in table.describe_indices()]
    return {name: int(table.stats.index_stats(name)["num_unindexed_rows"]) for name in names}


def _versions(path: Path) -> int:
    return sum(1 for _ in (path / "_versions").glob("*.manifest"))
