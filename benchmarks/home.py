"""A fresh home with one knowledge base and one source, and syncs of it in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kb_pipeline.automation.run import Syncer, SyncReport, open_syncer
from kb_pipeline.settings import Settings
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.store import Store


class _Silent:
    def begin(self, stage: str, source: str, total: int | None) -> None:
        """Nothing to show."""

    def advance(self, units: int) -> None:
        """Nothing to show."""


@dataclass(frozen=True, slots=True)
class Bench:
    """An open home."""

    store: Store
    syncer: Syncer

    def add(self, kb: str, corpus: Path) -> SourceRow:
        """A knowledge base with a source of records."""
        base = self.store.catalog.create_knowledge_base(kb)
        return self.store.catalog.add_source(base.kb_id, "records", str(corpus))

    def sync(self, source: SourceRow) -> SyncReport:
        """One sync; a failed one stops the benchmark."""
        report = self.syncer.sync(source)
        if report.status != "ok":
            raise SystemExit(f"sync failed: {report.error}")
        return report


@contextmanager
def bench_home(folder: Path) -> Iterator[Bench]:
    """A home below `folder` with the settings of the environment otherwise."""
    store = Store(Settings(kb_home=folder))
    store.initialise()
    with open_syncer(store, _Silent()) as syncer:
        yield Bench(store, syncer)
