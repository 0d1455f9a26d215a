"""Single web pages and files at an address. A page that is missing twice retires its document, a broken one never."""

import re
from collections import OrderedDict
from pathlib import PurePosixPath
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from kb_pipeline.connectors.base import Http
from kb_pipeline.connectors.feed_xml import feed_text, root_name
from kb_pipeline.connectors.jsonfeed import parse_json
from kb_pipeline.errors import Gone, Unsupported, UsageError
from kb_pipeline.ids import sha256_hex
from kb_pipeline.records import HttpResponse, Item, Json, Listing, RawItem, Source
from kb_pipeline.urls import canonical_url, shown

HELD_BYTES = 64_000_000
"""Bodies kept between listing and fetching, at most."""
_NOISE = re.compile(
    rb"<script\b.*?(?:</script\s*>|\Z)|<style\b.*?(?:</style\s*>|\Z)|<!--.*?(?:-->|\Z)|<input\b[^<>]{0,500}type\s*=\s*[\"']?hidden[^<>]{0,2000}>|<meta\b[^<>]{0,500}csrf[^<>]{0,2000}>"
    rb"|\s(?:nonce|integrity|data-[\w-]+|id|class|style)\s*=\s*(?:\"[^\"]*\"|'[^']*')",
    re.IGNORECASE | re.DOTALL,
)
_MAGIC = (
    (b"%PDF-", "pdf"),
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"\xd0\xcf\x11\xe0", "doc"),
    (b"{\\rtf", "rtf"),
)
_SUFFIX_OF_TYPE = {
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/epub+zip": "epub",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/json": "json",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/markdown": "md",
    "message/rfc822": "eml",
    "text/plain": "txt",
}


class UrlConnector:
    """One address is one document; its key is the canonical address."""

    name: ClassVar[str] = "url"
    has_global_ids: ClassVar[bool] = True
    understands: ClassVar[str] = "the http(s) address of a web page or of a file"

    def __init__(self, http: Http) -> None:
        self._http = http
        self._held: OrderedDict[str, HttpResponse] = OrderedDict()

    def detect(self, source_input: str) -> bool:
        """True for every http(s) address; asked last."""
        return source_input.strip().lower().startswith(("http://", "https://"))

    def canonical(self, source_input: str) -> str:
        """The normalised address. Raises: UsageError: not a web address."""
        try:
            return canonical_url(source_input)
        except ValueError as error:
            raise UsageError(
                f"the address {shown(source_input.strip())} {error}; a page has an http(s) address"
            ) from None

    def list_items(self, source: Source, state: Json) -> Listing:
        """The one page; reads it, unless the server says that it is the same, and holds the body for `fetch`.

        An answer that nothing is there (404, 410) is a listing of nothing, which the stage wants to hear twice.
        """
        headers = {"Accept": "text/html, application/xhtml+xml, */*;q=0.8"}
        for name, value in (("If-None-Match", state.get("etag")), ("If-Modified-Since", state.get("last_modified"))):
            if value:
                headers[name] = str(value)
        try:
            answer = self._http.get(source.input, headers=headers)
        except Gone as gone:
            return Listing(items=(), is_complete=True, gone=gone)
        if answer.status == 304:
            return Listing(items=(), is_complete=False, is_unchanged=True, state=state)
        _refuse_feed(source.input, answer)
        address = canonical_url(source.input)
        item = Item(external_id=address, version=_version(answer), url=address, locator={"url": source.input})
        self._hold(address, answer)
        kept = {"etag": answer.headers.get("etag", ""), "last_modified": answer.headers.get("last-modified", "")}
        return Listing(items=[item], is_complete=False, state=kept)

    def fetch(self, item: Item) -> RawItem:
        """The page as it was listed; asked for again only where it is no longer held."""
        answer = self._held.pop(item.external_id, None) or self._http.get(str(item.locator["url"]))
        _refuse_feed(item.external_id, answer)
        media_type = answer.headers.get("content-type")
        suffix = "" if _is_markup(answer) else _suffix(answer)
        return RawItem(
            content=answer.content,
            kind="file" if suffix else "html",
            media_type=media_type,
            url=item.external_id,
            file_name=_file_name(answer.url, suffix) if suffix else None,
            metadata={"final_url": answer.url} if answer.url != item.external_id else {},
        )

    def _hold(self, address: str, answer: HttpResponse) -> None:
        self._held[address] = answer
        while len(self._held) > 1 and sum(len(held.content) for held in self._held.values()) > HELD_BYTES:
            self._held.popitem(last=False)


def _version(answer: HttpResponse) -> str:
    """Hash of what a reader of the page could see: scripts, styles, tokens and class names come and go unseen."""
    return sha256_hex(_NOISE.sub(b"", answer.content) if _is_markup(answer) else answer.content)[:32]


def _refuse_feed(address: str, answer: HttpResponse) -> None:
    """Raises: Unsupported: the answer is a feed."""
    head = answer.content[:3_000]
    is_feed = parse_json(answer.content, answer.url) is not None if head.lstrip()[:1] == b"{" else False
    if not is_feed and b"<" in head.replace(b"\0", b"")[:200]:
        is_feed = root_name(feed_text(head, answer.headers.get("content-type"))) in ("rss", "feed", "rdf")
    if is_feed:
        raise Unsupported(f"the address {shown(address)} is a feed, not a page: this is a feed: add it with --type rss")


def _is_markup(answer: HttpResponse) -> bool:
    """True for HTML, told by the content first, as servers mislabel files."""
    head = answer.content[:2_000].replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n").lower()
    if head.startswith((b"%pdf-", b"pk\x03\x04", b"\x89png", b"\xff\xd8\xff", b"gif8", b"\xd0\xcf\x11\xe0", b"{\\rtf")):
        return False
    if b"<html" in head or b"<!doctype html" in head:
        return True
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return "html" in kind or (not kind and head.startswith(b"<"))


def _suffix(answer: HttpResponse) -> str:
    """File type by content, then by declared type, then by the name in the address."""
    by_magic = next((suffix for magic, suffix in _MAGIC if answer.content.startswith(magic)), "")
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    by_name = PurePosixPath(unquote(urlsplit(answer.url).path)).suffix.lower().lstrip(".")
    if by_magic or (kind in _SUFFIX_OF_TYPE and not (kind == "text/plain" and by_name)):
        return by_magic or _SUFFIX_OF_TYPE[kind]
    return by_name if re.fullmatch(r"[a-z0-9]{1,8}", by_name) else "txt" if kind.startswith("text/") else "bin"


def _file_name(address: str, suffix: str) -> str:
    name = PurePosixPath(unquote(urlsplit(address).path)).name or urlsplit(address).hostname or "file"
    name = "".join(c for c in name if c.isprintable() and c not in '/\\:*?"<>|')[:120]
    return name if name.lower().endswith("." + suffix) else f"{name}.{suffix}"
