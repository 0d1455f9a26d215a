"""Bytes to text when the declared charset may be missing or wrong. Pure; who declared it is the caller's business."""

import codecs
import re
from collections.abc import Iterable

_ALIASES = {  # what labels mean on the web, not in the standards
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "ms_kanji": "cp932",
    "windows-31j": "cp932",
    "x-euc-jp": "euc_jp",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "unicode": "utf-16",
}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE = ("cp932", "euc_jp", "gb18030", "big5hkscs", "cp949", "iso2022_jp")
_STRAY = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
_DETECT_BYTES = 100_000


def storable(text: str) -> str:
    """The text without NUL and lone surrogates, which stores and hashes cannot take."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def charset_of(content_type: str | None) -> str:
    """The charset parameter of a Content-Type value, "" where it has none."""
    found = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type or "", re.IGNORECASE)
    return found[1] if found else ""


def decode(data: bytes, declared: Iterable[str] = ()) -> str:
    """The text of `data`, whole: single damaged bytes never change how the others are read.

    Args:
        declared: charset names in order of trust; unknown names are passed over.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    names = [name for name in map(_codec, declared) if name]
    wide = _wide_without_bom(data)
    if wide:
        return data.decode(wide, "replace")
    if b"\x1b$" in data and data.isascii():
        return data.decode("iso2022_jp", "replace")
    text = data.decode("utf-8", "surrogateescape")
    stray = sum(1 for c in text if "\udc80" <= c <= "\udcff") if not data.isascii() else 0
    if not stray:
        return text
    if sum(1 for c in text if ord(c) > 127) - stray > stray:
        return text.translate(_STRAY)
    return _legacy(data, [name for name in names if not name.startswith("utf")])


def _legacy(data: bytes, names: list[str]) -> str:
    """Text in an old charset: a declared one that fits, else the likeliest."""
    for name in names:
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            text = data.decode(name, "replace")
            if text.count("\ufffd") > max(3, len(text) // 200):
                continue
        if name != "cp1252" or not _is_hardly_latin(data):
            return text
    import charset_normalizer  # slow to import, seldom needed

    best = charset_normalizer.from_bytes(_high_part(data)).best() if _is_hardly_latin(data) else None
    return data.decode(_codec(best.encoding) or "cp1252" if best else "cp1252", "replace")


def _codec(name: str) -> str:
    plain = name.strip().strip("\"'").lower()
    plain = _ALIASES.get(plain, plain)
    try:
        info = codecs.lookup(plain)
    except (LookupError, ValueError):
        return ""
    return info.name if info._is_text_encoding else ""


def _wide_without_bom(data: bytes) -> str:
    """UTF-16 or UTF-32 told from where the zero bytes of markup lie."""
    head = data[:4]
    shapes = {b"<\0\0\0": "utf-32-le", b"\0\0\0<": "utf-32-be"}
    if head in shapes:
        return shapes[head]
    if len(head) == 4 and head[:2] == b"<\0" and head[3] == 0:
        return "utf-16-le"
    if len(head) == 4 and head[0] == 0 and head[1:3] == b"<\0":
        return "utf-16-be"
    return ""


def _is_hardly_latin(data: bytes) -> bool:
    """True where bytes above ASCII mostly stand side by side, as accents of Latin text do not."""
    high = len(re.findall(rb"[\x80-\xff]", data))
    return high > 8 and len(re.findall(rb"[\x80-\xff](?=[\x80-\xff])|(?<=[\x80-\xff])[\x80-\xff]", data)) > 0.6 * high


def _high_part(data: bytes) -> bytes:
    """The lines that tell something about the charset, without markup, and not endless."""
    lines = [line for line in re.sub(rb"<[^>]{0,2000}>", b"\n", data).splitlines() if not line.isascii()]
    return b"\n".join(lines)[:_DETECT_BYTES]
