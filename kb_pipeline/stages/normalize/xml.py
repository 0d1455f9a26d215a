"""XML of any vocabulary: prose elements as blocks, section titles as headings. Entities are never expanded."""

import html.entities
import re
from collections.abc import Iterator
from typing import Any

from kb_pipeline.errors import Corrupt, TooLarge
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.text import decode

_DEPTH = 400
_NAMED_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]*);")
_TITLES = {"article-title", "invention-title", "title", "heading", "head", "caption-title", "label-title"}
_INLINE = {
    "a", "b", "i", "u", "em", "strong", "italic", "bold", "sub", "sup", "sc", "monospace", "xref", "ext-link",
    "uri", "span", "tt", "code", "underline", "emph", "named-content", "styled-content", "email",
    "inline-formula", "sub2", "sup2", "claim-ref", "figref", "crossref", "o", "smallcaps", "surname",
    "given-names", "given-name", "suffix", "prefix", "year", "month", "day", "volume", "issue", "fpage",
    "lpage", "label", "date", "country", "kind", "doc-number", "city", "state", "first-name", "last-name",
}  # fmt: skip
_APART = {"ref", "citation", "claim", "p", "td", "th", "li"}
_JOINED = {
    "a", "b", "bold", "claim-ref", "em", "ext-link", "figref", "i", "italic", "o", "sc", "span", "strong",
    "sub", "sup", "u", "xref",
}  # fmt: skip


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


def read_xml(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Text of all elements, one block each where they hold prose; titles of nested sections become headings."""
    root = parse_xml(content, name)
    blocks = Blocks()
    _walk(blocks, root, 0, _DEPTH, name)
    return blocks


def _walk(blocks: Blocks, element: Any, level: int, left: int, name: str) -> None:
    """`level` of the headings around; `left` levels of nesting are still allowed."""
    if left < 0:
        raise TooLarge(f"{name}: too large a nesting: more than {_DEPTH} XML elements inside each other")
    tag = _local(element)
    inner = [_local(child) for child in element]
    if tag == "table" and {"tr", "row", "thead", "tbody", "tgroup"} & set(inner):
        _add_xml_table(blocks, element)
    elif tag in _TITLES and _flat(element):
        found = element.get("level")
        blocks.heading(_flat(element), int(found) if found and found.isdigit() else max(1, level))
        if tag in ("article-title", "invention-title") and not blocks.title:
            blocks.title = _flat(element)
    elif not inner or (tag in _APART and not _holds_blocks(element)) or set(inner) <= _INLINE:
        blocks.add(_flat(element))
    else:
        deeper = level + 1 if any(child in _TITLES for child in inner) else level
        blocks.add(element.text or "")
        for child in element:
            _walk(blocks, child, deeper, left - 1, name)
            blocks.add(child.tail or "")


def _holds_blocks(element: Any) -> bool:
    return any(
        _local(child) in ("p", "sec", "table", "list", "ul", "ol", "table-wrap", "fig")
        for child in element.iter()
        if child is not element
    )


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


def _add_xml_table(blocks: Blocks, table: Any) -> None:
    rows = [row for row in table.iter() if _local(row) in ("tr", "row")]
    blocks.table([[_flat(cell) for cell in row if _local(cell) in ("td", "th", "entry")] for row in rows])
