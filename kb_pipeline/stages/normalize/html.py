"""Web pages: which blocks of a page are its content, and which pages are no documents. Walls go in `html_tree`.

An extractor made for it chooses what is content; the text itself is always our own reading of the chosen blocks, whole,
so that no clause of a paragraph is lost with the markup around it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kb_pipeline.errors import Blocked, UnitFailure, Unsupported
from kb_pipeline.records import NormalizedContent, RawItem
from kb_pipeline.stages.language import detect_language
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.html_blocks import Block, blocks_of, render
from kb_pipeline.stages.normalize.html_meta import PageMeta, base_address, kept_articles, page_meta
from kb_pipeline.stages.normalize.html_tree import Page, names, page_text, read_page, words
from kb_pipeline.urls import shown

SHELL_CHARS = 200
"""A page with less text is looked at: is it a document at all?"""
PARAGRAPH_CHARS = 150
"""A block of text that long is a paragraph, not a label."""
UNSCRIPTED_CHARS = 400
"""With less text than this, parts of the page that scripts would show are looked into."""
_FRAME = ("nav", "footer", "aside", "menu")
_FRAME_NAME = re.compile(
    r"(?<![a-z])(?:nav(?:bar|igation)?|menu|sidebar|footer|breadcrumbs?|share|sharing|social|related|comments?"
    r"|respond|newsletter|promo|advert\w*|"
    r"ads?|banner|pagination|pager|tags|recommend\w*|toolbar|skip-?link|masthead|copyright|login|search)(?![a-z])"
    r"|(?<![\w-])widget",
    re.IGNORECASE,
)
_APPENDED_NAME = re.compile(
    r"(?<![a-z])(?:related|recommended|more-?(?:news|stories|articles)|breadcrumbs?|share|sharing|newsletter"
    r"|pagination)(?![a-z])",
    re.I,
)
_ERROR_TITLE = re.compile(
    r"\b(?:404|410|error 5\d\d|50[0234])\b|(?:page|file|document|article|site|content) (?:was |is |could "
    r"|can)?(?: ?not|n.t)(?: be)? (?:found|available|exist)"
    r"|not found\b|no longer (?:available|exists)|doesn.t exist|seite (?:wurde )?nicht gefunden|page"
    r" (?:introuvable|non trouvée)|página no encontrada"
    r"|pagina non trovata|pagina niet gevonden|internal server error|service unavailable|bad gateway"
    r"|ページが見つかりません|页面不存在|找不到",
    re.IGNORECASE,
)
_BOT_TITLE = re.compile(
    r"^(?:just a moment|attention required|access denied|checking your browser|verify (?:that )?you are (?:a"
    r" )?human|are you a robot|"
    r"security check|one more step|ddos-guard|human verification|please wait)",
    re.IGNORECASE,
)
_NEEDS_SCRIPT = re.compile(
    r"(?:enable|requires?|turn on|need|activate|without) (?:\w+ ){0,3}javascript|javascript (?:is |ist |must be"
    r" )?(?:\w+ )?(?:disabled|required|enabled|deaktiviert)",
    re.I,
)
_WORD = re.compile(r"\w+")


def normalize_html(raw: RawItem) -> NormalizedContent:
    """The document in a web page (`raw.url`), or everything in a local HTML file (no `raw.url`).

    Raises: Unsupported: no text, an error page, or a shell that scripts would fill.
        Blocked: a login, cookie or bot wall instead of the page.
    """
    name = f"the address {shown(raw.url)}" if raw.url else raw.file_name or raw.title or "the page"
    page = read_page(page_text(raw.content, raw.media_type), keeps_all=not raw.url)
    meta = page_meta(page.full, raw.url)
    body = page.root.find("body")
    blocks = blocks_of(body, base_address(page.full, raw.url)) if body is not None else []
    if not raw.url:
        return _written(blocks, meta, raw, name)
    chosen = choose(blocks, page)
    chosen = unscripted(page.full, chosen, base_address(page.full, raw.url))
    text = " ".join(block.text for block in chosen)
    if failure := _no_document(page, meta, text, name):
        raise failure
    found = _written(chosen, meta, raw, name)
    if found.published_at is None:
        found = replace(found, published_at=_dated(page, raw.url))
    is_partial = page.had_pay_wall or (not meta.is_free and len(found.text) < 1_500)
    return replace(found, is_partial=is_partial, warnings=("only the free part of the page",) if is_partial else ())


def _dated(page: Page, url: str) -> datetime | None:
    """The day on which the page seems to have been published, from its address and markup, not from loose text."""
    import copy

    import trafilatura

    how = {"original_date": True, "extensive_search": False, "outputformat": "%Y-%m-%d"}
    told = trafilatura.extract_metadata(copy.deepcopy(page.full), default_url=url, date_config=how)
    try:
        return datetime.fromisoformat(told.date).replace(tzinfo=UTC) if told.date else None
    except ValueError:
        return None


def choose(blocks: Sequence[Block], page: Page) -> list[Block]:
    """The blocks that are the page's content."""
    lines, shingles = _told_content(page)
    is_chosen = [_is_told(block, lines, shingles) and not _is_appended(block) for block in blocks]
    if sum(len(b.text) for b, is_in in zip(blocks, is_chosen, strict=True) if is_in) < SHELL_CHARS:
        is_chosen = [is_in or not _is_frame(block) for block, is_in in zip(blocks, is_chosen, strict=True)]
    _fill_gaps(blocks, is_chosen)
    for i in range(len(blocks) - 2, -1, -1):  # a heading goes with what it heads
        is_chosen[i] = is_chosen[i] or (blocks[i].kind == "heading" and is_chosen[i + 1] and not _is_frame(blocks[i]))
    return [block for block, is_in in zip(blocks, is_chosen, strict=True) if is_in]


