"""What a page says about itself: canonical address, title, author, time. Its own words first, guesses last."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape, unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

from kb_pipeline.urls import canonical_url

_ARTICLE = re.compile(r"Article|Posting|Report|WebPage|Recipe|HowTo|Guide|Review|Book|Question", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s+[|–—·•»:\-]+\s+")


@dataclass(frozen=True, slots=True)
class PageMeta:
    """`is_free` is False where the page says that its text is not for everyone."""

    title: str
    author: str | None
    published_at: datetime | None
    url: str | None
    language: str
    is_free: bool


def page_meta(root: Any, address: str | None) -> PageMeta:
    """Reads the whole tree of a page, before anything was taken out of it."""
    objects = [found for found in _json_ld(root) if _ARTICLE.search(str(found.get("@type", "")))]
    author = _author(root, objects)
    return PageMeta(
        title=_title(root, objects),
        author=author,
        published_at=_time(root, objects),
        url=_canonical(root, address),
        language=str(root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or "")[:2].lower(),
        is_free=not any(str(found.get("isAccessibleForFree")).lower() == "false" for found in objects),
    )


def base_address(root: Any, address: str | None) -> str:
    """What relative addresses of the page refer to."""
    base = next((str(found.get("href")) for found in root.iter("base") if found.get("href")), "")
    try:
        return urljoin(address or "", base)
    except ValueError:
        return address or ""


def kept_articles(root: Any) -> Iterator[str]:
    """HTML of whole articles that a page holds where only programs look: templates, noscript, JSON-LD."""
    import lxml.html

    for found in root.xpath(
        "//template | //noscript | //script[contains(@type, 'template') or contains(@type, 'html')] | //textarea"
    ):
        inner = "".join(lxml.html.tostring(child, encoding="unicode") for child in found)
        yield (found.text or "") + inner
    for found in _json_ld(root):
        if _ARTICLE.search(str(found.get("@type", ""))):
            yield "".join(_told_texts(found, 0))


def _told_texts(value: Any, depth: int) -> Iterator[str]:
    """HTML of the running texts in a JSON-LD object: the body of an article, the steps of an instruction."""
    if isinstance(value, list) and depth < 8:
        for inner in value[:1_000]:
            yield from _told_texts(inner, depth + 1)
    elif isinstance(value, dict) and depth < 8:
        for key, inner in value.items():
            if key in ("articleBody", "text") and isinstance(inner, str):
                text = inner if "<p" in inner or "<br" in inner else unescape(inner)
                yield text if "<p" in text else f"<p>{escape(text)}</p>".replace("\n", "</p><p>")
            else:
                yield from _told_texts(inner, depth + 1)


def _json_ld(root: Any) -> Iterator[dict[str, Any]]:
    for script in root.xpath("//script[@type='application/ld+json']"):
        try:
            value = json.loads(script.text or "", strict=False)
        except (ValueError, RecursionError):
            continue
        for found in value if isinstance(value, list) else [value]:
            if isinstance(found, dict):
                yield found
                graph = found.get("@graph")
                yield from (inner for inner in graph if isinstance(inner, dict)) if isinstance(graph, list) else ()


def _meta(root: Any, *names: str) -> str:
    for name in names:
        for found in root.iter("meta"):
            key = str(found.get("property") or found.get("name") or found.get("itemprop") or "")
            if name in key.lower().split() and (found.get("content") or "").strip():
                return " ".join(str(found.get("content")).split())
    return ""


def _title(root: Any, objects: list[dict[str, Any]]) -> str:
    """The article's own title, without the name of the site behind it."""
    in_head = " ".join((root.findtext(".//head/title") or root.findtext(".//title") or "").split())
    headings = [text for h in root.iter("h1") if (text := " ".join(h.xpath("string()").split()))]
    shared = _meta(root, "og:title", "twitter:title", "dc.title", "citation_title")
    headline = next(
        (o["headline"] for o in objects if isinstance(o.get("headline"), str) and o["headline"].strip()), ""
    )
    for heading in headings:
        if 3 <= len(heading) <= 300 and any(
            heading.casefold() in text.casefold() for text in (shared, in_head, headline) if text
        ):
            return heading
    title = " ".join((shared or headline or in_head or (headings[0] if headings else "")).split())
    site = _meta(root, "og:site_name")
    parts = _SEPARATOR.split(title)
    if len(parts) > 1 and site and parts[-1].casefold() == site.casefold():
        title = title[: title.rfind(parts[-1])].rstrip(" |–—·•»:-")
    return title[:500]


