"""Web addresses: one spelling for one page, nothing secret shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline.urls import canonical_url, masked, name_in, shown, without_user


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTPS://PAGES.Example:443/a?utm_source=x&b=1#frag", "https://pages.example/a?b=1"),
        ("http://pages.example", "http://pages.example/"),
        ("http://pages.example:8080/./a/../b", "http://pages.example:8080/b"),
        ("https://bücher.example/ü?q=ä", "https://xn--bcher-kva.example/%C3%BC?q=ä"),
        ("https://pages.example./?b=2&a=1&fbclid=z", "https://pages.example/?b=2&a=1"),
        ("http://[::1]:80/", "http://[::1]/"),
    ],
)
def test_spellings_of_one_page_become_one(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical


@given(st.text(alphabet="abcXYZ/?&=.:-_~%20#é", max_size=40))
def test_the_canonical_address_is_its_own_canonical_address(tail: str) -> None:
    try:
        once = canonical_url("https://pages.example/" + tail)
    except ValueError:
        return
    assert canonical_url(once) == once


@given(st.text(max_size=20).filter(lambda t: not any(c in t for c in "@/?#\\")))
def test_a_password_is_never_shown(word: str) -> None:
    assert "s3cret" not in shown(f"http://user:s3cret{word}@pages.example/x")


@pytest.mark.parametrize(
    "address",
    [
        "http://h/full?access_token=S3KRET",
        "http://h/full?accessToken=S3KRET&b=1",
        "http://h/full?client%5Fsecret=S3KRET",
        "http://h/full?X-Amz-Signature=S3KRET#end",
        "http://h/full?AWSAccessKeyId=S3KRET",
        "http://h/full?auth[token]=S3KRET",
        "http://h/a;jsessionid=S3KRET?q=1",
        "http://h/a#id_token=S3KRET",
        "http://h/?a=b?token=S3KRET",
        "http://h/?next=https%3A%2F%2Fother%2F%3Fkey%3DS3KRET",
        "http://h/?q=eyJhbGciOi.S3KRET.sig",
        "http://h/cb?code=S3KRET&state=x",
        "ftp://user:S3KRET@h/a",
        "https://S3KRET@h/a",
    ],
)
def test_what_lets_somebody_in_is_not_shown_alone_or_in_a_text(address: str) -> None:
    for text in (shown(address), masked(f"{address}: cannot be read (see {address}), sorry")):
        assert "S3KRET" not in text
        assert "h/" in text


@pytest.mark.parametrize(
    "address",
    [
        "https://h/keys/token?q=secret&keyword=key&author=ann&country_code=de&page=2",
        "https://h/a?design=1&signal=2&passage=3&monkey=4&sessions=5#part",
        "https://h:8080/a@b?mail=a@b.example",
    ],
)
def test_what_is_no_secret_is_shown_as_it_is(address: str) -> None:
    assert shown(address) == address
    assert masked(f"see {address} there") == f"see {address} there"


def test_a_masked_text_stays_as_it_is() -> None:
    once = masked("a://u:p@h/x?token=1 and b")
    assert masked(once) == once == "a://h/x?token=*** and b"


def test_an_address_without_its_user_still_works() -> None:
    assert without_user("https://u:p@h/a?token=1#c") == "https://h/a?token=1#c"
    assert without_user("https://h/a@b") == "https://h/a@b"
    assert without_user("mailto:a@b.example") == "mailto:a@b.example"


@pytest.mark.parametrize(
    ("source_input", "name"),
    [
        ("http://h/full?access_token=S3KRET", "full"),
        ("http://h/a/full;sid=S3KRET/#token=S3KRET", "full"),
        ("http://news.example/?token=a/S3KRET", "news.example"),
        ("https://h/feed.xml", "feed.xml"),
        ("/home/a/my notes?/", "my notes?"),
    ],
)
def test_a_source_is_called_after_host_and_path_only(source_input: str, name: str) -> None:
    assert name_in(source_input) == name
