"""Changing whose a knowledge base is."""

import pytest

from kb_pipeline.errors import UsageError
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
