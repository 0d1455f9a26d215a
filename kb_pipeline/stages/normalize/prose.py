"""Prose formats that pandoc reads: rich text, reStructuredText, Org, AsciiDoc, LaTeX."""

import html
import re

from kb_pipeline.errors import Corrupt
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.markup import add_html
from kb_pipeline.stages.normalize.text import clean, decode

_TIMEOUT_S = 60


def read_rtf(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Rich text: its bytes are ASCII with escapes of its own, so they pass as Latin-1."""
    return _read(content.decode("latin-1"), name, "rtf")


def read_rst(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """ReStructuredText."""
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
    if title and title[1].strip() not in ("", "-"):
        blocks.title = html.unescape(title[1])
    add_html(blocks, page)
    return blocks


def _to_html(text: str, name: str, source_format: str) -> str:
    """The text as an HTML page, by pandoc in its own sandbox mode: no file is included, none is written.

    Raises: Corrupt.
    """
    import subprocess

    import pypandoc

    command = [pypandoc.get_pandoc_path(), "--sandbox", "--standalone", "--wrap=none", "+RTS", "-M1g", "-RTS"]
    command += ["--from", source_format, "--to", "html", "--metadata", "pagetitle=-"]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Corrupt(f"{name}: pandoc did not finish reading it within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        reason = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
        raise Corrupt(f"{name}: damaged, pandoc cannot read it as {source_format} ({reason})")
    return done.stdout.decode("utf-8", "replace")
