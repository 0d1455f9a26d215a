"""The text of a document while it is put together: blocks, one blank line between them, places at exact offsets."""

import re
from collections.abc import Sequence
from datetime import datetime

from kb_pipeline.records import Mark, MarkKind, NormalizedContent
from kb_pipeline.stages.normalize.text import clean

Row = Sequence[str]
TABLE_BLOCK_CHARS = 600
"""Rows are grouped to about this size, the header over each group, so that any chunk of a long table is clear."""
_NUMBER = re.compile(r"[\s\d.,:%€$£+\-/()]*")


class Blocks:
    """Collects blocks of text and the marks where headings, pages, slides and sheets start."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._waiting: dict[MarkKind, Mark] = {}
        self._ends_in_item = False
        self.marks: list[Mark] = []
        self.warnings: list[str] = []
        self.is_partial = False
        self.title = ""
        self.author: str | None = None
        self.published_at: datetime | None = None

    def add(self, text: str, separator: str = "\n\n") -> None:
        """Append a block; one without visible characters is left out."""
        text = clean(text).strip("\n").rstrip()
        if not text.strip():
            return
        if self._parts:
            self._parts.append(separator)
            self._length += len(separator)
        self._ends_in_item = False
        start = self._length
        for mark in self._waiting.values():
            self.marks.append(Mark(start=start, kind=mark.kind, label=mark.label, level=mark.level))
        self._waiting.clear()
        self._parts.append(text)
        self._length = start + len(text)

    def item(self, text: str, depth: int = 0, mark: str = "-") -> None:
        """Append an item of a list, indented by `depth` from 0; items of one list stay together without blank lines."""
        lines = clean(text).strip().split("\n")
        if any(line.strip() for line in lines):
            is_next = self._ends_in_item
            pad = "  " * min(depth, 8)
            self.add(f"{pad}{mark} " + f"\n{pad}  ".join(lines), "\n" if is_next else "\n\n")
            self._ends_in_item = True

    def heading(self, text: str, level: int) -> None:
        """Append a heading as a block of its own, with its mark. `level` from 1."""
        label = " ".join(clean(text).split())
        if label:
            self._waiting["heading"] = Mark(start=0, kind="heading", label=label[:300], level=max(1, level))
            self.add(label)

    def place(self, kind: MarkKind, label: str) -> None:
        """The next block starts a page, slide or sheet; a place without text leaves no mark."""
        self._waiting[kind] = Mark(start=0, kind=kind, label=label)

    def table(self, rows: Sequence[Row]) -> None:
        """Append a table, one line a row, cells parted by ` | `; the header is repeated over every group of rows."""
        lines = [_line(cells) for row in rows if any(cells := [" ".join(cell.split()) for cell in row])]
        if not lines:
            return
        header = lines[0] if _is_header(rows, len(lines)) else ""
        group: list[str] = []
        size = 0
        for line in lines[1:] if header else lines:
            if group and size + len(line) > TABLE_BLOCK_CHARS:
                self.add("\n".join([header, *group] if header else group))
                group, size = [], 0
            group.append(line)
            size += len(line) + 1
        self.add("\n".join([header, *group] if header else group))

    def extend(self, other: NormalizedContent) -> None:
        """Append another document's text with its marks (a member, an attachment)."""
        if not other.text.strip():
            return
        start = self._length + (2 if self._parts else 0)
        self.add(other.text)
        self.marks += [
            Mark(start=start + mark.start, kind=mark.kind, label=mark.label, level=mark.level)
            for mark in other.marks
            if start + mark.start < self._length
        ]
        self.warnings += other.warnings
        self.is_partial |= other.is_partial

    @property
    def is_blank(self) -> bool:
        """True while no block holds a visible character."""
        return not self._parts

    def content(self) -> NormalizedContent:
        """What was collected; title empty where the document has none of its own."""
        first = next((mark.label for mark in self.marks if mark.kind == "heading"), "")
        return NormalizedContent(
            title=" ".join(clean(self.title).split())[:500] or first,
            text="".join(self._parts),
            author=self.author,
            published_at=self.published_at,
            marks=tuple(sorted(self.marks, key=lambda mark: mark.start)),
            warnings=tuple(self.warnings),
            is_partial=self.is_partial,
        )


def _line(cells: list[str]) -> str:
    """Cells of a row; empty ones keep their place except at the end."""
    while cells and not cells[-1]:
        cells.pop()
    return " | ".join(cells)


def _is_header(rows: Sequence[Row], n_lines: int) -> bool:
    first = next(row for row in rows if any(cell.strip() for cell in row))
    cells = [cell.strip() for cell in first]
    named = [cell for cell in cells if cell and not _NUMBER.fullmatch(cell)]
    return n_lines > 1 and len(cells) > 1 and len(named) * 2 > len(cells) and sum(map(len, cells)) < TABLE_BLOCK_CHARS
