"""The splitter's laws on any text, and its manners on real ones."""

import itertools

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.records import Chunk, Mark
from kb_pipeline.stages.chunk import SplitRules, split_document

ODD = [
    "\u0301", "\u200d", "\ufe0f", "👨‍👩‍👧‍👦", "🇩🇪", "🇩", "\u0600", "क्षि", "한", "\u1112\u1161", "\r\n", "\n\n", " ",
    "。", "，", "」", "ำ", "เ", "กี่", "第四号浮标", "word ", "It ends. ", "e.g. ", "# Head\n", "```\n", "~~~\n",
    "\u3000", "| a | b |\n", "|---|---|\n",
    "\x00", "\u200b", "\u00ad", "\f", "\u2028", "Mr. X said: no; yes!\n", "a" * 70, " \u0301",
]  # fmt: skip
texts = st.lists(st.sampled_from(ODD) | st.text(max_size=5), max_size=120).map("".join)
rules = st.builds(
    lambda size, share: SplitRules(size=size, overlap=int(size * share)),
    st.integers(1, 120),
    st.floats(0, 0.9),
)


def borders(text: str) -> set[int]:
    found, at = {0}, 0
    for cluster in regex.findall(r"\X", text):
        at += len(cluster)
        found.add(at)
    return found


def check_laws(text: str, chunks: list[Chunk], marks: list[Mark] | None = None) -> None:
    covered, good = bytearray(len(text)), borders(text)
    for idx, chunk in enumerate(chunks):
        assert chunk.idx == idx
        assert text[chunk.start_char : chunk.end_char] == chunk.text
        assert chunk.text.strip()
        assert {chunk.start_char, chunk.end_char} <= good
        for edge in (chunk.start_char, chunk.end_char - 1):  # white space only inside a cluster that is more than that
            assert not text[edge].isspace() or not {edge, edge + 1} <= good
        covered[chunk.start_char : chunk.end_char] = b"\1" * len(chunk.text)
    assert all(seen or char.isspace() for seen, char in zip(covered, text, strict=True))
    for before, after in itertools.pairwise(chunks):
        assert before.start_char < after.start_char
        assert before.end_char < after.end_char


@settings(max_examples=400, deadline=None)
@given(text=texts, rules=rules)
def test_any_text_is_split_exactly_wholly_and_between_graphemes(text: str, rules: SplitRules) -> None:
    chunks = split_document(text, [], "", rules)
    check_laws(text, chunks)
    for chunk in chunks:
        assert len(chunk.text) <= rules.size or len(regex.findall(r"\X", chunk.text)) == 1
    for before, after in itertools.pairwise(chunks):
        assert before.end_char - after.start_char <= rules.overlap


@settings(max_examples=150, deadline=None)
@given(
    text=texts, places=st.lists(st.integers(-3, 500), max_size=8), kind=st.sampled_from(["heading", "slide", "page"])
)
def test_marks_anywhere_break_no_law(text: str, places: list[int], kind: str) -> None:
    marks = [Mark(start=place, kind=kind, label="7", level=1) for place in sorted(places)]  # type: ignore[arg-type]
    check_laws(text, split_document(text, marks, "T", SplitRules(size=60, overlap=20)))


@settings(max_examples=100, deadline=None)
@given(text=texts, size=st.integers(20, 60))
def test_by_tokens_no_chunk_is_over_the_size(text: str, size: int) -> None:
    def count_tokens(parts: list[str]) -> list[int]:
        return [len(part.encode("utf-8", "surrogatepass")) for part in parts]

    chunks = split_document(text, [], "", SplitRules(size=size, overlap=5, unit="tokens", count_tokens=count_tokens))  # type: ignore[arg-type]
    check_laws(text, chunks)
    for chunk in chunks:
        assert count_tokens([chunk.text])[0] <= size or len(regex.findall(r"\X", chunk.text)) == 1


@pytest.mark.parametrize("text", ["", " \n\t\u3000\r\n", "\n" * 10_000])
def test_white_space_gives_no_chunk(text: str) -> None:
    assert split_document(text, [], "T", SplitRules()) == []


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be"):
        SplitRules(size=0)
    with pytest.raises(ValueError, match="count_tokens"):
        SplitRules(unit="tokens")


SENTENCE = "The bell of buoy number four rings at low water, and the keeper counts the strokes. "
HOSTILE = {
    "one line without spaces": "x7Qa" * 250_000,
    "blank lines": "First.\n" + "\n" * 120_000 + "Last.",
    "one sentence": "and on, " * 125_000,
    "five megabytes of prose": (SENTENCE * 8 + "\n\n") * 7_400,
    "accents on one letter": "a" + "\u0301" * 300_000,
    "accents on spaces": " \u0301" * 100_000,
    "accents after long gaps": (" " * 5_000 + "\u0301x") * 40,
    "flags": "🇩🇪" * 60_000,
    "families": "👨‍👩‍👧‍👦" * 30_000,
    "headings": "# a\n" * 60_000,
    "fences": "```\n" * 60_000,
    "table heads": "|a|b|\n|---|---|\n" * 15_000,
    "full stops": "." * 300_000,
    "Chinese without stops": "第四号浮标的铃声" * 60_000,
}


