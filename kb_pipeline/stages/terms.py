"""Search terms: what the sparse channel indexes and asks for, one analyzer for both. Pure; no index is touched here.

The full-text index splits on spaces and does nothing else; everything a language or an identifier needs is done here:
- words are folded (case, diacritics, full width) and stemmed by the language of the text, or by their script;
- identifiers are kept whole beside their parts: `E_4021-B`, `C++`, `.NET`, `v2.10.3`, `getTideLevelById`;
- scripts written without spaces become overlapping pairs of characters beside the single ones.
"""

import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import regex

from kb_pipeline.stages.stopwords import STOP_WORDS

if TYPE_CHECKING:
    import Stemmer

MAX_TERM_CHARS = 200
"""Longer terms are cut: an identifier this long is still told apart, and the index stays small."""
MAX_QUERY_TERMS = 128
"""Distinct terms of a query that are searched; a pasted page is a query too, and must not take seconds."""
_LONGEST_WORD = 64  # what is longer is no word of a language, and is not stemmed

_RUN = regex.compile(
    r"""(?: (?<![^\s("'\[{,;=])[.#@$] )?      # .NET  #tag  @name  $HOME
        \w+
        (?: (?: [-./:\\@+\#&'’~=]{1,3} | (?<=\d),(?=\d{3}) ) \w+ )*   # parts of one identifier
        (?: (?:\+\+|[\#%+]) (?!\w) )?         # C++  F#  15%
    """,
    regex.VERBOSE,
)
_PART = regex.compile(r"[^\W_]+")
_BREAK = regex.compile(r"[/\\:@=,&|]+")  # between identifiers, where one holds several: paths, addresses, pairs
_HUMP = regex.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", flags=regex.VERSION1)
_UNSPACED = regex.compile(
    r"(?P<ideographs>[\p{Han}\p{Hiragana}\p{Katakana}\u30fc]+)"
    r"|(?P<hangul>\p{Hangul}+)"
    r"|(?P<clusters>[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]+)"
)
_CLUSTER = regex.compile(r"\X")

_ARABIC_FORMS = str.maketrans(
    {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ئ": "ي", "ؤ": "و", "ة": "ه", "ی": "ي", "ک": "ك"}
)
_NO_MARK = {ord(c): None for c in "\u0640\u00ad\u200b\u200c\u200d\u2060\ufeff"}
_NO_MARK.update(dict.fromkeys([*range(0x064B, 0x0653), 0x0670, *range(0x0591, 0x05C8)]))
_LETTERS = str.maketrans(
    {"ø": "o", "đ": "d", "ł": "l", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th", "ħ": "h", "’": "'"}
)

_STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish",
    "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "nb": "norwegian", "nn": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish",
}  # fmt: skip
_SCRIPT_DEFAULT = (
    (regex.compile(r"\p{Latin}"), "en"),
    (regex.compile(r"\p{Cyrillic}"), "ru"),
    (regex.compile(r"\p{Arabic}"), "ar"),
    (regex.compile(r"\p{Greek}"), "el"),
    (regex.compile(r"\p{Devanagari}"), "hi"),
    (regex.compile(r"\p{Armenian}"), "hy"),
    (regex.compile(r"\p{Tamil}"), "ta"),
)
_SCRIPT_OF = {"ru": 1, "sr": 1, "ar": 2, "fa": 2, "el": 3, "hi": 4, "ne": 4, "hy": 5, "ta": 6}


def index_terms(text: str, language: str = "") -> str:
    """The terms of a text to be indexed, in order, repeated as they occur, separated by single spaces.

    `language` is the text's ISO 639-1 code; with "" or one we cannot stem, each word is stemmed by its script.

    """
    return " ".join(_terms(text, language))


def coverage(query: str, passage: str) -> float:
    """Share of a query's terms that a passage holds, in [0, 1]; both as made by the functions above."""
    wanted = set(query.split())
    return len(wanted.intersection(passage.split())) / len(wanted) if wanted else 0.0


def query_terms(text: str, language: str = "") -> str:
    """The distinct terms of a query, at most `MAX_QUERY_TERMS`, without words that say nothing if others remain.

    `language` is the query's ISO 639-1 code, "" where unknown; words match by their unstemmed form in any case.

    """
    distinct = dict.fromkeys(_terms(text, language))
    empty_words = STOP_WORDS.get(language or "en", frozenset())
    telling = [term for term in distinct if term not in empty_words]
    return " ".join((telling or list(distinct))[:MAX_QUERY_TERMS])


def _terms(text: str, language: str) -> Iterator[str]:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_NO_MARK)
    for run in _RUN.findall(plain):
        yield from _run_terms(run, language) if len(run) <= MAX_TERM_CHARS else _make_run_terms(run, language)


