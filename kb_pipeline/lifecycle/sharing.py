"""Changing whose a knowledge base is: who sees it, and in which tenant's index its rows lie."""

from kb_pipeline import ids
from kb_pipeline.errors import UsageError
from kb_pipeline.records import Scope
from kb_pipeline.storage.catalog_records import KnowledgeBase
from kb_pipeline.storage.store import Store

_INDEXED_BY = "chunk_index"


def set_scope(
    store: Store, kb_id: str, scope: Scope, *, owner: str | None = None, client_id: str | None = None
) -> KnowledgeBase:
    """Give a knowledge base another scope, owner or account; what is not named stays.

    Those who lose it cannot find it from the moment this returns; those who gain it find it after the next sync, which
    indexes it anew in its new tenant. Cut off half-way, the next sync or the same call again completes it.

    Raises: UsageError: scope user without an owner, or the new tenant has one of this name. NotVisible: no such base.
    """
    catalog = store.catalog
    base = catalog.knowledge_base(kb_id)
    owner = base.owner if owner is None else owner
    client_id = (base.client_id if client_id is None else client_id) or ("default" if scope == "account" else "")
    if scope == "user" and not owner:
        raise UsageError(f"Knowledge base {base.name!r} cannot have scope user without an owner.")
    tenant = ids.tenant_of(scope, owner, client_id)
    sources = catalog.sources(base.kb_id)
    with store.working_on(*sources):
        if tenant != base.tenant:  # first forgotten in the ledger: whatever happens next, a sync indexes it again
            for source in sources:
                units = store.ledger.units(_INDEXED_BY, base.kb_id, source.source_id)
                store.documents.set_status(list(store.documents.owners(units)), "pending")
                store.ledger.remove(_INDEXED_BY, units)
        moved = catalog.change_scope(base.kb_id, scope, tenant, owner, client_id)
        for index in store.indexes(base.tenant) if tenant != base.tenant else ():
            for source in sources:
                index.delete_source(base.kb_id, source.source_id)
    return moved
