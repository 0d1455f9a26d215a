"""A forgotten document is nowhere: not in files, rows, old versions or the record of searches; and stays away."""

import json
from functools import partial

import pytest

from kb_pipeline.errors import NotVisible, SystemicError, UsageError
from kb_pipeline.lifecycle.forgetting import forget, unforget
from kb_pipeline.lifecycle.scan import places_of
from kb_pipeline.query import OPERATOR, open_query
from kb_pipeline.query.search import Query
from kb_pipeline.services.embedders import open_embedder
from kb_pipeline.storage.catalog_read import open_reads
from kb_pipeline.storage.engine import reading
from kb_pipeline.storage.postgres import rewrite
from kb_pipeline.storage.tables import TEXTS

pytestmark = pytest.mark.databases("sqlite", "postgres")

SECRET = "The vault opens with xylophone-4711"
OLD = "The vault once opened with bassoon-0815"


def search(home, text):
    settings = home.store.settings
    with Query(settings, lambda: open_reads(settings), partial(open_embedder, settings, settings.kb_home)) as query:
        return query.search(text, caller=OPERATOR, kb_id="k", top_k=3)


@pytest.fixture
def vault(home, folder):
    """A folder whose document `vault.md` was read in two versions and answered a search; others stand beside it."""
    for n in range(12):
        (folder / f"f{n}.md").write_text(f"Buoy number {n} rings.")
    (folder / "vault.md").write_text(f"{OLD}, says the keeper.")
    source = home.add(folder)
    home.sync(source)
    (folder / "vault.md").write_text(f"{SECRET}, says the keeper.")
    home.sync(source)
    assert any(SECRET in hit.chunk_text for hit in search(home, SECRET).hits)
    return source


def test_a_forgotten_text_stands_nowhere(home, vault):
    assert len(set(places_of(home.store, SECRET))) >= 4  # bytes, two datasets or more, a search table, an event
    assert list(places_of(home.store, OLD))
    row = home.documents()["vault.md"]
    receipt = forget(home.store, "k", "vault.md", by="ada")
    assert list(places_of(home.store, SECRET)) == []
    assert list(places_of(home.store, OLD)) == []
    assert list(places_of(home.store, "vault")) == []
    assert (receipt.document_id, receipt.by, receipt.external_id) == (row["document_id"], "ada", "vault.md")
    assert receipt.events == 1
    assert (receipt.files, receipt.model_calls) == (2, 0)  # the model is free: its calls are no document's
    assert receipt.rows["chunks"] == receipt.rows["raw_items"] == 1
    assert json.dumps(receipt.as_json(), default=str)
    assert list(places_of(home.store, row["document_id"])) == []
    assert "vault.md" not in home.documents()
    assert not any(SECRET in hit.chunk_text for hit in search(home, "vault keeper").hits)
    assert len(home.indexed()) == 12


@pytest.mark.databases("postgres")
def test_a_forgotten_text_is_in_no_file_of_the_database(home, vault, postgres):
    postgres.run("CHECKPOINT")
    assert postgres.files_with("xylophone-4711")
    forget(home.store, "k", "vault.md", by="ada")
    postgres.run("CHECKPOINT")
    assert postgres.files_with("xylophone-4711") == []


@pytest.mark.databases("postgres")
def test_a_reader_that_does_not_end_is_named(home):
    engine = home.store.catalog.engine
    with engine.connect() as reader, reading(engine) as writer:
        reader.exec_driver_sql("SELECT count(*) FROM kb_documents")
        writer.exec_driver_sql("SET lock_timeout = 200")
        with pytest.raises(SystemicError, match="kb_documents is being read"):
            rewrite(writer, TEXTS)


def test_a_forgotten_document_stays_away_until_that_is_lifted(home, vault):
    forget(home.store, "k", "vault.md", by="ada")
    report = home.sync(vault)
    assert (report.status, report.new, report.embedded) == ("ok", 0, 0)
    assert list(places_of(home.store, SECRET)) == []
    before = home.files()
    home.sync(vault)
    assert home.files() == before
    unforget(home.store, "k", "vault.md")
    assert home.sync(vault).new == 1
    assert any(SECRET in text for _, text in home.indexed().values())
    with pytest.raises(NotVisible):
        unforget(home.store, "k", "vault.md")


def test_bytes_that_another_document_has_as_well_stay_and_the_receipt_says_so(home, folder, vault):
    (folder / "copy.md").write_text(f"{SECRET}, says the keeper.")
    home.sync(vault)
    receipt = forget(home.store, "k", "vault.md", by="ada")
    assert receipt.shared_with == [home.documents()["copy.md"]["document_id"]]
    assert home.sync(vault).status == "ok"
    assert sum(SECRET in text for _, text in home.indexed().values()) == 1


def test_nothing_is_forgotten_under_the_hands_of_a_run(home, vault):
    with (
        home.store.working_on(home.store.catalog.source("k", vault.source_id)),
        pytest.raises(UsageError, match="A run is at work"),
    ):
        forget(home.store, "k", "vault.md", by="ada")
    assert home.documents()["vault.md"]["status"] == "ready"


@pytest.mark.parametrize(
    "point", ["documents.archive", "forgotten.complete", "remove_unused_blobs", "ledger.remove_unit"]
)
def test_cut_off_anywhere_it_is_out_of_retrieval_and_the_same_call_completes_it(home, vault, monkeypatch, point):
    holder, _, name = point.rpartition(".")
    target = getattr(home.store, holder) if holder else home.store

    def struck(*_args, **_more):
        raise RuntimeError("struck")

    with monkeypatch.context() as patch:
        patch.setattr(target, name, struck)
        with pytest.raises(RuntimeError, match="struck"):
            forget(home.store, "k", "vault.md", by="ada")
    home.sync(vault)
    if point != "documents.archive":
        assert not any(SECRET in hit.chunk_text for hit in search(home, "vault keeper").hits)
    if "vault.md" in home.documents():
        forget(home.store, "k", "vault.md", by="ada")
    assert list(places_of(home.store, SECRET)) == []
    assert list(places_of(home.store, OLD)) == []
    assert home.sync(vault).new == 0


def test_searching_goes_on_while_a_table_is_purged(home, vault):
    settings = home.store.settings
    with (
        open_query(settings.kb_home) as _,
        Query(settings, lambda: open_reads(settings), partial(open_embedder, settings, settings.kb_home)) as query,
    ):
        assert query.search("Buoy number 3", caller=OPERATOR, kb_id="k").hits
        forget(home.store, "k", "vault.md", by="ada")
        hits = query.search("Buoy number 3 rings", caller=OPERATOR, kb_id="k").hits
        assert hits
        assert not any(SECRET in hit.chunk_text for hit in hits)
