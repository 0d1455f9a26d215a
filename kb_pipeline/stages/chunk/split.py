"""The splitter: one pass, at each step the best cut within reach. Headers and pages are added in `headers`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import regex

from kb_pipeline.records import Chunk, Mark
from kb_pipeline.stages.chunk.breaks import LEVELS, OVERLAP_LEVELS
from kb_pipeline.stages.chunk.graphemes import Borders, is_border
from kb_pipeline.stages.chunk.headers import headers_of, pages_of
from kb_pipeline.stages.chunk.outline import Outline, outline_of
from kb_pipeline.stages.chunk.rulers import Characters, CountTokens, Ruler, Tokens

_LEAST_SECTION = 0.3
_LEAST_TAIL = 0.25
_LEAST_SHARE_BEFORE_TAIL = 0.5  # where room is left for the tail, a chunk may be shorter
_SLACK = 8  # characters past the reach that a pattern may look at
_INK = re.compile(r"\S")  # `re` and `str.strip` agree on what white space is, `regex` differs


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRules:
    """How to split.

    Attributes:
        size: longest chunk, in `unit`; a grapheme cluster longer than that stays whole.
        overlap: most that a chunk repeats of the one before, in `unit`; at most half the size is used.
        count_tokens: tokens of each text, without special tokens; needed for the unit "tokens".
    Raises: ValueError: sizes that make no sense, or tokens without a counter.
    """

    size: int = 1000
    overlap: int = 200
    unit: Literal["chars", "tokens"] = "chars"
    count_tokens: CountTokens | None = None

    def __post_init__(self) -> None:
        if self.size < 1 or self.overlap < 0:
            raise ValueError(f"a chunk size of {self.size} with an overlap of {self.overlap} cannot be")
        if self.unit == "tokens" and self.count_tokens is None:
            raise ValueError("splitting by tokens needs count_tokens")

    @property
    def name(self) -> str:
        """Unit, size and overlap: `c1000-200`, or `t800-80` for tokens."""
        return f"{self.unit[0]}{self.size}-{self.overlap}"


@dataclass(frozen=True, slots=True)
class _Cut:
    """Between two chunks: the text before ends at `end`, what comes after the white space begins at `start`."""

    end: int
    start: int


def split_document(text: str, marks: Sequence[Mark], title: str, rules: SplitRules) -> list[Chunk]:
    """The chunks of a document, in order; [] for a text of white space alone.

    Laws: `text[c.start_char:c.end_char] == c.text`; every character but white space is in some chunk; no border inside
    a grapheme cluster; no chunk over the size (but a single cluster that is); chunks neither begin nor end with white
    space (but where a cluster does, such as a space with an accent). Time is linear in the text.

    Args:
        marks: ascending by start.
    """
    spans = _spans(text, marks, rules)
    headers = headers_of(title, text, marks, spans)
    pages = pages_of(marks, [start for start, _ in spans])
    return [
        Chunk(idx=idx, text=text[start:end], start_char=start, end_char=end, header=headers[idx], page=pages[idx])
        for idx, (start, end) in enumerate(spans)
    ]


def _spans(text: str, marks: Sequence[Mark], rules: SplitRules) -> list[tuple[int, int]]:
    """(start, end) of each chunk. By tokens, the finished chunks are counted and split finer where one is too long."""
    if rules.unit == "chars" or rules.count_tokens is None:
        return _Splitter(text, marks, Characters(text), rules).spans()
    ruler = Tokens(text, rules.count_tokens)
    tried = rules
    while True:
        spans = _Splitter(text, marks, ruler, tried).spans()
        longest = max(rules.count_tokens([text[start:end] for start, end in spans]), default=0)
        if longest <= rules.size or tried.size == 1:
            return spans
        tried = replace(tried, size=max(1, min(tried.size - 1, tried.size * rules.size // longest)))


class _Splitter:
    """One text being split."""

    def __init__(self, text: str, marks: Sequence[Mark], ruler: Ruler, rules: SplitRules) -> None:
        self._text = text
        self._ruler = ruler
        self._size = rules.size
        self._overlap = min(rules.overlap, rules.size // 2)
        longest_block = (
            rules.size if rules.unit == "chars" else rules.size * 2
        )  # tokens of code are at least 2 characters
        self._outline: Outline = outline_of(text, marks, longest_block)
        self._first, self._last = self._ends()

    def _ends(self) -> tuple[int, int]:
        """The text without its outer white space, as far as that is no part of a cluster."""
        first, last = len(self._text) - len(self._text.lstrip()), len(self._text.rstrip())
        return first - (not is_border(self._text, first)), last + (not is_border(self._text, last))

    def spans(self) -> list[tuple[int, int]]:
        """(start, end) of every chunk."""
        found: list[tuple[int, int]] = []
        start, fresh = self._first, self._first  # `fresh`: the first character that no chunk holds yet
        while fresh < self._last:
            end_reach = self._ruler.forward(start, self._size)
            if end_reach >= self._last:
                found.append((start, self._last))
                break
            borders = Borders(self._text, start, end_reach)
            cut = self._cut(start, end_reach, borders)
            if cut.end <= fresh and start < fresh:  # the overlap leaves no room for anything new
                start = fresh
                continue
            found.append((start, cut.end))
            start, fresh = self._overlap_start(start, cut, borders), cut.start
        return found

    def _cut(self, start: int, reach: int, borders: Borders) -> _Cut:
        """The best cut of a chunk that begins at `start` and ends at `reach` at the latest."""
        least_section = self._ruler.forward(start, self._size * _LEAST_SECTION)
        limit = max(self._ruler.back(self._last, self._size * _LEAST_TAIL), self._ruler.forward(start, self._size / 2))
        limit = min(limit, reach)
        if self._outline.holds(limit):
            limit = reach
        holder = self._outline.holder(limit, start)
        section = self._outline.last_section(least_section, limit)
        firsts = [holder if holder and start < holder < least_section else None, section]
        lasts = [holder if holder and holder > start else None]
        for place in firsts:
            if place is not None and (cut := self._cut_at(place, start, limit, borders)):
                return cut
        for ends, least_share in LEVELS:
            share = least_share if limit == reach else min(least_share, _LEAST_SHARE_BEFORE_TAIL)
            window = self._ruler.forward(start, self._size * share), limit
            if cut := self._last_cut(ends, start, window, borders):
                return cut
        for place in lasts:
            if place is not None and (cut := self._cut_at(place, start, limit, borders)):
                return cut
        border = borders.last(limit)
        return self._cut_at(border, start, border, borders) or _Cut(border, self._ink_from(border))

    def _last_cut(self, ends: regex.Pattern[str], start: int, window: tuple[int, int], borders: Borders) -> _Cut | None:
        """The last cut that such an end allows in the window."""
        tried = self._last + 1
        for position in reversed(self._positions(ends, *window)):
            if position >= tried:  # in the white space of the cut just refused
                continue
            cut = self._cut_at(position, start, window[1], borders)
            if cut and cut.end >= window[0] and not self._outline.holds(cut.start):
                return cut
            tried = start + len(self._text[start:position].rstrip())
        return None

    def _overlap_start(self, start: int, cut: _Cut, borders: Borders) -> int:
        """Where the chunk after `cut` begins: as early as the overlap allows, at the start of something."""
        if not self._overlap or self._outline.is_section(cut.start):
            return cut.start
        least = max(self._ruler.back(cut.end, self._overlap), start + 1)
        section = self._outline.last_section(least - 1, cut.end - 1)
        if section is not None and section in borders:
            return section
        for ends in OVERLAP_LEVELS:
            begin = least - 1
            for position in self._positions(ends, least - 1, cut.end - 1):
                if position <= begin:  # in the white space just skipped
                    continue
                begin = self._ink_from(position)
                if least <= begin < cut.end and not self._outline.holds(begin) and begin in borders:
                    return begin
        border = borders.first(least)
        begin = self._ink_from(border) if border is not None else cut.start
        return begin if begin < cut.end and begin in borders else cut.start

    def _positions(self, ends: regex.Pattern[str], least: int, limit: int) -> list[int]:
        return [m.end() for m in ends.finditer(self._text, least, min(self._last, limit + _SLACK))]

    def _ink_from(self, position: int) -> int:
        """Where text goes on from `position` after white space; at the space itself where it carries an accent."""
        found = _INK.search(self._text, position, self._last)
        begin = found.start() if found else self._last
        return begin - (position < begin < self._last and not is_border(self._text, begin))

    def _cut_at(self, position: int, start: int, limit: int, borders: Borders) -> _Cut | None:
        """The cut with only white space between its sides and `position` there; None where that is none to make."""
        end = start + len(self._text[start:position].rstrip())
        if not start < end <= limit or end not in borders:
            return None
        begin = self._ink_from(position)
        return _Cut(end, begin) if begin == end or is_border(self._text, begin) else None