@pytest.mark.timeout(60)  # what is quadratic takes minutes here
@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear(name: str) -> None:
    chunks = split_document(HOSTILE[name], [], "T", SplitRules())
    assert chunks
    assert all(len(chunk.text) <= 1000 for chunk in chunks) or name == "accents on one letter"


def test_prose_is_cut_after_sentences_and_overlaps_by_whole_ones() -> None:
    text = SENTENCE * 60
    chunks = split_document(text, [], "T", SplitRules())
    assert all(chunk.text.startswith("The bell") and chunk.text.endswith("strokes.") for chunk in chunks)
    overlaps = [before.end_char - after.start_char for before, after in itertools.pairwise(chunks)]
    assert min(overlaps) > 80
    assert max(overlaps) <= 200


def test_an_abbreviation_ends_no_sentence() -> None:
    text = "Then " + "x" * 740 + " came. " + "Y" + "y" * 100 + " met Dr. Miller and Mr. Smith of Fig. 3 " + "z" * 400
    assert split_document(text, [], "", SplitRules(overlap=0))[0].text.endswith("came.")


def test_chinese_is_cut_after_its_own_stops() -> None:
    text = "老人在灯塔下数着第四号浮标的铃声，潮水慢慢退去。渔船一只接一只回来，灯火映在水面上！" * 60
    chunks = split_document(text, [], "", SplitRules())
    assert all(chunk.text[-1] in "。！" and chunk.text[0] in "老渔" for chunk in chunks)


def test_thai_is_cut_at_its_spaces() -> None:
    text = "ระฆังหมายเลขเก้าดังขึ้นเมื่อน้ำลง ชายชราเดินไปที่ท่าเรือ " * 50
    chunks = split_document(text, [], "", SplitRules())
    assert all(chunk.text.startswith(("ระฆัง", "ชาย")) for chunk in chunks)


def test_a_heading_stays_with_what_follows_it() -> None:
    text = "".join(f"## Part {n}\n\n{SENTENCE * 4}\n\n" for n in range(30))
    for chunk in split_document(text, [], "", SplitRules()):
        assert not regex.search(r"## Part \d+$", chunk.text)


def test_a_fenced_block_that_fits_is_not_split() -> None:
    block = "```python\n" + "value = compute(value)  # Once. Twice.\n\n" * 20 + "```"
    text = f"# Guide\n\n{SENTENCE * 3}\n\n{block}\n\n{SENTENCE * 20}\n\n{block}\n\nEnd."
    chunks = split_document(text, [], "", SplitRules())
    assert text.count(block) == 2
    at = -1
    for _ in range(2):
        at = text.index(block, at + 1)
        assert any(chunk.start_char <= at and at + len(block) <= chunk.end_char for chunk in chunks)


def test_a_table_is_cut_between_rows() -> None:
    text = "| name | place |\n|---|---|\n" + "".join(f"| Buoy. {n} | Harbour, pier {n} |\n" for n in range(200))
    for chunk in split_document(text, [], "", SplitRules()):
        assert chunk.text.startswith("| ")
        assert chunk.text.endswith("|")
    assert "|---|---|\n| Buoy. 0" in split_document(text, [], "", SplitRules(size=60, overlap=0))[0].text


def test_no_tiny_chunk_is_left_at_the_end() -> None:
    for extra in range(1, 400, 13):
        text = (SENTENCE * 40)[: 1000 + extra].strip()
        assert len(split_document(text, [], "", SplitRules(overlap=0))[-1].text) > 150


def test_the_header_names_title_and_sections_but_not_what_the_chunk_begins_with() -> None:
    text = f"# Pumps\n\n{SENTENCE * 15}\n\n## Reset\n\n{SENTENCE * 30}"
    marks = [
        Mark(start=0, kind="heading", label="Pumps", level=1),
        Mark(start=text.index("## Reset"), kind="heading", label="Reset", level=2),
    ]
    headers = [chunk.header for chunk in split_document(text, marks, "Guide", SplitRules())]
    assert headers[0] == "Guide"
    assert headers[1] == "Guide › Pumps"
    assert headers[-1] == "Guide › Pumps › Reset"


def test_a_section_named_like_the_title_is_not_said_twice_and_headers_are_short() -> None:
    marks = [
        Mark(start=0, kind="heading", label=label, level=level) for level, label in ((1, "The Guide"), (2, "x" * 500))
    ]
    (chunk,) = split_document("Some text.", marks, "The Guide", SplitRules())
    assert chunk.header.startswith("The Guide › xxx")
    assert len(chunk.header) <= 200
    assert split_document("Text.", [], "", SplitRules())[0].header == ""


def test_the_page_is_that_of_the_chunks_first_character() -> None:
    text = SENTENCE * 40
    marks = [Mark(start=at, kind="page", label=str(n)) for n, at in enumerate((0, 900, 1900), start=1)]
    chunks = split_document(text, marks, "", SplitRules())
    assert [chunk.page for chunk in chunks] == [1 + (c.start_char >= 900) + (c.start_char >= 1900) for c in chunks]
    assert split_document(text, [], "", SplitRules())[0].page is None