def unscripted(root: Any, chosen: list[Block], base: str) -> list[Block]:
    """The chosen blocks, or the far longer article that the page keeps for readers without scripts."""
    size = sum(len(block.text) for block in chosen)
    if size > UNSCRIPTED_CHARS:
        return chosen
    best = chosen
    for text in kept_articles(root):
        body = read_page(f"<html><body>{text}</body></html>").root.find("body")
        found = [block for block in blocks_of(body, base) if not _is_frame(block)] if body is not None else []
        length = sum(len(block.text) for block in found)
        if length > max(UNSCRIPTED_CHARS, 3 * size):
            best, size = found, length
    return best


def _fill_gaps(blocks: Sequence[Block], is_chosen: list[bool]) -> None:
    """Chooses what stands between chosen blocks beside them, and the long paragraphs that follow the last."""
    homes = {block.element for block, is_in in zip(blocks, is_chosen, strict=True) if is_in}
    parents = {
        parent for home in homes if (parent := home.getparent()) is not None and parent.tag not in ("body", "html")
    }
    first = is_chosen.index(True) if True in is_chosen else 0
    last = len(is_chosen) - 1 - is_chosen[::-1].index(True) if True in is_chosen else -1
    for i in range(first, last + 1):
        block = blocks[i]
        near = block.element in homes or block.element.getparent() in parents
        is_long = block.kind == "text" and len(block.text) >= PARAGRAPH_CHARS
        is_chosen[i] = is_chosen[i] or (
            ((near and not _is_label(block)) or is_long) and not _is_frame(block) and not _is_appended(block)
        )
    for i in range(last + 1, len(blocks) if last >= 0 else 0):
        follows = blocks[i].element.getparent() is blocks[last].element.getparent() and not _is_frame(blocks[i])
        if not follows or (blocks[i].kind == "text" and len(blocks[i].text) < 100 and not blocks[i].media):
            break
        is_chosen[i] = True


def _told_content(page: Page) -> tuple[set[str], set[tuple[str, ...]]]:
    """(whole lines, word 3-grams) of what the extractor takes for content."""
    import copy

    import trafilatura

    told = trafilatura.bare_extraction(copy.deepcopy(page.root), include_comments=False, include_tables=True)
    text = (told.text or "") if told is not None and not isinstance(told, dict) else ""
    lines: set[str] = set()
    shingles: set[tuple[str, ...]] = set()
    for line in text.splitlines():
        tokens = _WORD.findall(line.casefold())
        lines.add(" ".join(tokens))
        shingles.update(zip(tokens, tokens[1:], tokens[2:], strict=False))
    return lines, shingles


