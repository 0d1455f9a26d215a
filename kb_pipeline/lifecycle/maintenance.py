"""Maintenance of a tenant: what no living thing needs is removed, its search tables get the shape of fresh ones."""

import time
from dataclasses import dataclass, field
from datetime import timedelta

from kb_pipeline.errors import SystemicError, UsageError
from kb_pipeline.lifecycle.orphans import remove_strays, strays_of
from kb_pipeline.lifecycle.spaces import drop_unused
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lance_statistics import IndexStatistics
from kb_pipeline.storage.leftovers import DEAD_AFTER, remove_of_home, remove_of_sources
from kb_pipeline.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What was done to one search table.

    Attributes:
        after: None if the table was removed.
        orphans_left: rows nobody accounts for that had to stay.
    """

    space_id: str
    before: IndexStatistics
    after: IndexStatistics | None
    done: list[str]
    orphans_removed: int
    orphans_left: int


@dataclass(slots=True, kw_only=True)
class TenantUpkeep:
    """What was done for one tenant.

    Attributes:
        blobs_removed: files of bytes that no document has any more. These and leftovers beside them belong to the
            home: the first tenant's maintenance sees to them.
        notes: what was left for the next time, and why.
    """

    tenant: str
    tables: list[TableUpkeep] = field(default_factory=list)
    blobs_removed: int = 0
    leftovers_removed: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def maintain_tenant(store: Store, tenant: str) -> TenantUpkeep:
    """Maintain all that a tenant has. May be cut off anywhere and run beside syncs, searches and itself.

    Raises: SystemicError: a table cannot be read or written; the catalog knows no knowledge base, as after its loss,
        so that everything would look like an orphan.
    """
    if not store.catalog.knowledge_bases():
        raise SystemicError(
            "The catalog knows no knowledge base, so nothing that is stored would be kept; nothing was cleared up. "
            "If catalog.sqlite was lost, put it back; `kb doctor` lists rows without an owner."
        )
    started = time.monotonic()
    upkeep = TenantUpkeep(tenant=tenant)
    is_first = tenant == next(iter(store.tenants()), tenant)
    if is_first:
        upkeep.notes.extend(drop_unused(store))
    upkeep.leftovers_removed += store.remove_drafts(tenant)
    for index in store.indexes(tenant):
        upkeep.tables.append(_maintain_table(store, index, upkeep.notes))
    bases = {base.kb_id for base in store.catalog.knowledge_bases() if base.tenant == tenant}
    sources = [*store.catalog.sources(), *store.catalog.sources(removed=True)]
    upkeep.leftovers_removed += remove_of_sources(store.layout, [s for s in sources if s.kb_id in bases])
    if is_first:
        upkeep.leftovers_removed += remove_of_home(store.layout)
        try:
            with store.holding(sources):
                upkeep.blobs_removed = store.remove_unused_blobs()
        except UsageError:
            upkeep.notes.append("Unused bytes were not looked for: a sync is at work.")
    upkeep.seconds = round(time.monotonic() - started, 3)
    return upkeep


def _maintain_table(store: Store, index: ChunkIndex, notes: list[str]) -> TableUpkeep:
    keep = timedelta(seconds=store.settings.index_keep_versions_s)
    before = index.statistics(keep)
    removal = remove_strays(store, index)
    notes.extend(f"Orphaned rows of {source} stay: a sync of it is at work." for source in removal.waiting)
    done = index.overhaul(keep_versions=keep)
    is_removed = index.remove_if_empty(DEAD_AFTER)
    return TableUpkeep(
        space_id=index.space_id,
        before=before,
        after=None if is_removed else index.statistics(keep),
        done=[*done, "empty table removed"] if is_removed else done,
        orphans_removed=removal.rows,
        orphans_left=sum(index.count_of(s.kb_id, s.source_id, s.documents) for s in strays_of(store, index)),
    )
