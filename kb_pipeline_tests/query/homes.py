"""A home filled by hand, without any stage: catalog rows and index rows of a few texts."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from kb_pipeline import ids
from kb_pipeline.query import Query, SearchResult
from kb_pipeline.schemas import chunk_index
from kb_pipeline.settings import Settings
from kb_pipeline.stages.language import detect_language
from kb_pipeline.stages.terms import index_terms
from kb_pipeline.storage.catalog_read import open_reads
from kb_pipeline.storage.catalog_records import KbSpace, KnowledgeBase
from kb_pipeline.storage.store import Store
from kb_pipeline.testing.embedder import HashingEmbedder

SPLIT = "c1000-200"


class Home:
    """Texts in knowledge bases, and a way to search them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings)
        self.catalog, self.documents = self.store.catalog, self.store.documents
        _, name, dims = settings.embedding_model.split(":")
        self.embedder = HashingEmbedder(name, int(dims))
        self.embedders = {settings.embedding_model: self.embedder}

    def knowledge_base(self, name: str, scope: str = "public", owner: str = "", client: str = "") -> KnowledgeBase:
        return self.catalog.create_knowledge_base(name, scope, owner=owner, client_id=client)

    def put(
        self, kb: KnowledgeBase, texts: Mapping[str, str | list[str]], embedder: HashingEmbedder | None = None
    ) -> None:
        """Documents by title, each of one or more chunks."""
        embedder = embedder or self.embedder
        space = serving(kb.kb_id, embedder)
        self.store.spaces.want(space)
        self.embedders.setdefault(space.embedding_model, embedder)
        rows = [row for title, text in texts.items() for row in _rows(kb, title, text, embedder)]
        documents = list(dict.fromkeys(row["document_id"] for row in rows))
        table = pa.Table.from_pylist(rows, schema=chunk_index(embedder.space.dims).schema)
        self.store.index(kb.tenant, replace(embedder.space, split=SPLIT)).replace_documents(
            kb.kb_id, "s", documents, table
        )
        self.documents.save(
            {"document_id": d, "kb_id": kb.kb_id, "source_id": "s", "external_id": d, "status": "ready"}
            for d in documents
        )

    def open(self) -> Query:
        return Query(self.settings, lambda: open_reads(self.settings), lambda model: self.embedders[model])


def serving(kb_id: str, embedder: HashingEmbedder) -> KbSpace:
    """The space of a knowledge base that an embedder makes."""
    return KbSpace(
        kb_id=kb_id, space_id=replace(embedder.space, split=SPLIT).space_id, split_id=SPLIT, role="candidate",
        embedding_model=f"fake:{embedder.space.model}:{embedder.space.dims}", chunk_unit="chars", chunk_size=1000,
        chunk_overlap=200, since=datetime.now(UTC),
    )  # fmt: skip


def _rows(kb: KnowledgeBase, title: str, texts: str | list[str], embedder: HashingEmbedder) -> list[dict[str, object]]:
    document = ids.document_id(kb.kb_id, "test", title)
    chunks = [texts] if isinstance(texts, str) else texts
    return [
        {
            "kb_id": kb.kb_id, "source_id": "s", "document_id": document, "chunk_id": ids.chunk_id(document, i),
            "chunk_idx": i, "text": text, "header": "", "start_char": 0, "end_char": len(text), "page": None,
            "start_seconds": None, "title": title, "url": None, "language": detect_language(text),
            "text_hash": ids.text_hash(text), "indexed_hash": ids.text_hash(text), "external_id": title,
            "terms": index_terms(text, detect_language(text)), "vector": embedder.embed_documents([text])[0],
        }
        for i, text in enumerate(chunks)
    ]  # fmt: skip


def titles(result: SearchResult) -> list[str]:
    """Titles of the hits, best first."""
    return [hit.document_title for hit in result.hits]
