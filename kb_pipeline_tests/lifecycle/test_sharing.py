"""Changing whose a knowledge base is."""

from functools import partial

import pytest

from kb_pipeline.errors import NotVisible, UsageError
from kb_pipeline.lifecycle.sharing import set_scope
from kb_pipeline.storage.store import Store

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def store(settings):
    made = Store(settings)
    made.initialise()
    return made


def test_who_sees_a_base_follows_its_scope_at_once(store):
    base = store.catalog.create_knowledge_base("notes", "user", owner="u1", client_id="acme")
    assert set_scope(store, base.kb_id, "account").tenant == "account-acme"
    assert [seen.kb_id for seen in store.catalog.visible("u2", "acme")] == [base.kb_id]
    assert set_scope(store, base.kb_id, "public").tenant == "public"
    assert [seen.kb_id for seen in store.catalog.visible(None, None)] == [base.kb_id]
    assert set_scope(store, base.kb_id, "user").tenant == "user-u1"
    assert store.catalog.visible("u2", "acme") == []


def test_a_scope_that_cannot_be_is_refused_and_changes_nothing(store):
    base = store.catalog.create_knowledge_base("notes", "account", client_id="acme")
    store.catalog.create_knowledge_base("notes", "public")
    with pytest.raises(UsageError, match="without an owner"):
        set_scope(store, base.kb_id, "user")
    with pytest.raises(UsageError, match="named 'notes' already"):
        set_scope(store, base.kb_id, "public")
    assert store.catalog.knowledge_base(base.kb_id).tenant == "account-acme"


def test_rows_are_there_before_anyone_new_may_see_them_and_gone_for_those_who_lost_it(home, folder):
    from kb_pipeline.query import Caller
    from kb_pipeline.query.search import Query
    from kb_pipeline.services.embedders import open_embedder
    from kb_pipeline.storage.catalog_read import open_reads

    settings = home.store.settings
    (folder / "a.md").write_text("Buoy a rings.")
    source = home.add(folder)
    home.sync(source)
    set_scope(home.store, "k", "user", owner="u1")
    assert [index.count_rows("k", source.source_id) for index in home.store.indexes("user-u1")] == [1]
    assert [index.count_rows("k", source.source_id) for index in home.store.indexes("account-default")] == [0]
    with Query(settings, lambda: open_reads(settings), partial(open_embedder, settings, settings.kb_home)) as query:
        assert len(query.search("Buoy", caller=Caller(user_id="u1")).hits) == 1
        for stranger in (Caller(user_id="u2"), Caller(client_id="default")):
            assert query.search("Buoy", caller=stranger).hits == ()
            with pytest.raises(NotVisible):
                query.search("Buoy", caller=stranger, kb_id="k")
    report = home.sync(source)
    assert (report.status, report.embedded) == ("ok", 0)
    assert home.documents()["a.md"]["status"] == "ready"


def test_cut_off_after_the_change_the_same_call_clears_the_old_tenant(home, folder, monkeypatch):
    from kb_pipeline.storage.lance import ChunkIndex

    (folder / "a.md").write_text("Buoy a rings.")
    source = home.add(folder)
    home.sync(source)

    def struck(*_):
        raise RuntimeError("struck")

    with monkeypatch.context() as patch:
        patch.setattr(ChunkIndex, "delete_source", struck)
        with pytest.raises(RuntimeError, match="struck"):
            set_scope(home.store, "k", "public")
    set_scope(home.store, "k", "public")
    assert [index.count_rows("k", source.source_id) for index in home.store.indexes("account-default")] == [0]
    assert len(home.indexed()) == 1
