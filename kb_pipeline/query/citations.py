"""Ranked passages as hits and numbered sources. Pure."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from kb_pipeline.query.fusion import Ranked
from kb_pipeline.query.relevance import similarity
from kb_pipeline.query.result import Hit, Place, Source
from kb_pipeline.storage.lance_read import Passage

_SCORE_NAMES = {"dense": "cosine", "sparse": "bm25"}


def hit_of(rank: int, ranked: Ranked, passages: Mapping[str, Passage], terms: str) -> Hit:
    """The hit at a rank; `passages` are the whole rows by chunk id, `terms` the query's."""
    passage = passages[ranked.candidate.chunk_id]
    scores = {_SCORE_NAMES.get(name, name): round(score, 6) for name, score in ranked.scores.items()}
    return Hit(
        rank=rank,
        kb_id=passage.kb_id,
        document_id=passage.document_id,
        document_title=passage.title,
        chunk_id=passage.chunk_id,
        chunk_idx=passage.chunk_idx,
        chunk_text=passage.text,
        similarity=similarity(terms, passage, ranked.scores.get("dense")),
        url=passage.url,
        source=where(passage),
        source_id=passage.source_id,
        external_id=passage.external_id,
        start_char=passage.start_char,
        end_char=passage.end_char,
        page=passage.page,
        start_seconds=passage.start_seconds,
        section=passage.header,
        language=passage.language,
        scores={**scores, "rrf": round(ranked.score, 6)},
        ranks=dict(ranked.ranks),
        also_in=tuple(_place(passages[other.chunk_id]) for other in ranked.also_in),
    )


def sources_of(hits: Sequence[Hit], names: Mapping[str, str]) -> tuple[Source, ...]:
    """One numbered source a hit; `names` are the names of the knowledge bases by id."""
    return tuple(
        Source(
            number=hit.rank,
            kbName=names.get(hit.kb_id, hit.kb_id),
            kb_id=hit.kb_id,
            source=hit.source,
            document=hit.document_title,
            document_id=hit.document_id,
            chunk_idx=hit.chunk_idx,
            relevanceScore=hit.similarity,
            text=hit.chunk_text,
            url=hit.url,
            start_char=hit.start_char,
            end_char=hit.end_char,
            page=hit.page,
            start_seconds=hit.start_seconds,
        )
        for hit in hits
    )


def where(passage: Passage) -> str:
    """Where a reader finds it: address, else the path in its folder, else the title, else the source's own key."""
    if passage.url:
        return passage.url
    names_a_file = bool(PurePosixPath(passage.external_id).suffix)
    return passage.external_id if names_a_file else passage.title or passage.external_id


def _place(passage: Passage) -> Place:
    return Place(
        kb_id=passage.kb_id,
        document_id=passage.document_id,
        external_id=passage.external_id,
        document_title=passage.title,
        chunk_idx=passage.chunk_idx,
        url=passage.url,
    )
