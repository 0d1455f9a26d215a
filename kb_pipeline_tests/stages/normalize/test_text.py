"""Bytes to text: no encoding crashes, no letter is lost, nothing invisible stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.markdown import add_markdown
from kb_pipeline.stages.normalize.text import clean, decode

MIXED_SCRIPTS = "Łeba naïve café Νάξος 札幌 Привет 😀"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_encodings_are_told_by_their_mark(encoding):
    assert clean(decode(MIXED_SCRIPTS.encode(encoding))) == MIXED_SCRIPTS


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_told_by_its_zero_bytes(encoding):
    assert decode("Plain words in UTF-16\n".encode(encoding)) == "Plain words in UTF-16\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Zürich, “warm”, 15 €", "cp1252"),
        ("Größe und Maß der Öffnung", "latin-1"),
        ("名前,年齢,住所\n三木英子,25,大阪、ひらがな", "cp932"),
        ("吾輩は猫である。名前はまだ無い。", "euc_jp"),
        ("Привет, это обычный русский текст о погоде и о море. Он достаточно длинный.", "cp1251"),
        (
            "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig. Dość błazeństw, żrą mój pęk luźnych fig.",
            "cp1250",
        ),
    ],
)
def test_legacy_encodings_are_recognised(text, encoding):
    assert decode(text.encode(encoding)) == text


def test_utf8_with_stray_western_bytes_keeps_both():
    assert decode("naïve café – ü\n".encode() + "naïve café – ü\n".encode("cp1252")) == "naïve café – ü\n" * 2


def test_invisible_characters_go_and_letters_stay():
    assert clean("a\0b\u200bc\xadd\ufeffe\x07f\x1b[31mg") == "abcdefg"
    assert clean("one\r\ntwo\rthree\x0bfour\x85five\u2028six") == "one\ntwo\nthree\nfour\nfive\nsix"
    assert clean("نمی\u200cخواهم 👩\u200d🚀") == "نمی\u200cخواهم 👩\u200d🚀"


def test_surrogates_are_joined_where_they_pair_and_replaced_where_they_do_not():
    assert clean("bell \ud83d\udd14, lone \ud800 end") == "bell 🔔, lone \ufffd end"


@given(st.text(alphabet=st.characters(), max_size=300))
def test_cleaning_is_idempotent_and_leaves_text_that_any_store_takes(text):
    once = clean(text)
    assert clean(once) == once
    assert "\0" not in once
    once.encode("utf-8")


@given(st.binary(max_size=400))
def test_any_bytes_can_be_decoded(content):
    clean(decode(content)).encode("utf-8")


@given(st.text(alphabet=st.characters(min_codepoint=0x20, exclude_categories=["Cs", "Cn", "Co"]), max_size=200))
def test_utf8_is_decoded_as_utf8(text):
    if "\0" not in text and not text.startswith("\ufeff"):
        assert decode(text.encode()) == text


def marks(text):
    blocks = Blocks()
    add_markdown(blocks, text)
    return blocks.content(), [(mark.level, mark.label) for mark in blocks.marks]


def test_markdown_headings_are_marked_and_code_is_left_alone():
    front = "---\ntitle: Own title\ntags: [a]\n---\n"
    content, found = marks(front + "Intro\n\n# One #\ntext\n```sh\n# comment\n```\n## Two\nUnder\n=====\nend\n")
    assert found == [(1, "One"), (2, "Two")]
    assert content.title == "Own title"
    assert "```sh\n# comment\n```" in content.text
    assert "tags" not in content.text


def test_underlined_headings_are_marked_and_rules_and_tables_are_not():
    content, found = marks("Top\n===\n\nSub\n---\n\npara\n\n---\n\na | b\n--- | ---\n1 | 2\n")
    assert found == [(1, "Top"), (2, "Sub")]
    assert "a | b\n--- | ---\n1 | 2" in content.text


def test_markdown_that_only_looks_like_front_matter_keeps_its_text():
    content, _ = marks("---\n\nA rule above.\n\n---\n")
    assert "A rule above." in content.text


@given(
    st.lists(st.sampled_from(["# h", "## h2", "text", "", "```", "---", "===", "- item", "a\x00b", "  "]), max_size=25)
)
def test_marks_of_markdown_point_at_their_headings(lines):
    content, _ = marks("\n".join(lines))
    for mark in content.marks:
        assert content.text[mark.start :].startswith(mark.label)
