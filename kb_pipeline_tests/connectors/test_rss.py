"""The feed connector against a loopback server: what is listed, what a failure is, what a fetch brings."""

# ruff: noqa: E501, PT018 - a page or feed is clearer on one line

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kb_pipeline.connectors.rss import RssConnector
from kb_pipeline.errors import Blocked, Corrupt, Gone, Transient, UnitFailure, Unsupported, UsageError
from kb_pipeline.records import Item, Listing, Source
from kb_pipeline.services.http import HttpClient
from kb_pipeline.settings import Settings
from kb_pipeline.stages.intake import clean_item
from kb_pipeline.stages.normalize.entry import normalize_entry
from kb_pipeline.testing.loopback import Loopback

FEED = "https://harbour.example/feed.xml"


class World:
    """A loopback server, a connector that sees it, and the state of one source."""

    def __init__(self, stub: Loopback) -> None:
        self.stub = stub
        self.http = HttpClient(Settings(http_route=stub.route, http_host_interval_s=0), sleep=lambda _: None)
        self.rss = RssConnector(self.http)
        self.state: dict[str, Any] = {}

    def listing(self, url: str = FEED) -> Listing:
        found = self.rss.list_items(Source(kb_id="k", source_id="s", connector="rss", input=url), self.state)
        self.state = json.loads(json.dumps(found.state))
        return found

    def items(self, url: str = FEED) -> list[Item]:
        return list(self.listing(url).items)


@pytest.fixture
def world() -> Iterator[World]:
    with Loopback() as stub:
        found = World(stub)
        yield found
        found.http.close()


def an_item(
    title: str = "T", link: str = "", guid: str = "", body: str = "text", date: str = "", more: str = ""
) -> str:
    parts = [f"<title>{title}</title>", f"<description>{body}</description>", more]
    parts += [
        f"<{name}>{value}</{name}>" for name, value in (("link", link), ("guid", guid), ("pubDate", date)) if value
    ]
    return f"<item>{''.join(parts)}</item>"


def a_feed(*items: str, head: str = '<?xml version="1.0" encoding="utf-8"?>') -> str:
    return f'{head}<rss version="2.0"><channel><title>F</title><link>https://harbour.example/</link>{"".join(items)}</channel></rss>'


def test_a_feed_is_a_window_and_an_empty_one_is_fine(world: World) -> None:
    world.stub.serve(FEED, a_feed())
    found = world.listing()
    assert (list(found.items), found.is_complete, found.is_unchanged) == ([], False, False)


def test_an_unchanged_feed_is_not_sent_again(world: World) -> None:
    world.stub.serve(FEED, a_feed(an_item(guid="a")), etag='"1"', last_modified="Mon, 03 Mar 2025 08:00:00 GMT")
    world.items()
    before = world.state
    assert world.listing().is_unchanged
    assert world.state == before


def test_an_edit_changes_the_version_but_a_new_date_or_tracking_does_not(world: World) -> None:
    world.stub.serve(FEED, a_feed(an_item(guid="a", body="one", link="https://harbour.example/a?utm_source=x")))
    first = world.items()[0]
    world.stub.serve(
        FEED,
        a_feed(an_item(guid="a", body="one", link="https://harbour.example/a", date="Mon, 03 Mar 2025 08:00:00 GMT")),
    )
    assert world.items()[0].version == first.version
    world.stub.serve(FEED, a_feed(an_item(guid="a", body="two", link="https://harbour.example/a")))
    edited = world.items()[0]
    assert (edited.external_id, edited.version != first.version) == (first.external_id, True)


def test_a_permanent_move_is_remembered_and_undone_when_the_new_place_dies(world: World) -> None:
    new = "https://new.example/f.xml"
    world.stub.serve(FEED, status=301, headers={"Location": new})
    world.stub.serve(new, a_feed(an_item(guid="a")))
    world.items()
    world.items()
    assert (world.stub.hits(FEED), world.stub.hits(new)) == (1, 2)
    world.stub.forget(new)
    world.stub.serve(FEED, a_feed(an_item(guid="b")))
    assert [item.external_id for item in world.items()] == ["b"]


def test_gone_is_said_at_once(world: World) -> None:
    world.stub.serve(FEED, status=410)
    with pytest.raises(Gone, match="410"):
        world.listing()
    assert world.stub.hits(FEED) == 1


def test_a_page_in_place_of_a_known_feed_is_a_failure_even_if_it_names_a_feed(world: World) -> None:
    world.stub.serve(FEED, a_feed(an_item(guid="a")))
    world.items()
    page = '<!DOCTYPE html><html><head><link rel="alternate" type="application/rss+xml" href="/other.xml"></head><body>Sign in</body></html>'
    world.stub.serve(FEED, page, content_type="text/html")
    with pytest.raises(Blocked, match=r"feed.*harbour\.example"):
        world.listing()
    world.stub.serve(FEED, status=500)
    with pytest.raises(Transient, match="500"):
        world.listing()
    world.stub.serve(FEED, a_feed())
    assert world.items() == []


