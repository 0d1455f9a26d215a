"""Forgetting a document: it leaves every store, every old version and every record, and does not come back."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kb_pipeline import ids
from kb_pipeline.errors import NotVisible
from kb_pipeline.schemas import CHUNKS, PARQUET_TABLES, RAW_ITEMS
from kb_pipeline.storage.catalog_records import KnowledgeBase, SourceRow
from kb_pipeline.storage.engine import vacuum
from kb_pipeline.storage.events import Events
from kb_pipeline.storage.leftovers import remove_damaged_tables
from kb_pipeline.storage.model_calls import forget_inputs
from kb_pipeline.storage.parquet import Dataset
from kb_pipeline.storage.store import Store
from kb_pipeline.storage.tables import TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was forgotten, for whom, when, and what was found of it. Only this copy names it: it is not stored.

    Attributes:
        raw_sha256: hashes of the bytes that it was last read from.
        content_hash: hash of what retrieval could see of it.
        rows: rows removed, by Parquet dataset and by search table.
        files: files of bytes removed: this document's, and older ones that no document had any more.
        model_calls: records of calls removed, with the results that were kept of them.
        events: searches whose words and passages were blanked.
        shared_with: other documents that consist of the same bytes, which therefore stay.
    """

    kb_id: str
    document_id: str
    external_id: str
    title: str
    by: str
    at: datetime
    completed_at: datetime
    raw_sha256: list[str]
    content_hash: str | None
    rows: dict[str, int]
    files: int
    model_calls: int
    events: int
    shared_with: list[str]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def forget(store: Store, kb_id: str, name: str, by: str) -> Receipt:
    """Forget a document given by id, external id, address or title.

    Cut off half-way, it is out of retrieval and stays out; the same call goes on. Costs a rewrite of its tenant's
    search tables and of the catalog.

    Raises: NotVisible: no such document. UsageError: several have this title, or a sync is at work in this home.
    """
    base = store.catalog.knowledge_base(kb_id)
    (row,) = store.documents.named(base.kb_id, [name])
    document_id: str = row["document_id"]
    sources = store.catalog.sources() + store.catalog.sources(removed=True)
    with store.holding(sources):
        at = store.forgotten.begin(base.kb_id, document_id, by)
        store.documents.archive([document_id], run_id="")
        mine = [source for source in sources if (source.kb_id, source.source_id) == (base.kb_id, row["source_id"])]
        calls = forget_inputs(store.catalog.engine, _indexed_hashes(store, mine, document_id), document_id)
        digests, texts, rows = _remove_rows(store, mine, document_id)
        for index in store.indexes(base.tenant):
            rows[index.path.name] = index.purge(base.kb_id, [document_id])
        remove_damaged_tables(store.layout, now=float("inf"))
        shared = _others_with(store, digests)
        files = store.remove_unused_blobs()
        events = Events(store.catalog.engine).forget(base.kb_id, document_id, [row["title"], *texts])
        store.ledger.remove_unit(document_id)
        store.documents.remove(document_id)
        vacuum(store.catalog.engine, TEXTS)
        store.forgotten.complete(document_id)
    return Receipt(
        kb_id=base.kb_id, document_id=document_id, external_id=row["external_id"], title=row["title"], by=by, at=at,
        completed_at=datetime.now(UTC), raw_sha256=digests, content_hash=row["content_hash"], rows=rows, files=files,
        model_calls=calls, events=events, shared_with=shared,
    )  # fmt: skip


def unforget(store: Store, kb_id: str, name: str) -> None:
    """Let a forgotten document come back with the next sync of its source.

    Args:
        name: its document id, external id or address, as the receipt has it: nothing else is left of it.
    Raises: NotVisible: nothing of this name was forgotten.
    """
    base = store.catalog.knowledge_base(kb_id)
    lifted = [document for document in _possible_ids(store, base, name) if store.forgotten.lift(document)]
    if not lifted:
        raise NotVisible(f"Nothing known as {name!r} was forgotten in {base.kb_id}.")
    store.catalog.list_afresh(base.kb_id)


def _possible_ids(store: Store, base: KnowledgeBase, name: str) -> list[str]:
    sources = store.catalog.sources(base.kb_id) + store.catalog.sources(base.kb_id, removed=True)
    made = [ids.document_id(base.kb_id, source.connector, name, source.namespace) for source in sources]
    return list(dict.fromkeys([name, *made]))


def _indexed_hashes(store: Store, sources: Sequence[SourceRow], document_id: str) -> list[str]:
    """Under what the model calls of its passages are remembered."""
    split = [dataset for source in sources for dataset in store.datasets(source) if dataset.table is CHUNKS]
    return [digest for dataset in split for digest in _values(dataset, document_id, "indexed_hash")]


def _remove_rows(
    store: Store, sources: Sequence[SourceRow], document_id: str
) -> tuple[list[str], list[str], dict[str, int]]:
    """(hashes of its bytes, its texts, rows removed by dataset)."""
    digests: list[str] = []
    texts: list[str] = []
    removed = dict.fromkeys((table.name for table in PARQUET_TABLES), 0)
    for dataset in (dataset for source in sources for dataset in store.datasets(source)):
        if dataset.table is RAW_ITEMS:
            digests += _values(dataset, document_id, "raw_sha256")
        else:
            texts += _values(dataset, document_id, "text")
        removed[dataset.table.name] += dataset.delete([document_id])
        dataset.discard_damaged()
    return digests, texts, removed


def _values(dataset: Dataset, document_id: str, column: str) -> list[str]:
    found = dataset.scan([document_id], columns=[column])
    return [str(value) for rows in found for value in rows[column].to_pylist()]


def _others_with(store: Store, digests: Sequence[str]) -> list[str]:
    """Documents of the home that consist of one of these bytes."""
    return sorted(
        str(row["document_id"])
        for source in store.catalog.sources()
        for rows in store.dataset(RAW_ITEMS, source).scan(columns=["document_id", "raw_sha256"])
        for row in rows.to_pylist()
        if row["raw_sha256"] in digests
    )