def _author(root: Any, objects: list[dict[str, Any]]) -> str | None:
    for found in objects:
        people = found.get("author")
        names = [
            p.get("name") if isinstance(p, dict) else p
            for p in (people if isinstance(people, list) else [people])
            if p is not None
        ]
        told = [" ".join(n.split()) for n in names if isinstance(n, str) and n.strip() and not n.startswith("http")]
        if told:
            return ", ".join(dict.fromkeys(told))[:200]
    told_by_meta = _meta(
        root,
        "author",
        "article:author",
        "dc.creator",
        "dcterms.creator",
        "parsely-author",
        "citation_author",
        "sailthru.author",
    )
    if told_by_meta and not told_by_meta.startswith("http"):
        return told_by_meta[:200]
    for found in root.xpath(
        "//*[@rel='author' or @itemprop='author' or contains(@class, 'byline') or contains(@class, 'author-name')]"
    ):
        text = re.sub(
            r"^(?:by|von|par|por|di|av)\s+", "", " ".join(found.xpath("string()").split()), flags=re.IGNORECASE
        )
        if 2 < len(text) < 80:
            return text
    return None


def _time(root: Any, objects: list[dict[str, Any]]) -> datetime | None:
    told = [str(o[key]) for key in ("datePublished", "dateCreated") for o in objects if isinstance(o.get(key), str)]
    told.append(
        _meta(
            root,
            "article:published_time",
            "og:published_time",
            "datepublished",
            "dc.date",
            "dcterms.date",
            "dc.date.issued",
        )
    )
    told.append(
        _meta(
            root, "citation_publication_date", "parsely-pub-date", "sailthru.date", "pubdate", "date", "dcterms.created"
        )
    )
    times = root.xpath(
        "//time[@pubdate or @itemprop='datePublished' or contains(@class, 'publish')] | //article//time | //time"
    )
    told += [str(found.get("datetime")) for found in times[:1] if found.get("datetime")]
    return next((moment for text in told if text and (moment := _moment(text))), None)


def _moment(text: str) -> datetime | None:
    moment: datetime | None
    try:
        moment = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        found = re.match(r"\s*(\d{4})-(\d{2})-(\d{2})", text)
        try:
            moment = datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC) if found else None
        except ValueError:
            return None
    if moment is None or not 1990 <= moment.year <= 2100:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _canonical(root: Any, address: str | None) -> str | None:
    """The page's own canonical address if it stays on the same site, else the address it was read at."""
    told = next(
        (
            e.get("href")
            for e in root.iter("link")
            if "canonical" in str(e.get("rel")).lower().split() and e.get("href")
        ),
        "",
    )
    for candidate in filter(None, (told, _meta(root, "og:url"))):
        try:
            found = canonical_url(urljoin(address or "", candidate.strip()))
        except ValueError:
            continue
        is_home = urlsplit(found).path == "/" and bool(address) and urlsplit(address or "").path not in ("", "/")
        if not is_home and (address is None or _site(found) == _site(address)):
            return found
    return address


def _site(url: str) -> str:
    labels = (urlsplit(url).hostname or "").split(".")
    return ".".join(labels[-2:] if len(labels) < 3 or len(labels[-2]) > 3 else labels[-3:])
