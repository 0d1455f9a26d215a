"""Formulas of Word (OMML) on one line, as people type them: x^2, (a)/(b), sum_(n=1)^(N)."""

from collections.abc import Callable
from typing import Any

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def formula(element: Any) -> str:
    """Text of a formula or of a part of it."""
    return "".join(
        _WRITERS.get(child.tag.removeprefix(_M), formula)(child) for child in element if isinstance(child.tag, str)
    )


def _part(element: Any, tag: str) -> str:
    child = element.find(_M + tag)
    return "" if child is None else formula(child)


def _group(text: str) -> str:
    return text if len(text) <= 1 or text.isalnum() else f"({text})"


def _scripts(element: Any) -> str:
    below, above = _part(element, "sub"), _part(element, "sup")
    return (f"_{_group(below)}" if below else "") + (f"^{_group(above)}" if above else "")


def _sign(element: Any, name: str, default: str) -> str:
    found = element.find(f"{_M}{name}")
    return default if found is None else found.get(_M + "val", default)


def _nary(element: Any) -> str:
    properties = element.find(_M + "naryPr")
    sign = "∫" if properties is None else _sign(properties, "chr", "∫")
    return f"{sign}{_scripts(element)} {_part(element, 'e')}"


def _delimited(element: Any) -> str:
    properties = element.find(_M + "dPr")
    begin = "(" if properties is None else _sign(properties, "begChr", "(")
    end = ")" if properties is None else _sign(properties, "endChr", ")")
    return begin + ", ".join(formula(part) for part in element.findall(_M + "e")) + end


def _root(element: Any) -> str:
    degree = _part(element, "deg")
    return f"{f'root{_group(degree)}' if degree else '√'}({_part(element, 'e')})"


def _nothing(element: Any) -> str:
    return ""


_WRITERS: dict[str, Callable[[Any], str]] = {
    "t": lambda element: element.text or "",
    "f": lambda element: f"{_group(_part(element, 'num'))}/{_group(_part(element, 'den'))}",
    "sSup": lambda element: _part(element, "e") + _scripts(element),
    "sSub": lambda element: _part(element, "e") + _scripts(element),
    "sSubSup": lambda element: _part(element, "e") + _scripts(element),
    "nary": _nary,
    "d": _delimited,
    "rad": _root,
    "func": lambda element: f"{_part(element, 'fName')} {_part(element, 'e')}",
    "mr": lambda element: ", ".join(formula(part) for part in element.findall(_M + "e")) + "; ",
} | {
    name: _nothing
    for name in ("rPr", "fPr", "sSupPr", "sSubPr", "sSubSupPr", "naryPr", "dPr", "radPr", "funcPr", "mPr", "ctrlPr")
}
