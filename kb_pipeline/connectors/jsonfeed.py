"""JSON Feed 1.0 and 1.1 (jsonfeed.org) into entries. One page of it: a feed is a window, `next_url` is not followed."""

import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin

from kb_pipeline.charset import decode
from kb_pipeline.connectors.feed_entries import Entry, Feed, clean_title
from kb_pipeline.urls import without_user


def parse_json(data: bytes, address: str) -> Feed | None:
    """The feed in JSON bytes, None where they are none.

    Args:
        address: where the feed was read; the base of relative addresses.
    """
    if data[:200].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    try:
        value = json.loads(decode(data))
    except (ValueError, RecursionError):
        return None
    is_feed = "jsonfeed.org/version/" in _text(value.get("version"))
    items = value.get("items")
    if not is_feed or not isinstance(items, list):
        return None
    home = urljoin(address, _text(value.get("home_page_url"))) if value.get("home_page_url") else ""
    author, language = _author(value), _text(value.get("language"))
    entries = tuple(_entry(item, address, author, language) for item in items if isinstance(item, dict))
    return Feed(title=clean_title(_text(value.get("title"))), home=home, entries=entries)


def _entry(item: dict[str, Any], address: str, feed_author: str, language: str) -> Entry:
    link = _text(item.get("url")) or _text(item.get("external_url"))
    full = _text(item.get("content_html")) or _text(item.get("content_text"))
    body = full or _text(item.get("summary"))
    attachments = [a for a in _list(item.get("attachments")) if isinstance(a, dict)]
    media = [(_text(a.get("url")), _text(a.get("mime_type"))) for a in attachments]
    media += [(_text(item.get(name)), "image/*") for name in ("image", "banner_image")]
    return Entry(
        guid=_text(item.get("id")),
        link=without_user(urljoin(address, link)) if link else "",
        title=clean_title(_text(item.get("title"))),
        body=body,
        is_html=bool(item.get("content_html")),
        author=_author(item) or feed_author or None,
        published=_time(_text(item.get("date_published")) or _text(item.get("date_modified"))),
        updated=_time(_text(item.get("date_modified")) or _text(item.get("date_published"))),
        base=urljoin(address, link) if link else address,
        language=_text(item.get("language")) or language,
        tags=tuple(_text(tag) for tag in _list(item.get("tags")) if _text(tag))[:50],
        enclosures=tuple(dict.fromkeys((urljoin(address, url), kind) for url, kind in media if url)),
        has_full_field=bool(full),
    )


def _text(value: Any) -> str:
    """Ids may be numbers; everything else that is no text counts as missing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return re.sub("[\x00\ud800-\udfff]", "", str(value)).strip()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _author(value: dict[str, Any]) -> str:
    authors = value.get("authors")
    found = authors if isinstance(authors, list) else [value.get("author")]
    return ", ".join(filter(None, (_text(a.get("name")) for a in found if isinstance(a, dict))))


def _time(value: str) -> str | None:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
