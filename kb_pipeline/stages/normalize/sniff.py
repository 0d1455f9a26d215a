"""The real type of a file: by its bytes first, by its name only among kinds of text."""

import re
from pathlib import PurePosixPath
from typing import Literal

from kb_pipeline.errors import AuthFailed, Corrupt, Unsupported
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits, stream_of
from kb_pipeline.stages.normalize.text import decode, utf16_without_mark

Family = Literal[
    "pdf", "docx", "pptx", "xlsx", "epub", "odf", "zip", "doc", "ppt", "xls", "msg", "rtf", "html", "xml", "mail",
    "csv", "json", "jsonl", "notebook", "captions", "markdown", "rst", "org", "asciidoc", "latex", "text",
]  # fmt: skip

_BY_EXTENSION: dict[str, Family] = {
    "html": "html", "htm": "html", "xhtml": "html", "xml": "xml", "nxml": "xml", "eml": "mail", "csv": "csv",
    "tsv": "csv", "tab": "csv", "json": "json", "boxnote": "json", "jsonl": "jsonl", "ndjson": "jsonl",
    "ipynb": "notebook", "vtt": "captions", "srt": "captions", "md": "markdown", "markdown": "markdown",
    "rst": "rst", "org": "org", "adoc": "asciidoc", "asciidoc": "asciidoc", "tex": "latex", "txt": "text",
    "text": "text", "log": "text",
}  # fmt: skip
_BINARY_EXTENSIONS = frozenset(["pdf", "docx", "pptx", "xlsx", "epub", "odt", "ods", "odp", "msg", "ppt", "zip"])
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_HTML = re.compile(r"\s*(<!--.*?-->\s*)*(<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>])", re.IGNORECASE | re.DOTALL)
_XHTML = re.compile(r"\s*<\?xml[^>]*\?>\s*(<!--.*?-->\s*)*(<!doctype\s+html|<html[\s>])", re.IGNORECASE | re.DOTALL)
_MAIL = re.compile(
    r"(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?(?:from|received|return-path|mime-version|message-id):", re.IGNORECASE
)
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")


def extension(name: str) -> str:
    """Lower-case ending of a file name without the dot."""
    return PurePosixPath(name.replace("\\", "/")).suffix.lower().lstrip(".")


def family_of(content: bytes, name: str, limits: ParseLimits) -> Family:
    """Which parser reads these bytes.

    Raises: Unsupported: a type that we do not read. Corrupt: not what its name says. AuthFailed, TooLarge.
    """
    if not content.strip(b"\0 \t\r\n\f\v\xef\xbb\xbf\xff\xfe"):
        raise Unsupported(f"{name}: holds no text, the file is empty")
    if b"%PDF-" in content[:1024]:
        return "pdf"
    if content.startswith(_ZIP):
        return _zip_family(content, name, limits)
    if content.startswith(_OLE):
        return _ole_family(content, name)
    if content.lstrip()[:5] == b"{\\rtf":
        return "rtf"
    ending = extension(name)
    if not _is_text(content, ending):
        raise _unreadable(content, name, ending)
    return _text_family(content, name, ending)


def _zip_family(content: bytes, name: str, limits: ParseLimits) -> Family:
    archive = Archive(content, name, limits)
    names = set(archive.names)
    for part, family in (("word/", "docx"), ("ppt/", "pptx"), ("xl/", "xlsx")):
        if "[Content_Types].xml" in names and any(member.startswith(part) for member in names):
            return family  # type: ignore[return-value]
    declared = archive.read("mimetype")[:80] if "mimetype" in names else b""
    if b"epub" in declared or "META-INF/container.xml" in names:
        return "epub"
    if b"opendocument" in declared or {"content.xml", "META-INF/manifest.xml"} <= names:
        return "odf"
    if extension(name) in _BINARY_EXTENSIONS - {"zip"}:
        raise Corrupt(f"{name}: damaged, the parts of a .{extension(name)} file are not in it")
    return "zip"


def _ole_family(content: bytes, name: str) -> Family:
    import olefile

    try:
        with olefile.OleFileIO(stream_of(content)) as ole:
            streams = {"/".join(path) for path in ole.listdir()}
    except (OSError, ValueError, IndexError) as error:
        raise Corrupt(f"{name}: damaged Office container ({error})") from error
    if "EncryptedPackage" in streams:
        raise AuthFailed(f"{name}: protected by a password; remove it and sync again")
    by_stream: list[tuple[str, Family]] = [
        ("__properties_version1.0", "msg"), ("WordDocument", "doc"), ("PowerPoint Document", "ppt"),
        ("Workbook", "xls"), ("Book", "xls"),
    ]  # fmt: skip
    for stream, family in by_stream:
        if stream in streams:
            return family
    raise Unsupported(f"{name}: an Office container of a type that we do not read")


def _is_text(content: bytes, ending: str) -> bool:
    """Few control bytes; files named as text may hold more, and NULs at will."""
    sample = content[:65_536]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return True
    controls = len(_CONTROL.findall(sample))
    if ending in _BY_EXTENSION:
        return controls < 0.08 * len(sample) + 4
    nuls = sample.count(0)
    is_utf16 = utf16_without_mark(content) is not None
    return controls <= 0.02 * len(sample) and (nuls <= 0.01 * len(sample) or is_utf16)


def _unreadable(content: bytes, name: str, ending: str) -> Unsupported | Corrupt:
    if ending in _BINARY_EXTENSIONS:
        return Corrupt(f"{name}: damaged, it does not begin like a .{ending} file")
    import puremagic

    try:
        kind = puremagic.from_string(content[:8192], mime=True, filename=name)
    except (puremagic.PureError, ValueError):
        kind = ""
    if kind.startswith("image/"):
        return Unsupported(f"{name}: an image ({kind}); reading it needs OCR")
    return Unsupported(f"{name}: binary data of a type that we do not read{f' ({kind})' if kind else ''}")


def _text_family(content: bytes, name: str, ending: str) -> Family:
    head = decode(content[:16_384])
    if ending in _BINARY_EXTENSIONS:
        held = "a web page" if _HTML.match(head) else "plain text"
        raise Corrupt(f"{name}: is named .{ending} but holds {held}, perhaps an error message saved under this name")
    if ending in _BY_EXTENSION:
        named = _BY_EXTENSION[ending]
        return "html" if named == "xml" and _XHTML.match(head) else named
    if _HTML.match(head) or _XHTML.match(head):
        return "html"
    if head.lstrip().startswith("<?xml"):
        return "xml"
    if _MAIL.match(head.replace("\r\n", "\n")):
        return "mail"
    if head.startswith("WEBVTT"):
        return "captions"
    return "json" if _is_json(content) else "text"


def _is_json(content: bytes) -> bool:
    import json

    if content.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(decode(content))
    except (ValueError, RecursionError):
        return False
    return True
