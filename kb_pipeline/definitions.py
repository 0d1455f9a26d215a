"""The only assembly point of the Dagster project. Imports nothing heavy, reads no network and no file."""

import dagster as dg

from kb_pipeline.assets.index_maintenance import index_maintenance
from kb_pipeline.assets.s1_fetch import raw_items
from kb_pipeline.assets.s2_normalize import documents
from kb_pipeline.assets.s4_chunk import chunks
from kb_pipeline.assets.s5_embed import chunk_index
from kb_pipeline.automation.jobs import register_source_job, sync_job
from kb_pipeline.automation.maintenance import maintenance_job, nightly_maintenance
from kb_pipeline.automation.resources import resources
from kb_pipeline.automation.sensors import source_sync

SYNC_ASSETS = [raw_items, documents, chunks, chunk_index]


@dg.definitions
def defs() -> dg.Definitions:
    """All assets, jobs, schedules, sensors and resources."""
    return dg.Definitions(
        assets=[*SYNC_ASSETS, index_maintenance],
        jobs=[sync_job, register_source_job, maintenance_job],
        schedules=[nightly_maintenance],
        sensors=[source_sync],
        resources=resources(),
        executor=dg.in_process_executor,
    )
