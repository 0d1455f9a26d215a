"""A page's tree as a list of blocks: paragraphs, headings, list items, tables, code, with their links and media."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urljoin

from kb_pipeline.records import MediaRef
from kb_pipeline.stages.normalize.blocks import Blocks

Kind = Literal["text", "heading", "item", "table", "code"]
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_BLOCK = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre section summary table tbody td"
    " tfoot th thead tr ul".split()
)
_SPACE = re.compile(r"[ \t\r\n\f]+")
_MEDIA_TYPES: dict[str, Literal["image", "audio", "video"]] = {
    "img": "image",
    "audio": "audio",
    "video": "video",
    "source": "video",
}


@dataclass(slots=True)
class Block:
    """One block of a page.

    Attributes:
        level: of a heading, from 1.
        rows: of a table.
        link_chars: characters of `text` inside links.
        element: the lxml element it lies in.
        group: the list an item belongs to.
    """

    kind: Kind
    text: str
    element: Any
    level: int = 0
    rows: Sequence[Sequence[str]] = ()
    link_chars: int = 0
    group: int = 0
    media: list[MediaRef] = field(default_factory=list)


def blocks_of(body: Any, base: str) -> list[Block]:
    """The blocks below an element in reading order; none is empty, but for those that only carry media."""
    walker = _Walker(base)
    walker.walk(body)
    walker.close(body)
    return walker.blocks


def render(blocks: Sequence[Block], into: Blocks) -> list[MediaRef]:
    """Writes blocks as text with marks; returns their media, each once. Items of one list stay together."""
    media: dict[str, MediaRef] = {}
    lines: list[str] = []
    group = 0
    for block in blocks:
        if lines and (block.kind != "item" or block.group != group):
            into.add("\n".join(lines))
            lines = []
        for found in block.media:
            media.setdefault(found.url, found)
        if block.kind == "item":
            group = block.group
            lines.append(block.text)
        elif block.kind == "heading":
            into.heading(block.text, block.level)
        elif block.kind == "table":
            into.table(block.rows)
        elif block.text:
            into.add(block.text)
    if lines:
        into.add("\n".join(lines))
    return list(media.values())


class _Walker:
    """Collects runs of inline text and closes them where a block starts or ends."""

    def __init__(self, base: str) -> None:
        self.blocks: list[Block] = []
        self._base = base
        self._run: list[str] = []
        self._link_chars = 0
        self._in_link = 0
        self._media: list[MediaRef] = []
        self._prefix = ""
        self._group = 0
        self._groups = 0
        self._depth = 0

    def walk(self, element: Any) -> None:
        self._text(element.text)
        for child in element:
            if isinstance(child.tag, str):
                self._child(child)
            self._text(child.tail)

    def close(self, element: Any, kind: Kind = "text", level: int = 0) -> None:
        """Ends the run of inline text as a block."""
        lines = [_SPACE.sub(" ", line).strip() for line in "".join(self._run).replace("\u00ad", "").split("\v")]
        text = "\n".join(line for line in lines if line)
        if self._prefix and text and kind == "text":
            kind, text = "item", self._prefix + text.replace("\n", "\n  ")
            self._prefix = " " * len(self._prefix)
        if text or self._media:
            self.blocks.append(Block(kind, text, element, level, (), self._link_chars, self._group, self._media))
        self._run, self._link_chars, self._media = [], 0, []

    def _child(self, element: Any) -> None:
        tag = element.tag
        self._take_media(element)
        if tag == "br":
            self._run.append("\v")
        elif tag == "pre":
            self._code(element)
        elif tag == "table" and _is_data(element):
            self._table(element)
        elif tag in ("ul", "ol", "menu", "dir"):
            self._list(element)
        elif tag in _BLOCK:
            self._block(element)
        else:
            is_link = tag == "a" and not (element.get("href") or "#").startswith(("#", "javascript:"))
            self._in_link += bool(is_link)
            self.walk(element)
            self._in_link -= bool(is_link)

    def _block(self, element: Any) -> None:
        self.close(element.getparent())
        self.walk(element)
        level = _HEADINGS.get(element.tag, 0)
        self.close(element, "heading" if level else "text", level)

    def _list(self, element: Any) -> None:
        self.close(element.getparent())
        held = self._prefix, self._group
        if not self._depth:
            self._groups += 1
            self._group = self._groups
        self._depth += 1
        number = int(element.get("start")) if re.fullmatch(r"\d{1,6}", element.get("start") or "") else 1
        for child in element:
            if child.tag == "li":
                self._prefix = "  " * (self._depth - 1) + (f"{number}. " if element.tag == "ol" else "- ")
                number += 1
                self.walk(child)
                self.close(child)
                self._prefix = ""
            elif isinstance(child.tag, str):
                self._child(child)
            self._text(child.tail)
        self.close(element)
        self._depth -= 1
        self._prefix, self._group = (held[0] and " " * len(held[0])), held[1]

    def _code(self, element: Any) -> None:
        self.close(element.getparent())
        for mark in element.iter("br"):
            mark.tail = "\n" + (mark.tail or "")
        text = element.xpath("string()").strip("\n").expandtabs(4)
        if text.strip():
            fence = "```" if "```" not in text else "~~~~"
            is_code = "\n" in text or element.find(".//code") is not None
            self.blocks.append(Block("code", f"{fence}\n{text}\n{fence}" if is_code else text, element))

    def _table(self, element: Any) -> None:
        self.close(element.getparent())
        for caption in element.iter("caption"):
            self.walk(caption)
            self.close(caption)
        rows, links = [], 0
        for row in element.iter("tr"):
            cells = [cell for cell in row if cell.tag in ("td", "th")]
            rows.append([_SPACE.sub(" ", _spaced(cell)).strip() for cell in cells])
            links += sum(len(link.xpath("string()")) for cell in cells for link in cell.iter("a"))
        for child in element.iter(*_MEDIA_TYPES):
            self._take_media(child)
        text = "\n".join(" | ".join(filter(None, row)) for row in rows if any(row))
        if text:
            self.blocks.append(Block("table", text, element, rows=rows, link_chars=links, media=self._media))
            self._media = []

    def _text(self, text: str | None) -> None:
        if text:
            self._run.append(text)
            if self._in_link:
                self._link_chars += len(_SPACE.sub(" ", text).strip())

    def _take_media(self, element: Any) -> None:
        kind = _MEDIA_TYPES.get(element.tag)
        if kind is None:
            return
        address = next(
            (v for v in (element.get(n) for n in ("data-src", "data-original", "data-lazy-src", "src")) if v), None
        )
        if not address and element.get("srcset"):
            address = element.get("srcset").split(",")[-1].split()[0] if element.get("srcset").strip(" ,") else None
        is_dot = element.get("width") in ("0", "1") or element.get("height") in ("0", "1")
        if not address or is_dot or address.strip().lower().startswith(("data:", "blob:", "javascript:", "about:")):
            return
        if element.tag == "source":
            kind = "audio" if str(element.get("type")).startswith("audio") else "video"
            if element.getparent().tag == "picture":
                return
        try:
            url = urljoin(self._base, address.strip())
        except ValueError:
            return
        if url.startswith(("http://", "https://")):
            self._media.append(MediaRef(url=url, kind=kind, alt=_SPACE.sub(" ", element.get("alt") or "").strip()))


def _is_data(table: Any) -> bool:
    """True for rows and columns of short cells; False for a table that only lays out a page."""
    if table.get("role") in ("presentation", "none"):
        return False
    if table.xpath(".//table | .//h1 | .//h2 | .//h3 | .//article | .//section | .//form | .//pre"):
        return False
    cells = table.xpath(".//td | .//th")
    rows = table.xpath(".//tr")
    if len(rows) < 1 or len(cells) < 2 or max(len(row) for row in rows) < 2:
        return False
    if table.xpath(".//th | ./thead | ./caption"):
        return True
    longest = max(len(" ".join(cell.xpath("string()").split())) for cell in cells)
    return longest < 300 and not table.xpath(".//td[count(.//p | .//div | .//ul) > 2]")


def _spaced(cell: Any) -> str:
    """Text of a cell with a blank where a block or line ends inside it."""
    return (
        " ".join(piece for piece in cell.itertext() if piece.strip())
        if len(cell) and any(child.tag in _BLOCK or child.tag == "br" for child in cell.iter() if child is not cell)
        else str(cell.xpath("string()"))
    )
