"""Rows of a search table that nobody accounts for, and their removal under the locks of the sources they name."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from kb_pipeline.errors import UsageError
from kb_pipeline.storage.catalog_records import KbSpace, SourceRow
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Rows that have no business where they are.

    Attributes:
        documents: those of the source that are archived or unknown; None for all of it: source or knowledge base is
            unknown, removed, another tenant's, or has no such space.
    """

    kb_id: str
    source_id: str
    documents: tuple[str, ...] | None


@dataclass(slots=True)
class Removal:
    """What became of the strays.

    Attributes:
        waiting: sources a run is at work on, `<kb_id>/<source_id>`: their strays stay until the next time.
    """

    rows: int = 0
    waiting: list[str] = field(default_factory=list)


def strays_of(store: Store, index: ChunkIndex) -> list[Stray]:
    """What of a table the catalog does not know, or knows to be gone."""
    named = index.documents()  # first the table, then the catalog: a document is in the catalog before it has rows
    return list(_strays(store, index, named))


def remove_strays(store: Store, index: ChunkIndex) -> Removal:
    """Remove them, each looked at again while its source is held."""
    removal = Removal()
    sources = {(s.kb_id, s.source_id): s for s in (*store.catalog.sources(removed=True), *store.catalog.sources())}
    for stray in strays_of(store, index):
        source = sources.get((stray.kb_id, stray.source_id))
        try:
            with store.holding([source]) if source else nullcontext():
                removal.rows += _remove(store, index, stray)
        except UsageError:
            removal.waiting.append(f"{stray.kb_id}/{stray.source_id}")
    return removal


def _remove(store: Store, index: ChunkIndex, suspect: Stray) -> int:
    documents = index.document_ids(suspect.kb_id, suspect.source_id)
    rows = 0
    for stray in _strays(store, index, {(suspect.kb_id, suspect.source_id): documents}):
        if stray.documents is None:
            rows += index.delete_source(stray.kb_id, stray.source_id)
        else:
            rows += index.delete_documents(stray.kb_id, stray.documents)
    return rows


def _strays(store: Store, index: ChunkIndex, named: dict[tuple[str, str], set[str]]) -> Iterator[Stray]:
    bases = {
        base.kb_id
        for base in store.catalog.knowledge_bases()
        if base.tenant == index.tenant and _may_have(store.spaces.of(base.kb_id), index.space_id)
    }
    standing: dict[tuple[str, str], SourceRow] = {(s.kb_id, s.source_id): s for s in store.catalog.sources()}
    for (kb_id, source_id), documents in sorted(named.items()):
        if kb_id not in bases or (kb_id, source_id) not in standing:
            yield Stray(kb_id=kb_id, source_id=source_id, documents=None)
        elif gone := documents - store.documents.owners(sorted(documents)).keys():
            yield Stray(kb_id=kb_id, source_id=source_id, documents=tuple(sorted(gone)))


def _may_have(spaces: Sequence[KbSpace], space_id: str) -> bool:
    """Whether a base has rows in a space; one of before there were spaces tells at its next sync."""
    return not spaces or any(space.space_id == space_id for space in spaces)
