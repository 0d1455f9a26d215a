"""Borders of what a reader sees as one character (grapheme clusters, UAX #29), found only where a cut is wanted.

Always on short slices that begin at a known border: the engine looks back over whole runs of flags.
"""

from itertools import accumulate

import regex

_CLUSTER = regex.compile(r"\X")
# Pairs with a border between them whatever stands before; everything else is decided by segmenting from a known border.
_SURE = regex.compile(
    r"[^\p{GCB=Prepend}\r](?=\s)|\s(?=[^\n\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}])|\p{GCB=Other}(?=\p{GCB=Other})"
)
# A line does not begin with these, nor end with those (kinsoku; Thai vowels that follow or lead their consonant).
_NO_START = frozenset(
    "、。，．！？；：・）」』】》〉〕］｝”’…‥ーぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ々ะาำๆฯ,.!?;:)]}%"
)
_NO_END = frozenset("（「『【《〈〔［｛“‘เแโใไ([{")
_LOOK_BACK = 16


class Borders:
    """The borders in the part of a text that begins at a border `start`; segmented once, when first needed."""

    def __init__(self, text: str, start: int, until: int) -> None:
        """`until`: positions up to here may be asked for."""
        self._text = text
        self._start = start
        self._until = until
        self._known: list[int] | None = None
        self._set: frozenset[int] = frozenset()

    def _all(self) -> list[int]:
        """Ascending borders in (start, until]; where a cluster reaches past `until`, without its end."""
        if self._known is None:
            part = self._text[self._start : self._until + 1]
            self._known = list(accumulate((len(c) for c in _CLUSTER.findall(part)), initial=self._start))[1:]
            if self._known and self._known[-1] > self._until:
                self._known.pop()
            self._set = frozenset(self._known)
        return self._known

    def __contains__(self, position: int) -> bool:
        if position <= self._start or position >= len(self._text) or _SURE.match(self._text, position - 1):
            return True
        self._all()
        return position in self._set

    def last(self, limit: int) -> int:
        """The best border up to `limit` <= until: the last that no line-breaking rule forbids, else the last.

        Where the first cluster alone reaches past `limit`, its end.
        """
        within = [border for border in self._all() if border <= limit]
        if not within:
            whole = _CLUSTER.match(self._text[self._start :])
            return self._start + (len(whole.group()) if whole else 1)
        for border in reversed(within[-_LOOK_BACK:]):
            if self._text[border : border + 1] not in _NO_START and self._text[border - 1] not in _NO_END:
                return border
        return within[-1]

    def first(self, least: int) -> int | None:
        """The first border at or after `least`, if there is one up to `until`."""
        return next((border for border in self._all() if border >= least), None)


def is_border(text: str, position: int) -> bool:
    """Whether a cluster ends at `position`, which has white space on one side at least."""
    return position in Borders(text, max(0, position - 2), position)
