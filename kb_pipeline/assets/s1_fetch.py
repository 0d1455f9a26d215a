"""Stage 1: connector -> raw_items. What to fetch is decided in stages/intake.py; bytes go to the blob store."""

from datetime import UTC, datetime
from functools import partial

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.result import inspect_dataset
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.assets.sync_asset import run_partitions, sync_asset
from kb_pipeline.connectors.base import VALIDATORS, Connector
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import UnitFailure
from kb_pipeline.records import Item
from kb_pipeline.schemas import RAW_ITEMS
from kb_pipeline.stages.intake import clean_item, compare, document_listed, raw_output_hash, raw_row
from kb_pipeline.storage.catalog_records import next_due
from kb_pipeline.storage.ledger import Entry
from kb_pipeline.storage.store import Store

CODE_VERSION = "fetch-1"


@sync_asset("parquet", CODE_VERSION)
def raw_items(
    context: dg.AssetExecutionContext,
    store: dg.ResourceParam[Store],
    connectors: dg.ResourceParam[Registry],
    progress: dg.ResourceParam[Progress],
) -> dg.MaterializeResult:
    """What the source holds: fetches what is new or changed, retires what a complete listing no longer names."""

    def work(run: StageRun) -> None:
        sync_listing(run, connectors.named(run.source.connector))

    return run_partitions(context, store, progress, CODE_VERSION, work, inspect_dataset(RAW_ITEMS))


def sync_listing(run: StageRun, connector: Connector) -> None:
    """Bring raw_items in line with a fresh listing; one that fails half-way keeps what it brought, retires nothing."""
    source, catalog = run.source, run.store.catalog
    due_at = next_due(source, datetime.now(UTC))
    seen: set[str] = set()
    state = source.state
    healed = run.heal_dataset(run.store.dataset(RAW_ITEMS, source))
    if healed or not run.store.ledger.is_settled(run.stage, source.kb_id, source.source_id, run.recipe):
        state = {key: value for key, value in state.items() if key not in VALIDATORS}
    try:
        listing = connector.list_items(source, state)
        for batch in run.batches(listing.items, None):
            seen.update(_sync_batch(run, connector, batch, seen))
    except UnitFailure as failure:
        catalog.source_failed(source, failure, due_at)
        raise
    known = run.store.ledger.units(run.stage, source.kb_id, source.source_id)
    if listing.is_unchanged:
        run.count(rows_in=len(known), skipped=len(known))
    elif listing.is_complete:
        gone = [unit for unit in known if unit not in seen]
        run.store.documents.set_status(gone, "archived", run.run_id)
        run.retire(gone, run.store.dataset(RAW_ITEMS, source).delete)
    catalog.source_was_listed(source, listing.state, due_at)


def _sync_batch(run: StageRun, connector: Connector, batch: list[Item], seen: set[str]) -> list[str]:
    source, store = run.source, run.store
    items = [clean_item(item) for item in batch]
    keyed = [(ids.document_id(source.kb_id, source.connector, i.external_id, source.namespace), i) for i in items]
    units = [unit for unit, _ in keyed]
    known, owners = store.ledger.known(run.stage, units), store.documents.owners(units)
    intake = compare(keyed, source.source_id, known, owners, seen, run.recipe)
    run.count(rows_in=len(batch), skipped=intake.unchanged, elsewhere=intake.elsewhere, repeated=intake.repeated)
    new = sum(unit not in known for unit, _ in intake.wanted)
    again = sum(unit in known and known[unit]["input_hash"] == item.version for unit, item in intake.wanted)
    run.count(new=new, changed=len(intake.wanted) - new - again, again=again)
    store.documents.save(document_listed(unit, source, item, run.run_id) for unit, item in intake.wanted)
    rows, entries = [], []
    for unit, item in intake.wanted:
        raw = run.attempt(item.external_id, partial(connector.fetch, item))
        if isinstance(raw, UnitFailure):
            entries.append(Entry(unit=unit, input_hash=item.version, failure=raw))
            continue
        row = raw_row(unit, source, item, raw, store.blobs.put(raw.content), datetime.now(UTC))
        rows.append(row)
        entries.append(Entry(unit=unit, input_hash=item.version, output_hash=raw_output_hash(row), rows=1))
    if entries:
        run.commit(store.dataset(RAW_ITEMS, source), rows, entries)
        run.set_status([row["document_id"] for row in rows], "parsing")
    return intake.present
