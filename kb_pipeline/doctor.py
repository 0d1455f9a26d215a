"""`kb doctor`: looks at everything a home needs and says what is wrong and what to do. Changes nothing."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from kb_pipeline.errors import KbError
from kb_pipeline.schemas import CHUNKS, PARQUET_TABLES
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.engine import damage
from kb_pipeline.storage.lance_damage import damage_of
from kb_pipeline.storage.lance_table import tenants_with_tables
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.parquet import parts_of
from kb_pipeline.storage.store import Store

LEAST_FREE_BYTES = 1_000_000_000
_SHOWN = 5
_CATALOG_ADVICE = (
    "Stop everything that uses this home and put the catalog of a backup in its place, or mend KB_DATABASE_URL. "
    "Without a backup: move KB_HOME away, create the bases, add the sources and sync again; all is fetched anew."
)
_OWNER_ADVICE = (
    "If the catalog was lost, restore it from a backup before anything else. If these sources are to go, move "
    "their folders in parquet/ away; `kb maintain` takes their rows out of the index."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at."""

    subject: str
    state: Literal["ok", "warning", "broken"]
    found: str
    advice: str = ""


def examine(
    store: Store, open_embedder: Callable[[str], Embedder], check_instance: Callable[[], None]
) -> Iterator[Finding]:
    """Findings from the ground up; a broken one does not stop the others."""
    yield _home(store)
    yield _embedder(open_embedder, store.settings.embedding_model)
    yield _runs(check_instance)
    try:
        wrong = damage(store.catalog.engine)
        sources = store.catalog.sources()
        bases = {base.kb_id: base for base in store.catalog.knowledge_bases()}
    except (KbError, UnicodeDecodeError) as error:
        yield Finding(subject="catalog", state="broken", found=str(error), advice=_CATALOG_ADVICE)
        return
    found = f"knowledge bases: {len(bases)}, sources: {len(sources)}"
    yield (
        Finding(subject="catalog", state="broken", found=f"{found}; damaged: {wrong}", advice=_CATALOG_ADVICE)
        if wrong
        else Finding(subject="catalog", state="ok", found=found)
    )
    yield from _guarded("rows without an owner", ownerless(store))
    own = {store.settings_of(base).embedding_model for base in bases.values()}
    read = {space.embedding_model for base in bases for space in store.spaces.of(base) if space.role == "serving"}
    for model in sorted((own | read) - {store.settings.embedding_model}):
        yield _embedder(open_embedder, model)
    for source in sources:
        yield from _guarded(f"{source.kb_id}/{source.source_id}", _source(store, source, bases[source.kb_id].tenant))
    for tenant in sorted({base.tenant for base in bases.values()}):
        yield from _guarded(tenant, _indexes(store, tenant))


