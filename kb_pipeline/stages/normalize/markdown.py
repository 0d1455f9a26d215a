"""Markdown as a document: its headings become marks, its text stays as written."""

import re

from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.text import clean

_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


def add_markdown(blocks: Blocks, text: str) -> None:
    """Markdown as written, with a mark at each heading outside of code; front matter gives only the title."""
    lines = clean(text).split("\n")
    start = _front_matter(blocks, lines)
    fence = ""
    section: list[str] = []
    for idx, line in enumerate(lines[start:], start):
        if found := _FENCE.match(line):
            fence = "" if fence and line.strip().startswith(fence) else fence or found[1]
        heading = None if fence else _ATX.match(line)
        level = _setext_level(lines, idx) if not fence and not heading else 0
        if not heading and not level:
            section.append(line)
            continue
        if level:  # the line before is the heading's text
            section.pop()
        blocks.add("\n".join(section))
        section = []
        blocks.heading(heading[2] if heading else lines[idx - 1], len(heading[1]) if heading else level)
    blocks.add("\n".join(section))


def _setext_level(lines: list[str], idx: int) -> int:
    """1 or 2 where this line underlines a heading, else 0."""
    if idx == 0 or not re.fullmatch(r" {0,3}(=+|-{2,})[ \t]*", lines[idx]):
        return 0
    above = lines[idx - 1].strip()
    lone = idx == 1 or not lines[idx - 2].strip()
    if not above or not lone or above.startswith(("#", "|", "-", "*", ">", "```", "~~~")) or set(above) <= {"=", "-"}:
        return 0
    return 1 if "=" in lines[idx] else 2


def _front_matter(blocks: Blocks, lines: list[str]) -> int:
    """Index of the first line after YAML front matter; 0 where there is none."""
    if not lines or lines[0].strip() != "---":
        return 0
    end = next((i for i, line in enumerate(lines[1:60], 1) if line.strip() == "---"), 0)
    fields = lines[1:end]
    if not end or not any(re.match(r"\w[\w-]*:", line) for line in fields):
        return 0
    for line in fields:
        if found := re.match(r"title:\s*(.+)", line):
            blocks.title = found[1].strip().strip("\"'")
    return end + 1
