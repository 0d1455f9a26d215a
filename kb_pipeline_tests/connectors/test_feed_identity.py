"""Which entry is which document, over listings with missing, shared and changing guids."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline.connectors.feed_entries import Entry
from kb_pipeline.connectors.feed_identity import REMEMBERED, FeedMemory, identify

HOME = "https://a.example/"


def an_entry(title: str = "T", guid: str = "", link: str = "", body: str = "text", date: str = "") -> Entry:
    return Entry(
        guid=guid, link=link, title=title, body=body, is_html=False, published=date or None, updated=date or None
    )


def ids(entries: Sequence[Entry], memory: FeedMemory) -> tuple[list[str], FeedMemory]:
    pairs, learned = identify(entries, [HOME], memory)
    return [key for key, _ in pairs], FeedMemory.from_json(learned.as_json())


def fresh() -> FeedMemory:
    return FeedMemory.from_json({})


def test_a_guid_names_the_entry_whatever_else_changes() -> None:
    first, memory = ids([an_entry("Old", "g1", "http://a.example/old", date="2025-01-01")], fresh())
    again, _ = ids([an_entry("New", "g1", "https://b.example/new", date="2025-01-01")], memory)
    assert first == again == ["g1"]


def test_an_endless_guid_or_link_names_an_entry_by_its_hash() -> None:
    entries = [an_entry("One", "g" * 100_000, "https://a.example/1"), an_entry("Two", "", HOME + "l" * 100_000)]
    first, memory = ids(entries, fresh())
    assert all(len(key) < 100 for key in first)
    assert ids(list(reversed(entries)), memory)[0] == list(reversed(first))


def test_a_guid_shared_by_all_names_none() -> None:
    entries = [an_entry(f"Lesson {i}", HOME, f"https://a.example/{i}") for i in range(5)]
    first, memory = ids(entries, fresh())
    assert len(set(first)) == 5
    assert ids(list(reversed(entries)), memory)[0] == list(reversed(first))


def test_a_guid_found_to_be_shared_later_leaves_the_first_document_alone() -> None:
    one = an_entry("One", "g", "https://a.example/1", date="2025-01-01")
    two = an_entry("Two", "g", "https://a.example/2", date="2025-01-02")
    first, memory = ids([one], fresh())
    both, memory = ids([two, one], memory)
    assert both[1] == first[0]
    assert both[0] != first[0]
    assert ids([two], memory)[0] == [both[0]]


def test_a_guid_reused_for_the_next_post_names_neither() -> None:
    first, memory = ids([an_entry("One", "latest", "https://a.example/1", date="2025-01-01")], fresh())
    second, _ = ids([an_entry("Two", "latest", "https://a.example/2", date="2025-01-02")], memory)
    assert first != second


def test_without_guids_a_link_of_its_own_names_the_entry_through_edits() -> None:
    first, memory = ids(
        [an_entry("A", link="https://a.example/1?utm_source=x"), an_entry("B", link="https://a.example/2")], fresh()
    )
    again, _ = ids(
        [an_entry("A, corrected", link="https://a.example/1"), an_entry("B", link="https://a.example/2")], memory
    )
    assert first == again


def test_without_guids_a_shared_link_names_none() -> None:
    entries = [
        an_entry(f"Gate {c}", link="https://a.example/status", date=f"2025-01-0{i + 1}") for i, c in enumerate("ABC")
    ]
    first, memory = ids(entries, fresh())
    assert len(set(first)) == 3
    assert ids(entries[1:], memory)[0] == first[1:]


def test_a_changed_guid_with_the_same_link_and_title_is_the_same_document() -> None:
    first, memory = ids([an_entry("A", "g1", "https://a.example/1")], fresh())
    assert ids([an_entry("A", "g1-new", "https://a.example/1")], memory)[0] == first


def test_a_feed_that_changes_all_guids_is_known_by_its_links() -> None:
    def at(run: int, title: str = "") -> list[Entry]:
        return [an_entry(title or f"T{i}", f"{run}-{i}", f"https://a.example/{i}") for i in range(3)]

    first, memory = ids(at(1), fresh())
    _, memory = ids(at(2), memory)
    assert ids(at(3, "edited"), memory)[0] == first


def test_a_guid_holder_is_not_robbed_by_an_entry_with_its_old_link() -> None:
    first, memory = ids([an_entry("Old", "g1", "https://a.example/1")], fresh())
    again, _ = ids(
        [an_entry("Old", "g2", "https://a.example/1"), an_entry("Moved", "g1", "https://a.example/9")], memory
    )
    assert again[1] == first[0]
    assert again[0] != first[0]


def test_an_entry_listed_twice_is_one_in_its_newer_version() -> None:
    pairs, _ = identify(
        [an_entry("A", "g", date="2025-01-01"), an_entry("A", "g", body="new", date="2025-01-02")], [], fresh()
    )
    assert [entry.body for _, entry in pairs] == ["new"]


def test_different_posts_by_mistake_under_one_guid_and_link_are_both_kept() -> None:
    found, _ = ids([an_entry("A", "g", HOME, "one"), an_entry("B", "g", HOME, "two")], fresh())
    assert len(set(found)) == 2


def test_the_memory_does_not_grow_without_end() -> None:
    memory = fresh()
    for run in range(3):
        _, memory = ids([an_entry(f"{run}-{i}", f"{run}-{i}") for i in range(600)], memory)
    assert len(memory.known) == 600 + REMEMBERED


_PARTS = st.sampled_from(["", "a", "b", "c"])
_ENTRIES = st.lists(
    st.builds(an_entry, title=_PARTS, guid=_PARTS, link=_PARTS.map(lambda p: p and HOME + p), date=_PARTS), max_size=8
)


@given(_ENTRIES)
def test_any_feed_listed_twice_has_the_same_ids_each_once(entries: list[Entry]) -> None:
    first, memory = ids(entries, fresh())
    assert len(set(first)) == len(first)
    assert ids(entries, memory)[0] == first
