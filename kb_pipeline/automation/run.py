"""Drives the sync assets in this process, one Dagster run a source, and sums up what each did. Used by `kb sync`."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from kb_pipeline.assets.stage import Progress
from kb_pipeline.automation.instance import PROCESS_TAG, open_instance, process_tag
from kb_pipeline.automation.interrupts import noticed
from kb_pipeline.automation.jobs import sync_job
from kb_pipeline.automation.outcome import first_failure
from kb_pipeline.automation.partitions import source_partitions
from kb_pipeline.connectors.registry import build_registry
from kb_pipeline.definitions import SYNC_ASSETS
from kb_pipeline.services.embedders import embedders_of
from kb_pipeline.services.http import HttpClient
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.store import Store

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What one run did for one source.

    Attributes:
        listed: items.
        waiting: documents that the listing missed and that stay until another one agrees.
        embedded: texts.
    """

    source: str
    status: str
    listed: int
    new: int
    changed: int
    unchanged: int
    removed: int
    waiting: int
    failed: int
    embedded: int
    documents_embedded: int
    seconds: float
    cost_usd: float
    run_id: str
    error: str | None

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


class Syncer:
    """Opens instance, connectors, embedder and parsers once, then syncs sources one after another."""

    def __init__(self, store: Store, resources: dict[str, object], instance: dg.DagsterInstance) -> None:
        self._store, self._instance = store, instance
        assembled = dg.Definitions(assets=SYNC_ASSETS, jobs=[sync_job], resources=resources)
        self._job = assembled.resolve_job_def(sync_job.name)

    def sync(self, source: SourceRow, accept_removals: bool = False) -> SyncReport:
        """Run the four assets for a source; a failed listing is a report with status failed, never an exception.

        Args:
            accept_removals: what the listing no longer names leaves at once, however much that is.
        Raises: KeyboardInterrupt: SIGINT or SIGTERM came while it ran.
        """
        self._store.release_orphans(source)
        self._instance.add_dynamic_partitions(str(source_partitions.name), [source.partition])
        started = time.monotonic()
        with noticed() as raise_if_stopped:
            result = self._job.execute_in_process(
                partition_key=source.partition,
                instance=self._instance,
                run_config=_QUIET | {"ops": {"raw_items": {"config": {"accept_removals": accept_removals}}}},
                tags={PROCESS_TAG: process_tag()},
                raise_on_error=False,
            )
            raise_if_stopped()
        return _report(source, result, time.monotonic() - started)


@contextmanager
def open_syncer(store: Store, progress: Progress) -> Iterator[Syncer]:
    """A syncer on the home of `store`; closes child processes and connections at the end."""
    settings = store.settings
    with open_instance(settings) as instance, closing(HttpClient(settings)) as http, Sandbox(settings) as sandbox:
        resources: dict[str, object] = {
            "store": store,
            "connectors": build_registry(http, settings),
            "embedders": embedders_of(settings, store.layout.models),
            "sandbox": sandbox,
            "progress": progress,
        }
        yield Syncer(store, resources, instance)


def _report(source: SourceRow, result: dg.ExecuteInProcessResult, seconds: float) -> SyncReport:
    counts: dict[str, dict[str, float]] = {}
    for event in result.get_asset_materialization_events():
        materialization = event.materialization
        counts[materialization.asset_key.to_user_string()] = {
            name: value.value
            for name, value in materialization.metadata.items()
            if isinstance(value.value, int | float)
        }
    raw, index = counts.get("raw_items", {}), counts.get("chunk_index", {})

    def total(name: str) -> float:
        return sum(stage.get(name, 0) for stage in counts.values())

    return SyncReport(
        source=source.partition,
        status="ok" if result.success else "failed",
        listed=int(raw.get("rows_in", 0)),
        new=int(raw.get("new", 0)),
        changed=int(raw.get("changed", 0)),
        unchanged=int(raw.get("skipped", 0)),
        removed=int(raw.get("removed", 0)),
        waiting=int(raw.get("waiting", 0)),
        failed=int(total("documents_failed")),
        embedded=int(index.get("embedded", 0)),
        documents_embedded=int(index.get("documents_embedded", 0)),
        seconds=round(seconds, 3),
        cost_usd=round(total("cost_usd"), 6),
        run_id=result.run_id,
        error=None if result.success else first_failure(result),
    )
