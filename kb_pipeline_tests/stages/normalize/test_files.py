"""Each family of files: what must be in the text, where its places are, and what is refused how."""

import io
import json
import zipfile

import pytest

from kb_pipeline.errors import AuthFailed, Corrupt, TooLarge, UnitFailure, Unsupported
from kb_pipeline.records import RawItem
from kb_pipeline.stages.normalize import ParseLimits, normalize
from kb_pipeline.stages.normalize.tabular import delimiter_of
from kb_pipeline_tests.stages.normalize import made
from kb_pipeline_tests.stages.normalize.made import docx, paragraph, read, zipped

TABLE = "Station\tReading\tRemark\nŁeba\t12,5\tnaïve café\n札幌\t-4,0\t雪\n"


# --- the dispatch --------------------------------------------------------------------------------------------------


def test_the_type_comes_from_the_bytes_and_not_from_the_name():
    assert "hello page" in read(made.pdf([["hello page"]]), "notes.txt").text
    assert "words" in read(docx(paragraph("words")), "words.bin").text


@pytest.mark.parametrize("name", ["error.pdf", "error.docx", "error.xlsx", "error.epub"])
def test_a_web_page_saved_as_a_document_is_corrupt(name):
    with pytest.raises(Corrupt, match=rf"{name}.*web page"):
        read("<html><body>404 not found</body></html>", name)


@pytest.mark.parametrize(
    ("content", "name"),
    [(b"", "a.txt"), (b" \n\t ", "a.md"), (b"\xef\xbb\xbf", "a.csv"), (b"{}", "a.json"), (b"null", "n.json"),
     (b"", "a.docx"), (b"", "a.pdf"), (zipped({}), "a.zip"), (b"\0\0\0\0", "z.txt"), (b"[[],[null]]", "b.json")],
)  # fmt: skip
def test_an_empty_file_is_unsupported_and_named(content, name):
    with pytest.raises(Unsupported, match=f"^{name}: holds no text"):
        read(content, name)


def test_binary_data_is_refused_and_an_image_asks_for_ocr():
    with pytest.raises(Unsupported, match=r"a\.bin: binary data"):
        read(bytes(range(256)) * 8, "a.bin")
    with pytest.raises(Unsupported, match=r"a\.png.*OCR"):
        read(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100), "a.png")


def test_the_title_is_the_documents_own_then_the_first_heading_then_the_file_name():
    assert read("<html><head><title>Own</title></head><body><h1>H</h1><p>Some words.</p></body></html>", "a.html").title
    assert read("# First\n\ntext", "a.md").title == "First"
    assert read("text", "a.txt").title == "a.txt"


def test_what_the_source_said_is_kept_with_the_text():
    raw = RawItem(
        content=b"text", kind="file", file_name="a.txt", author="Ann", url="https://x.example/", metadata={"k": 1}
    )
    found = normalize(raw, ParseLimits())
    assert (found.author, found.url, found.metadata["k"]) == ("Ann", "https://x.example/", 1)


def test_a_file_over_the_cap_is_too_large():
    with pytest.raises(TooLarge, match=r"a\.txt: too large"):
        read("x" * 101, "a.txt", ParseLimits(max_bytes=100))


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8", "utf-8-sig"])
def test_a_spreadsheets_text_export_reads_in_any_unicode_encoding(encoding):
    text = read(TABLE.encode(encoding), "t.csv").text
    assert text.split("\n") == ["Station | Reading | Remark", "Łeba | 12,5 | naïve café", "札幌 | -4,0 | 雪"]


@pytest.mark.parametrize("delimiter", list(",;\t|"))
def test_the_delimiter_is_found_also_beside_commas_in_cells(delimiter):
    rows = [["a", "b", "c"], ["1,5", "x; y", "z|z"], ["2,5", "u", "v"]]
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in rows]
    assert delimiter_of(lines) == delimiter


def test_every_part_of_a_long_table_repeats_the_header():
    rows = "\n".join(f"name {i},value {i}" for i in range(300))
    blocks = read(f"Key,Amount\n{rows}", "t.csv").text.split("\n\n")
    assert len(blocks) > 5
    assert all(block.startswith("Key | Amount\n") and len(block) < 1000 for block in blocks)
    assert all(f"name {i} | value {i}" in "\n".join(blocks) for i in range(300))


