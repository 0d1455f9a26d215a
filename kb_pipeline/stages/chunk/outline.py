"""What holds together and what stands apart in a text: headings with what follows, fenced code, slides, sheets."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kb_pipeline.records import Mark

_HEADING = re.compile(r"^ {0,3}(?:#{1,6}[ \t]+\S|={1,6} [^\n]{1,200} =[ \t]*$)", re.MULTILINE)  # Markdown, MediaWiki
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(?:\|[ \t:|-]*)$", re.MULTILINE)
_INK = re.compile(r"\S")
_LONGEST_HEADING = 300  # characters; a longer line that a mark calls a heading is not held together with what follows


@dataclass(frozen=True, slots=True)
class Outline:
    """Places of one text.

    Attributes:
        sections: ascending starts of headings, slides and sheets: the best places to cut.
        held: ascending by start, (first, last): no chunk may begin at first < position <= last while it can be helped.
    """

    sections: Sequence[int]
    held: Sequence[tuple[int, int]]

    def holder(self, position: int, floor: int) -> int | None:
        """First character of what must not be cut at `position` (at or before `floor` is near enough), or None."""
        found = None
        at = bisect_left(self.held, (position, -1)) - 1
        while at >= 0 and self.held[at][1] >= position > floor:
            found = position = self.held[at][0]
            at = bisect_left(self.held, (position, -1)) - 1
        return found

    def holds(self, position: int) -> bool:
        """Whether no chunk should begin at `position`."""
        at = bisect_left(self.held, (position, -1)) - 1
        return at >= 0 and self.held[at][1] >= position

    def last_section(self, after: int, until: int) -> int | None:
        """The last section start in (after, until]."""
        at = bisect_right(self.sections, until) - 1
        return self.sections[at] if at >= 0 and self.sections[at] > after else None

    def is_section(self, position: int) -> bool:
        """Whether a section starts exactly here."""
        at = bisect_left(self.sections, position)
        return at < len(self.sections) and self.sections[at] == position


def outline_of(text: str, marks: Sequence[Mark], longest_block: int) -> Outline:
    """The outline of a text; fenced blocks of more than `longest_block` characters are not held together."""
    fences = list(_fences(text))
    starts = [start for start, _ in fences]

    def in_fence(position: int) -> bool:
        at = bisect_right(starts, position) - 1
        return at >= 0 and position <= fences[at][1]

    headings = {m.start() for m in _HEADING.finditer(text) if not in_fence(m.start())}
    headings |= {m.start for m in marks if m.kind == "heading"}
    ink = {_ink_from(text, p) for p in headings if 0 <= p < len(text)}
    others = {_ink_from(text, m.start) for m in marks if m.kind in ("slide", "sheet") and 0 <= m.start < len(text)}
    held = [(start, end) for start, end in fences if end - start <= longest_block]
    held += [span for p in ink if (span := _with_next_line(text, p)) and span[1] < len(text)]
    held += [span for m in _TABLE_RULE.finditer(text) if (span := _table_head(text, m))]
    return Outline(sorted(ink | others), _disjoint(sorted(held)))


def _fences(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each closed fenced block."""
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line[1].startswith(opened[1]) and not line[2].strip():
            yield opened.start(), line.end()
            opened = None


def _ink_from(text: str, position: int) -> int:
    found = _INK.search(text, position)
    return found.start() if found else len(text)


def _with_next_line(text: str, start: int) -> tuple[int, int] | None:
    """From a heading's start to the start of what follows it."""
    end = text.find("\n", start, start + _LONGEST_HEADING)
    return (start, _ink_from(text, end)) if end >= 0 else None


def _table_head(text: str, rule: re.Match[str]) -> tuple[int, int] | None:
    """From a table's header row over its rule to the first row."""
    head = text.rfind("\n", max(0, rule.start() - _LONGEST_HEADING), max(0, rule.start() - 1)) + 1
    if rule.start() - head > _LONGEST_HEADING or "|" not in text[head : rule.start()]:
        return None
    return _ink_from(text, head), min(_ink_from(text, rule.end()), len(text))


def _disjoint(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap by more than their ends, merged: the last before a place is the one that may hold it."""
    kept: list[tuple[int, int]] = []
    for start, end in spans:
        if kept and start < kept[-1][1]:
            kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        else:
            kept.append((start, end))
    return kept
