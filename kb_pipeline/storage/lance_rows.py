"""Rows of the search index: which are whose, which are equal, and that those given are what they should be."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kb_pipeline.storage.lance_table import KEY, one_of


def row_hashes(rows: pa.Table) -> dict[str, str]:
    """Hash of everything but the vector, by chunk id: equal hashes need no write."""
    names = sorted(name for name in rows.column_names if name != "vector")
    records: Sequence[Mapping[str, Any]] = rows.select(names).to_pylist()
    return {
        record[KEY]: hashlib.sha256(repr([record[name] for name in names]).encode("utf-8", "surrogatepass")).hexdigest()
        for record in records
    }


def check_rows(
    kb_id: str, source_id: str, document_ids: Sequence[str], rows: pa.Table, keys: Mapping[str, str]
) -> None:
    """Raises: ValueError: rows of others, or a key twice; the caller's mistake."""
    named = {name: set(pc.unique(rows[name]).to_pylist()) for name in ("kb_id", "source_id", "document_id")}
    if named["kb_id"] - {kb_id} or named["source_id"] - {source_id} or named["document_id"] - set(document_ids):
        raise ValueError(f"rows to replace in {kb_id}/{source_id} belong to other documents")
    if len(keys) != len(rows):
        raise ValueError(f"rows to replace in {kb_id}/{source_id} hold a chunk id twice")


def of_documents(kb_id: str, document_ids: Sequence[str]) -> pc.Expression:
    """Filter: rows of these documents of a knowledge base."""
    return one_of("document_id", document_ids) & (pc.field("kb_id") == kb_id)


def of_source(kb_id: str, source_id: str) -> pc.Expression:
    """Filter: rows of a source."""
    return (pc.field("kb_id") == kb_id) & (pc.field("source_id") == source_id)


def literal(value: str) -> str:
    """A SQL string literal; the one place where the engine takes no typed filter."""
    return "'" + value.replace("'", "''") + "'"