def _guarded(subject: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings, or that looking itself failed."""
    try:
        yield from findings
    except (KbError, OSError) as error:
        yield Finding(subject=subject, state="broken", found=str(error), advice="Do as it says, then `kb sync --all`.")


def _home(store: Store) -> Finding:
    root = store.layout.root
    if not os.access(root, os.W_OK):
        return Finding(
            subject="storage", state="broken", found=f"{root} cannot be written", advice="Mend its permissions."
        )
    free = shutil.disk_usage(root).free
    found = f"{root}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE_BYTES:
        return Finding(subject="storage", state="warning", found=found, advice="Free some disk before the next sync.")
    return Finding(subject="storage", state="ok", found=found)


def _runs(check_instance: Callable[[], None]) -> Finding:
    try:
        check_instance()
    except KbError as error:
        advice = "Where its record is damaged, move that folder away: it is the history of runs; a sync makes it anew."
        return Finding(subject="runs", state="broken", found=str(error), advice=advice)
    return Finding(subject="runs", state="ok", found="Dagster's configuration and record of runs can be read")


def ownerless(store: Store) -> Iterator[Finding]:
    """Rows whose source the catalog has never heard of: it was lost, or is not the one of this home."""
    known = {(s.kb_id, s.source_id) for s in (*store.catalog.sources(), *store.catalog.sources(removed=True))}
    held = {(kb_id, source) for table in PARQUET_TABLES for kb_id, source in parts_of(store.layout, table)}
    for tenant in tenants_with_tables(store.layout.root):
        for index in store.indexes(tenant):
            held |= set() if damage_of(index.path) else set(index.documents())
    if strangers := sorted(held - known):
        named = ", ".join(f"{kb_id}/{source}" for kb_id, source in strangers[:_SHOWN])
        more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
        found = f"sources that the catalog does not know have rows: {named}{more}"
        yield Finding(subject="rows without an owner", state="broken", found=found, advice=_OWNER_ADVICE)


def _embedder(open_embedder: Callable[[str], Embedder], model: str) -> Finding:
    try:
        embedder = open_embedder(model)
        dims = len(embedder.embed_query("is anyone there"))
    except KbError as error:
        return Finding(
            subject="embedder", state="broken", found=str(error), advice="Set EMBEDDING_MODEL to a model that is here."
        )
    space = embedder.space
    if dims != space.dims:
        return Finding(
            subject="embedder",
            state="broken",
            found=f"{space.model} gives {dims} dims, not {space.dims}",
            advice="Reinstall it.",
        )
    return Finding(subject="embedder", state="ok", found=f"{space.provider} {space.model}, {dims} dims")


def _source(store: Store, source: SourceRow, tenant: str) -> Iterator[Finding]:
    name = f"source {source.kb_id}/{source.source_id}"
    again = f"`kb sync {source.kb_id}/{source.source_id}`"
    statuses = Counter(row["status"] for row in store.documents.rows(source.kb_id, source_id=source.source_id))
    found = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "never synced"
    advice = ""
    if waiting := len(store.documents.missing(source.kb_id, source.source_id)):
        found = f"{found}; {waiting} of them are missing from its last listing, and leave when another one agrees"
    if source.status == "failed":
        found, advice = f"{found}; its last listing failed: {source.error}", f"Mend it, then {again}."
    elif statuses.keys() - {"ready", "archived", "failed"}:
        advice = f"{again} goes on with them."
    elif waiting:
        advice = f"If they are gone for good, {again[:-1]} --accept-removals` removes them now."
    elif "failed" in statuses:
        advice = f"`kb docs {source.kb_id} --status failed` says why."
    yield Finding(subject=name, state="warning" if advice else "ok", found=found, advice=advice)
    for lane, rows, is_sound in _stored(store, source, tenant):
        _, expected = store.ledger.totals(lane)
        if rows != expected or not is_sound:
            found = f"{rows} rows, {expected} in the ledger" + ("" if is_sound else "; keys or schema are wrong")
            advice = f"{again} does them anew; if it stays, report it with `kb doctor --json`."
            stage = f"{lane.stage} ({lane.space})" if lane.space else lane.stage
            yield Finding(subject=f"{stage} of {name}", state="broken", found=found, advice=advice)


def _stored(store: Store, source: SourceRow, tenant: str) -> Iterator[tuple[Lane, int, bool]]:
    """(lane, rows it has of a source, whether keys and schema are as they should be)."""
    spaces = [space for space in store.spaces.of(source.kb_id) if space.role != "dropped"]
    datasets = [store.dataset(table, source) for table in PARQUET_TABLES if table is not CHUNKS]
    datasets += [store.dataset(CHUNKS, source, split) for split in dict.fromkeys(space.split_id for space in spaces)]
    for dataset in datasets:
        found = dataset.inspect()
        lane = Lane(dataset.table.name, source.kb_id, source.source_id, dataset.split_id)
        yield lane, found.rows, found.rows == found.keys and not found.foreign_parts
    for space in spaces:
        index = store.index(tenant, space.space_id)
        if not damage_of(index.path):
            lane = Lane("chunk_index", source.kb_id, source.source_id, space.space_id)
            yield lane, index.count_rows(source.kb_id, source.source_id), True


def _indexes(store: Store, tenant: str) -> Iterator[Finding]:
    for index in store.indexes(tenant):
        name = f"index {tenant}/{index.space_id}"
        if wrong := damage_of(index.path, whole=True):
            advice = "`kb sync --all` sets it aside and makes its passages anew."
            if not damage_of(index.path):  # only a reading of everything shows it: no sync does that
                advice = f"Rename the folder {index.path}, then `kb sync --all` makes its passages anew."
            yield Finding(subject=name, state="broken", found=f"its files are damaged: {wrong}", advice=advice)
            continue
        found = index.statistics()
        size = f"{found.rows} rows, {found.fragments} fragments, {found.versions} versions"
        text = f"{size}, {found.unindexed_rows} not indexed"
        if found.duplicate_keys:
            advice = "Sync its sources again; if it stays, report it with `kb doctor --json`."
            yield Finding(
                subject=name, state="broken", found=f"{found.duplicate_keys} keys occur twice; {text}", advice=advice
            )
        elif found.unindexed_rows:
            yield Finding(
                subject=name, state="warning", found=text, advice="The next sync brings the indexes up to date."
            )
        else:
            yield Finding(subject=name, state="ok", found=text)
