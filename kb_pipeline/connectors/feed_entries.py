"""What a feed says, format aside: RSS, RDF and Atom as entries.

JSON Feed is in `jsonfeed`, which entry is which document in `feed_identity`.
"""

import calendar
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kb_pipeline.charset import storable
from kb_pipeline.ids import sha256_hex
from kb_pipeline.records import Json
from kb_pipeline.urls import same_page, without_user

_TITLE_TAG = re.compile(
    r"</?(?:b|i|em|strong|a|span|br|sub|sup|u|small|big|tt|cite|font|img|p|mark|wbr)(?:\s[^<>]*)?/?>", re.IGNORECASE
)
_TEASER_END = re.compile(
    r"(?:…|\.\.\.|\[…\]|\[\.\.\.\]|(?:read|see|view|learn)\s+(?:more|on|the\s+(?:full|rest|whole)[\w\s]{0,30})"
    r"|continue\s+reading.{0,120}"
    r"|keep\s+reading.{0,60}|full\s+(?:story|article|post)|weiterlesen|mehr\s+lesen|lire\s+la\s+suite.{0,60}"
    r"|leer\s+m[áa]s|seguir\s+leyendo"
    r"|続きを読む|阅读全文|繼續閱讀|читать\s+(?:далее|полностью))\s*[.…»›→>\]]*\s*\Z",
    re.IGNORECASE,
)
SHORT_CHARS = 500
"""A feed text below this may be only an excerpt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry as its feed gives it.

    Attributes:
        guid, link: "" where the entry has none.
        published, updated: ISO 8601 in UTC; each stands in for the other where it is missing.
        body: the fullest text the feed carries.
        is_html: `body` is HTML, else plain text.
        base: address that relative addresses in `body` refer to.
        enclosures: (address, media type) pairs.
        has_full_field: the body came from the field that is meant for whole articles.
    """

    guid: str
    link: str
    title: str
    body: str
    is_html: bool
    author: str | None = None
    published: str | None = None
    updated: str | None = None
    base: str = ""
    language: str = ""
    tags: Sequence[str] = ()
    enclosures: Sequence[tuple[str, str]] = ()
    has_full_field: bool = False

    @property
    def plain(self) -> str:
        """The body's words, roughly: for comparing and hashing, not for reading."""
        text = (
            re.sub(
                r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)",
                " ",
                self.body,
                flags=re.IGNORECASE | re.DOTALL,
            )
            if self.is_html
            else self.body
        )
        text = html.unescape(re.sub(r"<[^<>]*>", " ", text)) if self.is_html else text
        return re.sub(r"\s+", " ", text).strip()

    @property
    def is_teaser(self) -> bool:
        """The text itself says that it goes on elsewhere."""
        return bool(_TEASER_END.search(self.plain))

    @property
    def may_be_excerpt(self) -> bool:
        """The linked page may hold more than the entry."""
        return self.is_teaser or (len(self.plain) < SHORT_CHARS and not self.has_full_field)

    @property
    def version(self) -> str:
        """Hash of what a reader sees: not of dates, counters, markup or tracking."""
        links = sorted(
            {
                same_page(found)
                for found in re.findall(r"(?:href|src)\s*=\s*[\"'](https?:[^\"']+)", self.body, re.IGNORECASE)
            }
        )
        media = sorted(same_page(url) for url, _ in self.enclosures)
        title, author = self.title, self.author or ""
        return sha256_hex(title, self.plain, same_page(self.link), author, *(without_query(u) for u in links), *media)[
            :32
        ]

    def as_json(self) -> Json:
        """For an item's locator and the raw bytes."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "tags": list(self.tags),
            "enclosures": [list(pair) for pair in self.enclosures],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Entry":
        """Back from `as_json`."""
        pairs = [(str(pair[0]), str(pair[1])) for pair in value.get("enclosures", ())]
        return cls(**{**value, "enclosures": tuple(pairs), "tags": tuple(value.get("tags", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A parsed feed; `home` is the site's own address, "" where not given."""

    title: str
    home: str
    entries: Sequence[Entry] = field(default_factory=tuple)


