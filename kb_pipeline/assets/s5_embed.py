"""Stage 5: chunks -> LanceDB. Equal text is embedded once; unchanged rows are not written."""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.indexer import Indexer
from kb_pipeline.assets.result import Check
from kb_pipeline.assets.s4_chunk import chunks
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.metering import EmbeddingMeter
from kb_pipeline.records import Space
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.store import Store

CODE_VERSION = "index-1"


@sync_asset("lancedb", CODE_VERSION, after=[chunks], pool="embedder", checks=["indexes_cover_rows"])
def chunk_index(
    context: dg.AssetExecutionContext,
    store: dg.ResourceParam[Store],
    embedder: dg.ResourceParam[Embedder],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """What is searched: vector, full text and provenance of every chunk, in the tenant's LanceDB database."""

    def work(run: StageRun) -> None:
        run.recipe = recipe_of(embedder.space, run.store.catalog.knowledge_base(run.source.kb_id).tenant)
        index_source(run, embedder)

    nobodys = recipe_of(embedder.space, "")
    return run_partitions(context, store, progress, nobodys, work, lambda run: inspect_index(run, embedder))


def recipe_of(space: Space, tenant: str) -> Recipe:
    """What makes index rows stale beside their chunks; a base that changed hands is indexed anew where it belongs."""
    return Recipe.of(ids.sha256_hex(ids.sha256_hex(CODE_VERSION, space.space_id), tenant))


def _index(run: StageRun, embedder: Embedder) -> ChunkIndex:
    tenant = run.store.catalog.knowledge_base(run.source.kb_id).tenant
    return run.store.index(tenant, embedder.space)


def index_source(run: StageRun, embedder: Embedder) -> None:
    """Embed and index what is new or changed, drop what is gone, and leave the indexes covering every row."""
    index, kb_id = _index(run, embedder), run.source.kb_id
    others = index.others()

    def delete(documents: Sequence[str]) -> None:
        for each in (index, *others):
            each.delete_documents(kb_id, documents)

    for each in (index, *others):
        if aside := each.set_aside_if_damaged():
            dg.get_dagster_logger().warning(
                f"The search index {each.path} was damaged and set aside as {aside.name}; each source's sync makes its "
                "passages anew."
            )
    source_id = run.source.source_id
    there = index.count_rows(kb_id, source_id)
    run.heal(there, lambda: index.document_ids(kb_id, source_id), delete, "chunks")
    living = set(run.store.ledger.units("chunks", kb_id, source_id, with_output=True)) if others else set()
    for other in others:  # what left before this space was made is known to no ledger row of it
        other.delete_documents(kb_id, sorted(other.document_ids(kb_id, source_id) - living))
    needs = run.needing("chunks")
    units = {unit.unit: unit for unit in needs.todo}
    meter = EmbeddingMeter(run.store, embedder, kb_id, source_id, run.run_id)
    indexer = Indexer(run, index, others, meter, embedder.space.dims)
    run.progress.begin(run.stage, run.source.partition, len(units))
    for rows in run.store.dataset(CHUNKS, run.source).scan(units, batch=run.store.settings.batch_documents):
        records = rows.drop_columns(["published_at"]).to_pylist()
        indexer.index(records, units)
        run.progress.advance(len({record["document_id"] for record in records}))
    run.retire(needs.removed, delete)  # last: a moved document finds its vectors in the rows it leaves behind
    index.maintain(keep_versions=timedelta(seconds=run.store.settings.index_keep_versions_s))
    run.store.documents.settle(run.source, run.stage)


def inspect_index(run: StageRun, embedder: Embedder) -> list[Check]:
    """The checks of the index: this source's rows against the ledger, keys and coverage over the whole table."""
    index = _index(run, embedder)
    found = index.statistics()
    rows = index.count_rows(run.source.kb_id, run.source.source_id)
    run.count(rows=rows, table_bytes=found.size_bytes)
    _, expected = run.store.ledger.totals(run.stage, run.source.kb_id, run.source.source_id)
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
