"""Single pages and files at an address, and which connector takes an input."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb_pipeline.connectors.registry import Registry, build_registry
from kb_pipeline.connectors.url import UrlConnector
from kb_pipeline.errors import Gone, Unsupported, UsageError
from kb_pipeline.records import Json, Listing, RawItem, Source
from kb_pipeline.services.http import HttpClient
from kb_pipeline.settings import Settings
from kb_pipeline.testing.loopback import Loopback

PAGE = "https://pages.example/a"


class World:
    def __init__(self, stub: Loopback) -> None:
        self.stub = stub
        self.settings = Settings(http_route=stub.route, http_host_interval_s=0)
        self.http = HttpClient(self.settings, sleep=lambda _: None)
        self.url = UrlConnector(self.http)

    def listing(self, url: str = PAGE, state: Json | None = None) -> Listing:
        return self.url.list_items(Source(kb_id="k", source_id="s", connector="url", input=url), state or {})

    def raw(self, url: str = PAGE) -> RawItem:
        return self.url.fetch(next(iter(self.listing(url).items)))


@pytest.fixture
def world() -> Iterator[World]:
    with Loopback() as stub:
        found = World(stub)
        yield found
        found.http.close()


def test_a_page_is_read_once_for_listing_and_fetching(world: World) -> None:
    world.stub.serve(PAGE, "<html><p>hello</p></html>", content_type="text/html; charset=utf-8")
    raw = world.raw()
    assert (raw.kind, raw.url, raw.content) == ("html", PAGE, b"<html><p>hello</p></html>")
    assert world.stub.hits(PAGE) == 1


def test_a_page_that_is_no_longer_held_is_read_again(world: World) -> None:
    world.stub.serve(PAGE, "<html><p>hello</p></html>", content_type="text/html")
    item = next(iter(world.listing().items))
    assert UrlConnector(world.http).fetch(item).content == b"<html><p>hello</p></html>"


def test_an_unchanged_page_is_not_sent_again(world: World) -> None:
    world.stub.serve(PAGE, "<html><p>hello</p></html>", etag='"1"')
    state = world.listing().state
    again = world.listing(state=state)
    assert (again.is_unchanged, list(again.items), again.state) == (True, [], state)


def test_tokens_and_scripts_do_not_make_a_new_version_but_words_do(world: World) -> None:
    def version(body: str) -> str:
        world.stub.serve(PAGE, f"<!DOCTYPE html><html>{body}</html>", content_type="text/html")
        return next(iter(world.listing().items)).version

    one = version(
        '<script nonce="1">var t=1</script><input type="hidden" name="csrf" value="a"><p class="x1">words</p>'
    )
    assert (
        version('<script nonce="2">var t=2</script><input type="hidden" name="csrf" value="b"><p class="x2">words</p>')
        == one
    )
    assert version("<p>other words</p>") != one


def test_a_missing_page_is_a_listing_of_nothing_that_says_why(world: World) -> None:
    listing = world.listing()
    assert (list(listing.items), listing.is_complete, type(listing.gone)) == ([], True, Gone)
    world.stub.serve(PAGE, "<html>x</html>")
    assert world.listing().is_complete is False


@pytest.mark.parametrize(
    ("content", "content_type", "kind", "name"),
    [
        (b"%PDF-1.7 ...", "application/octet-stream", "file", "a.pdf"),
        (b"%PDF-1.7 ...", "text/html", "file", "a.pdf"),
        (b"a,b\n1,2", "text/csv; charset=utf-16", "file", "a.csv"),
        (b"# Title", "text/markdown", "file", "a.md"),
        (b"words", "text/plain", "file", "a.txt"),
        (b"PK\x03\x04..", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "file", "a.docx"),
        (b"<html>x</html>", "text/plain", "html", None),
        (b"\xff\xfe<\0h\0t\0m\0l\0>\0", "", "html", None),
    ],
)
def test_the_content_says_whether_it_is_a_page_or_a_file(
    world: World, content: bytes, content_type: str, kind: str, name: str | None
) -> None:
    world.stub.serve(PAGE, content, content_type=content_type or None)
    raw = world.raw()
    assert (raw.kind, raw.file_name) == (kind, name)


@pytest.mark.parametrize(
    "body", ["<?xml version='1.0'?><rss version='2.0'/>", "<feed xmlns='http://www.w3.org/2005/Atom'/>"]
)
def test_a_feed_is_not_taken_for_a_page(world: World, body: str) -> None:
    world.stub.serve(PAGE, body)
    with pytest.raises(Unsupported, match="this is a feed: add it with --type rss"):
        world.listing()


@pytest.mark.parametrize("url", ["https://", "https://a.example:99999/", "http://u:hush@a.example/", "not a url"])
def test_what_is_no_address_is_refused_when_it_is_added(world: World, url: str) -> None:
    with pytest.raises(UsageError, match="the address") as refused:
        world.url.canonical(url)
    assert "hush" not in str(refused.value)


@pytest.fixture
def registry(world: World) -> Registry:
    return build_registry(world.http, world.settings)


def test_each_input_finds_its_connector(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    found = [
        registry.pick(text).name
        for text in ("https://a.example/x", "https://a.example/feed", str(tmp_path), str(tmp_path / "rows.jsonl"))
    ]
    assert found == ["url", "rss", "document", "records"]


def test_an_explicit_type_wins_unless_it_is_url(registry: Registry) -> None:
    assert registry.pick("https://a.example/x", "rss").name == "rss"
    assert registry.pick("https://a.example/feed", "url").name == "rss"
    with pytest.raises(UsageError, match="unknown source type 'fax'"):
        registry.pick("https://a.example/x", "fax")


@pytest.mark.parametrize(
    "text", ["ftp://a.example/x", "javascript:alert(1)", "gopher://127.0.0.1:1/_x", "file:///etc/passwd"]
)
def test_an_unknown_source_is_told_what_is_understood(registry: Registry, text: str) -> None:
    with pytest.raises(UsageError, match=r"unknown source: the address .*feed"):
        registry.pick(text)
