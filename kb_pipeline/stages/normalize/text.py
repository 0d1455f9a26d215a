"""Bytes to clean text: encodings, control characters, and plain text and Markdown as documents."""

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb_pipeline.stages.normalize.blocks import Blocks

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
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


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


def add_plain(blocks: "Blocks", text: str) -> None:
    """Plain text as it stands: its own line breaks and blank lines are kept."""
    blocks.add(text)


def add_markdown(blocks: "Blocks", text: str) -> None:
    """Markdown as written, with a mark at each heading outside of code; front matter gives only the title."""
    lines = clean(text).split("\n")
    start = _front_matter(blocks, lines)
    fence = ""
    section: list[str] = []
    for idx, line in enumerate(lines[start:], start):
        if found := _FENCE.match(line):
            fence = "" if fence and line.strip().startswith(fence) else fence or found[1]
        heading = None if fence else _ATX.match(line)
        level = _setext_level(lines, idx) if not fence and not heading else 0
        if not heading and not level:
            section.append(line)
            continue
        if level:  # the line before is the heading's text
            section.pop()
        blocks.add("\n".join(section))
        section = []
        blocks.heading(heading[2] if heading else lines[idx - 1], len(heading[1]) if heading else level)
    blocks.add("\n".join(section))


def _setext_level(lines: list[str], idx: int) -> int:
    """1 or 2 where this line underlines a heading, else 0."""
    if idx == 0 or not re.fullmatch(r" {0,3}(=+|-{2,})[ \t]*", lines[idx]):
        return 0
    above = lines[idx - 1].strip()
    lone = idx == 1 or not lines[idx - 2].strip()
    if not above or not lone or above.startswith(("#", "|", "-", "*", ">", "```", "~~~")) or set(above) <= {"=", "-"}:
        return 0
    return 1 if "=" in lines[idx] else 2


def _front_matter(blocks: "Blocks", lines: list[str]) -> int:
    """Index of the first line after YAML front matter; 0 where there is none."""
    if not lines or lines[0].strip() != "---":
        return 0
    end = next((i for i, line in enumerate(lines[1:60], 1) if line.strip() == "---"), 0)
    fields = lines[1:end]
    if not end or not any(re.match(r"\w[\w-]*:", line) for line in fields):
        return 0
    for line in fields:
        if found := re.match(r"title:\s*(.+)", line):
            blocks.title = found[1].strip().strip("\"'")
    return end + 1
