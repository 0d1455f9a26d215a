"""Changing whose a knowledge base is: who sees it, and in which tenant's index its rows lie."""

from kb_pipeline import ids
from kb_pipeline.errors import UsageError
from kb_pipeline.records import Scope
from kb_pipeline.storage.catalog_records import KnowledgeBase
from kb_pipeline.storage.store import Store


def set_scope(
    store: Store, kb_id: str, scope: Scope, *, owner: str | None = None, client_id: str | None = None
) -> KnowledgeBase:
    """Give a knowledge base another scope, owner or account; what is not named stays.

    Its rows are put into its new tenant's index before anyone there may see it; those who lose it cannot find it from
    the moment this returns. Nothing is embedded anew. Cut off half-way, the same call again completes it.

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
        for index in store.indexes(base.tenant) if tenant != base.tenant else ():
            for source in sources:
                index.copy_source(base.kb_id, source.source_id, tenant)
        moved = catalog.change_scope(base.kb_id, scope, tenant, owner, client_id)
        for other in store.tenants():
            for index in store.indexes(other) if other != tenant else ():
                for source in sources:
                    index.delete_source(base.kb_id, source.source_id)
    return moved
