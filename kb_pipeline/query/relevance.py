"""How relevant a passage is, as a number that means the same whichever channel found it. Pure."""

from kb_pipeline.stages.terms import coverage
from kb_pipeline.storage.lance_read import Passage

EXACT = 0.9
"""Similarity of a passage that holds every term of the query."""


def similarity(terms: str, passage: Passage, cosine: float | None) -> float:
    """In [0, 1]: the cosine where a trusted model gives one, or what the shared words are worth if that is more.

    Calibrated: on judged queries in five languages a passage holding a share `c` of the query's terms is relevant about
    as often as one with a cosine of 0.9 c (a third of them at 0.5-0.6, two thirds at 0.65, nine in ten at 0.75). So an
    exact identifier passes a relevance gate though its cosine is low.
    """
    by_words = EXACT * coverage(terms, passage.terms)
    return round(max(0.0, min(1.0, max(by_words, cosine or 0.0))), 4)