def test_a_site_leads_to_the_feed_that_it_names(world: World) -> None:
    page = "<html><head><link rel='alternate' href='/feed.xml' type='application/atom+xml; charset=utf-8'></head><body>hi</body></html>"
    world.stub.serve("https://harbour.example/", page, content_type="text/html")
    world.stub.serve(FEED, a_feed(an_item(guid="a")))
    for _ in range(2):
        assert [item.external_id for item in world.items("https://harbour.example/")] == ["a"]
    assert world.stub.hits("https://harbour.example/") == 1


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("", Corrupt),
        ("just words", Corrupt),
        ("<opml><head/></opml>", Corrupt),
        ('{"a": 1}', Corrupt),
        ("<html><p>x", Unsupported),
    ],
)
def test_what_is_no_feed_is_refused_as_one(world: World, body: str, failure: type[UnitFailure]) -> None:
    world.stub.serve(FEED, body)
    with pytest.raises(failure, match=r"feed https://harbour\.example"):
        world.listing()


def test_entities_are_never_fetched_and_bombs_are_refused(world: World) -> None:
    world.stub.serve(
        FEED,
        "<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>"
        + a_feed(an_item("A &x;", guid="a", body="words &x;"), head=""),
    )
    item = world.items()[0]
    assert (item.title, normalize_entry(world.rss.fetch(item)).text) == ("A", "words")
    levels = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))
    world.stub.serve(FEED, f'<!DOCTYPE r [<!ENTITY l0 "ox">{levels}]>' + a_feed(an_item(body="&l9;"), head=""))
    with pytest.raises(Corrupt, match="entit"):
        world.listing()
    big = f'<!DOCTYPE r [<!ENTITY b "{"x" * 40_000}">]>' + a_feed(an_item(body="&b;" * 1_000), head="")
    world.stub.serve(FEED, big)
    with pytest.raises(Corrupt, match="entit"):
        world.listing()


@pytest.mark.parametrize(
    ("declared", "real", "word"),
    [
        ("iso-8859-1", "utf-8", "naïve Łódź"),
        ("utf-8", "cp1252", "naïve “café”"),
        ("utf-8", "shift_jis", "満潮は午前六時です。ソ・表・能・予という字が化けやすい。"),
        ("windows-1251", "cp1251", "Привет, мир"),
        ("utf-16", "utf-16", "naïve Łódź"),
        ("euc-jp", "euc_jp", "満潮は午前六時です"),
    ],
)
def test_a_wrong_or_old_charset_garbles_nothing(world: World, declared: str, real: str, word: str) -> None:
    text = a_feed(an_item(word, guid="a", body=word), head=f'<?xml version="1.0" encoding="{declared}"?>')
    world.stub.serve(FEED, text.encode(real))
    assert world.items()[0].title == word


def test_one_bad_byte_spoils_only_itself(world: World) -> None:
    world.stub.serve(FEED, a_feed(an_item("Łódź don't voilà", guid="a")).encode().replace(b"'t", b"\x92t"))
    assert world.items()[0].title == "Łódź don’t voilà"


def test_json_feeds_are_feeds_too(world: World) -> None:
    item = {
        "id": 7,
        "url": "/p/7",
        "title": "Seven",
        "content_html": "<p>Rope</p>",
        "authors": [{"name": "Ida"}],
        "tags": "odd",
    }
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "J",
        "items": [item, "no item", {"content_text": "plain"}],
    }
    world.stub.serve(FEED, json.dumps(feed))
    first, second = world.items()
    assert (first.external_id, first.url) == ("7", "https://harbour.example/p/7")
    found = normalize_entry(world.rss.fetch(first))
    assert (found.title, found.text, found.author) == ("Seven", "Rope", "Ida")
    assert normalize_entry(world.rss.fetch(second)).text == "plain"


def test_an_excerpt_brings_its_page_and_a_full_text_does_not(world: World) -> None:
    link = "https://harbour.example/post"
    words = (
        "The first groyne was rebuilt with basalt blocks of nine hundred kilograms by a mason from the old town. " * 8
    )
    world.stub.serve(
        link,
        f"<html><body><article><h1>T</h1><p>We walk the wall. {words}</p></article></body></html>",
        content_type="text/html",
    )
    world.stub.serve(
        FEED,
        a_feed(an_item(link=link, guid="a", body="We walk the wall&#8230; &lt;a href='/post'&gt;Read more&lt;/a&gt;")),
    )
    found = normalize_entry(world.rss.fetch(world.items()[0]))
    assert "basalt blocks" in found.text and "Read more" not in found.text and not found.is_partial
    world.stub.serve(FEED, a_feed(an_item(link=link, guid="a", body=f"&lt;p&gt;{words}&lt;/p&gt;")))
    asked = world.stub.hits(link)
    assert "basalt" in normalize_entry(world.rss.fetch(world.items()[0])).text
    assert world.stub.hits(link) == asked


