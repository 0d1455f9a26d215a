"""What stands beside a chunk's text: its contextual header and its page."""

from collections.abc import Sequence

from kb_pipeline.records import Mark

_LONGEST_HEADER = 200
_LONGEST_PART = 100
_SEPARATOR = " › "


def headers_of(title: str, text: str, marks: Sequence[Mark], spans: Sequence[tuple[int, int]]) -> list[str]:
    """The header of each span (ascending): title › headings it stands under, at most 200 characters.

    A heading that the span itself begins with is left to the text; parts that others contain are dropped.
    """
    headings = [mark for mark in marks if mark.kind in ("heading", "sheet")]
    headers, path, at = [], list[Mark](), 0
    for start, end in spans:
        while at < len(headings) and headings[at].start <= start:
            path = [mark for mark in path if mark.level < headings[at].level] + [headings[at]]
            at += 1
        first_line = _plain(text[start : min(end, start + 2 * _LONGEST_PART)].partition("\n")[0])
        parts = [title, *(mark.label for mark in path)]
        if path and path[-1].start >= start - 1 and _plain(path[-1].label).casefold() in first_line.casefold():
            parts.pop()
        headers.append(_join(parts))
    return headers


def pages_of(marks: Sequence[Mark], starts: Sequence[int]) -> list[int | None]:
    """The number of the last page or slide that begins at or before each start (ascending); None where none is."""
    numbered = [mark for mark in marks if mark.kind in ("page", "slide") and mark.label.isdecimal()]
    pages: list[int | None] = []
    at = 0
    for start in starts:
        while at < len(numbered) and numbered[at].start <= start:
            at += 1
        pages.append(int(numbered[at - 1].label) if at else None)
    return pages


def _plain(text: str) -> str:
    return " ".join(text.split()).strip("# ")


def _cut_short(part: str) -> str:
    return part if len(part) <= _LONGEST_PART else part[: _LONGEST_PART - 1].rstrip() + "…"


def _join(parts: Sequence[str]) -> str:
    """Parts without those contained in another, the outermost and the innermost kept where all would be too long."""
    kept: list[str] = []
    for part in map(_plain, parts):
        folded = part.casefold()
        if folded and not any(folded in other.casefold() for other in kept):
            kept = [other for other in kept if other.casefold() not in folded] + [part]
    kept = [_cut_short(part) for part in kept]
    while len(kept) > 2 and len(_SEPARATOR.join(kept)) > _LONGEST_HEADER:
        kept.pop(1)
    return _SEPARATOR.join(kept)[:_LONGEST_HEADER]
