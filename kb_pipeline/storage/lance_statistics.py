"""What there is to know about the state of a search table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from kb_pipeline.schemas import chunk_index
from kb_pipeline.storage.lance_segments import age_s, manifests, segment_rows, unindexed
from kb_pipeline.storage.lance_table import KEY, open_table, systemic

if TYPE_CHECKING:
    import lance


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


def statistics(path: Path, keep_versions: timedelta) -> IndexStatistics:
    """Counted afresh; zeros if the table was never written."""
    table = open_table(path)
    if table is None:
        return IndexStatistics()
    with systemic(path, "read"):
        rows, duplicates = _count_keys(table)
        expected = chunk_index(table.schema.field("vector").type.list_size).schema
        found, files = manifests(path), [file for file in path.rglob("*") if file.is_file()]
        return IndexStatistics(
            rows=rows,
            versions=len(found),
            old_versions=sum(age_s(manifest) > keep_versions.total_seconds() for manifest in found[1:]),
            fragments=len(table.get_fragments()),
            segments=max(map(len, segment_rows(table).values()), default=0),
            unindexed=unindexed(table),
            duplicate_keys=duplicates,
            schema_matches=expected.equals(table.schema),
            files=len(files),
            size_bytes=sum(file.stat().st_size for file in files),
        )


def _count_keys(table: "lance.LanceDataset") -> tuple[int, int]:
    """(rows, rows beyond the first of their key); 8 bytes a row unless there are some."""
    import numpy as np
    import pyarrow.compute as pc

    batches = table.to_batches(columns=[KEY])
    hashes = [np.fromiter(map(hash, batch[KEY].to_pylist()), np.int64, batch.num_rows) for batch in batches]
    rows = sum(map(len, hashes))
    if not rows or len(np.unique(np.concatenate(hashes))) == rows:
        return rows, 0
    return rows, rows - int(pc.count_distinct(table.to_table(columns=[KEY])[KEY]).as_py())
