"""Stage 2: raw_items -> documents. How bytes become text is in stages/normalize; it runs in a child process."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.result import inspect_dataset
from kb_pipeline.assets.s1_fetch import raw_items
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.errors import Lost, UnitFailure
from kb_pipeline.records import NormalizedContent
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import DOCUMENTS, RAW_ITEMS
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.stages.intake import raw_item
from kb_pipeline.stages.normalize import ParseLimits, normalize
from kb_pipeline.stages.rows import document_output_hash, document_row
from kb_pipeline.storage.ledger import Entry
from kb_pipeline.storage.store import Store

CODE_VERSION = "normalize-2"  # 2: another language detector


@sync_asset("parquet", CODE_VERSION, after=[raw_items])
def documents(
    context: dg.AssetExecutionContext,
    store: dg.ResourceParam[Store],
    sandbox: dg.ResourceParam[Sandbox],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """Normalised documents: title, text, language, headings and pages with offsets, and what could not be read."""
    limits = ParseLimits.of(store.settings)

    def work(run: StageRun) -> None:
        normalize_source(run, sandbox, limits)

    return run_partitions(context, store, progress, recipe_of(limits), work, inspect_dataset(DOCUMENTS))


def recipe_of(limits: ParseLimits) -> Recipe:
    """What makes documents stale beside their bytes."""
    return Recipe.of(ids.sha256_hex(CODE_VERSION), limits)


def normalize_source(run: StageRun, sandbox: Sandbox, limits: ParseLimits) -> None:
    """Normalise what is new or changed; a document that cannot be read gets its reason, the others go on."""
    target = run.store.dataset(DOCUMENTS, run.source)
    upstream = run.upstream("raw_items")
    run.heal_dataset(target, upstream)
    needs = run.needing(upstream)
    run.retire(needs.removed, target.delete)
    for batch, inputs in run.batches(needs.todo, run.store.dataset(RAW_ITEMS, run.source), upstream):
        rows, entries = [], []
        for row in batch:
            unit = row["document_id"]
            done = _document(run, sandbox, limits, row)
            if isinstance(done, Lost):
                run.store.ledger.doubt(upstream, unit, done)
            if isinstance(done, UnitFailure):
                entries.append(Entry(unit=unit, input_hash=inputs[unit], failure=done))
                continue
            rows.append(done[0])
            entries.append(Entry(unit=unit, input_hash=inputs[unit], output_hash=done[1], rows=1))
        committed = run.commit(target, rows, entries)
        run.store.documents.update(_catalog_row(row) for row in rows if row["document_id"] in committed)


def _document(
    run: StageRun, sandbox: Sandbox, limits: ParseLimits, row: dict[str, Any]
) -> tuple[dict[str, Any], str] | UnitFailure:
    def work() -> tuple[dict[str, Any], str]:
        return read(row, run.store.blobs.get(row["raw_sha256"]), sandbox, limits)

    return run.attempt(row["file_name"] or row["url"] or row["external_id"], work)


def read(row: Mapping[str, Any], content: bytes, sandbox: Sandbox, limits: ParseLimits) -> tuple[dict[str, Any], str]:
    """The documents row of a raw_items row with its bytes, and the hash of what later stages read of it.

    Records are JSON of our own making and need no child process.

    Raises: UnitFailure.
    """
    item = raw_item(row, content)
    is_ours = item.kind == "record"
    found: NormalizedContent = normalize(item, limits) if is_ours else sandbox.call(normalize, item, limits)
    done = document_row(row, found)
    return done, document_output_hash(done)


def _catalog_row(row: dict[str, Any]) -> dict[str, Any]:
    shown = ("document_id", "title", "url", "author", "published_at", "is_partial", "warnings", "content_hash")
    return {**{name: row[name] for name in shown}, "status": "chunking", "error_kind": None, "error": None}
