"""Stage 5: chunks -> LanceDB, in every space that is built. Equal text is embedded once; unchanged rows stay."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.indexer import Indexer
from kb_pipeline.assets.memory import give_back
from kb_pipeline.assets.result import Check
from kb_pipeline.assets.s4_chunk import chunks
from kb_pipeline.assets.spaces import SpaceWork, drop_outdated_rows, spaces_to_sync
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.lifecycle.spaces import promote_if_whole
from kb_pipeline.metering import EmbeddingMeter
from kb_pipeline.records import Space, vector_space_of
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.services.embedders import Embedders
from kb_pipeline.storage.catalog_records import KbSpace
from kb_pipeline.storage.kb_spaces import Built
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.store import Store

CODE_VERSION = "index-1"
_COMMITS_BETWEEN_UPKEEP = 64


@sync_asset("lancedb", CODE_VERSION, after=[chunks], pool="embedder", checks=["indexes_cover_rows"])
def chunk_index(
    context: dg.AssetExecutionContext,
    store: dg.ResourceParam[Store],
    embedders: dg.ResourceParam[Embedders],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """What is searched: vector, full text and provenance of every chunk, in the tenant's LanceDB database."""
    work = partial(index_spaces, embedders=embedders)
    return run_partitions(context, store, progress, Recipe.of(CODE_VERSION), work, inspect_index)


def recipe_of(space_id: str, tenant: str) -> Recipe:
    """What makes index rows stale beside their chunks; a base that changed hands is indexed anew where it belongs."""
    return Recipe.of(ids.sha256_hex(ids.sha256_hex(CODE_VERSION, space_id), tenant))


def index_spaces(run: StageRun, embedders: Embedders) -> None:
    """Index for the spaces that are built; from what is kept for a way back, drop what is outdated."""
    store, kb_id = run.store, run.source.kb_id
    tenant = store.catalog.knowledge_base(kb_id).tenant
    works, problem = spaces_to_sync(store, kb_id, embedders)
    for index in store.indexes(tenant):
        if aside := index.set_aside_if_damaged():
            dg.get_dagster_logger().warning(
                f"The search index {index.path} was damaged and set aside as {aside.name}; each source's sync makes "
                "its passages anew."
            )
    for work in works:
        space_id = work.space.space_id
        part = run.for_space(space_id, recipe_of(space_id, tenant), work.is_served)
        if work.embedder:
            index_source(part, work, tenant)
        else:
            drop_outdated_rows(part, work.space, store.index(tenant, space_id))
        if work.is_served:  # it comes first: what fails on the way into a candidate changes nothing about it
            store.documents.settle(run.source, run.stage)
            store.documents.release_unfinished(run.source)
    if not works[0].embedder and promote_if_whole(store, run.source):
        dg.get_dagster_logger().warning(f"{works[0].space.space_id} cannot be added to any more: {kb_id} left it.")
    if problem:
        raise problem
    standing = store.spaces.of(kb_id)
    run.space = standing[0].space_id  # what the checks look at: what search reads
    if len(standing) > 1:
        run.spaces += [_shown(space, store.spaces.built(space)) for space in standing if space.role != "dropped"]


def _shown(space: KbSpace, built: Built) -> dict[str, str | int]:
    """A space as the UI shows it beside the others."""
    counts: dict[str, str | int] = {"documents": built.done, "failed": built.failed, "to come": built.waiting}
    if space.role == "previous":  # nothing is added to it any more
        counts["to come"] = 0
    return {"knowledge base": space.kb_id, "role": space.role, "space": space.space_id, **counts}


def index_source(run: StageRun, work: SpaceWork, tenant: str) -> None:
    """Embed and index what is new or changed, drop what is gone, and leave the indexes covering every row."""
    store, kb_id, source_id = run.store, run.source.kb_id, run.source.source_id
    embedder, space = work.built_with, work.table_space
    index, upstream = store.index(tenant, space), run.upstream("chunks", work.space.split_id)

    def delete(documents: Sequence[str]) -> None:
        index.delete_documents(kb_id, documents)

    run.heal(index.count_rows(kb_id, source_id), lambda: index.document_ids(kb_id, source_id), delete, upstream)
    needs = run.needing(upstream)
    meter = EmbeddingMeter(store, embedder, kb_id, source_id, run.run_id)
    keep = timedelta(seconds=store.settings.index_keep_versions_s)
    indexer = Indexer(run, index, tables_alike(store, tenant, space), meter, space.dims)
    batches = run.batches(needs.todo, store.dataset(CHUNKS, run.source, work.space.split_id), upstream)
    for number, (rows, inputs) in enumerate(batches, 1):
        indexer.index(rows, inputs)
        if number % _COMMITS_BETWEEN_UPKEEP == 0:  # else what looks rows up would go through all new ones
            give_back()
            index.maintain(vector_index_rows=sys.maxsize, keep_versions=keep)
            give_back()
    run.retire(needs.removed, delete)  # last: a moved document finds its vectors in the rows it leaves behind
    give_back()
    index.maintain(keep_versions=keep)


def tables_alike(store: Store, tenant: str, space: Space) -> list[ChunkIndex]:
    """The table of a space, then the tenant's others with vectors of the same model: a text may stand in any."""
    others = [index for index in store.indexes(tenant) if index.space_id != space.space_id]
    alike = [index for index in others if vector_space_of(index.space_id) == space.vector_space_id]
    return [store.index(tenant, space), *alike]


def inspect_index(run: StageRun) -> list[Check]:
    """The checks of what search reads: this source's rows against the ledger, keys and coverage of the whole table."""
    tenant = run.store.catalog.knowledge_base(run.source.kb_id).tenant
    index: ChunkIndex = run.store.index(tenant, run.space)
    found = index.statistics()
    rows = index.count_rows(run.source.kb_id, run.source.source_id)
    run.count(rows=rows, table_bytes=found.size_bytes)
    _, expected = run.store.ledger.totals(run.lane)
    return [
        ("schema_matches", found.schema_matches, ""),
        ("keys_are_unique", found.duplicate_keys == 0, f"{found.duplicate_keys} keys occur twice"),
        ("ledger_matches_rows", rows == expected, f"{rows} rows, {expected} in the ledger"),
        (
            "indexes_cover_rows",
            found.unindexed_rows == 0,
            f"{found.unindexed_rows} of {found.rows} rows are not indexed yet",
        ),
    ]
