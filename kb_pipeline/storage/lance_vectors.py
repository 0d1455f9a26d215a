"""The vectors of a small table in memory, for exact nearest neighbours. Larger tables have an index of their own.

The engine reads and decodes the whole column at each search: 13 ms for 10,000 vectors, against 0.7 ms for their
product with the query's once they are held.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MOST_BYTES = 64 << 20
"""Vectors of a table that are held at most: some 40,000 of 384 dimensions, 5,000 of 3,072."""
_TABLES = 8


class HeldVectors:
    """Unit vectors of one version of a table, float32 [rows, dims], and the columns to give out with them."""

    def __init__(self, table: "lance.LanceDataset", columns: Sequence[str]) -> None:
        import numpy as np

        read = table.to_table(columns=[*dict.fromkeys(("kb_id", *columns)), "vector"], with_row_id=True)
        vectors: Any = read["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy(zero_copy_only=False).reshape(read.num_rows, vectors.type.list_size)
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        self._units = matrix / np.where(norms > 0, norms, 1)
        self._rows: pa.Table = read.drop_columns(["vector"]).combine_chunks()
        self._kb_ids = set(read["kb_id"].unique().to_pylist())

    def nearest(self, vector: "NDArray[np.float32]", kb_ids: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """At most `limit` rows of these knowledge bases, nearest first, with `_distance` (cosine) and `_rowid`."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        unit = vector / (np.linalg.norm(vector) or 1)
        distances = 1 - np.vecdot(self._units, unit)  # `@` would wake the threads of BLAS, which then spin
        if self._kb_ids <= set(kb_ids):
            at = np.arange(len(distances))
        else:
            at = np.flatnonzero(pc.is_in(self._rows["kb_id"], pa.array(list(kb_ids), pa.string())).to_numpy())
        if len(at) > limit:
            at = at[np.argpartition(distances[at], limit - 1)[:limit]]
        at = at[np.argsort(distances[at], kind="stable")]
        rows = self._rows.take(at).to_pylist()
        return [{**row, "_distance": float(distances[i])} for row, i in zip(rows, at, strict=True)]


def fits(table: "lance.LanceDataset", rows: int) -> bool:
    """Whether the vectors of so many rows may be held."""
    return rows * int(table.schema.field("vector").type.list_size) * 4 <= MOST_BYTES


@lru_cache(maxsize=_TABLES)
def held_vectors(table: "lance.LanceDataset", columns: tuple[str, ...]) -> HeldVectors:
    """Those of an open table; of the last few asked for, so that memory is bounded whatever is searched."""
    return HeldVectors(table, columns)
