"""Documents in the catalog: what each source listed, its status, and why it failed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from kb_pipeline.errors import NotVisible, UsageError
from kb_pipeline.records import DocumentStatus
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.engine import reading, slices, upsert
from kb_pipeline.storage.tables import kb_documents, kb_spaces, ledger

_WORKING = ("fetching", "parsing", "extracting", "chunking", "embedding")


class Documents:
    """Reads and writes of kb_documents; one short transaction a call."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def rows(self, kb_id: str, *, status: str | None = None, source_id: str | None = None) -> list[dict[str, Any]]:
        """Rows of kb_documents by external id, as mappings; failed ones with `attempts` and `next_try_at`."""
        condition = [kb_documents.c.kb_id == kb_id]
        if status:
            condition.append(kb_documents.c.status == status)
        if source_id:
            condition.append(kb_documents.c.source_id == source_id)
        tries = sa.and_(
            ledger.c.unit == kb_documents.c.document_id, ledger.c.status == "failed", ledger.c.space.in_(_served(kb_id))
        )
        query = (
            sa.select(kb_documents, ledger.c.attempts, ledger.c.next_try_at)
            .select_from(kb_documents.outerjoin(ledger, sa.and_(tries, kb_documents.c.status == "failed")))
            .where(*condition)
            .order_by(kb_documents.c.external_id)
        )
        with reading(self._engine) as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def named(self, kb_id: str, names: Sequence[str]) -> list[dict[str, Any]]:
        """Documents of a knowledge base by document id, external id, address or title.

        Raises: NotVisible: one names none. UsageError: one names several.
        """
        rows = self.rows(kb_id)
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            same = [row for row in rows if name in (row["document_id"], row["external_id"], row["url"])]
            same = same or [row for row in rows if row["title"] == name]
            if not same:
                raise NotVisible(f"There is no document {name!r} in {kb_id}; `kb docs {kb_id}` lists them.")
            if len(same) > 1:
                which = ", ".join(row["document_id"] for row in same)
                raise UsageError(f"{name!r} names several documents of {kb_id}; use one id of: {which}.")
            found[same[0]["document_id"]] = same[0]
        return list(found.values())

    def owners(self, document_ids: Sequence[str]) -> dict[str, str]:
        """document_id -> source_id of the documents that are known and not archived."""
        table = kb_documents.c
        found: dict[str, str] = {}
        with reading(self._engine) as connection:
            for some in slices(document_ids):
                query = sa.select(table.document_id, table.source_id).where(
                    table.document_id.in_(some), table.status != "archived"
                )
                found.update((document, source) for document, source in connection.execute(query))
        return found

    def save(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert documents as a source lists them; a known one keeps what later stages said of it, its title too."""
        now = datetime.now(UTC)
        complete = [{"created_at": now, "updated_at": now, **row} for row in rows]
        upsert(kb_documents, self._engine, complete, keep=frozenset({"created_at", "title", "url"}))

    def update(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Set columns of known documents; every row has `document_id` and the same other columns."""
        values = sorted((dict(row) for row in rows), key=lambda row: str(row["document_id"]))  # see `upsert`
        if not values:
            return
        columns: dict[str, Any] = {name: sa.bindparam(name) for name in values[0] if name != "document_id"}
        statement = kb_documents.update().where(kb_documents.c.document_id == sa.bindparam("_id")).values(**columns)
        statement = statement.values(updated_at=datetime.now(UTC))
        with self._engine.begin() as connection:
            connection.execute(statement, [{"_id": row.pop("document_id"), **row} for row in values])

    def set_status(self, document_ids: Sequence[str], status: DocumentStatus, run_id: str = "") -> None:
        """Move documents to a status; a failure text of before is cleared."""
        values = {"status": status, "error_kind": None, "error": None, "run_id": run_id}
        self.update({"document_id": document, **values} for document in document_ids)

    def archive(self, document_ids: Sequence[str], run_id: str) -> None:
        """Take documents out of retrieval; their rows stay as the record of what was there."""
        gone = {"status": "archived", "error_kind": None, "error": None, "missing_since": None, "chunks": 0}
        self.update({"document_id": document, "run_id": run_id, **gone} for document in document_ids)

    def remove(self, document_id: str) -> None:
        """Remove a document's row: not even that it was there is left."""
        with self._engine.begin() as connection:
            connection.execute(kb_documents.delete().where(kb_documents.c.document_id == document_id))

    def release_unfinished(self, source: SourceRow) -> int:
        """Documents of a source in a working status go back to `pending`; returns how many."""
        table = kb_documents.c
        here = sa.and_(table.kb_id == source.kb_id, table.source_id == source.source_id, table.status.in_(_WORKING))
        with self._engine.begin() as connection:
            return connection.execute(kb_documents.update().where(here).values(status="pending")).rowcount

    def settle(self, source: SourceRow, last_stage: str) -> None:
        """Give each unfinished document the outcome the ledger has in the serving space: `failed`, or `ready`.

        What waits for money stays `pending`, with the reason.
        """
        with self._engine.begin() as connection:
            _settle(connection, last_stage, source.kb_id, source.source_id)

    def missing(self, kb_id: str, source_id: str) -> dict[str, str]:
        """document_id -> external_id of a source's documents that its last listing did not name."""
        table = kb_documents.c
        query = sa.select(table.document_id, table.external_id).where(
            table.kb_id == kb_id, table.source_id == source_id, table.missing_since.is_not(None)
        )
        with reading(self._engine) as connection:
            return {document: external for document, external in connection.execute(query)}

    def unaccounted(self, kb_id: str, source_id: str, first_stage: str) -> list[str]:
        """Documents of a source that were listed once and that no stage knows: a run died before it fetched them."""
        table = kb_documents.c
        known = sa.and_(ledger.c.unit == table.document_id, ledger.c.stage == first_stage)
        query = (
            sa.select(table.document_id)
            .select_from(kb_documents.outerjoin(ledger, known))
            .where(table.kb_id == kb_id, table.source_id == source_id, table.status != "archived")
            .where(ledger.c.unit.is_(None))
        )
        with reading(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def set_missing(self, document_ids: Sequence[str], since: datetime | None) -> None:
        """Note since when documents are not listed any more; None: they are, or their retirement is done."""
        self.update({"document_id": document, "missing_since": since} for document in document_ids)

    def not_live(self, document_ids: Sequence[str]) -> set[str]:
        """Those of the documents that are archived or unknown."""
        return set(document_ids) - self.owners(document_ids).keys()


def settle_anew(connection: sa.Connection, kb_id: str, last_stage: str) -> None:
    """Give all documents of a knowledge base the outcome and the passages they have in the space that serves by now."""
    here = sa.and_(kb_documents.c.kb_id == kb_id, kb_documents.c.status != "archived")
    connection.execute(kb_documents.update().where(here).values(status="pending", chunks=_passages(last_stage, kb_id)))
    _settle(connection, last_stage, kb_id)


def _settle(connection: sa.Connection, last_stage: str, kb_id: str, source_id: str | None = None) -> None:
    table = kb_documents.c
    mine = sa.and_(ledger.c.kb_id == kb_id, ledger.c.space.in_(_served(kb_id)))
    unfinished = sa.and_(table.kb_id == kb_id, table.status.in_((*_WORKING, "pending", "failed")))
    if source_id is not None:
        mine = sa.and_(mine, ledger.c.source_id == source_id)
        unfinished = sa.and_(unfinished, table.source_id == source_id)
    standing = sa.and_(mine, ledger.c.status == "failed")
    failures = sa.select(ledger.c.unit, ledger.c.error_kind, ledger.c.error).where(standing)
    failed = sa.select(ledger.c.unit).where(standing)
    chunk, document = ledger.alias("chunk"), ledger.alias("document")
    of_chunk = sa.and_(chunk.c.unit == ledger.c.unit, chunk.c.stage == "chunks", chunk.c.space.in_(_served(kb_id)))
    of_document = sa.and_(document.c.unit == ledger.c.unit, document.c.stage == "documents")
    joined = ledger.join(chunk, of_chunk).join(document, of_document)
    done = sa.select(ledger.c.unit).select_from(joined).where(  # looked up by key: few documents are unfinished
        ledger.c.unit == table.document_id, mine, ledger.c.stage == last_stage, ledger.c.status == "done",
        ledger.c.input_hash == chunk.c.output_hash, chunk.c.input_hash == document.c.output_hash,
    )  # fmt: skip
    change = kb_documents.update().where(unfinished).values(updated_at=datetime.now(UTC))
    for unit, kind, error in connection.execute(failures).all():
        outcome = {"status": "pending" if kind == "budget" else "failed", "error_kind": kind, "error": error}
        connection.execute(change.where(table.document_id == unit).values(**outcome))
    ready = change.where(done.exists(), table.document_id.not_in(failed))
    chunks = _passages(last_stage, kb_id)  # whoever archived it and died before the rest has written 0
    connection.execute(ready.values(status="ready", error_kind=None, error=None, chunks=chunks))


def _passages(last_stage: str, kb_id: str) -> sa.ColumnElement[int]:
    """How many passages of a document search reads."""
    of_document = sa.and_(ledger.c.unit == kb_documents.c.document_id, ledger.c.stage == last_stage)
    counted = sa.select(ledger.c.rows).where(of_document, ledger.c.space.in_(_served(kb_id)))
    return sa.func.coalesce(counted.scalar_subquery(), 0)


def _served(kb_id: str) -> sa.CompoundSelect[tuple[str]]:
    """What the ledger's rows of the serving space, and of the stages before any space, are told apart by."""
    serving = sa.and_(kb_spaces.c.kb_id == kb_id, kb_spaces.c.role == "serving")
    return sa.union_all(
        sa.select(sa.literal("")),
        sa.select(kb_spaces.c.space_id).where(serving),
        sa.select(kb_spaces.c.split_id).where(serving),
    )
