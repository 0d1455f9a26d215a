"""Rows of the search index from rows of chunks: terms for the sparse channel, vectors for the dense one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kb_pipeline.schemas import chunk_index
from kb_pipeline.stages.rows import indexed_text
from kb_pipeline.stages.terms import index_terms


def index_rows(chunks: Sequence[Mapping[str, Any]], vectors: Mapping[str, NDArray[np.float32]], dims: int) -> pa.Table:
    """Rows of the schema of `schemas.chunk_index`.

    Args:
        chunks: rows of the chunks table.
        vectors: float32 [dims] by `indexed_hash`, one for every chunk.
    """
    schema = chunk_index(dims).schema
    columns = {name: [chunk[name] for chunk in chunks] for name in schema.names if name not in ("terms", "vector")}
    columns["terms"] = [index_terms(indexed_text(chunk), chunk["language"]) for chunk in chunks]
    matrix = np.asarray([vectors[chunk["indexed_hash"]] for chunk in chunks], dtype=np.float32).reshape(-1)
    arrays = [
        pa.FixedSizeListArray.from_arrays(pa.array(matrix), dims)
        if field.name == "vector"
        else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
