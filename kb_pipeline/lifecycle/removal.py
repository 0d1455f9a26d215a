"""Removing a source with everything it brought: tombstone first, then rows, its partition last."""

from collections.abc import Callable

from kb_pipeline.errors import NotVisible, UsageError
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.store import Store


def remove_source(
    store: Store, kb_id: str, name_or_id: str, is_busy: Callable[[str], bool], drop_partition: Callable[[str], None]
) -> int:
    """Remove a source of a knowledge base; returns how many documents went with it.

    Its documents leave retrieval at once and stay in the catalog as `archived`. Cut off half-way, the same call goes
    on. A document that another source brings as well comes back with that source's next sync.

    Args:
        is_busy: whether a run on a partition is queued or at work.
        drop_partition: forgets a partition key; called last.
    Raises: NotVisible: no such source. UsageError: a run is at work on it.
    """
    base = store.catalog.knowledge_base(kb_id)
    source = _find(store, base.kb_id, name_or_id)
    if is_busy(source.partition):
        raise UsageError(f"A run on {base.kb_id}/{source.source_id} is queued or at work; wait for it or stop it.")
    with store.holding([source]):
        if source.removed_at is None:
            store.catalog.source_was_removed(source)
        rows = store.documents.rows(base.kb_id, source_id=source.source_id)
        living = [row["document_id"] for row in rows if row["status"] != "archived"]
        store.documents.archive(living, run_id="")
        for index in store.indexes(base.tenant):
            index.delete_source(base.kb_id, source.source_id)
        for dataset in store.datasets(source):
            dataset.remove()
        store.ledger.remove_source(base.kb_id, source.source_id)
        store.catalog.list_afresh(base.kb_id)
        drop_partition(source.partition)
    return len(living)


def _find(store: Store, kb_id: str, name_or_id: str) -> SourceRow:
    try:
        return store.catalog.source(kb_id, name_or_id)
    except NotVisible:
        return store.catalog.source(kb_id, name_or_id, removed=True)
