"""What a search gives back, and its JSON. Records only; field names of the JSON are the public contract."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Another document that holds the same passage."""

    kb_id: str
    document_id: str
    external_id: str
    document_title: str
    chunk_idx: int
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage found.

    Attributes:
        similarity: relevance in [0, 1], comparable between channels and queries.
        source: where a reader finds it: address or path, else the title.
        start_char: offsets into the document's stored text: `text[start_char:end_char] == chunk_text`.
        scores: `cosine`, `bm25`, `rrf`, as far as they exist.
        ranks: rank in each channel that counted.

    """

    rank: int
    kb_id: str
    document_id: str
    document_title: str
    chunk_id: str
    chunk_idx: int
    chunk_text: str
    similarity: float
    url: str | None
    source: str
    source_id: str
    external_id: str
    start_char: int
    end_char: int
    page: int | None
    start_seconds: float | None
    section: str
    language: str
    scores: Mapping[str, float]
    ranks: Mapping[str, int]
    also_in: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A numbered citation; `number` is the rank of its hit, and stays."""

    number: int
    kbName: str
    kb_id: str
    source: str
    document: str
    document_id: str
    chunk_idx: int
    relevanceScore: float
    text: str
    url: str | None
    start_char: int
    end_char: int
    page: int | None
    start_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Hits, best first, with their citations.

    Attributes:
        timings: milliseconds by step.
        notes: one sentence each on what was not as usual (a channel skipped, passages of another model).
        explanation: channels, ranks and table versions, where asked for.

    """

    query: str
    event_id: str
    hits: tuple[Hit, ...]
    sources: tuple[Source, ...]
    timings: Mapping[str, float]
    notes: tuple[str, ...] = ()
    explanation: Mapping[str, Any] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        """JSON-able; `explanation` only where there is one."""
        shape = asdict(self)
        if self.explanation is None:
            del shape["explanation"]
        return shape