def test_an_excerpt_whose_page_is_missing_is_kept_as_a_part(world: World) -> None:
    world.stub.serve(FEED, a_feed(an_item(link="https://harbour.example/none", guid="a", body="We walk on [&#8230;]")))
    found = normalize_entry(world.rss.fetch(world.items()[0]))
    assert found.is_partial and found.text.startswith("We walk on") and "404" in found.warnings[0]


def test_an_entry_that_links_into_the_own_network_is_kept_without_its_page(world: World) -> None:
    world.stub.serve(FEED, a_feed(an_item(link=f"http://127.0.0.1:{world.stub.port}/secret", guid="a", body="teaser")))
    assert normalize_entry(world.rss.fetch(world.items()[0])).text == "teaser"
    assert not [r for r in world.stub.requests if r.target == "/secret"]


@pytest.mark.parametrize(
    ("url", "is_feed"),
    [
        ("https://a.example/feed", True),
        ("https://a.example/blog/feed/", True),
        ("https://a.example/rss.xml", True),
        ("https://a.example/index.atom", True),
        ("https://feeds.a.example/u/7", True),
        ("https://a.example/?feed=rss2", True),
        ("https://a.example/feedback", False),
        ("https://a.example/atomic-habits", False),
        ("ftp://a.example/feed", False),
        ("/home/me/feed.xml", False),
    ],
)
def test_feeds_are_told_by_the_shape_of_their_address(world: World, url: str, is_feed: bool) -> None:
    assert world.rss.detect(url) is is_feed


def test_an_address_that_is_none_is_a_usage_error(world: World) -> None:
    with pytest.raises(UsageError, match="the address"):
        world.rss.canonical("not a url")


@pytest.mark.parametrize("piece", ["<![CDATA[", "<!--", "<guid ", "<!DOCTYPE [<!--", "<!ENTITY x '", "&lt;![CDATA["])
def test_unfinished_markup_without_end_takes_no_time_without_end(world: World, piece: str) -> None:
    world.stub.serve(FEED, '<rss version="2.0"><channel><item><description>' + piece * 100_000)
    started = time.monotonic()
    with contextlib.suppress(UnitFailure):
        world.items()
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("more", ["", "<broken>"])  # a strict and a lenient parser behind it
def test_guids_that_are_stored_alike_are_not_taken_for_one_entry(world: World, more: str) -> None:
    guids = ("a&#xD800;", "a&#55297;", "a?" + more)
    entries = [an_item(f"Title {n}", f"https://harbour.example/{n}", guid) for n, guid in enumerate(guids)]
    world.stub.serve(FEED, a_feed(*entries))
    items = [clean_item(item) for item in world.items()]
    assert len({item.external_id for item in items}) == 3


@pytest.mark.parametrize("number", ["#0", "#x1", "#xDFFF", "#x110000", "#" + "9" * 30, "#" + "9" * 5_000, "#xFFFE"])
@pytest.mark.parametrize("form", ["{}", "<![CDATA[<p>{}</p>]]>", "<broken>{}"])
def test_a_reference_to_no_character_harms_no_feed(world: World, number: str, form: str) -> None:
    text = form.format(f"before &{number}; after &#x41;")
    world.stub.serve(FEED, a_feed(an_item("T", "https://harbour.example/1", "1", text)))
    (item,) = world.items()
    assert "after" in normalize_entry(world.rss.fetch(item)).text


MANY = 200_000


@pytest.mark.parametrize(
    ("body", "excess"),
    [
        ("<a>" * MANY + "</a>" * MANY, "deep inside each other"),
        ("<a>" * MANY, "deep inside each other"),
        (f"<a {' '.join(f'a{n}=1' for n in range(MANY))}/>", "attributes"),
        ("<a>x</a>" * (MANY + 1), "elements"),
    ],
)
def test_a_feed_with_too_much_markup_is_refused_at_once(world: World, body: str, excess: str) -> None:
    world.stub.serve(FEED, a_feed(an_item("T", "https://harbour.example/1", "1", body)))
    started = time.monotonic()
    with pytest.raises(Corrupt, match=rf"the feed https://harbour\.example/feed\.xml has .*{excess}"):
        world.listing()
    assert time.monotonic() - started < 5


def test_markup_in_a_text_or_left_open_by_many_entries_is_no_excess(world: World) -> None:
    texts = ["<p>open <li>open <br> one", "<![CDATA[" + "<div>" * 900 + "two]]>", "&lt;div&gt;" * 900 + "three"]
    world.stub.serve(FEED, a_feed(*(an_item(f"T{n}", "", f"g{n}", texts[n % 3]) for n in range(900))))
    assert len(world.items()) == 900
