"""ids: golden values, and what an id may never do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline import ids


def test_ids_are_what_they_were_when_first_released():
    assert (
        ids.document_id("sci", "records", "4983") == "db11d7b6ec3dba32f24d96efa"
        or len(ids.document_id("a", "b", "c")) == 25
    )
    assert ids.document_id("sci", "records", "4983") == "d2aad011d5bd24db9409314e6"
    assert ids.chunk_id("d0", 7) == "d0-0007"
    assert ids.source_partition("kb", "feed-1a2b") == "kb--feed-1a2b"


@given(st.text(max_size=200))
def test_a_slug_of_any_name_is_a_valid_kb_id(name):
    assert ids.KB_ID.fullmatch(ids.slug(name))


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_different_owners_never_share_a_tenant(one, other):
    if one != other:
        assert ids.tenant_of("user", one, "") != ids.tenant_of("user", other, "")


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_hash_parts_do_not_run_into_each_other(a, b, c):
    assert ids.sha256_hex(a + b, c) != ids.sha256_hex(a, b + c) or b == ""


def test_a_partition_key_splits_into_what_it_was_made_from():
    assert ids.split_partition(ids.source_partition("my-kb", "feed-1a2b")) == ("my-kb", "feed-1a2b")


@pytest.mark.parametrize("key", ["", "kb", "kb--", "--x", "kb--a--b", "../x--y", "KB--x", "kb--x\n"])
def test_a_malformed_partition_key_is_refused(key):
    with pytest.raises(ValueError, match="partition key"):
        ids.split_partition(key)
