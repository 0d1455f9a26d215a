"""Office files of 1997 to 2003, from records built by hand."""

import struct

import pytest

from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.legacy_slides import read_stream
from kb_pipeline.stages.normalize.legacy_word import add_text, document_text


def word_streams(pieces: list[tuple[str, bool]]) -> tuple[bytes, bytes]:
    """(WordDocument, table) of a document whose pieces are stored in one or two bytes a character."""
    main, ends, descriptors = bytearray(2048), [0], b""
    for text, is_wide in pieces:
        start = len(main)
        main += text.encode("utf-16-le" if is_wide else "cp1252")
        ends.append(ends[-1] + len(text))
        descriptors += struct.pack("<HIH", 0, start if is_wide else start * 2 | 0x40000000, 0)
    plcpcd = struct.pack(f"<{len(ends)}I", *ends) + descriptors
    clx = b"\x01" + struct.pack("<H", 3) + b"abc" + b"\x02" + struct.pack("<I", len(plcpcd)) + plcpcd
    struct.pack_into("<II", main, 0x01A2, 5, len(clx))
    return bytes(main), b"-----" + clx


def test_word_pieces_are_joined_in_logical_order_in_both_widths():
    main, table = word_streams([("Größe “40”\r", False), ("札幌 Łeba\r", True)])
    assert document_text(main, table) == "Größe “40”\r札幌 Łeba\r"


def test_a_word_document_without_a_piece_table_is_an_error():
    with pytest.raises(ValueError, match="no piece table"):
        document_text(bytes(2048), b"")


def test_word_cells_become_rows_and_paragraphs_blocks():
    blocks = Blocks()
    add_text(blocks, "before\rPart\x07Limit\x07\x07Gauge\x07hot\rcold\x07\x07after\x0bline\r")
    assert blocks.content().text == "before\n\nPart | Limit\nGauge | hot cold\n\nafter\nline"


def record(kind: int, body: bytes, instance: int = 0) -> bytes:
    return struct.pack("<HHI", instance << 4, kind, len(body)) + body


def text_record(kind: int, text: str, role: int) -> bytes:
    encoding = "utf-16-le" if kind == 0x0FA0 else "latin-1"
    return record(0x0F9F, struct.pack("<I", role)) + record(kind, text.encode(encoding))


def test_slides_take_outline_drawn_text_and_notes():
    outline = (
        record(0x03F3, b"")
        + text_record(0x0FA8, "First", 0)
        + text_record(0x0FA0, "Łeba\r札幌", 1)
        + record(0x03F3, b"")
        + text_record(0x0FA8, "Second", 0)
    )
    masters = record(0x0FF0, record(0x03F3, b"") + text_record(0x0FA8, "Click to edit", 0), instance=1)
    document = record(0x03E8, masters + record(0x0FF0, outline))
    drawn = record(0x03EE, record(0x040C, record(0xF002, record(0xF00D, text_record(0x0FA8, "boxed", 4)))))
    notes = record(0x03F0, record(0x040C, text_record(0x0FA8, "remember", 2)))
    found = read_stream(document + drawn + record(0x03EE, b"") + notes).content()
    assert found.text.split("\n\n") == ["First", "Łeba\n札幌", "boxed", "Second", "Notes: remember"]
    assert [(mark.kind, mark.label) for mark in found.marks] == [
        ("slide", "1"), ("heading", "First"), ("slide", "2"), ("heading", "Second"),
    ]  # fmt: skip


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_cut_stream_of_slides_never_hangs(cut):
    document = record(0x03E8, record(0x0FF0, record(0x03F3, b"") + text_record(0x0FA8, "First", 0)))
    read_stream(document[:cut]).content()
