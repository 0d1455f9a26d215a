"""Captions (WebVTT, SubRip) as running speech."""

import html
import re

from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.text import clean, decode

_TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->")
_VOICE = re.compile(r"<v(?:\.[\w.]+)?\s+([^>]*)>")
_TAG = re.compile(r"<[^>]*>")
_BLOCK_CHARS = 500


def read_captions(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Cue texts in order, as paragraphs; a speaker is named where the voice changes, a repeated cue is read once."""
    blocks = Blocks()
    paragraph: list[str] = []
    speaker, last = "", ""
    for cue in re.split(r"\n[ \t]*\n", clean(decode(content))):
        lines = cue.strip("\n").split("\n")
        timed = next((i for i, line in enumerate(lines) if _TIMES.match(line)), None)
        if timed is None:
            continue
        text = "\n".join(lines[timed + 1 :])
        voice = _VOICE.search(text)
        text = " ".join(html.unescape(_TAG.sub("", text)).split())
        if not text or text == last:
            continue
        last = text
        if voice and voice[1].strip() != speaker:
            speaker = voice[1].strip()
            blocks.add(" ".join(paragraph))
            paragraph = [f"{speaker}:"]
        paragraph.append(text)
        if sum(map(len, paragraph)) > _BLOCK_CHARS and text.endswith((".", "?", "!")):
            blocks.add(" ".join(paragraph))
            paragraph = []
    blocks.add(" ".join(paragraph))
    return blocks
