"""Feeds: RSS, RDF, Atom and JSON Feed. A feed is a window: what left it is still there."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import urljoin, urlsplit

from kb_pipeline.connectors.base import Http
from kb_pipeline.connectors.feed_entries import Entry, Feed, parse_xml
from kb_pipeline.connectors.feed_identity import FeedMemory, identify
from kb_pipeline.connectors.feed_xml import feed_text, root_name, safe_xml
from kb_pipeline.connectors.jsonfeed import parse_json
from kb_pipeline.errors import (
    Blocked,
    Corrupt,
    Gone,
    TooLarge,
    UnitFailure,
    Unsupported,
    UsageError,
)
from kb_pipeline.records import HttpResponse, Item, Json, Listing, RawItem, Source
from kb_pipeline.urls import canonical_url, same_page, shown, split_web_address

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/rdf+xml, application/feed+json, "
    "application/json;q=0.9, application/xml;q=0.8, text/xml;q=0.7, */*;q=0.1"
)
MAX_FEED_BYTES = 10_000_000
_FEED_PATH = re.compile(
    r"/(?:feeds?|rss|atom|rdf)(?:/|$|\.)|\.(?:rss|atom|rdf|xml)$|/(?:feed|rss|atom|index)\.(?:json|xml)$|/feed$|/videos\.xml$",
    re.IGNORECASE,
)
_FEED_QUERY = re.compile(r"(?:^|&)(?:feed|alt|format|type|output)=(?:rss2?|atom|feed|rdf)(?:&|$)", re.IGNORECASE)
_LINK_TAG = re.compile(r"<link\b[^>]{0,2000}>", re.IGNORECASE)
_FEED_TYPES = ("application/rss+xml", "application/atom+xml", "application/feed+json", "application/rdf+xml")


class RssConnector:
    """Lists a feed's entries; an item carries its entry, so fetching asks only for the linked page of an excerpt."""

    name: ClassVar[str] = "rss"
    has_global_ids: ClassVar[bool] = False
    understands: ClassVar[str] = "the address of a feed (RSS, Atom, RDF, JSON Feed)"

    def __init__(self, http: Http) -> None:
        self._http = http

    def detect(self, source_input: str) -> bool:
        """True for http(s) addresses that look like a feed's: /feed, /rss.xml, feeds.…, ?format=rss."""
        try:
            parts = split_web_address(source_input.strip())
        except ValueError:
            return False
        host = parts.hostname or ""
        return bool(
            host.startswith(("feeds.", "rss.", "feed."))
            or _FEED_PATH.search(parts.path)
            or _FEED_QUERY.search(parts.query)
        )

    def canonical(self, source_input: str) -> str:
        """The normalised address. Raises: UsageError: not a web address."""
        try:
            return canonical_url(source_input)
        except ValueError as error:
            raise UsageError(
                f"the address {shown(source_input.strip())} {error}; a feed has an http(s) address"
            ) from None

    def list_items(self, source: Source, state: Json) -> Listing:
        """The entries now in the feed; `is_unchanged` where the server says so."""
        address, answer = self._read(source, state)
        if answer.status == 304:
            return Listing(items=(), is_complete=False, is_unchanged=True, state=state)
        try:
            feed = parse_answer(answer)
            if feed is None:
                address, answer, feed = self._discovered(source, state, answer)
        except MemoryError:
            raise TooLarge(f"the feed {shown(source.input)} needs too much memory to be read") from None
        pairs, memory = identify(
            feed.entries, (source.input, answer.url, feed.home), FeedMemory.from_json(state.get("memory", {}))
        )
        kept = {
            "url": answer.moved_to or address,
            "etag": answer.headers.get("etag", ""),
            "last_modified": answer.headers.get("last-modified", ""),
            "is_feed": True,
            "memory": memory.as_json(),
        }
        return Listing(items=[_item(key, entry, feed) for key, entry in pairs], is_complete=False, state=kept)

    def fetch(self, item: Item) -> RawItem:
        """The entry as JSON, with the linked page where the entry may be only an excerpt of it."""
        entry = Entry.from_json(item.locator["entry"])
        page = self._page(entry) if entry.link and entry.may_be_excerpt else {}
        content = {"entry": entry.as_json(), "is_teaser": entry.is_teaser, **page}
        return RawItem(
            content=json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"),
            kind="entry",
            media_type="application/json",
            url=item.url,
            title=entry.title or None,
            author=entry.author,
            published_at=datetime.fromisoformat(entry.published) if entry.published else None,
            metadata={"feed": item.locator.get("feed", ""), "tags": list(entry.tags)},
        )

    def _read(self, source: Source, state: Json) -> tuple[str, HttpResponse]:
        """(address asked, answer); falls back from a remembered address to the configured one."""
        remembered = str(state.get("url") or source.input)
        headers = {"Accept": ACCEPT}
        for name, value in (("If-None-Match", state.get("etag")), ("If-Modified-Since", state.get("last_modified"))):
            if value:
                headers[name] = str(value)
        try:
            answer = self._http.get(remembered, headers=headers)
        except (Gone, Blocked):
            if remembered == source.input:
                raise
            remembered, answer = source.input, self._http.get(source.input, headers={"Accept": ACCEPT})
        if len(answer.content) > MAX_FEED_BYTES:
            raise TooLarge(f"the feed {shown(source.input)} is larger than {MAX_FEED_BYTES:,} bytes")
        return remembered, answer

    def _discovered(self, source: Source, state: Json, answer: HttpResponse) -> tuple[str, HttpResponse, Feed]:
        """The feed that a web page names, the first time; later a page in place of the feed is a failure."""
        text = feed_text(answer.content, answer.headers.get("content-type"))
        name = f"the feed {shown(source.input)}"
        if not _is_page(text):
            raise Corrupt(f"{name} is not readable: the answer is {_what(text)}, not RSS, Atom, RDF or JSON Feed")
        if state.get("is_feed"):
            raise Blocked(
                f"{name} answered with a web page (a login or block page?) instead of a feed; nothing was changed"
            )
        found = _named_feed(text, answer.url)
        if not found:
            raise Unsupported(
                f"{name} is a web page, not a feed, and names no feed; add it with --type url or give the feed itself"
            )
        second = self._http.get(found, headers={"Accept": ACCEPT})
        feed = parse_answer(second)
        if feed is None:
            raise Unsupported(f"{name} is a web page, and what it names as its feed ({shown(found)}) is none")
        return found, second, feed

    def _page(self, entry: Entry) -> Json:
        """The linked page; an entry whose page cannot be had is kept as it is, with the reason."""
        try:
            answer = self._http.get(entry.link, headers={"Accept": "text/html, application/xhtml+xml, */*;q=0.1"})
        except UnitFailure as error:
            return {"page_error": str(error)}
        kind = answer.headers.get("content-type", "")
        if "html" not in kind.lower() and not _is_page(feed_text(answer.content[:5_000], kind)):
            return {"page_error": f"the address {shown(entry.link)} holds no web page"}
        return {"page": base64.b64encode(answer.content).decode(), "page_type": kind, "page_url": answer.url}


