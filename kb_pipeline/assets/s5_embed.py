"""Stage 5: chunks -> LanceDB. Equal text is embedded once; unchanged rows are not written."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
import pyarrow as pa

from kb_pipeline import ids
from kb_pipeline.assets.result import Check
from kb_pipeline.assets.s4_chunk import chunks
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.stages.index_rows import index_rows
from kb_pipeline.stages.rows import indexed_text
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.ledger import Entry
from kb_pipeline.storage.store import Store

CODE_VERSION = "index-1"
_TEXTS_AT_ONCE = 256


@sync_asset("lancedb", CODE_VERSION, after=[chunks], pool="embedder", checks=["indexes_cover_rows"])
def chunk_index(
    context: dg.AssetExecutionContext,
    store: dg.ResourceParam[Store],
    embedder: dg.ResourceParam[Embedder],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """What is searched: vector, full text and provenance of every chunk, in the tenant's LanceDB database."""

    def work(run: StageRun) -> None:
        tenant = run.store.catalog.knowledge_base(run.source.kb_id).tenant
        run.recipe = ids.sha256_hex(recipe, tenant)  # a base that changed hands is indexed anew where it now belongs
        index_source(run, embedder)

    recipe = ids.sha256_hex(CODE_VERSION, embedder.space.space_id)
    return run_partitions(context, store, progress, recipe, work, lambda run: inspect_index(run, embedder))


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

    source_id = run.source.source_id
    there = index.count_rows(kb_id, source_id)
    run.heal(there, lambda: index.document_ids(kb_id, source_id), delete, "chunks")
    needs = run.needing("chunks")
    run.retire(needs.removed, delete)
    units = {unit.unit: unit for unit in needs.todo}
    run.progress.begin(run.stage, run.source.partition, len(units))
    for rows in run.store.dataset(CHUNKS, run.source).scan(units, batch=run.store.settings.batch_documents):
        sizes = Counter(map(str, rows["document_id"].to_pylist()))
        documents = list(sizes)
        _index_batch(run, index, embedder, documents, rows)
        for other in others:
            other.delete_documents(kb_id, documents)
        run.store.documents.update({"document_id": d, "chunks": size} for d, size in sizes.items())
        done = [(units[document].input_hash, document, size) for document, size in sizes.items()]
        run.record([Entry(unit=d, input_hash=given, output_hash=given, rows=size) for given, d, size in done])
        run.progress.advance(len(documents))
    index.maintain(keep_versions=timedelta(seconds=run.store.settings.index_keep_versions_s))
    run.store.documents.settle(run.source, run.stage)


def _index_batch(run: StageRun, index: ChunkIndex, embedder: Embedder, documents: list[str], rows: pa.Table) -> None:
    records = rows.drop_columns(["published_at"]).to_pylist()
    vectors = index.vectors_by_hash([record["indexed_hash"] for record in records])
    missing = {r["indexed_hash"]: indexed_text(r) for r in records if r["indexed_hash"] not in vectors}
    hashes = list(missing)
    for start in range(0, len(hashes), _TEXTS_AT_ONCE):
        some = hashes[start : start + _TEXTS_AT_ONCE]
        vectors.update(zip(some, embedder.embed_documents([missing[h] for h in some]), strict=True))
    run.count(
        embedded=len(missing),
        documents_embedded=len({record["document_id"] for record in records if record["indexed_hash"] in missing}),
        written=len(records),
    )
    index.replace_documents(
        run.source.kb_id, run.source.source_id, documents, index_rows(records, vectors, embedder.space.dims)
    )


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
