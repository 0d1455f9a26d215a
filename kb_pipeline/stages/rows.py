"""Rows of the documents and chunks tables from what the stages made, and the hashes that make later stages stale."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kb_pipeline import ids
from kb_pipeline.records import Chunk, Mark, NormalizedContent
from kb_pipeline.stages.intake import MAX_TITLE_CHARS, clean, metadata_json


def document_row(raw: Mapping[str, Any], content: NormalizedContent) -> dict[str, Any]:
    """The documents row of a normalised document; `raw` is its raw_items row.

    Raises: Corrupt: its metadata is nested too deeply.
    """
    marks = [asdict(mark) for mark in content.marks]
    places = [f"{mark['start']}:{mark['kind']}:{mark['level']}:{mark['label']}" for mark in marks]
    return {
        "kb_id": raw["kb_id"],
        "source_id": raw["source_id"],
        "document_id": raw["document_id"],
        "external_id": raw["external_id"],
        "title": clean(content.title)[:MAX_TITLE_CHARS],
        "text": content.text,
        "language": content.language,
        "url": clean(content.url) or raw["url"],
        "author": clean(content.author) or raw["author"],
        "published_at": content.published_at or raw["published_at"],
        "marks": marks,
        "media": [asdict(media) for media in content.media],
        "warnings": clean(content.warnings),
        "is_partial": content.is_partial,
        "metadata": metadata_json(content.metadata, raw["file_name"] or raw["external_id"]),
        "raw_sha256": raw["raw_sha256"],
        "content_hash": ids.content_hash(content.title, content.text, places),
    }


def document_output_hash(row: Mapping[str, Any]) -> str:
    """What of a document makes its chunks stale: content and the provenance that chunks carry."""
    return ids.sha256_hex(row["content_hash"], row["language"], row["url"] or "", str(row["published_at"] or ""))


def marks_of(row: Mapping[str, Any]) -> list[Mark]:
    """The marks of a documents row."""
    return [Mark(**mark) for mark in row["marks"]]


def chunk_rows(document: Mapping[str, Any], chunks: Sequence[Chunk], split_id: str) -> list[dict[str, Any]]:
    """The chunks rows of a document, split in the way that `split_id` names."""
    return [
        {
            "kb_id": document["kb_id"],
            "source_id": document["source_id"],
            "document_id": document["document_id"],
            "external_id": document["external_id"],
            "split_id": split_id,
            "chunk_id": ids.chunk_id(document["document_id"], chunk.idx),
            "chunk_idx": chunk.idx,
            "text": chunk.text,
            "header": chunk.header,
            "start_char": chunk.start_char,
            "end_char": chunk.end_char,
            "page": chunk.page,
            "start_seconds": chunk.start_seconds,
            "title": document["title"],
            "url": document["url"],
            "language": document["language"],
            "published_at": document["published_at"],
            "text_hash": ids.text_hash(chunk.text),
            "indexed_hash": ids.text_hash(chunk.indexed_text),
        }
        for chunk in chunks
    ]


def chunks_output_hash(rows: Sequence[Mapping[str, Any]]) -> str:
    """What of a document's chunks makes their index rows stale."""
    return ids.sha256_hex(*(ids.json_hash(row) for row in rows))


def indexed_text(row: Mapping[str, Any]) -> str:
    """What is embedded and searched of a chunks row."""
    return f"{row['header']}\n\n{row['text']}" if row["header"] else row["text"]
