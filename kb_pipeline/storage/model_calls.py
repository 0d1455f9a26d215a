"""The record of model calls: what was paid for is kept as memo, and what a month has cost is a sum over it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from kb_pipeline.storage.engine import reading, slices, upsert
from kb_pipeline.storage.tables import model_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call to be made: an input of its own where it is paid for, a whole batch where it is free.

    Attributes:
        tokens: counted before the call.
        cost_usd: what that comes to; of a finished call, what it came to.
    """

    input_sha256: str
    tokens: int
    cost_usd: float
    inputs: int = 1
    document_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKind:
    """What calls have in common: equal inputs of one kind have equal results, whoever asks."""

    service: str
    model: str
    recipe: str


class ModelCalls:
    """Reads and writes of model_calls for one kind of call."""

    def __init__(self, engine: sa.Engine, kind: CallKind, kb_id: str, source_id: str, run_id: str) -> None:
        self._engine, self._kind = engine, kind
        self._for = {"kb_id": kb_id, "source_id": source_id, "run_id": run_id}

    def results(self, inputs: Sequence[str]) -> dict[str, bytes]:
        """Results of calls that were finished before, by input hash, in whatever run or knowledge base."""
        found: dict[str, bytes] = {}
        is_mine = [getattr(model_calls.c, name) == getattr(self._kind, name) for name in ("service", "model", "recipe")]
        with reading(self._engine) as connection:
            for some in slices(inputs):
                query = sa.select(model_calls.c.input_sha256, model_calls.c.result).where(
                    *is_mine, model_calls.c.input_sha256.in_(some), model_calls.c.result.is_not(None)
                )
                found.update((digest, bytes(result)) for digest, result in connection.execute(query))
        return found

    def reserve(self, calls: Sequence[Call], budget_usd: float | None) -> int:
        """Set money aside for as many of the calls, in order, as this month's budget still covers; returns how many.

        Atomic over all processes. A call that never comes back stays counted: it may have been charged.
        """
        with self._engine.begin() as connection:
            if budget_usd is not None:
                self._lock(connection)
                left = budget_usd - _spent(connection, self._for["kb_id"])
                covered = 0
                for call in calls:
                    left -= call.cost_usd
                    if left < 0:
                        break
                    covered += 1
                calls = calls[:covered]
            rows = [self._row(call, "reserved", 0.0, None, None) for call in calls]
            upsert(model_calls, connection, rows)
        return len(calls)

    def finish(self, calls: Sequence[Call], results: Sequence[bytes | None], latency_ms: float) -> None:
        """Record calls that came back; a result makes the next such call unnecessary."""
        rows = [self._row(call, "done", latency_ms, result, None) for call, result in zip(calls, results, strict=True)]
        with self._engine.begin() as connection:
            upsert(model_calls, connection, rows)

    def fail(self, calls: Sequence[Call], error: str, latency_ms: float) -> None:
        """Record calls that the service refused, and so did not charge."""
        free = [Call(input_sha256=c.input_sha256, tokens=0, cost_usd=0.0, document_id=c.document_id) for c in calls]
        with self._engine.begin() as connection:
            upsert(model_calls, connection, [self._row(call, "failed", latency_ms, None, error) for call in free])

    def _lock(self, connection: sa.Connection) -> None:
        """One at a time looks at a budget and spends of it; on SQLite the transaction itself sees to that."""
        if connection.dialect.name == "postgresql":
            key = sa.func.hashtextextended(f"budget:{self._for['kb_id']}", 0)
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))

    def _row(
        self, call: Call, status: str, latency_ms: float, result: bytes | None, error: str | None
    ) -> dict[str, object]:
        return {
            "service": self._kind.service, "model": self._kind.model, "recipe": self._kind.recipe, **self._for,
            "input_sha256": call.input_sha256, "status": status, "document_id": call.document_id,
            "inputs": call.inputs, "tokens": call.tokens, "cost_usd": call.cost_usd, "latency_ms": latency_ms,
            "result": result, "error": error, "at": datetime.now(UTC),
        }  # fmt: skip


def spent_usd(engine: sa.Engine, kb_id: str) -> float:
    """What a knowledge base has cost this month (UTC), with what is set aside."""
    with reading(engine) as connection:
        return _spent(connection, kb_id)


def costs_of(engine: sa.Engine, document_ids: Sequence[str]) -> Mapping[str, float]:
    """What single documents have cost so far; those that cost nothing are left out."""
    table = model_calls.c
    query = (
        sa.select(table.document_id, sa.func.sum(table.cost_usd))
        .where(table.document_id.in_(document_ids), table.cost_usd > 0)
        .group_by(table.document_id)
    )
    with reading(engine) as connection:
        return {document: float(cost) for document, cost in connection.execute(query)}


def forget_inputs(engine: sa.Engine, inputs: Sequence[str], document_id: str) -> int:
    """Remove the memo of these inputs and every call made for a document; returns how many."""
    table = model_calls.c
    with engine.begin() as connection:
        removed = connection.execute(model_calls.delete().where(table.document_id == document_id)).rowcount
        for some in slices(inputs):
            removed += connection.execute(model_calls.delete().where(table.input_sha256.in_(some))).rowcount
        return removed


def _spent(connection: sa.Connection, kb_id: str) -> float:
    now = datetime.now(UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    table = model_calls.c
    query = sa.select(sa.func.coalesce(sa.func.sum(table.cost_usd), 0.0))
    found: Any = connection.execute(query.where(table.kb_id == kb_id, table.at >= month)).scalar_one()
    return float(found)
