"""Bytes to clean text: encodings and control characters."""

import codecs
import re

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "\x1b\\[[0-9;?]*[A-Za-z]|[\0-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\ufffe\uffff]"
)
"""Terminal colours, control and zero-width characters."""
_SPACES = re.compile("[\xa0\u2007\u202f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH = re.compile(rb"[\x80-\xff]")
_UTF8_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def clean(text: str) -> str:
    """Text without NUL, control and zero-width characters, lone surrogates or odd line ends; nothing else is lost.

    Zero-width joiners stay: emoji, Persian and Indic scripts are spelled with them.
    """
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _SPACES.sub(" ", _UNSEEN.sub("", _LINE_ENDS.sub("\n", text)))


def decode(content: bytes) -> str:
    """Text of bytes in an unknown encoding; never fails, and never drops a byte that could be a letter."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if bare := utf16_without_mark(content):
        return content.decode(bare, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    high = len(_HIGH.findall(content))
    inside = sum(len(found) for found in _UTF8_CHARACTER.findall(content))
    japanese = _japanese(content)  # first: some of its byte pairs pass for UTF-8
    if japanese is not None:
        return japanese
    if inside * 2 > high:  # mostly UTF-8 with stray bytes: pasted together from two encodings
        return content.decode("utf-8", "cp1252_bytes")
    return _legacy(content, high)


def utf16_without_mark(content: bytes) -> str | None:
    """The UTF-16 encoding that the places of zero bytes give away; None where they do not."""
    sample = content[:4096]
    even, odd, half = sample[::2].count(0), sample[1::2].count(0), max(1, len(sample) // 2)
    if len(sample) >= 8 and len(sample) % 2 == 0:
        if odd > 0.4 * half and even < 0.05 * half:
            return "utf-16-le"
        if even > 0.4 * half and odd < 0.05 * half:
            return "utf-16-be"
    return None


def _legacy(content: bytes, high: int) -> str:
    western = content.decode("cp1252", "cp1252_bytes")
    letters = sum(byte >= 0x80 or chr(byte).isalpha() for byte in content)
    if high < 0.3 * letters and not re.search(r"[^\W\d_][\xa1-\xbf][^\W\d_]", western):
        return western
    from charset_normalizer import from_bytes

    best = from_bytes(content[:200_000]).best()
    return western if best is None else content.decode(best.encoding, "replace")


def _japanese(content: bytes) -> str | None:
    """Kana are sure evidence, also in texts too short for statistics."""
    for encoding in ("cp932", "euc_jp"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        kana = len(re.findall(r"[\u3041-\u30fc]", text))
        wide = len(re.findall(r"[^\x00-\x7f]", text))
        if kana and kana + len(re.findall(r"[\u3000-\u303f\u4e00-\u9fff\uff01-\uff5e]", text)) > 0.9 * wide:
            return text
    return None


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(bytes([b]).decode("cp1252") if b not in _UNUSED else "\ufffd" for b in bad), error.end


_UNUSED = frozenset(b"\x81\x8d\x8f\x90\x9d")
codecs.register_error("cp1252_bytes", _as_cp1252)
