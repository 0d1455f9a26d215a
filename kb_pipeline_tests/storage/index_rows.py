"""Rows of a search index made by hand, for the tests of both its sides."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from kb_pipeline import ids
from kb_pipeline.records import Space
from kb_pipeline.schemas import chunk_index
from kb_pipeline.stages.terms import index_terms
from kb_pipeline.storage.lease import FileLease

DIMS = 8
SPACE = Space(provider="test", model="hand-made", revision="1", dims=DIMS, recipe="1")


def lease_in(folder: Path) -> FileLease:
    """Leases of a home without a store."""
    return FileLease(folder / "locks")


def a_vector(seed: str) -> np.ndarray:
    """A unit vector that only depends on the seed."""
    vector = np.random.default_rng(int(ids.text_hash(seed)[:8], 16)).normal(size=DIMS).astype(np.float32)
    return vector / np.linalg.norm(vector)


def rows_of(
    document: str, texts: Sequence[str], kb_id: str = "kb", source_id: str = "s", language: str = "en"
) -> pa.Table:
    """One row a text, as the chunks of one document."""
    records = [
        {
            "kb_id": kb_id, "source_id": source_id, "document_id": document, "chunk_id": ids.chunk_id(document, i),
            "chunk_idx": i, "text": text, "header": "", "start_char": 0, "end_char": len(text), "page": None,
            "start_seconds": None, "title": document, "url": None, "language": language,
            "text_hash": ids.text_hash(text),
            "indexed_hash": ids.text_hash(text), "external_id": document, "terms": index_terms(text, language),
            "vector": a_vector(text),
        }
        for i, text in enumerate(texts)
    ]  # fmt: skip
    return pa.Table.from_pylist(records, schema=chunk_index(DIMS).schema)
