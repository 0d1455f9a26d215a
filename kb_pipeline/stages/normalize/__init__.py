"""The one way from fetched bytes to text: each kind and each family of files has a module beside this one."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from kb_pipeline.errors import TooLarge, Unsupported
from kb_pipeline.records import NormalizedContent, RawItem
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits, damaged
from kb_pipeline.stages.normalize.sniff import Family, family_of
from kb_pipeline.urls import shown

__all__ = ["ParseLimits", "normalize", "normalize_file"]

Parser = Callable[[bytes, str, ParseLimits, int], Blocks]
_PARSERS: dict[Family, tuple[str, str]] = {
    "pdf": ("pdf", "a PDF"),
    "docx": ("docx", "a Word document"),
    "pptx": ("pptx", "a presentation"),
    "xlsx": ("spreadsheet", "a workbook"),
    "xls": ("spreadsheet", "a workbook"),
    "epub": ("ebook", "an e-book"),
    "odf": ("odf", "an OpenDocument file"),
    "zip": ("archive", "an archive"),
    "doc": ("legacy_word", "a Word document"),
    "ppt": ("legacy_slides", "a presentation"),
    "msg": ("mail", "a mail"),
    "mail": ("mail", "a mail"),
    "xml": ("xml", "XML"),
    "csv": ("tabular", "a table"),
    "json": ("structured", "JSON"),
    "jsonl": ("structured", "JSON lines"),
    "notebook": ("structured", "a notebook"),
    "captions": ("captions", "captions"),
    "rtf": ("prose", "rich text"),
    "rst": ("prose", "reStructuredText"),
    "org": ("prose", "Org text"),
    "asciidoc": ("prose", "AsciiDoc"),
    "latex": ("prose", "LaTeX"),
}
"""Family -> (module, words for people). Each module has `read_<family>(content, name, limits, depth) -> Blocks`."""


def normalize(raw: RawItem, limits: ParseLimits) -> NormalizedContent:
    """The text of a fetched item: clean, with title, language, marks and warnings. Deterministic, no I/O.

    Raises: UnitFailure: Unsupported (nothing to read in it), Corrupt, TooLarge, AuthFailed; the message names the item.
    """
    name = raw.file_name or (shown(raw.url) if raw.url else raw.title) or "document"
    if len(raw.content) > limits.max_bytes:
        raise TooLarge(f"{name}: too large, {len(raw.content):,} bytes (at most {limits.max_bytes:,})")
    if raw.kind == "html":
        return _completed(_web_page(raw, limits), raw, name)
    if raw.kind == "entry":
        from kb_pipeline.stages.normalize.entry import normalize_entry

        return _completed(normalize_entry(raw), raw, name)
    if raw.kind == "record":
        from kb_pipeline.stages.normalize.record import normalize_record

        return _completed(normalize_record(raw, name), raw, name)
    return _completed(normalize_file(raw, name, limits, 0), raw, name)


def normalize_file(raw: RawItem, name: str, limits: ParseLimits, depth: int) -> NormalizedContent:
    """The text of a file of any type, by its content. `depth` counts the documents around it.

    Raises: as `normalize`.
    """
    if depth > limits.max_nesting:
        raise TooLarge(f"{name}: too large a nesting, more than {limits.max_nesting} documents inside each other")
    with damaged(name, "what its beginning says"):
        family = family_of(raw.content, name, limits)
    if family == "html":
        with damaged(name, "a web page"):
            return _web_page(raw, limits)
    if family in ("text", "markdown"):
        from kb_pipeline.stages.normalize.markdown import add_markdown
        from kb_pipeline.stages.normalize.text import decode

        blocks = Blocks()
        text = decode(raw.content)
        add_markdown(blocks, text) if family == "markdown" else blocks.add(text)
        return blocks.content()
    module_name, words = _PARSERS[family]
    module = importlib.import_module(f"{__name__}.{module_name}")
    parse = cast(Parser, getattr(module, f"read_{family}"))
    with damaged(name, words):
        return parse(raw.content, name, limits, depth).content()


def _web_page(raw: RawItem, limits: ParseLimits) -> NormalizedContent:
    from kb_pipeline.stages.normalize.html import normalize_html

    return normalize_html(raw)


def _completed(found: NormalizedContent, raw: RawItem, name: str) -> NormalizedContent:
    """What the source itself said wins over the file; a blank text is refused."""
    if not found.text.strip():
        raise Unsupported(f"{name}: holds no text")
    from kb_pipeline.stages.language import detect_language

    return replace(
        found,
        title=found.title or raw.title or raw.file_name or raw.url or name,
        url=found.url or raw.url,
        author=raw.author or found.author,
        published_at=raw.published_at or found.published_at,
        language=found.language or detect_language(found.text),
        metadata={**found.metadata, **raw.metadata},
    )
