"""Markup without the judgement of a web page: HTML in mails and e-books, and XML of any vocabulary."""

import html.entities
import re
from collections.abc import Iterator
from typing import Any

from kb_pipeline.errors import Corrupt, TooLarge
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.text import decode

_SKIPPED = {"script", "style", "template", "head", "noscript", "svg", "object", "iframe"}
_BLOCK = set(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol p pre section summary table ul".split()
)
_DEPTH = 400
_NAMED_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]*);")


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


def parse_xml(content: bytes, name: str) -> Any:
    """Root of an XML document; entity definitions and outside references are refused.

    Raises: Corrupt.
    """
    import defusedxml
    import defusedxml.ElementTree as safe

    try:
        return safe.fromstring(content)
    except defusedxml.DefusedXmlException as error:
        raise Corrupt(f"{name}: the XML declares entities or points outside itself, which is refused") from error
    except SyntaxError as error:
        if "undefined entity" not in str(error):
            raise
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", decode(content))
    return safe.fromstring(_NAMED_ENTITY.sub(_resolved, text))


def _resolved(entity: re.Match[str]) -> str:
    """The character of a name that HTML knows; XML's own five, and unknown names as text."""
    name = entity[1]
    if name in ("amp", "lt", "gt", "quot", "apos"):
        return entity[0]
    return html.entities.html5.get(f"{name};", f"&amp;{name};")


_TITLES = {"article-title", "invention-title", "title", "heading", "head", "caption-title", "label-title"}
_INLINE = set(
    "a b i u em strong italic bold sub sup sc monospace xref ext-link uri span tt code underline emph named-content styled-content "
    "email inline-formula sub2 sup2 claim-ref figref crossref o smallcaps surname given-names given-name suffix prefix year month "
    "day volume issue fpage lpage label date country kind doc-number city state first-name last-name".split()
)
_APART = {"ref", "citation", "claim", "p", "td", "th", "li"}


def read_xml(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Text of all elements, one block each where they hold prose; titles of nested sections become headings."""
    root = parse_xml(content, name)
    blocks = Blocks()
    _walk_xml(blocks, root, 0, 0)
    return blocks


def _walk_xml(blocks: Blocks, element: Any, level: int, depth: int) -> None:
    if depth > _DEPTH:
        raise TooLarge(f"too large a nesting: more than {_DEPTH} XML elements inside each other")
    tag = _local(element)
    inner = [_local(child) for child in element]
    if tag == "table" and {"tr", "row", "thead", "tbody", "tgroup"} & set(inner):
        _add_xml_table(blocks, element)
    elif tag in _TITLES and _flat(element):
        found = element.get("level")
        blocks.heading(_flat(element), int(found) if found and found.isdigit() else max(1, level))
        if tag in ("article-title", "invention-title") and not blocks.title:
            blocks.title = _flat(element)
    elif not inner or tag in _APART and not _holds_blocks(element) or set(inner) <= _INLINE:
        blocks.add(_flat(element))
    else:
        deeper = level + 1 if any(child in _TITLES for child in inner) else level
        blocks.add(element.text or "")
        for child in element:
            _walk_xml(blocks, child, deeper, depth + 1)
            blocks.add(child.tail or "")


def _holds_blocks(element: Any) -> bool:
    return any(_local(child) in ("p", "sec", "table", "list", "ul", "ol", "table-wrap", "fig") for child in element.iter() if child is not element)


def _local(element: Any) -> str:
    return str(element.tag).rsplit("}", 1)[-1]


def _flat(element: Any) -> str:
    """All text of an element on one line; neighbouring elements without a space between stay apart unless inline."""
    return " ".join("".join(_texts(element)).split())


def _texts(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        is_joined = _local(child) in _JOINED
        yield "" if is_joined else " "
        yield from _texts(child)
        yield "" if is_joined else " "
        yield child.tail or ""


_JOINED = {"sub", "sup", "b", "i", "u", "italic", "bold", "em", "strong", "a", "span", "sc", "o", "xref", "ext-link", "figref", "claim-ref"}


def _add_xml_table(blocks: Blocks, table: Any) -> None:
    rows = [row for row in table.iter() if _local(row) in ("tr", "row")]
    blocks.table([[_flat(cell) for cell in row if _local(cell) in ("td", "th", "entry")] for row in rows])
