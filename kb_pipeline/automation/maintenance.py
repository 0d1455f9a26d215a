"""When tenants are maintained: every night by a schedule, or in this process by `kb maintain`."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from kb_pipeline.assets.index_maintenance import index_maintenance
from kb_pipeline.automation.instance import PROCESS_TAG, process_tag
from kb_pipeline.automation.interrupts import noticed
from kb_pipeline.automation.outcome import first_failure
from kb_pipeline.automation.partitions import MAINTENANCE_POOL, tenant_partitions
from kb_pipeline.automation.sensors import LIVE
from kb_pipeline.storage.store import Store

maintenance_job = dg.define_asset_job(
    "maintenance",
    selection=dg.AssetSelection.assets(index_maintenance),
    description="Keeps a tenant's search tables as fast and small as freshly built ones, and removes what is orphaned.",
    executor_def=dg.in_process_executor,
)
_NAME = str(tenant_partitions.name)
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dg.schedule(job=maintenance_job, cron_schedule="0 3 * * *", default_status=dg.DefaultScheduleStatus.RUNNING)
def nightly_maintenance(
    context: dg.ScheduleEvaluationContext, store: dg.ResourceParam[Store]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Requests maintenance of every tenant, one after another, at 03:00 UTC."""
    tenants = store.tenants()
    keep_in_step(context.instance, tenants)
    for tenant in tenants:
        yield dg.RunRequest(run_key=f"{tenant}:{context.scheduled_execution_time:%Y-%m-%d}", partition_key=tenant)
    if not tenants:
        yield dg.SkipReason("There is no knowledge base yet.")


def keep_in_step(instance: dg.DagsterInstance, tenants: Sequence[str]) -> None:
    """Make the tenants partitions, drop those that are gone and idle, and let one maintenance run at a time."""
    runs = instance.get_runs(dg.RunsFilter(job_name=maintenance_job.name, statuses=LIVE))
    busy = {run.tags.get("dagster/partition") for run in runs}
    known = instance.get_dynamic_partitions(_NAME)
    instance.add_dynamic_partitions(_NAME, [tenant for tenant in tenants if tenant not in known])
    for gone in set(known) - set(tenants) - busy:
        instance.delete_dynamic_partition(_NAME, gone)
    if instance.event_log_storage.supports_global_concurrency_limits:
        instance.event_log_storage.set_concurrency_slots(MAINTENANCE_POOL, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What one run did for one tenant.

    Attributes:
        counts: the run's metadata: rows, and fragments, versions, files and bytes before and after.
        warnings: what its checks found, and what it left for the next time.
    """

    tenant: str
    status: str
    counts: dict[str, float]
    warnings: list[str]
    seconds: float
    run_id: str
    error: str | None

    def as_json(self) -> dict[str, Any]:
        """For `--json`: the counts beside the rest."""
        row = asdict(self)
        return {**row.pop("counts"), **row}


def maintain_here(store: Store, instance: dg.DagsterInstance, tenants: Sequence[str]) -> Iterator[MaintenanceReport]:
    """Run the asset in this process for one tenant after another; a failed run is a report with status failed.

    Raises: KeyboardInterrupt: SIGINT or SIGTERM came while one ran.
    """
    keep_in_step(instance, store.tenants())
    assembled = dg.Definitions(assets=[index_maintenance], jobs=[maintenance_job], resources={"store": store})
    job = assembled.resolve_job_def(maintenance_job.name)
    for tenant in tenants:
        started = time.monotonic()
        with noticed() as raise_if_stopped:
            result = job.execute_in_process(
                partition_key=tenant,
                instance=instance,
                run_config=_QUIET,
                tags={PROCESS_TAG: process_tag()},
                raise_on_error=False,
            )
            raise_if_stopped()
        yield _report(tenant, result, round(time.monotonic() - started, 3))


def _report(tenant: str, result: dg.ExecuteInProcessResult, seconds: float) -> MaintenanceReport:
    counts: dict[str, float] = {}
    warnings: list[str] = []
    for event in result.get_asset_materialization_events():
        metadata = event.materialization.metadata
        counts = {
            name.rpartition("/")[2]: value.value
            for name, value in metadata.items()
            if isinstance(value.value, int | float)
        }
        notes: Any = metadata["notes"].value
        warnings.extend(notes)
    evaluations = result.get_asset_check_evaluations()
    warnings.extend(f"{each.check_name}: {each.description}" for each in evaluations if not each.passed)
    return MaintenanceReport(
        tenant=tenant,
        status="ok" if result.success else "failed",
        counts=counts,
        warnings=warnings,
        seconds=seconds,
        run_id=result.run_id,
        error=None if result.success else first_failure(result),
    )
