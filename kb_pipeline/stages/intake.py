"""Which listed items need fetching, and the row a fetched item becomes. Pure; the listing itself is a connector's."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kb_pipeline import ids
from kb_pipeline.charset import storable
from kb_pipeline.errors import Corrupt
from kb_pipeline.records import Item, RawItem, Source
from kb_pipeline.retries import Recipe, is_due
from kb_pipeline.urls import without_user

MAX_TITLE_CHARS = 500
_SHOWN_ID = 80
MAX_DEPTH = 100
"""Lists and objects inside each other in what a source says of an item: readers of JSON recurse, to a thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """A batch of a listing, compared with what is known.

    Attributes:
        wanted: (document_id, item) to fetch.
        present: ids of every item that is this source's, changed or not.
        elsewhere: how many items another source of the knowledge base already brings.
        repeated: how many items the listing named twice.
        new: how many of the wanted were never met; changed: how many are known in another version.
    """

    wanted: list[tuple[str, Item]]
    present: list[str]
    unchanged: int
    elsewhere: int
    repeated: int
    new: int
    changed: int


def compare(
    items: Iterable[tuple[str, Item]],
    source_id: str,
    known: Mapping[str, Mapping[str, Any]],
    owners: Mapping[str, str],
    seen: Container[str],
    recipe: Recipe,
    now: datetime,
) -> Intake:
    """Sort a batch of listed items into what to fetch and what to leave.

    Args:
        items: (document_id, item) as listed.
        known: ledger rows of stage 1 by document_id.
        owners: source_id by document_id, of documents that are not archived.
        seen: ids already met in this listing.
    """
    wanted: list[tuple[str, Item]] = []
    present: dict[str, None] = {}
    elsewhere = repeated = 0
    for document_id, item in items:
        if document_id in seen or document_id in present:
            repeated += 1
        elif owners.get(document_id, source_id) != source_id:
            elsewhere += 1
        else:
            present[document_id] = None
            if is_due(known.get(document_id), item.version, recipe, now):
                wanted.append((document_id, item))
    return Intake(
        wanted=wanted,
        present=list(present),
        unchanged=len(present) - len(wanted),
        elsewhere=elsewhere,
        repeated=repeated,
        new=sum(unit not in known for unit, _ in wanted),
        changed=sum(unit in known and known[unit]["input_hash"] != item.version for unit, item in wanted),
    )


def clean(value: Any, depth: int = MAX_DEPTH) -> Any:
    """A JSON-able value whose texts hold no NUL and no lone surrogate: stores and hashes could not take them.

    Raises: Corrupt: lists and objects lie deeper inside each other than `depth`.
    """
    if isinstance(value, str):
        return storable(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not depth:
        raise Corrupt(f"more than {MAX_DEPTH} lists and objects lie inside each other")
    if isinstance(value, Mapping):
        return {clean(key): clean(item, depth - 1) for key, item in value.items()}
    return [clean(item, depth - 1) for item in value]


def metadata_json(metadata: Mapping[str, Any], name: str) -> str:
    """What a source says beside the text of the item `name`, as it is stored.

    Raises: Corrupt: nested too deeply.
    """
    try:
        return json.dumps(clean(metadata), sort_keys=True, ensure_ascii=False, default=str)
    except Corrupt as error:
        raise Corrupt(f"{name}: in its metadata {error}") from None


def clean_item(item: Item) -> Item:
    """The item with clean texts, its title cut at a length no title has, its address without anybody's password.

    One whose id is endless is refused, and known by the id's beginning and hash.
    """
    title = clean(item.title)[:MAX_TITLE_CHARS] if item.title else None
    url = without_user(clean(item.url)) if item.url else None
    external_id, refusal = clean(item.external_id), item.refusal
    if len(external_id) > ids.MAX_EXTERNAL_ID_CHARS:
        refusal = f"{external_id[:_SHOWN_ID]}…: its name is longer than {ids.MAX_EXTERNAL_ID_CHARS:,} characters"
        external_id = f"{external_id[:_SHOWN_ID]}…{ids.sha256_hex(external_id)[:24]}"
    version = clean(item.version)
    return replace(item, external_id=external_id, version=version, url=url, title=title, refusal=refusal)


def document_listed(document_id: str, source: Source, item: Item, run_id: str) -> dict[str, Any]:
    """The catalog's row of an item that is about to be fetched."""
    return {
        "document_id": document_id,
        "kb_id": source.kb_id,
        "source_id": source.source_id,
        "external_id": item.external_id,
        "title": item.title or item.external_id,
        "url": item.url,
        "status": "fetching",
        "run_id": run_id,
    }


def raw_row(document_id: str, source: Source, item: Item, raw: RawItem, digest: str, now: datetime) -> dict[str, Any]:
    """The raw_items row of a fetched item, its bytes stored under `digest`.

    Raises: Corrupt: its metadata is nested too deeply.
    """
    row = {
        "kb_id": source.kb_id,
        "source_id": source.source_id,
        "document_id": document_id,
        "external_id": item.external_id,
        "version": item.version,
        "raw_sha256": digest,
        "raw_kind": raw.kind,
        "bytes": len(raw.content),
        "media_type": raw.media_type,
        "url": without_user(raw.url) if raw.url else item.url,
        "file_name": raw.file_name,
        "title": (raw.title or item.title or "")[:MAX_TITLE_CHARS] or None,
        "author": raw.author,
        "published_at": raw.published_at,
        "metadata": metadata_json(raw.metadata, raw.file_name or item.external_id),
        "fetched_at": now,
    }
    return {name: clean(value) for name, value in row.items()}


def raw_output_hash(row: Mapping[str, Any]) -> str:
    """What of a raw row makes the next stage stale: everything but the version token and the time."""
    relevant = {name: value for name, value in row.items() if name not in ("version", "fetched_at")}
    return ids.json_hash(relevant)


def raw_item(row: Mapping[str, Any], content: bytes) -> RawItem:
    """The raw item of a row, with its bytes."""
    published: datetime | None = row["published_at"]
    return RawItem(
        content=content,
        kind=row["raw_kind"],
        media_type=row["media_type"],
        url=row["url"],
        file_name=row["file_name"],
        title=row["title"],
        author=row["author"],
        published_at=published.astimezone(UTC) if published else None,
        metadata=json.loads(row["metadata"] or "{}"),
    )
