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


def unspoken_languages(
    query: str, language: str, sparse: Sequence[Candidate], shown: Sequence[Candidate], spoken: frozenset[str] | None
) -> list[str]:
    """Languages the model does not speak and that decided this answer, sorted; "" for an unknown one.

    The query's own, and those of the passages shown if the first one is in such a language: a single passage further
    down, in a language that was perhaps mistaken, is no news.
    """
    if spoken is None:
        return []
    is_spoken = _speaks(query, language, (each.language for each in sparse[:_WITNESSES]), spoken)
    foreign = [each.language for each in shown if each.language and each.language not in spoken]
    decided = foreign if not is_spoken or (shown and shown[0].language in foreign) else []
    return sorted({*decided, *([] if is_spoken else [language])} - ({""} if decided else set()))


def language_note(model: str, languages: Sequence[str], has_words: bool) -> str:
    """What the caller is told about them; `has_words` says whether the sparse channel stood in."""
    names = " or ".join(map(_name, languages))
    how = "searched by their words only" if has_words else "ranked by a model that does not understand them"
    return f"{model} does not speak {names}: passages in it were {how}; EMBEDDING_MODEL takes a multilingual model."


def _name(language: str) -> str:
    from babel import Locale, UnknownLocaleError

    if not language:
        return "the language of this query"
    try:
        return Locale.parse(language).english_name or language
    except (ValueError, UnknownLocaleError):
        return language


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
