"""A home with an open syncer, and a way to look at all that is stored."""

from dataclasses import dataclass, field

import pytest

from kb_pipeline.automation.run import open_syncer
from kb_pipeline.schemas import PARQUET_TABLES
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.store import Store


class SilentProgress:
    def begin(self, stage, source, total):
        self.stage = stage

    def advance(self, units):
        pass


@dataclass
class Home:
    """A home under test: add, sync, look."""

    store: Store
    syncer: object
    kb: str = "k"
    sources: dict[str, SourceRow] = field(default_factory=dict)

    def add(self, path, connector="document", **options):
        source = self.store.catalog.add_source(self.kb, connector, str(path), options=options)
        self.sources[str(path)] = source
        return source

    def sync(self, source):
        return self.syncer.sync(self.store.catalog.source(source.kb_id, source.source_id))

    def documents(self, status=None):
        return {row["external_id"]: row for row in self.store.documents.rows(self.kb, status=status)}

    def index(self):
        tenant = self.store.catalog.knowledge_base(self.kb).tenant
        return self.store.indexes(tenant)

    def indexed(self, role="serving"):
        """chunk_id -> (document_id, text) of every row that search reads, or of a space by its role."""
        from kb_pipeline.storage.lance_table import open_table

        tenant, rows = self.store.catalog.knowledge_base(self.kb).tenant, {}
        for space in self.store.spaces.of(self.kb):
            table = open_table(self.store.index(tenant, space.space_id).path) if space.role == role else None
            found = table.to_table(columns=["kb_id", "chunk_id", "document_id", "text"]).to_pylist() if table else []
            rows |= {row["chunk_id"]: (row["document_id"], row["text"]) for row in found if row["kb_id"] == self.kb}
        return rows

    def files(self):
        """Every data file with its time of change: equal before and after means nothing was written."""
        root = self.store.layout.root
        return {
            str(path.relative_to(root)): path.stat().st_mtime_ns
            for folder in ("parquet", "lance", "blobs")
            for path in (root / folder).rglob("*")
            if path.is_file() and not path.name.endswith(".lock")
        }

    def rows(self, source):
        """Rows by table; of `chunks`, those of every way of splitting."""
        rows = dict.fromkeys((table.name for table in PARQUET_TABLES), 0)
        for dataset in self.store.datasets(source):
            rows[dataset.table.name] += dataset.inspect().rows
        return rows


@pytest.fixture
def home(settings):
    store = Store(settings)
    store.initialise()
    store.catalog.create_knowledge_base("k")
    with open_syncer(store, SilentProgress()) as syncer:
        yield Home(store, syncer)
    store.catalog.engine.dispose()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "folder"
    made.mkdir()
    return made
