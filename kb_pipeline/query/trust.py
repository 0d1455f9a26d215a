"""Whether to trust the dense channel: a model that does not speak a language ranks its texts at random. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence

from kb_pipeline.storage.lance_read import Candidate

_WITNESSES = 10


def split_by_trust(
    query: str,
    query_language: str,
    dense: Sequence[Candidate],
    sparse: Sequence[Candidate],
    spoken: frozenset[str] | None,
) -> tuple[list[Candidate], list[Candidate]]:
    """Dense candidates to be fused, and those only good to fill up behind everything else, each in the order given.

    `spoken` are the languages of the embedding model, None for any; one without a language is trusted.
    """
    if spoken is None:
        return list(dense), []
    if not _speaks(query, query_language, (each.language for each in sparse[:_WITNESSES]), spoken):
        return [], list(dense)
    trusted = [each for each in dense if not each.language or each.language in spoken]
    return trusted, [each for each in dense if each.language and each.language not in spoken]


def unspoken(candidates: Sequence[Candidate], spoken: frozenset[str] | None) -> set[str]:
    """Chunk ids of the candidates whose language the model does not speak; none for a model that speaks any."""
    return {
        each.chunk_id for each in candidates if spoken is not None and each.language and each.language not in spoken
    }


def _speaks(query: str, language: str, witnesses: Iterable[str], spoken: frozenset[str]) -> bool:
    """False if the query is in another language.

    Short Latin queries are often mistaken for another language, so there the passages that share its words must agree.
    """
    if not _is_latin(query):
        return language in spoken
    return not language or language in spoken or language not in set(witnesses)


def _is_latin(text: str) -> bool:
    letters = [c for c in text[:1000] if c.isalpha()]
    return 2 * sum(c.isascii() or unicodedata.name(c, "").startswith("LATIN") for c in letters) >= len(letters)
