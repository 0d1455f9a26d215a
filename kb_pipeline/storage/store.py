"""The store: one object that hands out catalog, ledger, blobs, datasets and indexes of a home."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa

from kb_pipeline import ids
from kb_pipeline.errors import SystemicError, UsageError
from kb_pipeline.records import Space
from kb_pipeline.schemas import CHUNKS, PARQUET_TABLES, RAW_ITEMS, Table
from kb_pipeline.settings import Settings
from kb_pipeline.storage.blobs import Blobs
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_records import KnowledgeBase, SourceRow
from kb_pipeline.storage.documents import Documents
from kb_pipeline.storage.forgotten import Forgotten
from kb_pipeline.storage.kb_spaces import Spaces
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lance_table import DRAFT_SUFFIX, spaces, tenants_with_tables
from kb_pipeline.storage.layout import Layout
from kb_pipeline.storage.lease import Lease, Taken, lease_of
from kb_pipeline.storage.ledger import Ledger
from kb_pipeline.storage.model_calls import costs_of, spent_usd
from kb_pipeline.storage.parquet import Dataset, column_values, splits_of, write_empty

_LEASE_WAIT_S = 3600.0


class Store:
    """Everything a home keeps. Cheap to make; opens what is asked for."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.layout = Layout.of(settings)
        self.blobs = Blobs(self.layout.blobs)

    @cached_property
    def catalog(self) -> Catalog:
        return Catalog.open(self.settings)

    @cached_property
    def documents(self) -> Documents:
        return Documents(self.catalog.engine)

    @cached_property
    def forgotten(self) -> Forgotten:
        return Forgotten(self.catalog.engine, self.layout.forget_key)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.catalog.engine)

    @cached_property
    def spaces(self) -> Spaces:
        return Spaces(self.catalog.engine)

    @cached_property
    def lease(self) -> Lease:
        return lease_of(self.catalog.engine, self.layout.locks)

    def costs_of(self, document_ids: Sequence[str]) -> Mapping[str, float]:
        """What documents have cost so far, in USD; those that cost nothing are left out."""
        return costs_of(self.catalog.engine, document_ids)

    def spent_usd(self, kb_id: str) -> float:
        """What a knowledge base has cost this month, UTC, with what is set aside."""
        return spent_usd(self.catalog.engine, kb_id)

    def initialise(self) -> None:
        """Make the home: folders, catalog schema, a zero-row file per dataset."""
        for folder in (self.layout.home, self.layout.locks, self.layout.blobs):
            folder.mkdir(parents=True, exist_ok=True)
        for table in PARQUET_TABLES:
            write_empty(self.layout, table)
        _ = self.catalog

    def settings_of(self, base: KnowledgeBase) -> Settings:
        """Settings of a knowledge base: the home's, but for those it has of its own."""
        return self.settings.model_copy(update=dict(base.settings)) if base.settings else self.settings

    def dataset(self, table: Table, source: SourceRow, split_id: str = "") -> Dataset:
        """The rows of one table that belong to a source; of `chunks`, those of one way of splitting."""
        return Dataset(self.layout, table, source.kb_id, source.source_id, split_id)

    def datasets(self, source: SourceRow) -> list[Dataset]:
        """All that there are of a source, whatever its texts were split by."""
        splits = splits_of(self.layout, CHUNKS, source.kb_id, source.source_id)
        others = [self.dataset(table, source) for table in PARQUET_TABLES if table is not CHUNKS]
        return [*others, *(self.dataset(CHUNKS, source, split_id) for split_id in splits)]

    def index(self, tenant: str, space: Space | str) -> ChunkIndex:
        """The LanceDB table of a tenant and space (or the id of one that has a table), for writing."""
        return ChunkIndex(self.layout.root, tenant, space, self.lease)

    def indexes(self, tenant: str) -> list[ChunkIndex]:
        """All tables of a tenant: one a space."""
        found = spaces(self.layout.root, tenant)
        return [ChunkIndex(self.layout.root, tenant, space_id, self.lease) for space_id in found]

    def tenants(self) -> list[str]:
        """Tenants of the knowledge bases, and those whose tables are still there, sorted."""
        known = {base.tenant for base in self.catalog.knowledge_bases()}
        return sorted(known | tenants_with_tables(self.layout.root))

    def remove_drafts(self, tenant: str) -> int:
        """Remove half-made tables of dead writers; returns how many."""
        root = self.layout.root
        return sum(ChunkIndex(root, tenant, s, self.lease).remove_draft() for s in spaces(root, tenant, DRAFT_SUFFIX))

    @contextmanager
    def working_on(self, *sources: SourceRow) -> Iterator[None]:
        """Hold sources: one stage of one run at a time, over all processes of the home; freed if the holder dies.

        Raises: SystemicError: another run held one of them for an hour.
        """
        try:
            with self.lease.hold(*(source.partition for source in sources), wait_s=_LEASE_WAIT_S):
                yield
        except Taken as taken:
            raise SystemicError(
                f"Source {taken.name} has been held by another run for {_LEASE_WAIT_S / 60:.0f} minutes; stop that "
                "run, then sync again."
            ) from None

    @contextmanager
    def holding(self, sources: Iterable[SourceRow]) -> Iterator[None]:
        """Hold several sources at once, without waiting.

        Raises: UsageError: a run is at work on one of them.
        """
        try:
            with self.lease.hold(*(source.partition for source in sources)):
                yield
        except Taken as taken:
            kb_id, source_id = ids.split_partition(taken.name)
            raise UsageError(f"A run is at work on {kb_id}/{source_id}; wait for it or stop it first.") from None

    def remove_unused_blobs(self) -> int:
        """Remove bytes that no document has any more; returns how many files. Every source must be held."""
        used = column_values(self.layout, RAW_ITEMS, "raw_sha256")
        unused = [digest for digest in self.blobs.digests() if digest not in used]
        for digest in unused:
            self.blobs.remove(digest)
        return len(unused)

    def release_orphans(self, source: SourceRow) -> int:
        """Documents left half-way by a dead run go back to `pending`; returns how many. Leaves a living run alone."""
        try:
            with self.lease.hold(source.partition):
                return self.documents.release_unfinished(source)
        except Taken:
            return 0


def table_of(table: Table, rows: list[dict[str, object]]) -> pa.Table:
    """Rows as an Arrow table of the schema."""
    return pa.Table.from_pylist(rows, schema=table.schema)
