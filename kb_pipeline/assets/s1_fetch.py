"""Stage 1: connector -> raw_items. What to fetch is decided in stages/intake.py; bytes go to the blob store."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from kb_pipeline.assets.listing import intake_of, state_to_list_with, verdict_of
from kb_pipeline.assets.result import Check, inspect_dataset
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.connectors.base import Connector
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import Corrupt, UnitFailure
from kb_pipeline.first_met import FirstMet
from kb_pipeline.records import Item, Listing, Source
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import RAW_ITEMS
from kb_pipeline.settings import Settings
from kb_pipeline.stages.intake import document_listed, raw_output_hash, raw_row
from kb_pipeline.stages.retirement import Retirement
from kb_pipeline.storage.catalog_records import next_due
from kb_pipeline.storage.ledger import Entry
from kb_pipeline.storage.store import Store
from kb_pipeline.urls import masked

CODE_VERSION = "fetch-2"  # 2: addresses without user names, records by their ids


class ListingConfig(dg.Config):
    """How a listing is taken.

    Attributes:
        accept_removals: a person vouches for it: what it no longer names leaves at once, however much that is.
    """

    accept_removals: bool = False


@sync_asset("parquet", CODE_VERSION, checks=["no_removal_waits"])
def raw_items(
    context: dg.AssetExecutionContext,
    config: ListingConfig,
    store: dg.ResourceParam[Store],
    connectors: dg.ResourceParam[Registry],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """What the source holds: fetches what is new or changed, retires what a complete listing no longer names."""

    def work(run: StageRun) -> None:
        sync_listing(run, connectors.named(run.source.connector), config.accept_removals)

    return run_partitions(context, store, progress, recipe_of(store.settings), work, _inspect)


def recipe_of(settings: Settings) -> Recipe:
    """What makes raw items stale beside the source's own versions."""
    return Recipe.of(CODE_VERSION, settings.max_file_bytes, settings.http_max_bytes, settings.http_max_page_bytes)


def sync_listing(run: StageRun, connector: Connector, is_accepted: bool = False) -> None:
    """Bring raw_items in line with a fresh listing; one that fails half-way keeps what it brought, retires nothing."""
    source, catalog = run.source, run.store.catalog
    due_at = next_due(source, datetime.now(UTC))
    seen = FirstMet()
    healed = run.heal_dataset(run.store.dataset(RAW_ITEMS, source))
    try:
        listing = connector.list_items(source, state_to_list_with(run.store, source, run.recipe, healed))
        for batch in run.listed(listing.items):
            seen.update(_sync_batch(run, connector, batch, seen))
    except UnitFailure as failure:
        catalog.source_failed(source, failure, due_at)
        raise
    verdict = verdict_of(run.store, source, listing, seen, is_accepted)
    _retire(run, listing, seen, verdict)
    if listing.gone and (verdict.waiting or not verdict.retired):
        catalog.source_failed(source, listing.gone, due_at)
        raise listing.gone
    catalog.source_was_listed(source, listing.state, due_at)
    if listing.gone:
        catalog.source_failed(source, listing.gone, due_at)


def _retire(run: StageRun, listing: Listing, seen: FirstMet, verdict: Retirement) -> None:
    """Archive what left the source, and note what is missed for the first time."""
    source, documents = run.source, run.store.documents
    if listing.is_unchanged:
        known = sum(1 for _ in run.store.ledger.units(run.lane))
        run.count(rows_in=known, skipped=known)
    elif not listing.is_complete:
        run.store.ledger.let_be(run.lane, run.recipe, seen)
    unaccounted = documents.unaccounted(source.kb_id, source.source_id, run.stage)
    never_had = sorted(unit for unit in unaccounted if unit not in seen)
    documents.archive([*verdict.retired, *never_had], run.run_id)
    run.retire(verdict.retired, run.store.dataset(RAW_ITEMS, source).delete)
    documents.set_missing(verdict.returned, None)
    documents.set_missing(verdict.waiting, datetime.now(UTC))
    run.count(waiting=len(verdict.waiting))


def _inspect(run: StageRun) -> list[Check]:
    missing = sorted(run.store.documents.missing(run.source.kb_id, run.source.source_id).values())
    found = (
        f"{len(missing)} documents are not in the last listing: {masked(', '.join(missing[:5]))}. They stay until "
        f"another listing agrees; kb sync {run.source.kb_id}/{run.source.source_id} --accept-removals retires them now."
    )
    return [*inspect_dataset(RAW_ITEMS)(run), ("no_removal_waits", not missing, found if missing else "")]


def _sync_batch(run: StageRun, connector: Connector, batch: list[Item], seen: FirstMet) -> list[str]:
    source, store = run.source, run.store
    intake = intake_of(store, source, batch, seen, run.recipe)
    run.count(rows_in=len(batch), skipped=intake.unchanged, elsewhere=intake.elsewhere, repeated=intake.repeated)
    run.count(new=intake.new, changed=intake.changed, again=len(intake.wanted) - intake.new - intake.changed)
    store.documents.save(document_listed(unit, source, item, run.run_id) for unit, item in intake.wanted)
    rows, entries = [], []
    for unit, item in intake.wanted:
        done = run.attempt(item.external_id, partial(fetch, connector, source, unit, item, store.blobs.put))
        if isinstance(done, UnitFailure):
            entries.append(Entry(unit=unit, input_hash=item.version, failure=done))
            continue
        row, output, _ = done
        rows.append(row)
        entries.append(Entry(unit=unit, input_hash=item.version, output_hash=output, rows=1))
    if entries:
        committed = run.commit(store.dataset(RAW_ITEMS, source), rows, entries)
        run.set_status(list(committed), "parsing")
    return intake.present


def fetch(
    connector: Connector, source: Source, unit: str, item: Item, keep: Callable[[bytes], str]
) -> tuple[dict[str, Any], str, bytes]:
    """An item's raw_items row, the hash of what later stages read of it, and its bytes.

    Args:
        keep: takes the bytes and gives their digest.
    Raises: UnitFailure.
    """
    if item.refusal:
        raise Corrupt(item.refusal)
    raw = connector.fetch(item)
    row = raw_row(unit, source, item, raw, keep(raw.content), datetime.now(UTC))
    return row, raw_output_hash(row), raw.content