def test_quoted_line_breaks_and_uneven_rows_lose_nothing():
    text = read('a,b\n"two\nlines",x\n1,2,3,4\n5\n', "t.csv").text
    assert text.split("\n") == ["a | b", "two lines | x", "1 | 2 | 3 | 4", "5"]


def test_a_workbook_reads_all_sheets_with_their_marks_and_comments():
    import openpyxl
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    book.active.title = "First"
    book.active.append(["Name", "Count"])
    book.active.append(["oars", 4.0])
    book.active["B2"].comment = Comment("two are spare", "Ann")
    hidden = book.create_sheet("Second")
    hidden.sheet_state = "hidden"
    hidden.append(["merged", None])
    hidden.merge_cells("A1:B1")
    found = read(made.saved(book), "b.xlsx")
    assert "Name | Count\noars | 4" in found.text
    assert "Comment on B2: two are spare" in found.text
    assert found.text.count("merged") == 1
    assert [mark.label for mark in found.marks if mark.kind == "sheet"] == ["First", "Second"]


# --- Word ----------------------------------------------------------------------------------------------------------


def test_word_reads_the_places_where_text_hides():
    nested = (
        "<w:tbl><w:tr><w:tc><w:p/></w:tc><w:tc><w:p/><w:tbl><w:tr><w:tc>{}</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>"
    )
    body = (
        "<w:sdt><w:sdtContent>" + paragraph("in a control") + "</w:sdtContent></w:sdt>"
        + nested.format(paragraph("nested cell"))
        + "<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        + "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
        + "<w:p><w:r><w:pict><v:textbox><w:txbxContent>" + paragraph("boxed")
        + "</w:txbxContent></v:textbox></w:pict></w:r></w:p>"
        + "<w:p><w:r><mc:AlternateContent><mc:Choice><w:t>once</w:t></mc:Choice>"
        + "<mc:Fallback><w:t>once</w:t></mc:Fallback>"
        + "</mc:AlternateContent></w:r></w:p>"
        + "<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val='2'/></w:tcPr>" + paragraph("wide") + "</w:tc></w:tr>"
        + "<w:tr><w:tc><w:tcPr><w:vMerge w:val='restart'/></w:tcPr>" + paragraph("tall") + "</w:tc></w:tr>"
        + "<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>" + paragraph("ghost") + "</w:tc></w:tr></w:tbl>"
    )  # fmt: skip

    def furnish(document):
        document.sections[0].header.paragraphs[0].text = "page header"
        table = document.sections[0].footer.add_table(1, 1, 100)
        table.cell(0, 0).text = "footer cell"

    text = read(docx(body, furnish), "d.docx").text
    for wanted in (
        "in a control",
        "nested cell",
        "inserted",
        "boxed",
        "once",
        "wide",
        "tall",
        "page header",
        "footer cell",
    ):
        assert text.count(wanted) == 1, wanted
    assert "deleted" not in text
    assert "ghost" not in text


def test_word_headings_carry_levels_and_lists_their_numbers():
    def furnish(document):
        document.add_heading("Top", 1)
        document.add_heading("Below", 2)
        for text in ("first", "second"):
            document.add_paragraph(text, style="List Number")
        document.add_paragraph("dot", style="List Bullet")

    found = read(docx("", furnish), "d.docx")
    assert [(mark.level, mark.label) for mark in found.marks] == [(1, "Top"), (2, "Below")]
    assert "1. first\n2. second\n- dot" in found.text


def test_word_formulas_read_as_one_line():
    run = "<m:r><m:t>{}</m:t></m:r>"
    body = (
        "<w:p><m:oMath><m:sSup><m:e>" + run.format("x") + "</m:e><m:sup>" + run.format("2") + "</m:sup></m:sSup>"
        "<m:f><m:num>" + run.format("a+b") + "</m:num><m:den>" + run.format("c") + "</m:den></m:f></m:oMath></w:p>"
    )
    assert read(docx(body), "d.docx").text == "x^2(a+b)/c"


