"""The numbers that Word shows before paragraphs ("7.2", "(a)") and that stand nowhere in the text: people cite them."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"))
_ROMAN_ONES = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_LEVELS = 9


@dataclass(frozen=True)
class _Level:
    start: int
    style: str
    pattern: str


class Numbering:
    """Counts paragraphs in document order.

    Args:
        part: root of numbering.xml, or None where the document has no lists.
        styles: root of styles.xml.

    """

    def __init__(self, part: Any, styles: Any) -> None:
        self._levels: dict[str, dict[int, _Level]] = {}
        self._abstract: dict[str, str] = {}
        self._by_style: dict[str, tuple[str, int]] = {}
        self._parents: dict[str, str] = {}
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        if part is not None:
            self._read_lists(part)
            self._read_styles(styles)

    def _read_lists(self, part: Any) -> None:
        for abstract in part.iter(_W + "abstractNum"):
            self._levels[abstract.get(_W + "abstractNumId")] = {
                _number(level.get(_W + "ilvl")): _Level(
                    start=_number(_value(level, "start"), 1),
                    style=_value(level, "numFmt") or "decimal",
                    pattern=_value(level, "lvlText"),
                )
                for level in abstract.iter(_W + "lvl")
            }
        for num in part.iter(_W + "num"):
            self._abstract[num.get(_W + "numId")] = _value(num, "abstractNumId")

    def _read_styles(self, styles: Any) -> None:
        for style in styles.iter(_W + "style"):
            name = style.get(_W + "styleId")
            self._parents[name] = _value(style, "basedOn")
            found = style.find(f"{_W}pPr/{_W}numPr")
            if found is not None and _value(found, "numId"):
                self._by_style[name] = (_value(found, "numId"), _number(_value(found, "ilvl")))
            elif found is not None and _value(found, "ilvl"):
                self._by_style[name] = ("", _number(_value(found, "ilvl")))

    def of(self, paragraph: Any) -> tuple[int, str] | None:
        """(depth from 0, "-" for a bullet or the number as shown); None for a paragraph outside lists."""
        place = self._place(paragraph)
        if place is None:
            return None
        list_id, depth = place
        abstract = self._abstract.get(list_id, "")
        level = self._levels.get(abstract, {}).get(depth)
        if level is None:
            return (depth, "-") if list_id in self._abstract else None
        counts = self._counts[abstract]
        counts[depth] = counts.get(depth, level.start - 1) + 1
        for deeper in range(depth + 1, _LEVELS):
            counts.pop(deeper, None)
        if level.style in ("bullet", "none") or not level.pattern:
            return depth, "-" if level.style == "bullet" else ""
        return depth, self._shown(abstract, level.pattern, depth)

    def _place(self, paragraph: Any) -> tuple[str, int] | None:
        own = paragraph.find(f"{_W}pPr/{_W}numPr")
        style = _value(paragraph.find(_W + "pPr"), "pStyle")
        inherited = self._inherited(style)
        list_id = (_value(own, "numId") if own is not None else "") or inherited[0]
        depth = _number(_value(own, "ilvl"), inherited[1]) if own is not None else inherited[1]
        return (list_id, depth) if list_id not in ("", "0") else None

    def _inherited(self, style: str) -> tuple[str, int]:
        """List and depth of a style; one that gives only a depth takes the list of the style it is based on."""
        depth: int | None = None
        for _ in range(10):
            found = self._by_style.get(style)
            if found:
                depth = found[1] if depth is None else depth
                if found[0]:
                    return found[0], depth
            style = self._parents.get(style, "")
        return "", depth or 0

    def _shown(self, abstract: str, pattern: str, depth: int) -> str:
        levels, counts = self._levels[abstract], self._counts[abstract]
        for at in range(depth + 1):
            level = levels.get(at, _Level(1, "decimal", ""))
            pattern = pattern.replace(f"%{at + 1}", _counted(counts.get(at, level.start), level.style))
        return pattern.strip()


def _value(parent: Any, tag: str) -> str:
    child = None if parent is None else parent.find(_W + tag)
    return "" if child is None else child.get(_W + "val") or ""


def _number(text: str | None, default: int = 0) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else default


def _counted(count: int, style: str) -> str:
    """A number in Word's counting style: letters, Roman, or digits for every other."""
    if style in ("lowerLetter", "upperLetter") and count > 0:
        letters = chr(ord("a") + (count - 1) % 26) * min(1 + (count - 1) // 26, 20)
        return letters.upper() if style == "upperLetter" else letters
    if style in ("lowerRoman", "upperRoman") and 0 < count < 4000:
        text, rest = "", count
        for size, sign in _ROMAN:
            text += sign * (rest // size)
            rest %= size
        text += _ROMAN_ONES[rest]
        return text.upper() if style == "upperRoman" else text
    return f"{count:02d}" if style == "decimalZero" else str(count)
