"""Small files of each family, made in memory for the tests."""

import io
import zipfile

from kb_pipeline.records import NormalizedContent, RawItem
from kb_pipeline.stages.normalize import ParseLimits, normalize

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def read(content: bytes | str, name: str, limits: ParseLimits | None = None, kind="file") -> NormalizedContent:
    data = content.encode() if isinstance(content, str) else content
    found = normalize(RawItem(content=data, kind=kind, file_name=name), limits or ParseLimits())
    for mark in found.marks:
        assert 0 <= mark.start < len(found.text)
        if mark.kind == "heading":
            assert found.text[mark.start :].startswith(mark.label)
    assert [mark.start for mark in found.marks] == sorted(mark.start for mark in found.marks)
    assert found.text == found.text.strip("\n")
    return found


def zipped(members: dict[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def docx(body: str, before=None) -> bytes:
    """A Word document whose body holds the given XML; `before` may change it through python-docx first."""
    import docx as library
    from docx.oxml import parse_xml

    document = library.Document()
    document.core_properties.title = ""
    document.core_properties.author = ""
    if before:
        before(document)
    namespaces = (
        f"{W} xmlns:v='urn:schemas-microsoft-com:vml' "
        "xmlns:mc='http://schemas.openxmlformats.org/markup-compatibility/2006' "
        "xmlns:m='http://schemas.openxmlformats.org/officeDocument/2006/math'"
    )
    holder = parse_xml(f"<w:body {namespaces}>{body}</w:body>")
    for element in list(holder):
        document.element.body.insert(len(document.element.body) - 1, element)
    return saved(document)


def saved(thing) -> bytes:
    out = io.BytesIO()
    thing.save(out)
    return out.getvalue()


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space='preserve'>{text}</w:t></w:r></w:p>"


def pdf(pages: list[list[str]], encrypt: bool = False) -> bytes:
    """A PDF with one Helvetica line per string; a page without lines holds a drawn rectangle only."""
    objects: list[bytes] = [b"", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        drawn = "".join(f"BT /F1 12 Tf 50 {700 - 20 * i} Td ({line}) Tj ET\n" for i, line in enumerate(lines))
        stream = (drawn or "10 10 100 100 re f\n").encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out = io.BytesIO(b"")
    out.write(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out.write(b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows))
    security = (
        b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >> /ID [<00> <00>]" % (b"11" * 32, b"22" * 32)
        if encrypt
        else b""
    )
    out.write(b"trailer << /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, security))
    out.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return out.getvalue()


def epub(chapters: dict[str, str], spine: list[str], nav: str = "") -> bytes:
    items = "".join(
        f'<item id="{i}" href="{name}" media-type="application/xhtml+xml"/>' for i, name in enumerate(chapters)
    )
    ids = {name: i for i, name in enumerate(chapters)}
    refs = "".join(f'<itemref idref="{ids[name]}"/>' for name in spine)
    if nav:
        items += f'<item id="nav" href="{nav}" properties="nav" media-type="application/xhtml+xml"/>'
        refs = '<itemref idref="nav"/>' + refs
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>The Book</dc:title><dc:creator>Ann</dc:creator></metadata><manifest>{items}</manifest>"
        f"<spine>{refs}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    members = {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/book.opf": package}
    return zipped(members | {f"OEBPS/{name}": page for name, page in chapters.items()})


def odt(body: str) -> bytes:
    names = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{part}:1.0"'
        for short, part in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"))
    )
    inner = f"<office:body><office:text>{body}</office:text></office:body>"
    content = f"<office:document-content {names}>{inner}</office:document-content>"
    manifest = "<m/>"
    mimetype = "application/vnd.oasis.opendocument.text"
    return zipped({"mimetype": mimetype, "content.xml": content, "META-INF/manifest.xml": manifest})
