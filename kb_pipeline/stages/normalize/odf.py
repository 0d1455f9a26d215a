"""OpenDocument texts, sheets and presentations, read from their own XML."""

from collections.abc import Iterator
from typing import Any

from kb_pipeline.errors import AuthFailed
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits
from kb_pipeline.stages.normalize.xml import parse_xml

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE, _DRAW, _OFFICE = (f"{{{_NS}{part}:1.0}}" for part in ("text", "table", "drawing", "office"))
_SKIPPED = {_TEXT + "tracked-changes", _TEXT + "sequence-decls", _OFFICE + "forms", _TEXT + "table-of-content"}
_MOST_REPEATS = 1000
"""Cells repeated to the edge of a sheet are formatting, not content."""


def read_odf(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Headings, paragraphs, lists, tables, text boxes, notes; page headers first, footers last.

    Raises: AuthFailed: password.
    """
    archive = Archive(content, name, limits)
    if "META-INF/manifest.xml" in archive.names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise AuthFailed(f"{name}: protected by a password; remove it and sync again")
    walk = _Walk(Blocks())
    if "meta.xml" in archive.names:
        _add_properties(walk.blocks, parse_xml(archive.read("meta.xml"), name))
    styles = parse_xml(archive.read("styles.xml"), name) if "styles.xml" in archive.names else None
    body = parse_xml(archive.read("content.xml"), name).find(_OFFICE + "body")
    if body is None:
        raise ValueError("no body in content.xml")
    is_text = body.find(_OFFICE + "text") is not None
    if styles is not None and is_text:
        walk.furniture(styles, "header")
    walk.children(body)
    if styles is not None and is_text:
        walk.furniture(styles, "footer")
    return walk.blocks


def _add_properties(blocks: Blocks, meta: Any) -> None:
    for node in meta.iter():
        tag = str(node.tag).rsplit("}", 1)[-1]
        if tag == "title":
            blocks.title = node.text or ""
        elif tag in ("initial-creator", "creator") and not blocks.author:
            blocks.author = node.text or None


class _Walk:
    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._slides = 0

    def furniture(self, styles: Any, kind: str) -> None:
        """Page headers or footers, each distinct text once."""
        found = ("\n".join(_lines(node)) for node in styles.iter() if str(node.tag).endswith(f"}}{kind}"))
        for text in dict.fromkeys(found):
            self.blocks.add(text)

    def children(self, parent: Any, is_item: bool = False) -> None:
        """Blocks of an element that holds blocks."""
        for child in parent:
            self._block(child, is_item)

    def _block(self, element: Any, is_item: bool) -> None:
        tag = element.tag
        if tag in _SKIPPED:
            return
        if tag == _TEXT + "h":
            self.blocks.heading(_inline(element), int(element.get(_TEXT + "outline-level") or 1))
            self._anchored(element)
        elif tag == _TEXT + "p":
            text = _inline(element)
            self.blocks.item(text) if is_item else self.blocks.add(text)
            self._anchored(element)
        elif tag == _TABLE + "table":
            self._table(element)
        elif tag == _DRAW + "page":
            self._slide(element)
        elif tag.endswith("}notes"):
            self.blocks.add("\n".join(f"Notes: {line}" for line in _lines(element) if line.strip()))
        else:
            self.children(element, is_item or tag == _TEXT + "list-item")

    def _anchored(self, paragraph: Any) -> None:
        """Notes, annotations and text boxes that hang on a paragraph follow it."""
        for node in paragraph.iter():
            if node.tag == _TEXT + "note-body":
                self.blocks.add("Note: " + " ".join(_lines(node)))
            elif node.tag == _OFFICE + "annotation":
                self.blocks.add("Comment: " + " ".join(_lines(node)))
            elif node.tag == _DRAW + "text-box":
                self.children(node)

    def _slide(self, page: Any) -> None:
        self._slides += 1
        self.blocks.place("slide", str(self._slides))
        for frame in page:
            if frame.get(f"{{{_NS}presentation:1.0}}class") == "title":
                self.blocks.heading(" ".join(_lines(frame)), 1)
            else:
                self._block(frame, False)

    def _table(self, table: Any) -> None:
        name = table.get(_TABLE + "name")
        if table.find(".//" + _TABLE + "table-row") is None:
            return
        rows = [list(_cells(row)) for row in _rows(table)]
        if name and any(any(map(str.strip, row)) for row in rows) and self._is_sheet(table):
            self.blocks.place("sheet", name)
            self.blocks.heading(name, 1)
        self.blocks.table(rows)
        for shapes in table.iterfind(_TABLE + "shapes"):
            self.children(shapes)

    def _is_sheet(self, table: Any) -> bool:
        return table.find(_TABLE + "table-column") is not None and table.get(_TABLE + "style-name", "ta").startswith(
            "ta"
        )


def _rows(table: Any) -> Iterator[Any]:
    """Rows in order, those in header groups too; not those of tables inside cells."""
    for child in table:
        if child.tag == _TABLE + "table-row":
            yield child
        elif child.tag in (_TABLE + "table-header-rows", _TABLE + "table-row-group", _TABLE + "table-rows"):
            yield from _rows(child)


def _cells(row: Any) -> Iterator[str]:
    for cell in row:
        if cell.tag not in (_TABLE + "table-cell", _TABLE + "covered-table-cell"):
            continue
        text = "" if cell.tag.endswith("covered-table-cell") else "\n".join(_lines(cell))
        repeats = int(cell.get(_TABLE + "number-columns-repeated") or 1)
        yield from [text] * min(repeats, _MOST_REPEATS if text.strip() else 1)


def _lines(element: Any) -> Iterator[str]:
    """Paragraph texts below an element, also those of nested tables and boxes."""
    for node in element:
        if node.tag in (_TEXT + "p", _TEXT + "h"):
            yield _inline(node)
            for box in node.iter(_DRAW + "text-box"):
                yield from _lines(box)
        else:
            yield from _lines(node)


def _inline(element: Any) -> str:
    return "".join(_pieces(element))


def _pieces(element: Any) -> Iterator[str]:
    yield " ".join((element.text or "").split("\n"))
    for child in element:
        tag = child.tag
        if tag == _TEXT + "s":
            yield " " * min(int(child.get(_TEXT + "c") or 1), 100)
        elif tag == _TEXT + "tab":
            yield "\t"
        elif tag == _TEXT + "line-break":
            yield "\n"
        elif tag not in (_TEXT + "note", _OFFICE + "annotation", _DRAW + "text-box", _TEXT + "ruby-text"):
            yield from _pieces(child)
        yield " ".join((child.tail or "").split("\n"))
