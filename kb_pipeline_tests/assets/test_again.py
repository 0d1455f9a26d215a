"""Failures wait longer each time and are given up; a person brings them back; what left a feed is asked for no more."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from kb_pipeline.retries import MAX_ATTEMPTS
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.tables import ledger

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def fetches(monkeypatch):
    """Fetches of the document connector, by external id; those in `failing` break."""
    from kb_pipeline.connectors.document import DocumentConnector
    from kb_pipeline.errors import Transient

    whole, asked, failing = DocumentConnector.fetch, [], set()

    def fetch(self, item):
        asked.append(item.external_id)
        if item.external_id in failing:
            raise Transient(f"{item.external_id} is locked")
        return whole(self, item)

    monkeypatch.setattr(DocumentConnector, "fetch", fetch)
    fetch.asked, fetch.failing = asked, failing
    return fetch


def pass_time(home, **time):
    """As if so much time went by: what is due then is due now."""
    with home.store.catalog.engine.begin() as connection:
        for unit, due in connection.execute(sa.select(ledger.c.unit, ledger.c.next_try_at)).all():
            if due:
                change = ledger.update().where(ledger.c.unit == unit)
                connection.execute(change.values(next_try_at=due - timedelta(**time)))


@pytest.mark.databases("sqlite")  # the next test asks Postgres, in fewer syncs
def test_a_failure_is_tried_at_the_next_sync_then_later_and_later_and_then_no_more(home, folder, fetches):
    (folder / "a.md").write_text("Buoy a rings.")
    (folder / "b.md").write_text("Buoy b rings.")
    fetches.failing.add("b.md")
    source = home.add(folder)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        report = home.sync(source)
        assert (report.status, report.failed) == ("ok", 1)
        row = home.documents()["b.md"]
        assert (row["status"], row["attempts"]) == ("failed", attempt)
        if attempt == 2:
            assert home.sync(source).failed == 0  # not due yet
        pass_time(home, days=1)
    assert fetches.asked.count("b.md") == MAX_ATTEMPTS
    assert row["next_try_at"] is None
    home.sync(source)
    assert fetches.asked.count("b.md") == MAX_ATTEMPTS  # in quarantine
    home.store.ledger.make_due([row["document_id"]])
    fetches.failing.clear()
    assert home.sync(source).failed == 0
    assert home.documents()["b.md"]["status"] == "ready"


def test_new_bytes_take_a_document_out_of_quarantine(home, folder, fetches):
    (folder / "b.md").write_text("Buoy b rings.")
    fetches.failing.add("b.md")
    source = home.add(folder)
    for _ in range(MAX_ATTEMPTS):
        home.sync(source)
        pass_time(home, days=1)
    fetches.failing.clear()
    (folder / "b.md").write_text("Buoy b rings again.")
    home.sync(source)
    assert home.documents()["b.md"]["status"] == "ready"


def test_reingest_does_every_stage_of_one_document_and_pays_for_no_text_twice(home, folder, fetches):
    (folder / "a.md").write_text("Buoy a rings.")
    (folder / "b.md").write_text("Buoy b rings.")
    source = home.add(folder)
    home.sync(source)
    (row,) = home.store.documents.named("k", ["b.md"])
    before = home.indexed()
    home.store.ledger.make_stale([row["document_id"]])
    report = home.sync(source)
    assert fetches.asked == ["a.md", "b.md", "b.md"]
    assert (report.embedded, report.unchanged) == (0, 1)
    runs = {row["run_id"] for row in home.store.ledger.known(Lane("documents", "k", ""), [row["document_id"]]).values()}
    assert runs == {report.run_id}
    assert home.indexed() == before
    assert home.documents()["b.md"]["status"] == "ready"


def test_entries_that_left_the_feed_do_not_keep_it_from_answering_unchanged(home, tmp_path, monkeypatch):
    from kb_pipeline.assets import s1_fetch

    store, now = home.store, datetime.now(UTC)
    source = home.add(tmp_path / "r.jsonl", "records")
    (tmp_path / "r.jsonl").write_text(json.dumps({"id": "1", "title": "t", "text": "Buoy."}) + "\n")
    home.sync(source)
    (unit,) = store.ledger.units(Lane("raw_items", "k", source.source_id))
    settled = (Lane("raw_items", "k", source.source_id), s1_fetch.recipe_of(store.settings))
    assert store.ledger.is_settled(*settled)
    store.ledger.make_stale([unit])
    assert not store.ledger.is_settled(*settled)
    store.ledger.let_be(*settled, seen={unit})
    assert not store.ledger.is_settled(*settled)  # it is listed: it can be fetched
    store.ledger.let_be(*settled, seen=set())
    assert store.ledger.is_settled(*settled)
    assert store.ledger.known(settled[0], [unit])[unit]["updated_at"] <= now + timedelta(minutes=1)
