"""Makes the XML of a feed safe and readable before any parser sees it: charset, DTD, entities, control characters.

No parser that resolves entities ever gets a DTD from us; what a feed declares is replaced here, within a budget.
"""

import html
import re

from kb_pipeline.charset import charset_of, decode
from kb_pipeline.errors import Corrupt
from kb_pipeline.markup import excess_of

MAX_EXPANSION = 500_000
"""Characters that declared entities may add to a feed."""
_XML_OWN = {"lt", "gt", "amp", "quot", "apos"}
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_REFERENCE = re.compile(r"&([A-Za-z_:][\w:.-]*);")
_NUMBER = re.compile(r"&#(?:[xX]([0-9a-fA-F]+)|([0-9]+));?")
_ENTITY = re.compile(r"<!ENTITY\s+(%\s+)?([^\s%]+)\s+(?:(SYSTEM|PUBLIC)\b|\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_OPAQUE = re.compile(r"(<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z))", re.DOTALL)
_BARE_GUID = re.compile(r"<guid\b[^<>]{0,300}>(?=\s*(?:<!\[CDATA\[)?\s*[^\s<>/]{1,500}\s*(?:\]\]>)?\s*</guid>)")
_DECLARATION = re.compile(r"\A<\?xml\b[^>]*\?>")


def feed_text(data: bytes, content_type: str | None) -> str:
    """The text of an answer that should be a feed, without XML declaration and leading blanks."""
    head = data[:400].replace(b"\0", b"")
    found = re.search(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)", head)
    text = decode(data, [found[1].decode() if found else "", charset_of(content_type)])
    text = _FORBIDDEN.sub("", text).lstrip("\ufeff \t\r\n")
    return _DECLARATION.sub("", text).lstrip()


def root_name(text: str) -> str:
    """Local name of the first element, lower case; "" where there is none."""
    body = re.sub(r"<!--.*?(-->|\Z)|<\?.*?(\?>|\Z)", "", text[:20_000], flags=re.DOTALL)
    found = re.search(
        r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)", re.sub(r"<!DOCTYPE\s+[\w:.-]+", "", body, flags=re.IGNORECASE)
    )
    return found[1].lower() if found else ""


def safe_xml(text: str, name: str) -> bytes:
    """The feed as UTF-8 XML without DTD: harmless declared entities replaced, external ones dropped.

    Args:
        name: the feed for messages.
    Raises: Corrupt: its entities expand without end, or it has more markup than a parser takes in good time.
    """
    subset, text = _without_doctype(_NUMBER.sub(_character, text))
    declared = _declared_entities(subset, name)
    budget = [MAX_EXPANSION]

    def replaced(match: re.Match[str]) -> str:
        known = match[1]
        if known in declared:
            budget[0] -= len(declared[known])
            if budget[0] < 0:
                raise Corrupt(
                    f"{name} declares entities that expand to more than {MAX_EXPANSION:,} characters; it was refused"
                )
            return declared[known]
        if known in _XML_OWN:
            return match[0]
        character = html.unescape(match[0])
        return character if character != match[0] else f"&amp;{known};"

    text = re.sub(r"<!\[CDATA\[\s*<!\[CDATA\[", "<![CDATA[", text)
    text = re.sub(r"\]\]>\s*\]\]>", "]]>", text)
    # A guid counts as an address unless it says otherwise; one that is none would be resolved into one.
    text = _BARE_GUID.sub('<guid isPermaLink="false">', text)
    pieces = _OPAQUE.split(text)
    for i in range(0, len(pieces), 2):
        piece = re.sub(r"&lt;!\[CDATA\[|\]\]&gt;", "", pieces[i])  # CDATA escaped once too often
        pieces[i] = _REFERENCE.sub(replaced, piece)
    if excess := excess_of(" ".join(pieces[::2])):
        raise Corrupt(f"{name} has {excess}; it was refused")
    body = "".join(pieces)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + body.encode("utf-8", "replace")


def _character(found: re.Match[str]) -> str:
    """The reference as it is, or the replacement character where it names none: parsers end at such a number."""
    digits = (found[1] or found[2]).lstrip("0")
    number = int(digits or "0", 16 if found[1] else 10) if len(digits) < 9 else -1
    is_one = 0x20 <= number < 0xD800 or 0xE000 <= number < 0xFFFE or 0x10000 <= number < 0x110000
    return found[0] if is_one or number in (9, 10, 13) else "\ufffd"


def _without_doctype(text: str) -> tuple[str, str]:
    """(internal subset, text without the DOCTYPE)."""
    found = re.search(r"<!DOCTYPE\b", text[:20_000], re.IGNORECASE)
    if not found:
        return "", text
    position, opened = found.end(), -1
    token = re.compile(r"<!--.*?(?:-->|\Z)|\"[^\"]*\"|'[^']*'|[\[\]>]", re.DOTALL)
    while piece := token.search(text, position):
        position = piece.end()
        if piece[0] == "[" and opened < 0:
            opened = position
        elif piece[0] == ">" and opened < 0:
            return "", text[: found.start()] + text[position:]
        elif piece[0] == "]" and opened >= 0:
            close = text.find(">", position)
            rest = text[close + 1 :] if close >= 0 else ""
            return text[opened : piece.start()], text[: found.start()] + rest
    return "", text[: found.start()]


def _declared_entities(subset: str, name: str) -> dict[str, str]:
    """Replacement text of each declared entity; an external one is replaced by nothing."""
    raw: dict[str, str] = {}
    for found in _ENTITY.finditer(re.sub(r"<!--.*?(?:-->|\Z)", "", subset, flags=re.DOTALL)):
        if not found[1]:
            raw.setdefault(found[2], "" if found[3] else found[4] or found[5] or "")
    expanded: dict[str, str] = {}

    def expand(key: str, below: tuple[str, ...]) -> str:
        if key in below or len(below) > 20:
            raise Corrupt(f"{name} declares entities that contain themselves; it was refused")
        if key not in expanded:
            parts = _REFERENCE.split(raw[key])
            for i in range(1, len(parts), 2):
                parts[i] = expand(parts[i], (*below, key)) if parts[i] in raw else f"&{parts[i]};"
            value = "".join(parts)
            if len(value) > MAX_EXPANSION // 10:
                raise Corrupt(f"{name} declares entities that expand to huge texts (an entity bomb); it was refused")
            expanded[key] = value
        return expanded[key]

    return {key: expand(key, ()) for key in raw}
