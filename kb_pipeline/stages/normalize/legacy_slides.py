"""Old presentations (.ppt, PowerPoint 97 to 2003), by their record tree.

Layout: [MS-PPT] 2.3.1 RecordHeader, 2.4.14.3 SlideListWithTextContainer, 2.9 text records.
"""

import struct
from collections.abc import Iterator

from kb_pipeline.errors import AuthFailed
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits, stream_of

_DOCUMENT, _SLIDE, _NOTES = 0x03E8, 0x03EE, 0x03F0
_SLIDE_LIST, _SLIDE_AT = 0x0FF0, 0x03F3
_TEXT_HEADER, _WIDE, _NARROW = 0x0F9F, 0x0FA0, 0x0FA8
_TITLE_TYPES = (0, 6)
_DEPTH = 64
Record = tuple[int, int, bytes]


def read_ppt(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Outline text slide by slide, with the text of boxes drawn on each slide, then the notes.

    Raises: AuthFailed: password. Other damage as ValueError or struct.error.
    """
    import olefile

    with olefile.OleFileIO(stream_of(content)) as ole:
        if ole.exists("EncryptedSummary"):
            raise AuthFailed(f"{name}: protected by a password; remove it and sync again")
        return read_stream(ole.openstream("PowerPoint Document").read())


def read_stream(stream: bytes) -> Blocks:
    """The slides of a `PowerPoint Document` stream."""
    top = list(_records(stream))
    drawn = [list(_texts(body, 0)) for kind, _, body in top if kind == _SLIDE]
    notes = [list(_texts(body, 0)) for kind, _, body in top if kind == _NOTES]
    outline = next((list(_outline(body)) for kind, _, body in reversed(top) if kind == _DOCUMENT), [])
    blocks = Blocks()
    for number in range(1, max(len(outline), len(drawn)) + 1):
        blocks.place("slide", str(number))
        own = outline[number - 1] if number <= len(outline) else []
        for is_title, text in own:
            blocks.heading(text, 1) if is_title else blocks.add(text)
        known = {text for _, text in own}
        for is_title, text in drawn[number - 1] if number <= len(drawn) else []:
            if text not in known:
                blocks.heading(text, 1) if is_title else blocks.add(text)
    for texts in notes:
        blocks.add("\n".join(f"Notes: {text}" for _, text in texts if len(text.strip()) > 1))
    return blocks


def _records(data: bytes) -> Iterator[Record]:
    """(type, instance, body) of the records that lie side by side in `data`."""
    at = 0
    while at + 8 <= len(data):
        version, kind, length = struct.unpack_from("<HHI", data, at)
        yield kind, version >> 4, data[at + 8 : at + 8 + length]
        at += 8 + length


def _is_container(kind: int) -> bool:
    return kind in (_DOCUMENT, _SLIDE, _NOTES, _SLIDE_LIST) or kind in (0x040C, 0xF002, 0xF003, 0xF004, 0xF00D)


def _texts(data: bytes, depth: int) -> Iterator[tuple[bool, str]]:
    """(is a title, text) of all text records below; the header record before a text tells its role."""
    if depth > _DEPTH:
        return
    is_title = False
    for kind, _, body in _records(data):
        if kind == _TEXT_HEADER and len(body) >= 4:
            is_title = struct.unpack_from("<I", body, 0)[0] in _TITLE_TYPES
        elif kind in (_WIDE, _NARROW):
            text = (
                body.decode("utf-16-le" if kind == _WIDE else "latin-1", "replace")
                .replace("\r", "\n")
                .replace("\x0b", "\n")
            )
            if text.strip(" \n*"):
                yield is_title, text.strip()
        elif _is_container(kind):
            yield from _texts(body, depth + 1)


def _outline(document: bytes) -> Iterator[list[tuple[bool, str]]]:
    """Texts of each slide of the document's slide list (instance 0; 1 and 2 are masters and notes)."""
    for kind, instance, body in _records(document):
        if kind != _SLIDE_LIST or instance != 0:
            continue
        slide: list[bytes] = []
        started = False
        for start, inner in _spans(body):
            if inner == _SLIDE_AT:
                if started:
                    yield list(_texts(b"".join(slide), 0))
                started, slide = True, []
            else:
                slide.append(start)
        if started:
            yield list(_texts(b"".join(slide), 0))


def _spans(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Each record with its header, and its type."""
    at = 0
    while at + 8 <= len(data):
        _, kind, length = struct.unpack_from("<HHI", data, at)
        yield data[at : at + 8 + length], kind
        at += 8 + length
