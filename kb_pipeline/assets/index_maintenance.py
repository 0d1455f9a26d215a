"""Quality: search tables kept as fast and small as freshly built ones. What is done is in lifecycle/maintenance.py."""

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.s5_embed import chunk_index
from kb_pipeline.assets.sync_asset import RETRY
from kb_pipeline.assets.upkeep_result import CHECKS, checks_of, metadata_of
from kb_pipeline.automation.partitions import MAINTENANCE_POOL, OWNERS, tenant_partitions
from kb_pipeline.errors import SystemicError
from kb_pipeline.lifecycle.maintenance import maintain_tenant
from kb_pipeline.storage.store import Store

CODE_VERSION = "maintenance-1"


@dg.asset(
    partitions_def=tenant_partitions,
    deps=[dg.AssetDep(chunk_index, partition_mapping=dg.AllPartitionMapping())],
    group_name="quality",
    kinds={"lancedb"},
    owners=OWNERS,
    code_version=CODE_VERSION,
    retry_policy=RETRY,
    pool=MAINTENANCE_POOL,
    check_specs=[dg.AssetCheckSpec(name, asset="index_maintenance", description=d) for name, d in CHECKS.items()],
)
def index_maintenance(context: dg.AssetExecutionContext, store: dg.ResourceParam[Store]) -> dg.MaterializeResult:
    """Joins fragments and index segments, renews indexes past drift, removes old versions, orphans and leftovers."""
    tenant = context.partition_key
    try:
        upkeep = maintain_tenant(store, tenant)
    except (SystemicError, OSError) as error:
        raise dg.Failure(f"index_maintenance {tenant}: {error}", allow_retries=False) from error
    except (dg.DagsterExecutionInterruptedError, KeyboardInterrupt) as stop:  # else the retry policy tries again
        raise dg.Failure(f"index_maintenance {tenant}: stopped; the next goes on.", allow_retries=False) from stop
    for note in upkeep.notes:
        context.log.warning(note)
    shape = [f"{table.space_id}:{table.after.rows}" for table in upkeep.tables if table.after]
    return dg.MaterializeResult(
        metadata=metadata_of(upkeep),
        check_results=checks_of(upkeep),
        data_version=dg.DataVersion(ids.sha256_hex(*shape)),
    )
