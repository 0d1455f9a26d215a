"""What the analyzer makes of words, identifiers and scripts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline.stages.terms import MAX_QUERY_TERMS, MAX_TERM_CHARS, coverage, index_terms, query_terms


def finds(query: str, text: str, language: str = "", query_language: str = "") -> bool:
    """True if the text shares a term with the query."""
    return coverage(query_terms(query, query_language), index_terms(text, language)) > 0


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("written in C++ and C.", "c++"),
        ("uses C# and F#", "c#"),
        ("on .NET today", ".net"),
        ("with node.js", "node.js"),
        ("code E_4021-B, then", "e_4021-b"),
        ("part (PX-44).", "px-44"),
        ("call foo_bar()", "foo_bar"),
        ("Python 3.11.7.", "3.11.7"),
        ("on 2024-01-05, late", "2024-01-05"),
        ("15% off", "15%"),
        ("hinge QX-77B/Rv2 fits", "qx-77b"),
        ("see https://docs.example.org/a_b/c.html", "docs.example.org"),
        ("paid 1,000,000 in all", "1000000"),
        ("mail lamp.desk+night@lamps.example now", "lamp.desk+night@lamps.example"),
        (r"in C:\tools\net.ini under", r"c:\tools\net.ini"),
        ("getTideLevelById(id)", "gettidelevelbyid"),
        ("getTideLevelById(id)", "tide"),
        ("parseHTTPResponse", "http"),
    ],
)
def test_an_identifier_is_a_term_of_its_own(text: str, term: str) -> None:
    assert term in index_terms(text).split()


def test_symbols_tell_identifiers_apart() -> None:
    assert (
        coverage(query_terms("C++"), index_terms("C# only"))
        < coverage(query_terms("C++"), index_terms("C++ only"))
        == 1.0
    )


@pytest.mark.parametrize(
    ("query", "text", "language"),
    [
        ("running", "they run", "en"),
        ("cafe", "un café", "fr"),
        ("educacion", "la educación", "es"),
        ("canciones", "una canción", "es"),
        ("STRASSE", "die Straße", "de"),
        ("首都", "東京は日本の首都です", "ja"),
        ("梅", "梅雨の時期", "ja"),
        ("서울", "서울이다", "ko"),
        ("ภาษา", "ฉันพูดภาษาไทย", "th"),
        ("دوري", "في الدوري", "ar"),
        ("أحمد", "قال احمد", "ar"),
        ("full123", "ＦＵＬＬ１２３", ""),
        ("zażółć", "ZAZOLC", ""),
    ],
)
def test_other_forms_and_scripts_match(query: str, text: str, language: str) -> None:
    assert finds(query, text, language)
    assert finds(query, text, language, language)


def test_a_word_is_found_whatever_language_the_query_is_taken_for() -> None:
    for language in ("", "en", "es", "de", "fi", "xx"):
        assert coverage(query_terms("competiciones", language), index_terms("las competiciones", "es")) >= 0.5


def test_vowel_signs_of_indic_scripts_are_kept() -> None:
    assert "हिन्दी" in index_terms("हिन्दी में", "hi").split()


def test_empty_words_are_dropped_only_beside_others() -> None:
    assert query_terms("what is the tide") == "tide"
    assert query_terms("to be or not to be").split() == ["to", "be", "or", "not"]
    assert "die" in query_terms("to die well", "en").split()


def test_nothing_to_search_gives_no_terms() -> None:
    assert query_terms(" \u200b ( * \\ \x00 🔔 \ud800") == ""


def test_a_long_query_is_bounded() -> None:
    assert query_terms("a" * 10_000) == "a" * MAX_TERM_CHARS
    assert len(query_terms(" ".join(f"w{i}" for i in range(5_000))).split()) == MAX_QUERY_TERMS


@given(st.text(max_size=300), st.sampled_from(["", "en", "ar", "ja", "tr"]))
def test_any_text_covers_itself(text: str, language: str) -> None:
    terms = query_terms(text, language)
    assert coverage(terms, index_terms(text, language)) == (1.0 if terms else 0.0)
    assert all(term and not term.isspace() for term in index_terms(text, language).split(" ") if terms)


@pytest.mark.parametrize("unit", ["a-", "東", "ก", "Aa", "1,", "'", "a", "é", "A.", ".#@$"])
def test_time_grows_with_the_length_only(unit: str) -> None:
    def seconds(n: int) -> float:
        start = time.process_time()
        index_terms(unit * n)
        return time.process_time() - start

    small, large = seconds(20_000), seconds(200_000)
    assert large < max(0.2, small * 40)
