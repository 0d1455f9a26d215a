"""When sources are synced: the sensor asks the catalog which are due and requests few runs for many of them."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.sync_asset import SOURCES_PER_RUN
from kb_pipeline.automation.jobs import sync_job
from kb_pipeline.automation.partitions import source_partitions
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.store import Store

SOURCES_TAG = "kb/sources"
RUNS_PER_TICK = 10
GRACE = timedelta(minutes=15)
"""A requested source that nobody listed within this time is asked for again: a lost run starves no source."""
LIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


@dg.sensor(
    job=sync_job,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def source_sync(context: dg.SensorEvaluationContext, store: dg.ResourceParam[Store]) -> dg.SensorResult:
    """Requests a sync of every source whose interval or cron says so; many due sources share a run."""
    catalog, now = store.catalog, datetime.now(UTC)
    sources = catalog.sources()
    for source in sources:
        store.release_orphans(source)
    name = str(source_partitions.name)
    known = context.instance.get_dynamic_partitions(name)
    missing = [source.partition for source in sources if source.partition not in set(known)]
    ordered = [*known, *missing]
    busy = in_flight(context.instance)
    due = [source for source in catalog.due_sources(now) if source.partition not in busy]
    batches = ranges(due, ordered)[:RUNS_PER_TICK]
    catalog.source_was_requested([source.source_id for batch in batches for source in batch], now + GRACE)
    if not batches and not missing:
        scheduled = [source.due_at for source in sources if source.due_at and (source.every_s or source.cron)]
        soonest = (
            f"the next at {min(scheduled):%H:%M:%S} UTC" if scheduled else "none has a schedule (`kb add … --every 1h`)"
        )
        return dg.SensorResult(skip_reason=f"No source is due; {soonest}.", cursor=now.isoformat())
    return dg.SensorResult(
        run_requests=[request(batch) for batch in batches],
        dynamic_partitions_requests=[source_partitions.build_add_request(missing)] if missing else [],
        cursor=now.isoformat(),
    )


def ranges(due: Iterable[SourceRow], ordered: Sequence[str]) -> list[list[SourceRow]]:
    """Due sources in runs of neighbours, most overdue first: a Dagster run takes one contiguous range of partitions."""
    place = {key: index for index, key in enumerate(ordered)}
    groups: list[list[SourceRow]] = []
    for source in sorted(due, key=lambda source: place[source.partition]):
        last = groups[-1] if groups else None
        if last and place[source.partition] == place[last[-1].partition] + 1 and len(last) < SOURCES_PER_RUN:
            last.append(source)
        else:
            groups.append([source])
    latest = datetime.max.replace(tzinfo=UTC)
    return sorted(groups, key=lambda group: min(source.due_at or latest for source in group))


def request(batch: Sequence[SourceRow]) -> dg.RunRequest:
    """One run for neighbouring sources. The key carries each source's sync number, so no state ever repeats one."""
    first, last = batch[0].partition, batch[-1].partition
    key = ids.sha256_hex(*(f"{source.partition}:{source.syncs}" for source in batch))
    tags = {SOURCES_TAG: json.dumps([source.partition for source in batch])}
    if len(batch) == 1:
        return dg.RunRequest(run_key=key, partition_key=first, tags=tags)
    span = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dg.RunRequest(run_key=key, tags={**tags, **span})


def in_flight(instance: dg.DagsterInstance) -> set[str]:
    """Partitions that a queued or running sync run already holds."""
    held: set[str] = set()
    for run in instance.get_runs(dg.RunsFilter(job_name=sync_job.name, statuses=LIVE)):
        held.update(json.loads(run.tags.get(SOURCES_TAG, "[]")))
        held.update(filter(None, [run.tags.get("dagster/partition")]))
    return held
