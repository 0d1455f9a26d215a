"""Prose formats through pandoc and unstructured. The one place that touches unstructured, and makes it work offline."""

import functools
import re
from typing import Any

from kb_pipeline.errors import Corrupt
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.text import clean, decode

_VERB = re.compile(
    r"^(is|are|was|were|be|been|am|has|have|had|do|does|did|can|could|will|would|should|may|might|must)$"
    r"|.{3,}(ed|ing|ize|ise|ify)$",
    re.IGNORECASE,
)
_PANDOC_TIMEOUT_S = 60


def read_rtf(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Rich text: pandoc reads its own escapes, so the bytes pass as Latin-1."""
    return _read(content.decode("latin-1"), name, "rtf")


def read_rst(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """reStructuredText."""
    return _read(clean(decode(content)), name, "rst")


def read_org(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Org text."""
    return _read(clean(decode(content)), name, "org")


def read_asciidoc(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """AsciiDoc."""
    return _read(clean(decode(content)), name, "asciidoc")


def read_latex(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """LaTeX."""
    return _read(clean(decode(content)), name, "latex")


def _read(text: str, name: str, source_format: str) -> Blocks:
    blocks = Blocks()
    page = _to_html(text, name, source_format)
    title = re.search(r"<title>(.*?)</title>", page, re.DOTALL)
    body = page[page.find("<body") :]
    add_elements(blocks, f"<html>{body}")
    if title and title[1].strip() not in ("", "-"):
        import html

        blocks.title = html.unescape(title[1])
    return blocks


def _to_html(text: str, name: str, source_format: str) -> str:
    """The text as an HTML page, by pandoc in its sandbox mode: no file is included, none is written.

    Raises: Corrupt.
    """
    import subprocess

    import pypandoc

    command = [pypandoc.get_pandoc_path(), "--sandbox", "--standalone", "--wrap=none", "--mathml"]
    command += ["--from", source_format, "--to", "html", "--metadata", "pagetitle=-"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_PANDOC_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Corrupt(f"{name}: pandoc did not finish reading it within {_PANDOC_TIMEOUT_S} s") from error
    if done.returncode != 0:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
        raise Corrupt(f"{name}: damaged, pandoc cannot read it as {source_format} ({reason})")
    return done.stdout.decode("utf-8", "replace")


def add_elements(blocks: Blocks, page: str) -> None:
    """The elements that unstructured finds in an HTML page: titles with their depth, tables by rows, the rest as blocks."""
    _work_offline()
    from unstructured.partition.html import partition_html

    for element in partition_html(text=page):
        if element.category == "Title":
            blocks.heading(element.text, (element.metadata.category_depth or 0) + 1)
        elif element.category == "Table" and element.metadata.text_as_html:
            blocks.table(_rows(element.metadata.text_as_html))
        else:
            blocks.add(f"- {element.text}" if element.category == "ListItem" else element.text)


def _rows(table: str) -> list[list[str]]:
    import lxml.html

    root = lxml.html.fragment_fromstring(table)
    return [[" ".join(cell.itertext()) for cell in row.xpath("./td|./th")] for row in root.iter("tr")]


@functools.cache
def _work_offline() -> None:
    """Replace unstructured's language model, which it would download, by rules that give the same element types.

    The name is private: the dependency is pinned to the minor version on which this is tested.
    """
    import spacy
    import unstructured.nlp.tokenize as tokenize
    from spacy.language import Language

    @Language.component("kb_tags")
    def kb_tags(doc: Any) -> Any:
        for token in doc:
            token.tag_ = "VB" if _VERB.match(token.text) else ("NN" if token.is_alpha else ".")
        return doc

    def blank() -> Any:
        pipeline = spacy.blank("en")
        pipeline.add_pipe("sentencizer")
        pipeline.add_pipe("kb_tags")
        return pipeline

    tokenize._load_spacy_model = blank
