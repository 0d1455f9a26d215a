"""Word documents: every place that shows text, in reading order. Walked here, because the usual loaders skip some."""

from collections.abc import Callable, Iterator
from typing import Any

from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.docx_formula import formula
from kb_pipeline.stages.normalize.docx_numbering import Numbering
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits, stream_of

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_PART = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_TRANSPARENT = {
    _W + tag
    for tag in ("sdt", "sdtContent", "ins", "moveTo", "smartTag", "customXml", "hyperlink", "fldSimple", "dir", "bdo")
} | {_MC + "Choice", _M + "oMathPara"}
_SILENT = {_W + tag for tag in ("del", "moveFrom", "pPr", "rPr", "instrText", "delText")}
_NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}


def read_docx(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Header, body, notes, comments, footer. Tracked insertions are read, deletions not; a merged cell is read once."""
    import docx

    Archive(content, name, limits).refuse_definitions()
    document = docx.Document(stream_of(content))
    walk = _Walk(document)
    properties = document.core_properties
    walk.blocks.title, walk.blocks.author = properties.title or "", properties.author or None
    walk.shared_parts("header")
    walk.body(document.element.body)
    walk.notes()
    walk.shared_parts("footer")
    return walk.blocks


class _Walk:
    """One pass over a document's parts."""

    def __init__(self, document: Any) -> None:
        self.blocks = Blocks()
        self._part = document.part
        self._levels = {style.style_id: _heading_level(style) for style in document.styles if style.type == 1}
        self._noted: list[tuple[str, str]] = []
        self._numbering = Numbering(self._related("numbering"), document.styles.element)

    def _related(self, kind: str) -> Any:
        """Root of the part of a kind; None where the document has none."""
        found = (r.target_part for r in self._part.rels.values() if r.reltype == _PART + kind and not r.is_external)
        return next((_root(part) for part in found), None)

    def shared_parts(self, kind: str) -> None:
        """Headers or footers of all sections; one that says what another said is left out."""
        seen: set[str] = set()
        for relation in self._part.rels.values():
            if relation.reltype == _PART + kind and not relation.is_external:
                text = "\n".join(self._cell_lines(_root(relation.target_part)))
                if text not in seen:
                    seen.add(text)
                    self.blocks.add(text)

    def body(self, parent: Any) -> None:
        """Blocks of an element that holds paragraphs and tables."""
        for child in parent:
            if child.tag == _W + "p":
                self._paragraph(child)
            elif child.tag == _W + "tbl":
                self.blocks.table(self._rows(child))
            elif child.tag in _TRANSPARENT:
                self.body(child)
            elif child.tag == _MC + "AlternateContent":
                self.body(_chosen(child))

    def _paragraph(self, paragraph: Any) -> None:
        boxes: list[Any] = []
        text = self._inline(paragraph, boxes)
        level = self._level(paragraph)
        listed = self._numbering.of(paragraph) if text.strip() else None
        if level:
            number = listed[1] if listed and listed[1] != "-" else ""
            self.blocks.heading(f"{number} {text}", level)
        elif listed and listed[1]:
            self.blocks.item(text, *listed)
        else:
            self.blocks.add(text)
        for box in boxes:
            self.body(box)

    def _level(self, paragraph: Any) -> int:
        properties = paragraph.find(_W + "pPr")
        if properties is None:
            return 0
        outline = properties.find(_W + "outlineLvl")
        if outline is not None and (outline.get(_W + "val") or "9") in "012345678":
            return int(outline.get(_W + "val")) + 1
        style = properties.find(_W + "pStyle")
        return 0 if style is None else self._levels.get(style.get(_W + "val"), 0)

    def _inline(self, parent: Any, boxes: list[Any]) -> str:
        """Text of a paragraph; text boxes anchored in it are collected, to follow it."""
        return "".join(self._pieces(parent, boxes))

    def _pieces(self, parent: Any, boxes: list[Any]) -> Iterator[str]:
        for child in parent:
            tag = child.tag
            if tag in _SIGNS:
                yield _SIGNS[tag](child)
            elif tag == _W + "txbxContent":
                boxes.append(child)
            elif tag == _MC + "AlternateContent":
                yield from self._pieces(_chosen(child), boxes)
            elif isinstance(tag, str) and tag.removeprefix(_W) in _NOTES:
                yield self._note_mark(child)
            elif tag not in _SILENT:
                yield from self._pieces(child, boxes)

    def _note_mark(self, reference: Any) -> str:
        self._noted.append((_NOTES[reference.tag.removeprefix(_W)], reference.get(_W + "id")))
        return f"[{len(self._noted)}]"

    def _rows(self, table: Any) -> list[list[str]]:
        return [[self._cell(cell) for cell in _unwrapped(row, "tc")] for row in _unwrapped(table, "tr")]

    def _cell(self, cell: Any) -> str:
        merge = cell.find(f"{_W}tcPr/{_W}vMerge")
        if merge is not None and merge.get(_W + "val") != "restart":
            return ""
        return "\n".join(self._cell_lines(cell))

    def _cell_lines(self, parent: Any) -> Iterator[str]:
        for child in parent:
            if child.tag == _W + "p":
                boxes: list[Any] = []
                yield self._inline(child, boxes)
                for box in boxes:
                    yield from self._cell_lines(box)
            elif child.tag == _W + "tbl":
                yield from (" | ".join(filter(str.strip, row)) for row in self._rows(child))
            elif child.tag in _TRANSPARENT:
                yield from self._cell_lines(child)
            elif child.tag == _MC + "AlternateContent":
                yield from self._cell_lines(_chosen(child))

    def notes(self) -> None:
        """Foot- and endnotes in order of reference, then reviewers' comments."""
        parts = {kind: self._related(kind) for kind in ("footnotes", "endnotes", "comments")}
        by_id = {(kind, note.get(_W + "id")): note for kind, root in parts.items() if root is not None for note in root}
        for number, key in enumerate(list(self._noted), 1):
            if key in by_id:
                self.blocks.add(f"[{number}] {' '.join(self._cell_lines(by_id[key])).strip()}")
        for (kind, _), note in by_id.items():
            text = "\n".join(self._cell_lines(note)).strip() if kind == "comments" else ""
            if text:
                self.blocks.add(f"Comment by {note.get(_W + 'author') or 'unknown'}: {text}")


def _root(part: Any) -> Any:
    """The XML root of a part, entities off."""
    from docx.oxml.parser import parse_xml

    return part.element if hasattr(part, "element") else parse_xml(part.blob)


def _chosen(alternate: Any) -> Any:
    """One branch of alternative content: the others say the same for older programs."""
    choice = alternate.find(_MC + "Choice")
    fallback = alternate.find(_MC + "Fallback")
    return fallback if choice is None and fallback is not None else choice if choice is not None else []


def _unwrapped(parent: Any, tag: str) -> Iterator[Any]:
    """Rows of a table or cells of a row, also those inside content controls and tracked insertions."""
    for child in parent:
        if child.tag == _W + tag:
            if child.find(f"{_W}trPr/{_W}del") is None:
                yield child
        elif child.tag in _TRANSPARENT:
            yield from _unwrapped(child, tag)


def _symbol(symbol: Any) -> str:
    """A symbol-font character; only those outside the private area can be told."""
    code = int(symbol.get(_W + "char") or "0", 16)
    return chr(code) if 0x20 <= code < 0xD800 else ""


def _heading_level(style: Any) -> int:
    """Outline level of a paragraph style or of the styles it is based on, from 1; 0 for text."""
    seen = 0
    while style is not None and seen < 10:
        outline = style.element.find(f"{_W}pPr/{_W}outlineLvl")
        name = (style.name or "").lower()
        if name == "title":
            return 1
        if outline is not None:
            level = int(outline.get(_W + "val") or 9)
            return level + 1 if level < 9 else 0
        if name.startswith("heading ") and name[8:9].isdigit():
            return int(name[8])
        style, seen = style.base_style, seen + 1
    return 0


_SIGNS: dict[str, Callable[[Any], str]] = {
    _W + "t": lambda element: element.text or "",
    _M + "oMath": formula,
    _W + "tab": lambda _: "\t",
    _W + "ptab": lambda _: "\t",
    _W + "br": lambda _: "\n",
    _W + "cr": lambda _: "\n",
    _W + "noBreakHyphen": lambda _: "-",
    _W + "sym": _symbol,
}
"""How the leaves of a paragraph read."""
