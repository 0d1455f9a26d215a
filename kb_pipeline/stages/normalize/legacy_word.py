"""Old Word documents (.doc, Word 97 to 2003), by their piece table.

Layout: [MS-DOC] 2.4.1 Retrieving Text, 2.5.1 Fib, 2.9.38 Clx.
"""

import re
import struct
from typing import Any

from kb_pipeline.errors import AuthFailed
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits, stream_of

_FIB_MAGIC = 0xA5EC
_ENCRYPTED, _TABLE_1 = 0x0100, 0x0200
_CLX_AT = 0x01A2
_FIELD = re.compile(r"\x13[^\x13\x14\x15]*(?:\x14([^\x13\x14\x15]*))?\x15")
_CELL = "\x07"


def read_doc(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Body, then notes, comments, headers and text boxes in the order of the file; tables by rows.

    Raises: AuthFailed: password. Other damage as ValueError or struct.error.
    """
    import olefile

    with olefile.OleFileIO(stream_of(content)) as ole:
        main = ole.openstream("WordDocument").read()
        magic, flags = struct.unpack_from("<H", main, 0)[0], struct.unpack_from("<H", main, 10)[0]
        if magic != _FIB_MAGIC:
            raise ValueError("older than Word 97")
        if flags & _ENCRYPTED:
            raise AuthFailed(f"{name}: protected by a password; remove it and sync again")
        table = ole.openstream("1Table" if flags & _TABLE_1 else "0Table").read()
        blocks = Blocks()
        _add_properties(blocks, ole)
    text = document_text(main, table)
    while (plain := _FIELD.sub(lambda field: field[1] or "", text)) != text:
        text = plain
    add_text(blocks, text)
    return blocks


def _add_properties(blocks: Blocks, ole: Any) -> None:
    found = ole.get_metadata()
    codepage = found.codepage if isinstance(found.codepage, int) and found.codepage > 0 else 1252
    encoding = "utf-8" if codepage == 65001 else f"cp{codepage}"

    def shown(value: object) -> str:
        try:
            return value.decode(encoding, "replace") if isinstance(value, bytes) else ""
        except LookupError:
            return value.decode("cp1252", "replace") if isinstance(value, bytes) else ""

    blocks.title, blocks.author = shown(found.title), shown(found.author) or None


def document_text(main: bytes, table: bytes) -> str:
    """All characters of the document in logical order, by the piece table."""
    offset, size = struct.unpack_from("<II", main, _CLX_AT)
    clx = table[offset : offset + size]
    at = 0
    while at < len(clx) and clx[at] == 1:  # property modifiers come first
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    if at >= len(clx) or clx[at] != 2:
        raise ValueError("no piece table")
    length = struct.unpack_from("<I", clx, at + 1)[0]
    pieces = clx[at + 5 : at + 5 + length]
    count = (length - 4) // 12
    ends = struct.unpack_from(f"<{count + 1}I", pieces, 0)
    parts: list[str] = []
    for idx in range(count):
        position = struct.unpack_from("<I", pieces, 4 * (count + 1) + 8 * idx + 2)[0]
        characters = ends[idx + 1] - ends[idx]
        if position & 0x40000000:  # one byte a character
            start = (position & 0x3FFFFFFF) // 2
            parts.append(main[start : start + characters].decode("cp1252", "replace"))
        else:
            parts.append(main[position : position + 2 * characters].decode("utf-16-le", "replace"))
    return "".join(parts)


def add_text(blocks: Blocks, text: str) -> None:
    """Paragraphs end with CR, cells with BEL; a row ends with an empty cell."""
    text = re.sub(r"[\x01\x02\x05\x08\x15]", "", text).replace("\x1e", "-").replace("\x1f", "")
    rows: list[list[str]] = []
    cells: list[str] = []
    pending: list[str] = []
    for piece, end in re.findall(r"([^\r\x07\x0c]*)([\r\x07\x0c])", text + "\r"):
        if end == _CELL:
            content = "\n".join([*pending, piece])
            pending = []
            if not content and cells:
                rows.append(cells)
                cells = []
            else:
                cells.append(content)
            continue
        if cells:  # a paragraph inside a cell
            pending.append(piece)
            continue
        blocks.table(rows)
        rows = []
        blocks.add(piece.replace("\x0b", "\n"))
    if cells:
        rows.append(cells)
    blocks.table(rows)
    for piece in pending:
        blocks.add(piece)
