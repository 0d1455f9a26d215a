"""The HTTP client against loopback servers: guard, caps, redirects, robots, retries, politeness."""

import gzip
import ipaddress
import socket
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from kb_pipeline.errors import (
    AuthFailed,
    Blocked,
    Corrupt,
    Gone,
    TooLarge,
    Transient,
    UnitFailure,
    Unsupported,
    UsageError,
)
from kb_pipeline.services.address import AllowList, is_public, parse_routes
from kb_pipeline.services.http import HttpClient
from kb_pipeline.settings import Settings
from kb_pipeline.testing.loopback import Answer, Loopback

_opened: list[HttpClient] = []


@pytest.fixture
def stub() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
        while _opened:
            _opened.pop().close()


def a_client(stub: Loopback, **settings: Any) -> tuple[HttpClient, list[float]]:
    """A client whose waits are recorded instead of slept; its clock stands still but for them."""
    waits: list[float] = []
    chosen = {"http_route": stub.route, "http_host_interval_s": 0.0, "http_timeout_s": 5.0} | settings
    client = HttpClient(Settings(**chosen), clock=lambda: sum(waits), sleep=waits.append)
    _opened.append(client)
    return client, waits


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "2130706433",
        "0x7f.1",
        "127.1",
        "0",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "10.0.0.8",
    ],
)
def test_no_spelling_of_a_private_address_is_ever_connected_to(stub: Loopback, host: str) -> None:
    client, _ = a_client(stub)
    with pytest.raises(Blocked, match="the address"):
        client.get(f"http://{host}:{stub.port}/secret")
    assert not stub.requests


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.192",
        "224.0.0.1",
        "fe80::1",
        "fd00:ec2::254",
        "2002:7f00:1::",
        "::",
        "::7f00:1",
    ],
)
def test_addresses_that_only_look_public_are_not(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"])
def test_addresses_of_the_open_internet_are_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("allow", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:{port}"])
def test_the_allow_list_lets_an_address_in(stub: Loopback, allow: str) -> None:
    stub.serve(f"http://127.0.0.1:{stub.port}/page", "inside")
    client, _ = a_client(stub, http_allow=allow.format(port=stub.port))
    assert client.get(f"http://127.0.0.1:{stub.port}/page").content == b"inside"


def test_an_allowed_port_opens_no_other_port() -> None:
    allow = AllowList.parse("127.0.0.1:80")
    assert allow.covers("127.0.0.1", 80, ipaddress.ip_address("127.0.0.1"))
    assert not allow.covers("127.0.0.1", 6379, ipaddress.ip_address("127.0.0.1"))


def test_a_redirect_into_the_own_network_is_refused(stub: Loopback) -> None:
    stub.serve("https://pages.example/in", status=302, headers={"Location": f"http://127.0.0.1:{stub.port}/secret"})
    client, _ = a_client(stub)
    with pytest.raises(Blocked, match=r"the address https://pages\.example/in"):
        client.get("https://pages.example/in")
    assert not [r for r in stub.requests if r.target == "/secret"]


def test_a_name_that_also_resolves_to_a_private_address_is_refused(
    stub: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("93.184.216.34", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    client, _ = a_client(stub)
    with pytest.raises(Blocked, match=r"127\.0\.0\.1"):
        client.get("http://rebound.invalid/")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.example/x",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://",
        "not a url",
        "",
        "https://pages.example:99999/",
        "http://127.0.0.1:80\\@pages.example/",
        "http://pages.example/a\nb",
    ],
)
def test_what_is_no_web_address_is_refused_by_name(stub: Loopback, url: str) -> None:
    client, _ = a_client(stub)
    with pytest.raises(Blocked, match="the address"):
        client.get(url)


def test_user_names_and_secrets_are_never_printed(stub: Loopback) -> None:
    client, _ = a_client(stub)
    with pytest.raises(Blocked) as refused:
        client.get("http://user:pw@127.0.0.1/x")
    assert "pw" not in str(refused.value)
    assert "user:" not in str(refused.value)
    with pytest.raises(Gone) as missing:
        client.get("https://pages.example/x?id=7&access_token=hush&api_key=hush")
    assert "hush" not in str(missing.value)
    assert "id=7" in str(missing.value)


def test_circles_and_long_chains_of_redirects_end(stub: Loopback) -> None:
    stub.serve("https://pages.example/loop", status=302, headers={"Location": "/loop"})
    for i in range(8):
        stub.serve(f"https://pages.example/{i}", status=302, headers={"Location": f"/{i + 1}"})
    client, _ = a_client(stub)
    with pytest.raises(Blocked, match="circle"):
        client.get("https://pages.example/loop")
    with pytest.raises(Blocked, match="more than 5"):
        client.get("https://pages.example/0")


def test_only_a_wholly_permanent_move_is_reported_as_one(stub: Loopback) -> None:
    stub.serve("https://pages.example/a", status=301, headers={"Location": "/b"})
    stub.serve("https://pages.example/b", status=308, headers={"Location": "/c#part"})
    stub.serve("https://pages.example/t", status=302, headers={"Location": "/a"})
    stub.serve("https://pages.example/c", "there")
    client, _ = a_client(stub)
    moved = client.get("https://pages.example/a")
    assert (moved.moved_to, moved.content) == ("https://pages.example/c", b"there")
    assert client.get("https://pages.example/t").moved_to is None


def test_credentials_do_not_follow_a_redirect_to_another_host(stub: Loopback) -> None:
    stub.serve("https://one.example/", status=302, headers={"Location": "https://two.example/"})
    stub.serve("https://two.example/", "x")
    client, _ = a_client(stub)
    client.get("https://one.example/", headers={"Authorization": "Bearer hush"})
    sent = {r.host: r.headers.get("authorization") for r in stub.requests if r.target == "/"}
    assert sent == {"one.example": "Bearer hush", "two.example": None}


def test_endless_and_expanding_bodies_are_cut_off(stub: Loopback) -> None:
    stub.serve("https://pages.example/endless", endless=True, content_type="text/html")
    stub.serve("https://pages.example/bomb", gzip.compress(b"a" * 50_000_000), headers={"Content-Encoding": "gzip"})
    client, _ = a_client(stub, http_max_page_bytes=2_000_000)
    for name in ("endless", "bomb"):
        with pytest.raises(TooLarge, match="the address"):
            client.get(f"https://pages.example/{name}")
    assert stub.bytes_sent("https://pages.example/endless") < 20_000_000


def test_files_may_be_larger_than_pages(stub: Loopback) -> None:
    stub.serve("https://pages.example/f.pdf", b"%PDF-" + b"x" * 3_000, content_type="application/pdf")
    stub.serve("https://pages.example/f.xml", b"<x>" + b"x" * 3_000, content_type="application/rss+xml")
    client, _ = a_client(stub, http_max_page_bytes=1_000, http_max_bytes=5_000)
    assert len(client.get("https://pages.example/f.pdf").content) == 3_005
    with pytest.raises(TooLarge):
        client.get("https://pages.example/f.xml")


def test_a_dripping_body_ends_by_the_deadline(stub: Loopback) -> None:
    stub.serve("https://pages.example/drip", b"a" * 100, drip_s=0.1)
    client, waits = a_client(stub, http_timeout_s=0.6)
    with pytest.raises(Transient, match="in time"):
        client.get("https://pages.example/drip")
    assert not waits, "a time-out is not tried again at once"


def test_compression_is_undone_and_damage_is_named(stub: Loopback) -> None:
    stub.serve("https://pages.example/gz", gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"})
    stub.serve("https://pages.example/bad", b"not gzip", headers={"Content-Encoding": "gzip"})
    stub.serve("https://pages.example/br", b"?", headers={"Content-Encoding": "br"})
    client, _ = a_client(stub)
    assert client.get("https://pages.example/gz").content == b"hello"
    with pytest.raises(Corrupt):
        client.get("https://pages.example/bad")
    with pytest.raises(Unsupported):
        client.get("https://pages.example/br")


WORDS = b" ".join(b"%d" % number for number in range(40_000))
COMPRESSED = {
    "gzip": gzip.compress(WORDS),
    "x-gzip": gzip.compress(WORDS),
    "deflate": zlib.compress(WORDS),
    "Deflate": zlib.compress(WORDS)[2:-4],
}
"""The last is without the zlib frame, as some servers send it."""


@pytest.mark.parametrize("encoding", COMPRESSED)
@pytest.mark.parametrize("left", [1, 5, 1_000, 40_000])
def test_a_compressed_answer_that_ends_too_early_is_never_taken_for_the_whole(
    stub: Loopback, encoding: str, left: int
) -> None:
    whole = COMPRESSED[encoding]
    stub.serve("https://pages.example/whole", whole, headers={"Content-Encoding": encoding})
    stub.serve("https://pages.example/cut", whole[:-left], headers={"Content-Encoding": encoding})
    client, _ = a_client(stub)
    assert client.get("https://pages.example/whole").content == WORDS
    with pytest.raises(Transient, match=r"the address https://pages\.example/cut broke off"):
        client.get("https://pages.example/cut")
    assert stub.hits("https://pages.example/cut") == 3


@pytest.mark.parametrize("drip_s", [0.0, 0.001])
def test_a_gzip_answer_of_several_members_is_read_to_its_end(stub: Loopback, drip_s: float) -> None:
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two ")
    for name, body in (("whole", members), ("padded", members + b"\0" * 9), ("cut", members[:-9])):
        stub.serve(f"https://pages.example/{name}", body, headers={"Content-Encoding": "gzip"}, drip_s=drip_s)
    client, _ = a_client(stub)
    assert client.get("https://pages.example/whole").content == b"one two "
    assert client.get("https://pages.example/padded").content == b"one two "
    with pytest.raises(Transient, match="broke off"):
        client.get("https://pages.example/cut")


def test_rules_for_robots_that_are_larger_than_the_cap_still_count(stub: Loopback) -> None:
    rules = b"User-agent: *\nDisallow: /private\n" + b"# %d\n" * 300_000
    stub.serve("https://pages.example/robots.txt", gzip.compress(rules), headers={"Content-Encoding": "gzip"})
    client, _ = a_client(stub)
    with pytest.raises(Blocked, match=r"robots\.txt"):
        client.get("https://pages.example/private")


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (401, AuthFailed),
        (403, Blocked),
        (404, Gone),
        (410, Gone),
        (451, Blocked),
        (400, Blocked),
        (501, Transient),
        (302, Blocked),
    ],
)
def test_a_status_is_a_typed_failure_and_not_tried_again(
    stub: Loopback, status: int, failure: type[UnitFailure]
) -> None:
    stub.serve("https://pages.example/s", status=status)
    client, _ = a_client(stub)
    with pytest.raises(failure, match=str(status)):
        client.get("https://pages.example/s")
    assert stub.hits("https://pages.example/s") == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_three_times(stub: Loopback, status: int) -> None:
    stub.serve("https://pages.example/s", status=status)
    client, waits = a_client(stub)
    with pytest.raises(Transient, match=str(status)):
        client.get("https://pages.example/s")
    assert stub.hits("https://pages.example/s") == 3
    assert len(waits) == 2


def test_the_server_s_own_wait_is_honoured_up_to_a_cap(stub: Loopback) -> None:
    url = "https://pages.example/s"
    stub.serve_in_turn(url, [Answer(status=429, headers={"Retry-After": "7"}), Answer(b"now")])
    client, waits = a_client(stub)
    assert client.get(url).content == b"now"
    assert waits == [7.0]
    stub.serve(url, status=503, headers={"Retry-After": "3600"})
    with pytest.raises(Transient) as refused:
        client.get(url)
    assert refused.value.retry_after_s == 3600
    assert waits == [7.0], "an hour is for the next sync"


def test_requests_to_one_host_keep_their_distance(stub: Loopback) -> None:
    for host in ("one", "two"):
        stub.serve(f"https://{host}.example/", "x")
    client, waits = a_client(stub, http_host_interval_s=2.0)
    for _ in range(2):
        client.get("https://one.example/")
    client.get("https://two.example/")
    assert waits == [2.0]


def test_robots_rules_are_read_once_and_obeyed(stub: Loopback) -> None:
    stub.serve("https://pages.example/robots.txt", "User-agent: *\nDisallow: /private\nCrawl-delay: 3\n")
    for name in ("private", "open", "other"):
        stub.serve(f"https://pages.example/{name}", "x")
    client, waits = a_client(stub)
    with pytest.raises(Blocked, match=r"robots\.txt"):
        client.get("https://pages.example/private")
    client.get("https://pages.example/open")
    client.get("https://pages.example/other")
    assert waits == [3.0]
    assert stub.hits("https://pages.example/robots.txt") == 1
    assert stub.hits("https://pages.example/private") == 0


def test_robots_that_cannot_be_had_mean_not_now(stub: Loopback) -> None:
    stub.serve("https://pages.example/robots.txt", status=500)
    stub.serve("https://pages.example/x", "x")
    client, waits = a_client(stub)
    with pytest.raises(Transient, match=r"robots\.txt"):
        client.get("https://pages.example/x")
    stub.forget("https://pages.example/robots.txt")
    waits.append(61.0)
    assert client.get("https://pages.example/x").status == 200


def test_an_unchanged_answer_comes_back_as_304(stub: Loopback) -> None:
    stub.serve("https://pages.example/x", "x", etag='W/"1"')
    client, _ = a_client(stub)
    again = client.get("https://pages.example/x", headers={"If-None-Match": 'W/"1"'})
    assert (again.status, again.content) == (304, b"")


def test_the_environment_s_proxies_are_not_used(stub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    stub.serve("https://pages.example/x", "x")
    client, _ = a_client(stub)
    assert client.get("https://pages.example/x").content == b"x"


def test_a_route_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="HTTP_ROUTE"):
        parse_routes("intranet.example")
