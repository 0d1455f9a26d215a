"""Jobs: sync of sources, and registering a source from the Launchpad."""

import dagster as dg

from kb_pipeline.automation.partitions import source_partitions
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.sources import add_source
from kb_pipeline.storage.store import Store
from kb_pipeline.urls import masked

sync_job = dg.define_asset_job(
    "sync",
    selection=dg.AssetSelection.groups("sync"),
    description="Brings sources and their index in line: raw_items → documents → chunks → chunk_index.",
    executor_def=dg.in_process_executor,
)


class NewSource(dg.Config):
    """What to register.

    Attributes:
        kb: name or id of the knowledge base; made on first use.
        input: URL, file, folder, or .jsonl of records.
        type: connector; empty lets the input decide.
        every: interval (`1h`) or cron expression; empty for no schedule.
    """

    kb: str
    input: str
    type: str = ""
    every: str = ""
    name: str = ""


@dg.op
def register_source(
    context: dg.OpExecutionContext,
    config: NewSource,
    store: dg.ResourceParam[Store],
    connectors: dg.ResourceParam[Registry],
) -> None:
    """Adds a source to a knowledge base and its partition to the sync assets."""
    known = {label for kb in store.catalog.knowledge_bases() for label in (kb.kb_id, kb.name)}
    if config.kb not in known:
        store.catalog.create_knowledge_base(config.kb)
    source = add_source(
        store.catalog,
        connectors,
        config.kb,
        config.input,
        source_type=config.type or None,
        every=config.every or None,
        name=config.name or None,
    )
    context.instance.add_dynamic_partitions(str(source_partitions.name), [source.partition])
    context.log.info(
        f"Registered {masked(source.input)} as partition {source.partition}; materialize it, or wait for its schedule."
    )


@dg.job(executor_def=dg.in_process_executor)
def register_source_job() -> None:
    """Register a source from the Launchpad."""
    register_source()
