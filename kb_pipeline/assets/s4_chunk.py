"""Stage 4: documents -> chunks. The rules of splitting are in stages/chunk."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.result import inspect_dataset
from kb_pipeline.assets.s2_normalize import documents
from kb_pipeline.assets.spaces import drop_outdated_chunks, spaces_to_sync
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.errors import UnitFailure
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import CHUNKS, DOCUMENTS
from kb_pipeline.services.embedders import Embedders
from kb_pipeline.stages.chunk import SplitRules, split_document
from kb_pipeline.stages.rows import chunk_rows, chunks_output_hash, marks_of
from kb_pipeline.storage.ledger import Entry
from kb_pipeline.storage.store import Store

CODE_VERSION = "chunk-1"


@sync_asset("parquet", CODE_VERSION, after=[documents])
def chunks(
    context: dg.AssetExecutionContext,
    store: dg.ResourceParam[Store],
    embedders: dg.ResourceParam[Embedders],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """Spans of the documents' text with exact offsets, each with a header that is searched but not cited."""
    nobodys = Recipe.of(CODE_VERSION)
    work = partial(chunk_for_spaces, embedders=embedders)
    return run_partitions(context, store, progress, nobodys, work, inspect_dataset(CHUNKS))


def chunk_for_spaces(run: StageRun, embedders: Embedders) -> None:
    """Split for the spaces that are built, each way once; of what is kept for a way back, drop what is outdated."""
    works, _ = spaces_to_sync(run.store, run.source.kb_id, embedders)
    run.space = works[0].space.split_id  # what the checks look at: what search reads
    for split in dict.fromkeys(work.space.split_id for work in works):
        mine = [work for work in works if work.space.split_id == split]
        rules = next((work.rules for work in mine if work.embedder), None)
        recipe = recipe_of(rules) if rules else run.recipe
        part = run.for_space(split, recipe, is_served=any(work.is_served for work in mine))
        if rules:
            chunk_source(part, rules)
        else:
            drop_outdated_chunks(part)


def recipe_of(rules: SplitRules) -> Recipe:
    """What makes chunks stale beside their document."""
    return Recipe.of(ids.sha256_hex(CODE_VERSION, rules.unit, str(rules.size), str(rules.overlap)))


def chunk_source(run: StageRun, rules: SplitRules) -> None:
    """Split what is new or changed; a document's chunks are replaced together."""
    target = run.store.dataset(CHUNKS, run.source, run.space)
    upstream = run.upstream("documents")
    run.heal_dataset(target, upstream)
    needs = run.needing(upstream)
    run.retire(needs.removed, target.delete)
    for batch, inputs in run.batches(needs.todo, run.store.dataset(DOCUMENTS, run.source), upstream):
        rows: list[dict[str, Any]] = []
        entries = []
        for row in batch:
            unit = row["document_id"]
            done = run.attempt(row["title"], partial(split, row, rules, run.space))
            if isinstance(done, UnitFailure):
                entries.append(Entry(unit=unit, input_hash=inputs[unit], failure=done))
                continue
            made, output = done
            rows.extend(made)
            entries.append(Entry(unit=unit, input_hash=inputs[unit], output_hash=output, rows=len(made)))
        committed = run.commit(target, rows, entries)
        run.set_status(list(committed), "embedding")


def split(document: Mapping[str, Any], rules: SplitRules, split_id: str) -> tuple[list[dict[str, Any]], str]:
    """The chunks rows of a documents row, and the hash of what later stages read of them."""
    chunks = split_document(document["text"], marks_of(document), document["title"], rules)
    rows = chunk_rows(document, chunks, split_id)
    return rows, chunks_output_hash(rows)
