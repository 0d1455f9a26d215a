"""Feed entries: the entry's own text or the linked page's, whichever is the fuller article."""

import base64
import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from kb_pipeline.errors import Corrupt, UnitFailure, Unsupported
from kb_pipeline.records import MediaRef, NormalizedContent, RawItem
from kb_pipeline.stages.language import detect_language
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.html import normalize_html
from kb_pipeline.stages.normalize.html_blocks import Block, blocks_of, render
from kb_pipeline.stages.normalize.html_tree import read_page
from kb_pipeline.urls import shown

_MORE = re.compile(
    r"\W*(?:read|see|view|learn)\s+(?:more|on|the\s+(?:full|rest|whole)\b.{0,40})\W*|\W*(?:continue|keep)\s+reading\b.{0,120}"
    r"|\W*full\s+(?:story|article|post)\W*|\W*(?:weiterlesen|mehr\s+lesen|lire\s+la\s+suite|leer\s+m[áa]s|seguir\s+leyendo)\b.{0,60}"
    r"|\W*(?:続きを読む|阅读全文|繼續閱讀)\W*|\W*читать\s+(?:далее|полностью)\W*",
    re.IGNORECASE,
)
_KINDS = {"image": "image", "audio": "audio", "video": "video"}


def normalize_entry(raw: RawItem) -> NormalizedContent:
    """The document of a feed entry (JSON as `connectors.rss` writes it).

    Raises: Unsupported: neither the entry nor its page holds text. Corrupt: not such JSON.
    """
    name = f"the feed entry {shown(raw.url) if raw.url else raw.title or 'without title'}"
    try:
        value = json.loads(raw.content)
        entry = value["entry"]
        own = _own(entry)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{name}: is not stored as it should be ({error}); sync again with a cleared source") from error
    page = _page(value, raw)
    chosen, is_partial = _fuller(own, page, bool(value.get("is_teaser")))
    warnings = (
        [f"the linked page was not read: {value['page_error']}"] if value.get("page_error") and is_partial else []
    )
    title = str(entry.get("title") or "") or (page.title if page else "") or chosen.title
    if not chosen.text.strip():
        if not title:
            raise Unsupported(f"{name}: holds no text")
        chosen = replace(chosen, text=title, marks=())
    return replace(
        chosen,
        title=title or " ".join(chosen.text.split())[:80],
        language=detect_language(chosen.text) or str(entry.get("language") or "")[:2].lower(),
        url=raw.url,
        author=raw.author or chosen.author,
        published_at=raw.published_at or _moment(entry.get("published")) or chosen.published_at,
        media=_media(chosen, own, entry),
        warnings=tuple(warnings),
        is_partial=is_partial,
    )


def _own(entry: dict[str, Any]) -> NormalizedContent:
    """The entry's own text, without the link that leads to the rest."""
    into = Blocks()
    body, media = str(entry.get("body") or ""), []
    if entry.get("is_html"):
        root = read_page(f"<html><body>{body}</body></html>", keeps_all=True).root
        blocks = [_without_more(block) for block in blocks_of(root.find("body"), str(entry.get("base") or ""))]
        media = render([block for block in blocks if block.text or block.media], into)
    else:
        for paragraph in re.split(r"\n\s*\n", body.replace("\r\n", "\n")):
            into.add(paragraph)
    return replace(into.content(), media=tuple(media))


def _without_more(block: Block) -> Block:
    if block.kind == "text" and block.link_chars:
        text = block.text
        if _MORE.fullmatch(text):
            block.text = ""
        else:
            tail = re.search(r"(?<=[.!?…\]»\n])\s*([^.!?…\]»\n]{4,160})\Z", text)
            if tail and _MORE.fullmatch(tail[1]):
                block.text = text[: tail.start()].rstrip()
    return block


def _page(value: dict[str, Any], raw: RawItem) -> NormalizedContent | None:
    """The linked page as a document; None where there is none or it is none."""
    if not value.get("page"):
        return None
    address = str(value.get("page_url") or raw.url)
    found = RawItem(
        content=base64.b64decode(value["page"]), kind="html", media_type=value.get("page_type"), url=address
    )
    try:
        return normalize_html(found)
    except UnitFailure:
        return None


def _fuller(own: NormalizedContent, page: NormalizedContent | None, is_teaser: bool) -> tuple[NormalizedContent, bool]:
    """(the fuller of the two, is only a part). A page that does not tell what the entry tells is another text."""
    if page is None:
        return own, is_teaser
    tokens = set(re.findall(r"\w+", own.text.casefold()))
    told = set(re.findall(r"\w+", page.text.casefold()))
    is_same = len(tokens & told) >= 0.6 * len(tokens)
    if is_same and len(page.text) > 1.2 * len(own.text):
        return page, page.is_partial
    return own, page.is_partial or (is_teaser and len(own.text) < 2_000)


def _media(chosen: NormalizedContent, own: NormalizedContent, entry: dict[str, Any]) -> tuple[MediaRef, ...]:
    """Media of the chosen text, then of the entry, then what the feed encloses; each once."""
    found = {ref.url: ref for ref in (*own.media, *chosen.media)}
    for url, media_type in entry.get("enclosures", ()):
        kind = _KINDS.get(str(media_type).partition("/")[0])
        if kind and str(url).startswith(("http://", "https://")):
            found.setdefault(str(url), MediaRef(url=str(url), kind=kind))  # type: ignore[arg-type]
    return tuple(found.values())


def _moment(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None
