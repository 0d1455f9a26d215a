"""HTML inside mails, e-books and converted texts: all of it, without the judgement that a web page needs."""

import re
from collections.abc import Iterator
from typing import Any

from kb_pipeline.stages.normalize.blocks import Blocks

_SKIPPED = {"script", "style", "template", "head", "noscript", "svg", "object", "iframe"}
_BLOCK = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "header", "hr", "html", "legend", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table",
    "ul",
}  # fmt: skip
_DEPTH = 400


def add_html(blocks: Blocks, text: str) -> None:
    """All visible text of an HTML text in order: headings with marks, tables as tables, lists as lines."""
    import lxml.html

    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=False, remove_comments=True, remove_pis=True)
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    if not text.strip():
        return
    root = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser, ensure_head_body=True)
    _Html(blocks).walk(root.body if root.body is not None else root, 0)


class _Html:
    """Collects runs of inline text and closes them at block borders."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._run: list[str] = []
        self._lists = 0
        self._is_item = False

    def close(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self._run).split("\n"))
        text = "\n".join(filter(None, lines))
        self._run = []
        if text:
            if self._lists and self._is_item:
                self._blocks.item(text, self._lists - 1)
                self._is_item = False
            else:
                self._blocks.add(text)

    def walk(self, element: Any, depth: int) -> None:
        """Add an element's content; iterative below the cap, refused above it."""
        if depth > _DEPTH:
            self._run.append(re.sub(r"\s+", " ", element.text_content()))
            return
        tag = element.tag if isinstance(element.tag, str) else ""
        if tag in _SKIPPED or not tag:
            return
        if tag == "br":
            self._run.append("\n")
        elif tag == "img":
            self._run.append(f" {element.get('alt') or ''} ")
        elif tag not in _BLOCK:
            self._children(element, depth)
        else:
            self.close()
            self._block(tag, element, depth)
            self.close()

    def _block(self, tag: str, element: Any, depth: int) -> None:
        if tag == "table" and _is_data_table(element):
            for caption in element.xpath("./caption"):
                self._blocks.add(" ".join(caption.text_content().split()))
            self._blocks.table([[_cell(cell) for cell in row.xpath("./td|./th")] for row in _table_rows(element)])
        elif tag == "pre":
            self._blocks.add(element.text_content())
        elif re.fullmatch(r"h[1-6]", tag):
            self._blocks.heading(element.text_content(), int(tag[1]))
        else:
            self._is_item |= tag == "li"
            self._lists += tag in ("ul", "ol")
            self._children(element, depth)
            self.close()
            self._is_item &= tag != "li"
            self._lists -= tag in ("ul", "ol")

    def _children(self, element: Any, depth: int) -> None:
        self._run.append(_spaced(element.text))
        for child in element:
            self.walk(child, depth + 1)
            self._run.append(_spaced(child.tail))


def _spaced(text: str | None) -> str:
    return re.sub(r"\s+", " ", text) if text else ""


def _table_rows(table: Any) -> Iterator[Any]:
    yield from table.xpath("./tr|./thead/tr|./tbody/tr|./tfoot/tr")


def _cell(cell: Any) -> str:
    return " ".join(" ".join(cell.itertext()).split())


def _is_data_table(table: Any) -> bool:
    """False for a table that only lays out other blocks."""
    rows = list(_table_rows(table))
    is_wide = max((len(row.xpath("./td|./th")) for row in rows), default=0) > 1
    return is_wide and not table.xpath(".//td//table|.//td//h1|.//td//h2|.//td//h3|.//td//p[position()>2]")
