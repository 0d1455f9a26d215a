"""Changing the space that search reads, and removing those that nobody comes back to."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kb_pipeline.errors import UsageError
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.storage.catalog_records import KbSpace, SourceRow
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.store import Store

LAST_STAGE = "chunk_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """What search reads now, and what it read before."""

    serving: KbSpace
    previous: KbSpace


def promote(store: Store, kb_id: str, force: bool = False) -> Swap:
    """Let search read the candidate from now on; the space before is kept for `roll_back`.

    Raises: UsageError: there is no candidate; a sync is at work; the settings ask for another space by now, or
        documents are not in it yet, or failed there, and `force` is not given.
    """
    sources = store.catalog.sources(kb_id)
    with store.holding(sources):
        candidate = next((space for space in store.spaces.of(kb_id) if space.role == "candidate"), None)
        if candidate and not force:
            _check_whole(store, candidate)
        return _swap(store.spaces.promote(kb_id))


def roll_back(store: Store, kb_id: str) -> Swap:
    """Let search read again what it read before the last promotion.

    Documents that changed since are not in it before the next sync; those that left are not in it at all.

    Raises: UsageError: nothing is kept, or a sync is at work.
    """
    with store.holding(store.catalog.sources(kb_id)):
        for space in store.spaces.of(kb_id):
            if space.role == "previous":
                for source in store.catalog.sources(kb_id):  # the last sync may have ended before it came to that
                    drop_outdated(store, space, source.source_id)
        return _swap(store.spaces.roll_back(kb_id))


def promote_if_whole(store: Store, held: SourceRow) -> bool:
    """Promote the candidate if every document is in it or was given up; for a serving space whose model is gone.

    Not while another source is at work: the next sync looks again.

    Args:
        held: source that the caller holds.
    """
    others = [source for source in store.catalog.sources(held.kb_id) if source.source_id != held.source_id]
    try:
        with store.holding(others):
            candidate = next((space for space in store.spaces.of(held.kb_id) if space.role == "candidate"), None)
            if candidate is None or store.spaces.built(candidate).waiting:
                return False
            store.spaces.promote(held.kb_id)
            return True
    except UsageError:
        return False


def drop_unused(store: Store) -> list[str]:
    """Remove the spaces that search left longer ago than they are kept, and candidates that nobody wants any more.

    Returns: what had to stay because a sync is at work, one sentence each.
    """
    keep = timedelta(seconds=store.settings.index_keep_spaces_s)
    store.spaces.let_previous_go(datetime.now(UTC) - keep)
    notes = []
    for space in store.spaces.dropped():
        try:
            _drop(store, space)
        except UsageError:
            notes.append(f"Space {space.space_id} of {space.kb_id} stays: a sync is at work.")
    return notes


def drop_outdated(store: Store, space: KbSpace, source_id: str) -> list[str]:
    """Remove from a space what a source's documents do not say any more; returns the documents.

    So search can be led back to it and finds nothing that the source does not say.
    """
    ledger = store.ledger
    documents = Lane("documents", space.kb_id, source_id)
    chunks = Lane("chunks", space.kb_id, source_id, space.split_id)
    rows = Lane(LAST_STAGE, space.kb_id, source_id, space.space_id)
    outdated = sorted({*ledger.outdated(chunks, documents), *ledger.outdated(rows, chunks)})
    if outdated:
        index = store.index(store.catalog.knowledge_base(space.kb_id).tenant, space.space_id)
        with ledger.removing(rows, outdated):
            index.delete_documents(space.kb_id, outdated)
    return outdated


def _drop(store: Store, space: KbSpace) -> None:
    sources = [*store.catalog.sources(space.kb_id), *store.catalog.sources(space.kb_id, removed=True)]
    with store.holding(sources):
        others = [each for each in store.spaces.of(space.kb_id) if each.space_id != space.space_id]
        if all(each != space for each in store.spaces.of(space.kb_id)):
            return  # it is wanted again
        for index in store.indexes(store.catalog.knowledge_base(space.kb_id).tenant):
            for source in sources if index.space_id == space.space_id else ():
                index.delete_source(space.kb_id, source.source_id)
        for source in sources:
            store.ledger.remove_lane(Lane(LAST_STAGE, space.kb_id, source.source_id, space.space_id))
            if all(each.split_id != space.split_id for each in others):
                store.dataset(CHUNKS, source, space.split_id).remove()
                store.ledger.remove_lane(Lane("chunks", space.kb_id, source.source_id, space.split_id))
        store.spaces.remove(space)


def _swap(spaces: list[KbSpace]) -> Swap:
    previous = next(space for space in spaces if space.role == "previous")
    return Swap(serving=spaces[0], previous=previous)


def _check_whole(store: Store, candidate: KbSpace) -> None:
    settings = store.settings_of(store.catalog.knowledge_base(candidate.kb_id))
    asked = (settings.embedding_model, settings.chunk_unit, *settings.split_sizes)
    if asked != (candidate.embedding_model, candidate.chunk_unit, candidate.chunk_size, candidate.chunk_overlap):
        raise UsageError(
            f"The settings of {candidate.kb_id} ask for another space than the candidate by now: `kb sync "
            f"{candidate.kb_id}` builds it; --force promotes the candidate all the same."
        )
    progress = store.spaces.built(candidate)
    if progress.waiting:
        raise UsageError(
            f"{progress.waiting} documents of {candidate.kb_id} are not in the candidate yet: `kb sync "
            f"{candidate.kb_id}` goes on building it; --force promotes it as it is."
        )
    if progress.failed:
        raise UsageError(
            f"{progress.failed} documents of {candidate.kb_id} failed in the candidate ({progress.reason}). Mend them, "
            "or leave them out with --force."
        )
