"""What a listing means, decided before anything is done about it: for the sync that does it and the plan that tells."""

from collections.abc import Container, Sequence
from datetime import UTC, datetime
from typing import Any

from kb_pipeline import ids
from kb_pipeline.records import VALIDATORS, Item, Json, Listing
from kb_pipeline.retries import Recipe
from kb_pipeline.stages.intake import Intake, clean_item, compare
from kb_pipeline.stages.retirement import Retirement, retirement
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.store import Store


def _lane(source: SourceRow) -> Lane:
    return Lane("raw_items", source.kb_id, source.source_id)


def state_to_list_with(store: Store, source: SourceRow, recipe: Recipe, healed: int = 0) -> Json:
    """The source's state; without validators where every item has to be named again."""
    if healed or not store.ledger.is_settled(_lane(source), recipe):
        return {key: value for key, value in source.state.items() if key not in VALIDATORS}
    return source.state


def intake_of(store: Store, source: SourceRow, batch: Sequence[Item], seen: Container[str], recipe: Recipe) -> Intake:
    """A batch of a listing against what is known; what was forgotten is not there at all."""
    items = [clean_item(item) for item in batch]
    keyed = [(ids.document_id(source.kb_id, source.connector, i.external_id, source.namespace), i) for i in items]
    forgotten = store.forgotten.among(source.kb_id, [unit for unit, _ in keyed])
    keyed = [(unit, item) for unit, item in keyed if unit not in forgotten]
    units = [unit for unit, _ in keyed]
    known: dict[str, Any] = dict(store.ledger.known(_lane(source), units))
    owners = store.documents.owners(units)
    return compare(keyed, source.source_id, known, owners, seen, recipe, datetime.now(UTC))


def verdict_of(
    store: Store, source: SourceRow, listing: Listing, seen: Container[str], is_accepted: bool
) -> Retirement:
    """Who leaves with a listing that was drained."""
    waiting = store.documents.missing(source.kb_id, source.source_id).keys()
    if listing.is_unchanged or not listing.is_complete:  # nothing that is known is missed
        return Retirement(retired=[], waiting=[], returned=sorted(waiting))
    return retirement(store.ledger.units(_lane(source)), seen, waiting, is_accepted)
