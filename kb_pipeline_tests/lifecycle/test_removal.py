"""A removed source takes its rows with it, its partition last; its id and its suspicion never come back."""

import pytest

from kb_pipeline.errors import NotVisible, UsageError
from kb_pipeline.lifecycle.removal import remove_source
from kb_pipeline.storage.ledger import Lane

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def two(home, tmp_path):
    """Two synced folders."""
    sources = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(f"Folder {name} speaks of lanterns.")
        sources.append(home.add(tmp_path / name))
        home.sync(sources[-1])
    return sources


def remove(home, source, busy=()):
    dropped = []
    count = remove_source(home.store, "k", source.source_id, lambda key: key in busy, dropped.append)
    return count, dropped


def test_a_removed_source_leaves_no_row_and_keeps_its_documents_as_archived(home, two):
    one, other = two
    assert remove(home, one) == (1, [one.partition])
    assert [text for _, text in home.indexed().values()] == ["Folder two speaks of lanterns."]
    assert set(home.rows(one).values()) == {0}
    assert not list(home.store.ledger.units(Lane("raw_items", "k", one.source_id)))
    assert home.documents("archived").keys() == {"one.md"}
    assert [source.source_id for source in home.store.catalog.sources("k")] == [other.source_id]
    with pytest.raises(NotVisible):
        home.store.catalog.source("k", one.source_id)
    assert home.sync(other).status == "ok"


def test_removing_again_is_allowed_and_adding_again_makes_another_source(home, two, tmp_path):
    one, _ = two
    remove(home, one)
    assert remove(home, one) == (0, [one.partition])
    again = home.add(tmp_path / "one")
    assert again.source_id != one.source_id
    assert home.sync(again).new == 1
    assert home.documents("ready").keys() == {"one.md", "two.md"}


def test_nothing_is_removed_under_the_hands_of_a_run(home, two):
    one, _ = two
    with pytest.raises(UsageError, match="queued or at work"):
        remove(home, one, busy={one.partition})
    with home.store.working_on(one), pytest.raises(UsageError, match="at work"):
        remove(home, one)
    assert len(home.indexed()) == 2


def test_a_run_that_was_queued_before_finds_no_source(home, two):
    one, _ = two
    remove(home, one)
    report = home.syncer.sync(one)
    assert report.status == "failed"
    assert "has no source" in report.error
    assert len(home.indexed()) == 1


@pytest.mark.parametrize("struck", ["documents.archive", "ledger.remove_source", "catalog.list_afresh"])
def test_cut_off_anywhere_it_is_out_of_retrieval_and_the_same_call_completes_it(home, two, monkeypatch, struck):
    one, _ = two
    holder, name = struck.split(".")

    def fail(*_args, **_more):
        raise RuntimeError("struck")

    with monkeypatch.context() as patch:
        patch.setattr(getattr(home.store, holder), name, fail)
        with pytest.raises(RuntimeError, match="struck"):
            remove(home, one)
    assert one.source_id not in {source.source_id for source in home.store.catalog.sources("k")}
    assert remove(home, one)[1] == [one.partition]
    assert len(home.indexed()) == 1