def _item(key: str, entry: Entry, feed: Feed) -> Item:
    link = same_page(entry.link) if entry.link else None
    is_web = bool(link) and urlsplit(link or "").scheme in ("http", "https")
    return Item(
        external_id=key,
        version=entry.version,
        url=link if is_web else None,
        title=entry.title or None,
        locator={"entry": entry.as_json(), "feed": feed.title},
    )


def parse_answer(answer: HttpResponse) -> Feed | None:
    """The feed in an answer, None where it is none. Raises: Corrupt: an entity bomb."""
    feed = parse_json(answer.content, answer.url)
    if feed is not None:
        return feed
    text = feed_text(answer.content, answer.headers.get("content-type"))
    if not text or _is_page(text) or root_name(text) in ("opml", "urlset", "sitemapindex", "svg"):
        return None
    return parse_xml(safe_xml(text, f"the feed {shown(answer.url)}"), answer.url)


def _is_page(text: str) -> bool:
    head = text[:2_000].lower()
    return root_name(text) in ("html", "head", "body") or "<!doctype html" in head


def _what(text: str) -> str:
    if not text.strip():
        return "empty"
    root = root_name(text)
    return f"XML of another kind (<{root}>)" if root else "no XML or JSON of a feed"


def _named_feed(text: str, address: str) -> str:
    """Address of the first feed that a page names in its head, "" if none."""
    return next(_alternates(_LINK_TAG.findall(text[:500_000]), address), "")


def _alternates(tags: Sequence[str], address: str) -> Iterator[str]:
    for tag in tags:
        values: dict[str, Any] = {
            name.lower(): double or single or bare
            for name, double, single, bare in re.findall(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", tag)
        }
        is_feed = str(values.get("type", "")).partition(";")[0].strip().lower() in _FEED_TYPES
        if is_feed and "alternate" in str(values.get("rel", "")).lower() and values.get("href"):
            yield urljoin(address, str(values["href"]).replace("&amp;", "&"))
