"""Every table we write: Arrow schema, key, and the meaning of each column. Docs and schema checks are made from it."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Table:
    """A Parquet dataset or LanceDB table.

    Attributes:
        key: columns that name a row, unique in the table.
        replaced_by: the column whose rows are replaced together.
    """

    name: str
    description: str
    schema: pa.Schema
    key: tuple[str, ...]
    replaced_by: str = "document_id"


def _column(name: str, kind: pa.DataType, meaning: str, required: bool = False) -> "pa.Field[Any]":
    return pa.field(name, kind, nullable=not required, metadata={"meaning": meaning})


_TIME = pa.timestamp("us", tz="UTC")
_MARK = pa.struct([("start", pa.int64()), ("kind", pa.string()), ("label", pa.string()), ("level", pa.int32())])
_MEDIA = pa.struct([("url", pa.string()), ("kind", pa.string()), ("alt", pa.string())])
_OWNER = [
    _column("kb_id", pa.string(), "knowledge base", required=True),
    _column("source_id", pa.string(), "source the document came from", required=True),
    _column("document_id", pa.string(), "stable id of the document", required=True),
]

RAW_ITEMS = Table(
    "raw_items",
    "What was fetched: one row per item, its bytes in the blob store.",
    pa.schema(
        [
            *_OWNER,
            _column("external_id", pa.string(), "the connector's own stable key", required=True),
            _column("version", pa.string(), "the connector's change token when fetched", required=True),
            _column("raw_sha256", pa.string(), "blob with the fetched bytes", required=True),
            _column("raw_kind", pa.string(), "file, html, entry or record", required=True),
            _column("bytes", pa.int64(), "size of the blob", required=True),
            _column("media_type", pa.string(), "declared media type"),
            _column("url", pa.string(), "where a reader finds it"),
            _column("file_name", pa.string(), "name of the file, where it is one"),
            _column("title", pa.string(), "title as the source gave it"),
            _column("author", pa.string(), "author as the source gave it"),
            _column("published_at", _TIME, "publication time as the source gave it"),
            _column("metadata", pa.string(), "JSON of everything else the connector knew"),
            _column("fetched_at", _TIME, "when the bytes were fetched", required=True),
        ]
    ),
    ("document_id",),
)

DOCUMENTS = Table(
    "documents",
    "Normalised documents: the text retrieval sees, with its places.",
    pa.schema(
        [
            *_OWNER,
            _column("external_id", pa.string(), "the connector's own stable key", required=True),
            _column("title", pa.string(), "title", required=True),
            _column("text", pa.large_string(), "whole text", required=True),
            _column("language", pa.string(), "ISO 639-1, empty where too short to tell", required=True),
            _column("url", pa.string(), "canonical URL or path"),
            _column("author", pa.string(), "author"),
            _column("published_at", _TIME, "publication time"),
            _column("marks", pa.list_(_MARK), "headings, pages, slides and sheets with their offsets", required=True),
            _column("media", pa.list_(_MEDIA), "images, audio and video named in it", required=True),
            _column("warnings", pa.list_(pa.string()), "what could not be read", required=True),
            _column("is_partial", pa.bool_(), "only a preview, an excerpt or some pages", required=True),
            _column("metadata", pa.string(), "JSON of the rest"),
            _column("raw_sha256", pa.string(), "bytes it was made from", required=True),
            _column("content_hash", pa.string(), "hash of what retrieval can see", required=True),
        ]
    ),
    ("document_id",),
)

CHUNKS = Table(
    "chunks",
    "Spans of documents: text == document text[start_char:end_char]. In `kb sql`, those that search reads.",
    pa.schema(
        [
            *_OWNER,
            _column("external_id", pa.string(), "the connector's own stable key", required=True),
            _column("split_id", pa.string(), "how texts are split: unit, size, overlap", required=True),
            _column("chunk_id", pa.string(), "<document_id>-<index>", required=True),
            _column("chunk_idx", pa.int32(), "index in the document, from 0", required=True),
            _column("text", pa.large_string(), "the cited span", required=True),
            _column("header", pa.string(), "title › section; embedded and indexed, not cited", required=True),
            _column("start_char", pa.int64(), "offset of the first character in the document's text", required=True),
            _column("end_char", pa.int64(), "offset after the last character", required=True),
            _column("page", pa.int32(), "page or slide it starts on"),
            _column("start_seconds", pa.float64(), "second of the recording it starts at"),
            _column("title", pa.string(), "title of the document", required=True),
            _column("url", pa.string(), "canonical URL or path of the document"),
            _column("language", pa.string(), "language of the document", required=True),
            _column("published_at", _TIME, "publication time of the document"),
            _column("text_hash", pa.string(), "sha256 of the text", required=True),
            _column("indexed_hash", pa.string(), "sha256 of header and text together, as embedded", required=True),
        ]
    ),
    ("split_id", "chunk_id"),
)


def chunk_index(dims: int) -> Table:
    """The LanceDB table of one space in one tenant's database; vectors of `dims` float32, unit length."""
    about = "What is searched. It lives in LanceDB, a table for each tenant and model, and is no table of `kb sql`."
    columns = [column for column in CHUNKS.schema if column.name not in ("split_id", "published_at")]
    columns.append(
        _column("terms", pa.large_string(), "search terms of header and text, space-separated", required=True)
    )
    columns.append(
        _column("vector", pa.list_(pa.float32(), dims), "unit vector in the space of the table", required=True)
    )
    return Table("chunk_index", about, pa.schema(columns), ("chunk_id",))


PARQUET_TABLES: tuple[Table, ...] = (RAW_ITEMS, DOCUMENTS, CHUNKS)


def as_markdown() -> str:
    """The datasets as a document: `docs/tables.md` is exactly this."""
    lines = [
        "# Tables",
        "",
        "Made by `make docs` from `kb_pipeline/schemas.py`. ∅ marks columns that may be empty.",
        "",
    ]
    for table in (*PARQUET_TABLES, chunk_index(384)):
        lines += [f"## {table.name}", "", table.description, "", f"Key: {', '.join(table.key)}", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for column in table.schema:
            meaning = (column.metadata or {}).get(b"meaning", b"").decode()
            kind = str(column.type).replace("|", "\\|")
            lines.append(f"| {column.name} | {kind}{' ∅' if column.nullable else ''} | {meaning} |")
        lines.append("")
    return "\n".join(lines)