def test_a_truncated_document_is_corrupt():
    whole = docx(paragraph("words"))
    with pytest.raises(Corrupt, match=r"^cut\.docx: damaged"):
        read(whole[: len(whole) // 2], "cut.docx")


# --- presentations -------------------------------------------------------------------------------------------------


def test_slides_read_groups_tables_and_notes_apart_from_each_other():
    import pptx
    from pptx.util import Inches

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Launch"
    outer = slide.shapes.add_group_shape()
    inner = outer.shapes.add_group_shape()
    inner.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "deep label"
    table = slide.shapes.add_table(1, 2, 0, 0, Inches(2), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Thole pins", "8"
    slide.notes_slide.notes_text_frame.text = "check the bung"
    hidden = deck.slides.add_slide(deck.slide_layouts[5])
    hidden.shapes.title.text = "Hidden one"
    hidden.element.set("show", "0")
    found = read(made.saved(deck), "deck.pptx")
    assert found.text.split("\n\n") == ["Launch", "deep label", "Thole pins | 8", "Notes: check the bung", "Hidden one"]
    assert [(mark.label, mark.start) for mark in found.marks if mark.kind == "slide"] == [
        ("1", 0),
        ("2", found.text.index("Hidden")),
    ]
    assert any("slide 2 is hidden" in warning for warning in found.warnings)


def test_a_chart_of_any_type_reads_as_a_table():
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["2019", "2020"]
    data.add_series("Ducks", (120, 130))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 100, 100, data)
    plot = next(slide.shapes[0].chart._chartSpace.iter("{*}barChart"))
    plot.tag = plot.tag.replace("barChart", "bar3DChart")  # a type that python-pptx knows no plot for
    assert "2019 | 120" in read(made.saved(deck), "c.pptx").text


# --- PDF -----------------------------------------------------------------------------------------------------------


def test_pdf_pages_are_marked_and_broken_words_joined():
    found = read(made.pdf([["A long exam-", "ple of a line."], ["Second page."]]), "p.pdf")
    assert "example of a line." in found.text
    pages = [(mark.label, found.text[mark.start :][:6]) for mark in found.marks if mark.kind == "page"]
    assert pages == [("1", "A long"), ("2", "Second")]
    assert not found.is_partial


def test_a_pdf_without_a_text_layer_asks_for_ocr_and_one_with_some_is_partial():
    with pytest.raises(Unsupported, match=r"scan\.pdf.*OCR"):
        read(made.pdf([[], []]), "scan.pdf")
    found = read(made.pdf([["words"], []]), "half.pdf")
    assert found.is_partial
    assert any("half.pdf" in warning and "page 2" in warning for warning in found.warnings)


def test_a_protected_pdf_asks_for_its_password():
    with pytest.raises(AuthFailed, match=r"locked\.pdf.*password"):
        read(made.pdf([["secret"]], encrypt=True), "locked.pdf")


def test_a_pdf_with_too_many_pages_is_too_large():
    with pytest.raises(TooLarge, match=r"p\.pdf: too large, 3 pages"):
        read(made.pdf([["a"], ["b"], ["c"]]), "p.pdf", ParseLimits(max_pages=2))


# --- mail ----------------------------------------------------------------------------------------------------------

MAIL = """From: =?utf-8?q?K=C3=A4the?= <k@plant.example>
To: w@plant.example
Subject: =?utf-8?q?=C3=9Cberholung_der?=
 =?utf-8?q?_Pumpe?=
Date: Wed, 05 Mar 2025 10:00:00 +0100
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=B

--B
Content-Type: multipart/alternative; boundary=C

--C
Content-Type: text/plain; charset=not-a-charset
Content-Transfer-Encoding: quoted-printable

Gr=F6=DFe 40 bestellen
--C
Content-Type: text/html

<p>Gr&ouml;&szlig;e 40 bestellen</p>
--C--
--B
Content-Type: message/rfc822

From: s@plant.example
Subject: inner

The spare pump leaves.
--B
Content-Type: application/octet-stream; name="data.csv"
Content-Disposition: attachment; filename="data.csv"

tag,qty
PX,2
--B
Content-Type: image/png
Content-Disposition: attachment; filename="photo.png"
Content-Transfer-Encoding: base64

iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ
--B--
"""


@pytest.mark.parametrize("name", ["m.eml", "no-extension"])
def test_a_mail_reads_its_body_once_its_inner_mail_and_its_attachments(name):
    found = read(MAIL, name)
    assert found.title == "Überholung der Pumpe"
    assert found.author.startswith("Käthe")
    assert found.published_at.isoformat() == "2025-03-05T09:00:00+00:00"
    assert found.text.count("Größe 40 bestellen") == 1
    assert "The spare pump leaves." in found.text
    assert "tag | qty\nPX | 2" in found.text
    assert any("photo.png" in warning and "OCR" in warning for warning in found.warnings)


def test_mails_nested_without_end_are_too_large():
    mail = "Subject: x\n\nend"
    for _ in range(10):
        mail = f"From: a@x.example\nMIME-Version: 1.0\nContent-Type: message/rfc822\n\n{mail}"
    with pytest.raises(TooLarge, match=r"m\.eml.*nesting"):
        read(mail, "m.eml")


# --- e-books, OpenDocument, prose ----------------------------------------------------------------------------------


def test_a_book_is_read_in_the_order_of_its_spine_without_its_contents_page():
    page = "<html><head><title>x</title></head><body><h1>{0}</h1><p>Text of {0}.&nbsp;</p></body></html>"
    book = made.epub(
        {n: page.format(n) for n in ("b.xhtml", "a.xhtml", "c.xhtml")},
        ["a.xhtml", "b.xhtml", "c.xhtml"],
        nav="nav.xhtml",
    )
    found = read(book, "book.epub")
    assert [mark.label for mark in found.marks] == ["a.xhtml", "b.xhtml", "c.xhtml"]
    assert (found.title, found.author) == ("The Book", "Ann")


def test_a_damaged_chapter_is_a_warning_and_the_others_stay():
    book = bytearray(
        made.epub({"a.xhtml": "<p>first words</p>", "b.xhtml": "<p>second words</p>" * 9}, ["a.xhtml", "b.xhtml"])
    )
    with zipfile.ZipFile(io.BytesIO(bytes(book))) as archive:
        info = archive.getinfo("OEBPS/b.xhtml")
    book[info.header_offset + 30 + len(info.filename) + 3] ^= 0xFF
    found = read(bytes(book), "book.epub")
    assert "first words" in found.text
    assert found.is_partial
    assert any("b.xhtml" in warning for warning in found.warnings)


def test_open_document_text_reads_lists_tables_notes_and_skips_deletions():
    body = (
        "<text:tracked-changes><text:p>deleted words</text:p></text:tracked-changes>"
        "<text:h text:outline-level='2'>Head</text:h><text:p>one<text:s text:c='2'/>two<text:note><text:note-body>"
        "<text:p>a note</text:p></text:note-body></text:note></text:p>"
        "<text:list><text:list-item><text:p>point</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>cell</text:p></table:table-cell><table:covered-table-cell/>"
        "<table:table-cell table:number-columns-repeated='16000'/></table:table-row></table:table>"
    )
    found = read(made.odt(body), "t.odt")
    assert found.text.split("\n\n") == ["Head", "one  two", "Note: a note", "- point", "cell"]
    assert [(mark.level, mark.label) for mark in found.marks] == [(2, "Head")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.rtf", r"{\rtf1\ansi Title\par na\'efve caf\u233?\par}"),
        ("a.rst", "Title\n=====\n\nnaïve café\n"),
        ("a.org", "* Title\n\nnaïve café\n"),
        ("a.adoc", "= Title\n\nnaïve café\n"),
        ("a.tex", "\\section{Title}\n\nnaïve café\n"),
    ],
)
def test_prose_formats_read_whole(name, content):
    text = read(content, name).text
    assert "Title" in text
    assert "naïve" in text
    assert "café" in text


# --- structured ----------------------------------------------------------------------------------------------------


def test_json_keeps_names_with_values():
    text = read(json.dumps({"pump": {"id": "PX-44", "sizes": [1, 2]}, "ok": True, "none": None}), "a.json").text
    assert text == "pump.id: PX-44\npump.sizes: 1, 2\nok: true"


def test_json_lines_leave_out_a_bad_line_with_a_warning():
    found = read('{"a": 1}\n{bad\n{"a": 2}\n', "a.ndjson")
    assert found.text == "a: 1\n\na: 2"
    assert "line 2" in found.warnings[0]


def test_nesting_without_end_is_too_large():
    with pytest.raises(TooLarge, match=r"deep\.json.*nest"):
        read("[" * 100_000 + "]" * 100_000, "deep.json")
    with pytest.raises(TooLarge, match=r"deep\.json.*nest"):
        read("[" * 300 + "1" + "]" * 300, "deep.json")
    with pytest.raises(TooLarge, match=r"deep\.xml.*nest"):
        read("<part>" * 600 + "x" + "</part>" * 600, "deep.xml")


def test_a_notebook_reads_prose_code_and_results():
    cells = [
        {"cell_type": "markdown", "source": ["# Study\n", "prose"]},
        {"cell_type": "code", "source": "1+1", "outputs": [{"data": {"text/plain": ["2"]}}]},
    ]
    found = read(json.dumps({"cells": cells, "metadata": {}}), "n.ipynb")
    assert found.text == "Study\n\nprose\n\n```python\n1+1\n```\n\n2"
    assert found.title == "Study"


def test_captions_read_as_speech():
    cues = "1\n00:01.000 --> 00:02.000\n<v Ann>Hello\nthere</v>\n\n00:02.000 --> 00:03.000\n<v Bo>Hi.</v>\n"
    assert read(f"WEBVTT\n\nNOTE skip\n\n{cues}", "c.vtt").text == "Ann: Hello there\n\nBo: Hi."


def test_xml_sections_become_headings_and_its_entities_are_named_ones_only():
    source = "<!DOCTYPE a SYSTEM 'x.dtd'><a><sec><title>Part</title><p>H<sub>2</sub>O &mdash; wet</p></sec></a>"
    found = read(source, "a.xml")
    assert found.text == "Part\n\nH2O — wet"
    assert found.marks[0].label == "Part"


# --- attacks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">',
        '<!ENTITY x SYSTEM "file:///etc/passwd">',
        '<!ENTITY % p SYSTEM "http://127.0.0.1/x">',
    ],
)
def test_declared_entities_are_refused_in_xml_and_inside_office_files(declaration):
    source = f"<?xml version='1.0'?><!DOCTYPE r [{declaration}]><r>&a;</r>"
    with pytest.raises(Corrupt, match=r"bomb\.xml"):
        read(source, "bomb.xml")
    members = {"[Content_Types].xml": source, "word/document.xml": source}
    with pytest.raises(Corrupt, match=r"bomb\.docx.*declares entities"):
        read(zipped(members), "bomb.docx")


