"""Ranks of several channels made one; equal passages shown once. Pure functions of lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kb_pipeline.stages.terms import coverage
from kb_pipeline.storage.lance_read import Passage

K = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A passage with how it came to its place.

    Attributes:
        score: reciprocal rank fusion score; 0 for one that only fills up.
        ranks: rank in each channel that found it, from 1.
        scores: the channels' own scores: cosine, BM25.
        also_in: passages of equal text elsewhere, best first.
    """

    passage: Passage
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]
    also_in: tuple[Passage, ...] = ()


def fuse(channels: Mapping[str, Sequence[Passage]], behind: Sequence[Passage] = (), k: int = K) -> list[Ranked]:
    """Fuse by reciprocal rank: score = sum over channels of 1 / (k + rank), ranks from 1; each channel is best first.

    Passages of `behind` that no channel found follow all others, in their order, and score 0.

    Returns: every passage once, best first; ties by best single rank, then chunk id, so that results are stable.
    Source: Cormack, Clarke & Büttcher 2009, SIGIR.
    """
    found: dict[str, Ranked] = {}
    for name, passages in channels.items():
        distinct = {passage.chunk_id: passage for passage in reversed(passages)}
        for rank, passage in enumerate(reversed(distinct.values()), start=1):
            before = found.get(passage.chunk_id) or Ranked(passage=passage, score=0.0, ranks={}, scores={})
            found[passage.chunk_id] = replace(
                before,
                score=before.score + 1 / (k + rank),
                ranks={**before.ranks, name: rank},
                scores={**before.scores, name: passage.score},
            )
    ordered = sorted(found.values(), key=lambda r: (-r.score, min(r.ranks.values()), r.passage.chunk_id))
    fill = {passage.chunk_id: passage for passage in behind if passage.chunk_id not in found}
    return ordered + [Ranked(passage=passage, score=0.0, ranks={}, scores={}) for passage in fill.values()]


def merge_dense(tables: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Candidates of several tables of one space as one list: cosines of one model compare."""
    return sorted((p for table in tables for p in table), key=lambda p: (-p.score, p.chunk_id))


def merge_sparse(terms: str, tables: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Candidates of several tables as one list.

    BM25 depends on how common a word is in its own table, so each table is scaled: its best passage counts as much as
    the share of the query's terms it holds. With one table the order is BM25's.
    """
    filled = [table for table in tables if table]
    if len(filled) < 2:
        return list(filled[0]) if filled else []
    scaled = [
        (passage.score / table[0].score * coverage(terms, table[0].terms), passage)
        for table in filled
        for passage in table
        if table[0].score > 0
    ]
    return [passage for _, passage in sorted(scaled, key=lambda pair: (-pair[0], pair[1].chunk_id))]


def merge_equal(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Passages of equal text become one, at the place of the best; the others are listed in its `also_in`."""
    groups: dict[str, list[Ranked]] = {}
    for each in ranked:
        groups.setdefault(each.passage.text_hash, []).append(each)
    return [replace(group[0], also_in=tuple(other.passage for other in group[1:])) for group in groups.values()]
