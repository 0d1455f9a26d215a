"""Paid models: remembered, recorded, never paid for twice, and stopped by the budget before it is passed."""

import threading

import pytest
import sqlalchemy as sa

from kb_pipeline.automation.run import open_syncer
from kb_pipeline.errors import Transient
from kb_pipeline.lifecycle.forgetting import forget
from kb_pipeline.lifecycle.scan import places_of
from kb_pipeline.metering import call_kind
from kb_pipeline.settings import Settings
from kb_pipeline.storage.model_calls import Call, ModelCalls
from kb_pipeline.storage.store import Store
from kb_pipeline.storage.tables import model_calls
from kb_pipeline.testing.embedder import HashingEmbedder
from kb_pipeline_tests.assets.conftest import Home, SilentProgress

PRICE = 1000.0
"""USD per million tokens: a thousandth of a dollar a token, so that sums can be read."""


@pytest.fixture
def paid(tmp_path, settings):
    """A home whose embedder has a price."""
    prices = tmp_path / "prices.csv"
    prices.write_text(
        f"service,provider,model,usd_per_million_tokens,valid_from\nembedder,fake,test,{PRICE},2020-01-01\n"
    )
    store = Store(Settings(**{**settings.model_dump(), "prices_file": prices}))
    store.initialise()
    store.catalog.create_knowledge_base("k")
    with open_syncer(store, SilentProgress()) as syncer:
        yield Home(store, syncer)
    store.catalog.engine.dispose()


@pytest.fixture
def sent(monkeypatch):
    """Texts that reached the model, in order."""
    texts, whole = [], HashingEmbedder.embed_documents

    def embed(self, some):
        texts.extend(some)
        return whole(self, some)

    monkeypatch.setattr(HashingEmbedder, "embed_documents", embed)
    return texts


def calls(home):
    with home.store.catalog.engine.connect() as connection:
        return list(connection.execute(sa.select(model_calls)).mappings())


def write(folder, count, words=10):
    for n in range(count):
        (folder / f"f{n:02}.md").write_text(f"buoy{n} " + "rings " * (words - 1))


def test_every_paid_text_is_a_call_with_its_tokens_and_cost(paid, folder, sent):
    write(folder, 3)
    report = paid.sync(paid.add(folder))
    assert report.embedded == len(sent) == 3
    rows = calls(paid)
    assert {row["status"] for row in rows} == {"done"}
    assert all(row["cost_usd"] == pytest.approx(row["tokens"] * PRICE / 1e6) for row in rows)
    assert report.cost_usd == pytest.approx(sum(row["cost_usd"] for row in rows), abs=1e-6)
    by_document = {row["document_id"]: row["cost_usd"] for row in rows}
    assert {row["document_id"]: row["cost_usd"] for row in paid.documents().values()} == pytest.approx(by_document)
    assert paid.store.spent_usd("k") == pytest.approx(report.cost_usd, abs=1e-6)


def test_no_text_is_paid_for_twice_in_whatever_knowledge_base_or_after_its_index_is_gone(paid, folder, sent, tmp_path):
    import shutil

    write(folder, 3)
    source = paid.add(folder)
    paid.sync(source)
    paid.store.catalog.create_knowledge_base("other", "user", owner="u1")
    twin = paid.store.catalog.add_source("other", "document", str(folder))
    report = paid.syncer.sync(twin)
    assert (report.embedded, report.cost_usd, len(sent)) == (0, 0, 3)
    shutil.rmtree(paid.store.layout.root / "lance")
    paid.sync(source)
    assert len(sent) == 3
    assert len(paid.indexed()) == 3


def test_a_free_model_leaves_one_row_a_batch_and_no_results(home, folder):
    write(folder, 3)
    home.sync(home.add(folder))
    (row,) = calls(home)
    assert (row["inputs"], row["cost_usd"], row["result"], row["status"]) == (3, 0, None, "done")
    assert row["tokens"] > 0


def test_the_budget_stops_paid_calls_before_it_is_passed_and_what_is_left_waits_as_pending(paid, folder, sent):
    write(folder, 6)  # some 12 tokens each
    paid.store.catalog.set_budget("k", 0.03)
    source = paid.add(folder)
    report = paid.sync(source)
    assert report.status == "ok"
    assert 0 < report.cost_usd <= 0.03
    assert paid.store.spent_usd("k") <= 0.03
    ready, waiting = paid.documents("ready"), paid.documents("pending")
    assert (len(ready), len(waiting)) == (len(sent), 6 - len(sent))
    assert {row["error_kind"] for row in waiting.values()} == {"budget"}
    assert all("0.03 USD" in row["error"] for row in waiting.values())
    assert len(paid.indexed()) == len(ready)
    again = paid.sync(source)
    assert (again.embedded, again.cost_usd) == (0, 0)
    assert paid.documents("pending").keys() == waiting.keys()
    paid.store.catalog.set_budget("k", None)
    assert paid.sync(source).embedded == len(waiting)
    assert len(paid.documents("ready")) == 6
    assert len(sent) == len(set(sent)) == 6


def test_a_service_that_breaks_off_costs_its_documents_only_a_failure(paid, folder, monkeypatch):
    write(folder, 3)

    def broken(self, texts):
        raise Transient("the model is overloaded")

    with monkeypatch.context() as patch:
        patch.setattr(HashingEmbedder, "embed_documents", broken)
        report = paid.sync(paid.add(folder))
    assert (report.status, report.failed, report.cost_usd) == ("ok", 3, 0)
    assert {row["status"] for row in calls(paid)} == {"failed"}
    assert paid.store.spent_usd("k") == 0
    (source,) = paid.sources.values()
    assert paid.sync(source).embedded == 3


def test_two_at_once_cannot_spend_the_same_money(paid):
    space = HashingEmbedder("test", 32).space
    engine, covered = paid.store.catalog.engine, []

    def spend(name):
        meter = ModelCalls(engine, call_kind(space), "k", "s", "run")
        wanted = [Call(input_sha256=f"{name}{n:03}", tokens=1, cost_usd=0.01) for n in range(50)]
        covered.extend(meter.reserve([call], 0.5) for call in wanted)

    threads = [threading.Thread(target=spend, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(covered) in (49, 50)  # sums of floats
    assert paid.store.spent_usd("k") <= 0.5 + 1e-9


def test_what_was_paid_for_a_forgotten_document_is_forgotten_with_it(paid, folder):
    write(folder, 3)
    paid.sync(paid.add(folder))
    kept = {row["input_sha256"] for row in calls(paid) if row["result"]}
    assert len(kept) == 3
    receipt = forget(paid.store, "k", "f01.md", by="ada")
    assert receipt.model_calls == 1
    assert len({row["input_sha256"] for row in calls(paid)} & kept) == 2
    assert list(places_of(paid.store, "buoy1")) == []
