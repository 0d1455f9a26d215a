"""Reading the state of a home: documents with what is retrievable of them, looked up by title, name or address."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from kb_pipeline.storage.catalog_records import KnowledgeBase, SourceRow
from kb_pipeline.storage.lance_table import one_of, open_table, spaces, table_path
from kb_pipeline.storage.store import Store
from kb_pipeline.urls import canonical_url

_COLUMNS = [
    "kb_id", "document_id", "external_id", "chunk_id", "chunk_idx", "text", "header", "start_char", "end_char",
    "page", "title", "url",
]  # fmt: skip
WORKING = ("pending", "fetching", "parsing", "extracting", "chunking", "embedding")


@dataclass(frozen=True)
class DocumentView:
    """A document with its retrievable chunks; `row` is its catalog row, empty for chunks that no document owns."""

    kb: str
    row: Mapping[str, Any]
    chunks: Sequence[Mapping[str, Any]]
    spaces: frozenset[str] = frozenset()

    @property
    def status(self) -> str:
        return str(self.row.get("status", ""))

    @property
    def is_live(self) -> bool:
        """Listed and retrievable."""
        return bool(self.row) and self.status != "archived" and bool(self.chunks)

    @property
    def name(self) -> str:
        return str(self.row.get("title") or self.row.get("external_id") or "")

    @cached_property
    def text(self) -> str:
        """All chunks joined, what they repeat of each other once; gaps of white space are as long as they were."""
        return joined(self.chunks)

    def rank_of(self, name: str) -> int | None:
        """How directly a name means this document, 0 first; None if it does not."""
        return name_rank(name, self.row.get("external_id"), self.row.get("url"), self.row.get("title"))


@dataclass(frozen=True)
class Snapshot:
    """The state of a home at one moment."""

    bases: Sequence[KnowledgeBase]
    sources: Sequence[SourceRow]
    documents: Sequence[DocumentView]
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, kb: object | None) -> list[DocumentView]:
        """Documents of a base by its name, or of all."""
        return [document for document in self.documents if kb is None or document.kb == kb]

    def find(self, name: object, kb: object | None = None) -> list[DocumentView]:
        """Documents a name means best, living ones first."""
        ranked = [(rank, view) for view in self.of(kb) if view.row and (rank := view.rank_of(str(name))) is not None]
        best = min((rank for rank, _ in ranked), default=0)
        found = [view for rank, view in ranked if rank == best]
        return [view for view in found if view.is_live] or found


def take_snapshot(store: Store, names: Mapping[str, str]) -> Snapshot:
    """Catalog and search index of a home as they are now; `names` are the bases' names by id."""
    bases = [base for base in store.catalog.knowledge_bases() if base.kb_id in names]
    chunks, held = _chunks(store, list(names))
    documents = []
    for base in bases:
        for row in store.documents.rows(base.kb_id):
            key = row["document_id"]
            documents.append(DocumentView(names[base.kb_id], row, chunks.pop(key, []), frozenset(held.get(key, ()))))
    documents += [DocumentView(names[rows[0]["kb_id"]], {}, rows, frozenset(held[key])) for key, rows in chunks.items()]
    sources = [source for base in bases for source in store.catalog.sources(base.kb_id)]
    return Snapshot(bases, sources, documents, dict(names))


def _chunks(store: Store, kb_ids: Sequence[str]) -> tuple[dict[str, list[Mapping[str, Any]]], dict[str, set[str]]]:
    """(chunks by document, spaces by document) of every table of every tenant but what is only kept beside."""
    beside = {
        (kb_id, space.space_id) for kb_id in kb_ids for space in store.spaces.of(kb_id) if space.role != "serving"
    }
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    held: dict[str, set[str]] = {}
    root = store.layout.root
    for tenant in sorted(path.name for path in (root / "lance").glob("*") if path.is_dir()):
        for space in spaces(root, tenant):
            table = open_table(table_path(root, tenant, space))
            if table is None:
                continue
            here = [kb_id for kb_id in kb_ids if (kb_id, space) not in beside]
            for row in table.to_table(columns=_COLUMNS, filter=one_of("kb_id", here)).to_pylist():
                found.setdefault(row["document_id"], {}).setdefault(row["chunk_id"], row)
                held.setdefault(row["document_id"], set()).add(space)
    ordered = {key: sorted(rows.values(), key=lambda row: row["chunk_idx"]) for key, rows in found.items()}
    return ordered, held  # type: ignore[return-value]  # rows are mappings


def joined(chunks: Sequence[Mapping[str, Any]]) -> str:
    """Chunks as one text, by their offsets; offset 0 is where the first chunk starts."""
    parts: list[str] = []
    end = chunks[0]["start_char"] if chunks else 0
    for chunk in chunks:
        start = chunk["start_char"]
        if start > end:
            parts.append("\n" * (start - end))
        parts.append(chunk["text"][max(0, end - start) :])
        end = max(end, chunk["end_char"])
    return "".join(parts)


def name_rank(name: str, external_id: object, url: object, title: object) -> int | None:
    """How directly a name means a document: its key or path, its address, its title, its file's name."""
    external, address = str(external_id or ""), str(url or "")
    if name == external:
        return 0
    if address and (name == address or _address(name) == _address(address)):
        return 1
    if title and plain(name) == plain(str(title)):
        return 2
    if name in (PurePosixPath(external).name, PurePosixPath(unquote(urlsplit_path(address))).name):
        return 3
    return None


def urlsplit_path(address: str) -> str:
    """Path of an address, "" for what is none."""
    try:
        return urlsplit(address).path
    except ValueError:
        return ""


def _address(text: str) -> str:
    try:
        return canonical_url(text)
    except ValueError:
        return text


def plain(text: str, without_emphasis: bool = False) -> str:
    """Text for comparing: white space runs as one space, composed letters."""
    if without_emphasis:
        text = re.sub(r"[*_]", "", text)
    return " ".join(unicodedata.normalize("NFC", text).split())


def contents(views: Iterable[DocumentView]) -> str:
    """Texts of several documents, one after the other."""
    return "\n\n".join(view.text for view in views)