def _is_told(block: Block, lines: set[str], shingles: set[tuple[str, ...]]) -> bool:
    if block.kind == "table":
        rows = [_WORD.findall(" ".join(row).casefold()) for row in block.rows]
        triples = [t for tokens in rows for t in zip(tokens, tokens[1:], tokens[2:], strict=False)]
        return bool(triples) and sum(t in shingles for t in triples) * 2 >= len(triples)
    tokens = _WORD.findall(block.text.casefold())
    if block.kind == "item" and tokens and tokens[0].isdigit():
        tokens = tokens[1:]
    if len(tokens) < 4:
        return " ".join(tokens) in lines and bool(tokens) and not _is_frame(block)
    triples = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    return sum(t in shingles for t in triples) * 2 >= len(triples)


def _is_label(block: Block) -> bool:
    """True for a few words between paragraphs that are no sentence: a kicker, a credit, a button."""
    return block.kind == "text" and 0 < len(block.text) < 40 and not re.search(r"[\d.!?:;,。！？：、]", block.text)


def _is_appended(block: Block) -> bool:
    """True for links to other pages around an article, whatever an extractor thinks of them."""
    if "|" in block.text and block.kind != "table" and block.link_chars > 0.7 * len(block.text):
        return True
    return block.link_chars * 5 > len(block.text) and any(
        _APPENDED_NAME.search(names(element))
        for element in (block.element, *block.element.iterancestors())
        if element.tag != "body"
    )


def _is_frame(block: Block) -> bool:
    """True for what surrounds content on a page: menus, footers, lists of links."""
    if block.link_chars > 0.5 * max(1, len(block.text)):
        return True
    for element in (block.element, *block.element.iterancestors()):
        if element.tag in ("main", "article"):
            return False
        if element.tag in _FRAME or (element.tag not in ("body", "html") and _FRAME_NAME.search(names(element))):
            return True
        if element.tag == "header" and block.kind != "heading":
            return True
    return False


def _written(blocks: Sequence[Block], meta: PageMeta, raw: RawItem, name: str) -> NormalizedContent:
    into = Blocks()
    media = render(blocks, into)
    if into.is_blank:
        raise Unsupported(f"{name}: holds no text")
    found = into.content()
    return replace(
        found,
        title=raw.title or meta.title or found.title,
        language=detect_language(found.text) or meta.language,
        url=meta.url if raw.url else None,
        author=raw.author or meta.author,
        published_at=raw.published_at or meta.published_at,
        media=tuple(media),
    )


def _no_document(page: Page, meta: PageMeta, text: str, name: str) -> UnitFailure | None:
    """Why this page is no document, if it is none."""
    size = len(text)
    heads = " · ".join(
        [meta.title, page.full.findtext(".//title") or "", *(words(h) for h in page.full.iter("h1", "h2"))][:5]
    )
    if size < 1_500 and _BOT_TITLE.search((page.full.findtext(".//title") or meta.title).strip()):
        return Blocked(f"{name} shows a check for robots instead of the page")
    if size < 800 and _has_password_field(page.full):
        return Blocked(f"{name} shows a login form instead of the page")
    if size < 600 and _ERROR_TITLE.search(heads):
        return Unsupported(f"{name} is an error page ({' '.join(heads.split())[:80]!r}), not a document")
    if size >= SHELL_CHARS:
        return None
    if page.had_consent_wall and not _letters(text):
        return Blocked(f"{name} shows only a cookie or consent wall")
    if page.had_pay_wall and not _letters(text):
        return Blocked(f"{name} shows only a pay wall")
    if _is_shell(page.full, text):
        return Unsupported(f"{name} is filled in by scripts in the browser; without them it holds no text to read")
    return None if _letters(text) else Unsupported(f"{name}: holds no text")


def _has_password_field(root: Any) -> bool:
    return bool(root.xpath("//input[translate(@type, 'PASWORD', 'pasword')='password']"))


def _is_shell(root: Any, text: str) -> bool:
    """True for a page of scripts with next to no words of its own."""
    if not root.xpath("//script"):
        return False
    unscripted = " ".join(words(found) for found in root.iter("noscript"))
    if _NEEDS_SCRIPT.search(unscripted) or _NEEDS_SCRIPT.search(text):
        return True
    roots = root.xpath("//*[@id='root' or @id='app' or @id='__next' or @id='__nuxt' or @id='___gatsby' or @ng-app]")
    return not _letters(text) or any(len(words(found)) < 40 for found in roots)


def _letters(text: str) -> bool:
    return any(c.isalnum() for c in text)
