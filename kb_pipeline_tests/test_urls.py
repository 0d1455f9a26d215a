"""Web addresses: one spelling for one page, nothing secret shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline.urls import canonical_url, shown


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