def test_a_small_archive_that_unpacks_to_much_is_too_large_by_size_and_by_ratio():
    bomb = zipped({"[Content_Types].xml": "<x/>", "word/document.xml": b"\0" * 30_000_000})
    assert len(bomb) < 60_000
    with pytest.raises(TooLarge, match=r"big\.docx.*large"):
        read(bomb, "big.docx")
    with pytest.raises(TooLarge, match=r"big\.zip.*large"):
        read(
            zipped({f"{i}.txt": b"word " * 100_000 for i in range(3)}),
            "big.zip",
            ParseLimits(max_expanded_bytes=1_000_000),
        )


def test_an_archive_that_lies_about_its_sizes_is_stopped_while_it_is_read():
    honest = zipped({"a.txt": b"x" * 2_000_000})
    size = (2_000_000).to_bytes(4, "little")
    with pytest.raises(UnitFailure, match=r"liar\.zip"):
        read(honest.replace(size, (10).to_bytes(4, "little")), r"liar.zip", ParseLimits(max_expanded_bytes=1_000_000))


def test_archive_members_are_read_in_memory_whatever_their_path_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = read(zipped({"../../evil.txt": "evil words", "/abs.txt": "abs words", "ok/a.csv": "k,v\na,1"}), "z.zip")
    assert all(words in found.text for words in ("evil words", "abs words", "k | v\na | 1"))
    assert list(tmp_path.iterdir()) == []
    assert not (tmp_path.parent.parent / "evil.txt").exists()


def test_archives_in_archives_end_at_the_nesting_cap():
    inner = zipped({"a.txt": "innermost words"})
    for _ in range(8):
        inner = zipped({"in.zip": inner, "b.txt": "words at a level"})
    found = read(inner, "z.zip")
    assert "words at a level" in found.text
    assert "innermost" not in found.text
    assert any("nesting" in warning for warning in found.warnings)


def test_a_password_protected_archive_says_so():
    locked = bytearray(zipped({"a.txt": "x"}))
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(AuthFailed, match=r"a\.zip.*password"):
        read(bytes(locked), "a.zip")