def parse_xml(data: bytes, address: str) -> Feed | None:
    """The feed in safe XML bytes (see `feed_xml`), None where there is none.

    Args:
        address: where the feed was read; the outermost base of relative addresses.
    """
    import feedparser  # slow to import

    headers = {"content-type": "application/xml; charset=utf-8", "content-location": address}
    # A stream and never the bytes: feedparser opens strings and bytes that name a file.
    found = feedparser.parse(
        io.BytesIO(data), response_headers=headers, sanitize_html=False, resolve_relative_uris=True
    )
    is_broken = bool(found.get("bozo")) and not found.entries
    if (not found.get("version") and not found.entries) or (is_broken and not _is_whole(data)):
        return None
    about = found.get("feed", {})
    language = str(about.get("language") or "")
    entries = tuple(_entry(raw, str(about.get("author") or ""), language) for raw in found.entries)
    return Feed(title=clean_title(str(about.get("title") or "")), home=str(about.get("link") or ""), entries=entries)


def clean_title(title: str) -> str:
    """A title as a reader sees it: no inline markup, no entities (also those escaped twice), one line."""
    for _ in range(2):
        title = html.unescape(_TITLE_TAG.sub("", title))
    return re.sub(r"\s+", " ", title).strip()


def without_query(url: str) -> str:
    """The address up to its query."""
    return url.partition("?")[0]


def _is_whole(data: bytes) -> bool:
    return bool(re.search(rb"</(?:\w+:)?(?:rss|feed|rdf)\s*>|<feed\b[^>]*/>", data[-2_000:], re.IGNORECASE))


def _entry(raw: Any, feed_author: str, language: str) -> Entry:
    body, is_html, base, is_full = _body(raw)
    link = without_user(storable(str(raw.get("feedburner_origlink") or raw.get("link") or "")))
    enclosures = [(str(e.get("href") or ""), str(e.get("type") or "")) for e in raw.get("enclosures", ())]
    enclosures += [
        (str(m.get("url") or ""), str(m.get("type") or (f"{m['medium']}/*" if m.get("medium") else "")))
        for m in raw.get("media_content", ())
    ]
    enclosures += [(str(m.get("url") or ""), "image/*") for m in raw.get("media_thumbnail", ())]
    # Past feedparser's own `get`, which warns about the stand-in it gives for a missing time.
    published, updated = dict.get(raw, "published_parsed"), dict.get(raw, "updated_parsed")
    return Entry(
        guid=storable(str(raw.get("id") or "")).strip(),
        link=link,
        title=clean_title(storable(str(raw.get("title") or ""))),
        body=storable(body),
        is_html=is_html,
        author=clean_title(str(raw.get("author") or feed_author)) or None,
        published=_time(published or updated),
        updated=_time(updated or published),
        base=base or link,
        language=language,
        tags=tuple(str(tag.get("term")) for tag in raw.get("tags", ()) if tag.get("term"))[:50],
        enclosures=tuple(dict.fromkeys(pair for pair in enclosures if pair[0])),
        has_full_field=is_full,
    )


def _body(raw: Any) -> tuple[str, bool, str, bool]:
    """(text, is HTML, base address, came from a field for whole articles) of the fullest text there is."""
    candidates = [(detail, True) for detail in raw.get("content", ())]
    summary = raw.get("summary_detail") or {"value": raw.get("summary") or "", "type": "text/html"}
    candidates.append((summary, False))
    best, is_full = max(candidates, key=lambda pair: len(str(pair[0].get("value") or "")))
    value, kind = str(best.get("value") or ""), str(best.get("type") or "")
    is_html = "html" in kind or bool(
        re.search(r"<(?:p|br|div|a|img|ul|ol|h[1-6]|b|i|em|strong|span|table)\b[^<>]*>|&#?\w+;", value, re.IGNORECASE)
    )
    return value, is_html, str(best.get("base") or ""), is_full


def _time(parsed: Any) -> str | None:
    try:
        return datetime.fromtimestamp(calendar.timegm(parsed), UTC).isoformat() if parsed else None
    except (ValueError, OverflowError, OSError):
        return None
