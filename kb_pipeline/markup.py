"""How much markup a parser may be given: some take time that grows with the square of depth or attributes. Pure."""

import re
from itertools import islice

MAX_ATTRIBUTES = 1_000
"""Attributes of one tag; no page that people wrote has a tenth of it."""
MAX_DEPTH = 500
MAX_ELEMENTS = 200_000
"""Of a feed, which is at most 10 MB."""
_ATTRIBUTE = r"""[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>"'][^\s>]*)?)?"""
_EACH = re.compile(_ATTRIBUTE)
_OPENING = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|title|textarea|xmp|iframe|noembed|noframes)(?=[\s/>])"
    rf"((?>{_ATTRIBUTE})*+)[\s/]*>.*?(?:</\1(?=[\s/>])|\Z)"
    rf"|<[a-zA-Z][^\s/>]*((?>{_ATTRIBUTE})*+)",
    re.IGNORECASE | re.DOTALL,
)
_XML_TAG = re.compile(rf"<(/?)([a-zA-Z_:][^\s/>]*)((?>{_ATTRIBUTE})*+)\s*(/?)>?")
_VOID = frozenset("br hr img input wbr col source".split())


def with_few_attributes(html: str) -> str:
    """The page without the attributes of a tag beyond the first thousand; its words stay."""
    return _OPENING.sub(_cut, html)


def _cut(found: re.Match[str]) -> str:
    group = 2 if found[2] else 3
    attributes = found[group] or ""
    if len(attributes) <= 2 * MAX_ATTRIBUTES:
        return found[0]
    beyond = next(islice(_EACH.finditer(attributes), MAX_ATTRIBUTES, None), None)
    if beyond is None:
        return found[0]
    start = found.start(group) - found.start()
    return found[0][: start + beyond.start()] + found[0][start + len(attributes) :]


def excess_of(xml: str) -> str:
    """What a text of XML, without comments and CDATA, has too much of; "" if it can be parsed in good time."""
    open_names: list[str] = []
    counts: dict[str, int] = {}
    for number, found in enumerate(_XML_TAG.finditer(xml)):
        is_end, name, attributes, is_empty = found.groups()
        if number > MAX_ELEMENTS * 2:
            return f"more than {MAX_ELEMENTS:,} elements"
        if len(attributes) > 2 * MAX_ATTRIBUTES and sum(1 for _ in _EACH.finditer(attributes)) > MAX_ATTRIBUTES:
            return f"an element with more than {MAX_ATTRIBUTES:,} attributes"
        if is_end:
            while counts.get(name):  # what was left open inside it ends with it
                last = open_names.pop()
                counts[last] -= 1
                if last == name:
                    break
        elif not (is_empty or attributes.endswith("/") or name.lower() in _VOID):
            open_names.append(name)
            counts[name] = counts.get(name, 0) + 1
            if len(open_names) > MAX_DEPTH:
                return f"elements more than {MAX_DEPTH} deep inside each other"
    return ""
