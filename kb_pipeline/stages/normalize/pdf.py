"""PDF by its text layer, page by page. Scans are refused here: reading pictures is not this stage's."""

import re
from typing import Any

from kb_pipeline.errors import AuthFailed, Corrupt, TooLarge, Unsupported
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits

_BROKEN_WORD = re.compile(r"(?:[\ufffe\x02]|(?<=[^\W\d_])[-\u2010\xad])\n(?=[^\W\d_])")
_TURNED = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
_SENTENCE_END = (".", "!", "?", ":", "。", "！", "？", "؟")


def read_pdf(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Each page's text in reading order with a page mark; pages that cannot be read become warnings.

    Raises: AuthFailed: password. Unsupported: no text layer. TooLarge: too many pages. Corrupt.
    """
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(content)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise AuthFailed(f"{name}: protected by a password; remove it and sync again") from error
        raise Corrupt(f"{name}: damaged PDF ({error})") from error
    try:
        if len(document) > limits.max_pages:
            raise TooLarge(f"{name}: too large, {len(document):,} pages (at most {limits.max_pages:,})")
        blocks = Blocks()
        blocks.title = document.get_metadata_value("Title")
        blocks.author = document.get_metadata_value("Author") or None
        blank, broken = _add_pages(blocks, document)
        _report(blocks, name, len(document), blank, broken)
        if b"%%EOF" not in content[-2048:]:
            blocks.warnings.append(f"{name}: the file ends early; pages at its end may be missing")
            blocks.is_partial = True
        return blocks
    finally:
        document.close()


def _add_pages(blocks: Blocks, document: Any) -> tuple[list[int], list[int]]:
    """(pages without text but with something drawn, pages that could not be read), from 1."""
    import pypdfium2 as pdfium

    blank: list[int] = []
    broken: list[int] = []
    for number in range(1, len(document) + 1):
        try:
            page = document[number - 1]
            text_page = page.get_textpage()
            text = _logical(text_page, text_page.get_text_bounded())
            has_drawing = bool(text.strip()) or next(page.get_objects(max_depth=1), None) is not None
            text_page.close()
            page.close()
        except pdfium.PdfiumError:
            broken.append(number)
            continue
        if has_drawing and not text.strip():
            blank.append(number)
        blocks.place("page", str(number))
        for paragraph in paragraphs(text):
            blocks.add(paragraph)
    return blank, broken


def _logical(text_page: Any, text: str) -> str:
    """The page's text with Arabic lam-alef ligatures in reading order.

    PDFium turns right-to-left runs around, and with them the two letters of a ligature, which then reads "alef lam".
    The letters of one glyph share its origin: by that the wrong pairs are told from the article "al".
    """
    if not _TURNED.search(text):
        return text
    import ctypes

    import pypdfium2.raw as raw

    x, y = ctypes.c_double(), ctypes.c_double()
    letters: list[str] = []
    origins: list[tuple[float, float]] = []
    for idx in range(text_page.count_chars()):
        letters.append(chr(raw.FPDFText_GetUnicode(text_page, idx) or 0x20))
        raw.FPDFText_GetCharOrigin(text_page, idx, x, y)
        origins.append((x.value, y.value))
        if idx and _TURNED.fullmatch("".join(letters[-2:])) and origins[-2] == origins[-1]:
            letters[-2:] = reversed(letters[-2:])
    return "".join(letters)


def _report(blocks: Blocks, name: str, pages: int, blank: list[int], broken: list[int]) -> None:
    if blocks.is_blank and broken:
        raise Corrupt(f"{name}: damaged PDF, none of its {pages} pages can be read")
    if blocks.is_blank:
        raise Unsupported(f"{name}: holds no text layer (a scan or pictures only); reading it needs OCR")
    if broken:
        blocks.warnings.append(f"{name}: damaged, not read: page {_spans(broken)}")
    if blank:
        blocks.warnings.append(f"{name}: without a text layer, reading needs OCR: page {_spans(blank)}")
    blocks.is_partial = bool(broken or blank)


def _spans(pages: list[int]) -> str:
    shown = ", ".join(map(str, pages[:20]))
    return shown if len(pages) <= 20 else f"{shown} and {len(pages) - 20} more"


def paragraphs(text: str) -> list[str]:
    """Lines of a page joined into paragraphs; words broken over a line end are whole again.

    A paragraph ends with a sentence on a line clearly shorter than the page's long lines.
    """
    text = _BROKEN_WORD.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    lines = [line.strip() for line in text.split("\n")]
    widths = sorted(len(line) for line in lines if line)
    if not widths:
        return []
    short = 0.8 * widths[int(0.8 * (len(widths) - 1))]
    found: list[str] = []
    current: list[str] = []
    for line in lines:
        if line:
            current.append(line)
        if current and (not line or (line.endswith(_SENTENCE_END) and len(line) < short)):
            found.append("\n".join(current))
            current = []
    return [*found, "\n".join(current)] if current else found