def _make_run_terms(run: str, language: str) -> tuple[str, ...]:
    """Terms of one run of characters without a space."""
    if run.isascii():
        return tuple(_spaced_terms(run, language))
    terms: list[str] = []
    end = 0
    for match in _UNSPACED.finditer(run):
        terms.extend(_spaced_terms(run[end : match.start()], language))
        terms.extend(_unspaced_terms(match[0], str(match.lastgroup)))
        end = match.end()
    terms.extend(_spaced_terms(run[end:], language))
    return tuple(term for term in terms if term)  # a mark on its own folds to nothing


_run_terms = lru_cache(maxsize=8_192)(_make_run_terms)


def _unspaced_terms(run: str, script: str) -> Iterator[str]:
    """Pairs of neighbouring characters and the characters themselves; whole words too where words are spaced."""
    units = _CLUSTER.findall(run) if script == "clusters" else list(run)
    if script == "hangul" and len(units) > 2:
        yield run[:MAX_TERM_CHARS]
    if script == "ideographs" or len(units) == 1:
        yield from units
    yield from (first + second for first, second in pairwise(units))


def _spaced_terms(run: str, language: str) -> Iterator[str]:
    """The whole run if it has parts or symbols, the identifiers it is made of, then each part in its forms."""
    parts = _PART.findall(run)
    if not parts:
        return
    words = [word for part in parts for word in _humps(part)]
    if len(words) > 1 or len(parts[0]) != len(run):
        yield _folded(run.casefold())[:MAX_TERM_CHARS]
        segments = _BREAK.split(run)
        if len(segments) > 1:
            yield from (_folded(s.casefold())[:MAX_TERM_CHARS] for s in segments if not s.isalnum())
            if "," in run:
                yield _folded(run.casefold()).replace(",", "")[:MAX_TERM_CHARS]  # 1,000 is also 1000
    for word in words:
        yield from _word_forms(word, language)


def _humps(part: str) -> list[str]:
    """`getTideLevel` → get, Tide, Level; other words as they are."""
    if part.islower() or part.isupper() or part.istitle() or not part.isascii():
        return [part]
    return [hump for hump in _HUMP.split(part) if hump]


@lru_cache(maxsize=8_192)
def _word_forms(word: str, language: str) -> tuple[str, ...]:
    """The folded word, and its folded stem where that differs."""
    lower = word.casefold()
    whole = _folded(lower)[:MAX_TERM_CHARS]
    if len(lower) > _LONGEST_WORD or any(c.isdigit() for c in lower):
        return (whole,)
    stemmer = _stemmer_for(lower, language)
    stem = _folded(stemmer.stemWord(lower)) if stemmer else whole
    return (whole,) if stem == whole or not stem else (whole, stem)


def _folded(lower: str) -> str:
    """Without diacritics of alphabets that spell without them as well; vowel signs of other scripts stay."""
    if lower.isascii():
        return lower
    bare = "".join(c for c in unicodedata.normalize("NFKD", lower) if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFC", bare).translate(_LETTERS).translate(_ARABIC_FORMS)


def _stemmer_for(word: str, language: str) -> "Stemmer.Stemmer | None":
    """The language's stemmer if the word is in its script, else the script's own."""
    if word.isascii():
        script, default = 0, "en"
    else:
        found = ((i, code) for i, (pattern, code) in enumerate(_SCRIPT_DEFAULT) if pattern.search(word))
        script, default = next(found, (-1, ""))
    if script < 0:
        return None
    fits = language in _STEMMERS and _SCRIPT_OF.get(language, 0) == script
    return _stemmer(_STEMMERS[language if fits else default])


@cache
def _stemmer(name: str) -> "Stemmer.Stemmer":
    import Stemmer

    return Stemmer.Stemmer(name)
