"""The ledger: per stage and unit, what was done with which inputs; so a stage can ask what is left to do."""

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from kb_pipeline.errors import UnitFailure
from kb_pipeline.retries import Recipe, next_try
from kb_pipeline.storage.engine import reading, slices, upsert
from kb_pipeline.storage.parts import joined_ids
from kb_pipeline.storage.tables import ledger

_ROWS_AT_ONCE = 5_000
REMOVES_OUTPUT: frozenset[str] = frozenset({"unsupported", "corrupt", "too_large"})
"""Failures that say what the source holds now cannot be read: older output would be a lie."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Where units are accounted for: a stage at work on a source, and for what it makes of them, which space.

    Attributes:
        space: splitting (`chunks`) or space (`chunk_index`) that the output belongs to; empty for stages before.
    """

    stage: str
    kb_id: str
    source_id: str
    space: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a stage has to do for a partition.

    Attributes:
        todo: new or stale units.
        removed: units whose input is gone and whose output must go.
        unchanged: how many units need nothing.
    """

    todo: pa.StringArray
    removed: list[str]
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The outcome of one unit. A failure without `output_hash` has no output; with one, its older output stands."""

    unit: str
    input_hash: str
    output_hash: str = ""
    rows: int = 0
    failure: UnitFailure | None = None
    tokens: int = 0
    cost_usd: float = 0.0


class Ledger:
    """Reads and writes of the ledger table. A unit's fingerprint is the pair (input_hash, recipe)."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def needing(self, lane: Lane, upstream: Lane, recipe: Recipe) -> Needs:
        """Compare a stage with the one before it.

        Args:
            recipe: how the stage would do a unit now.
        """
        mine, theirs = ledger.alias("mine"), ledger.alias("theirs")
        has_input = sa.and_(_in(upstream, theirs), theirs.c.output_hash != "")
        joined = theirs.outerjoin(mine, same_unit(mine, theirs, lane))
        is_due = sa.or_(
            mine.c.unit.is_(None),
            mine.c.input_hash != theirs.c.output_hash,
            mine.c.recipe.not_in((recipe.whole, recipe.capped)),
            mine.c.next_try_at <= datetime.now(UTC),
        )
        due = sa.select(theirs.c.unit).select_from(joined).where(has_input, is_due)
        kept = mine.outerjoin(theirs, sa.and_(theirs.c.unit == mine.c.unit, has_input))
        orphans = sa.select(mine.c.unit).select_from(kept).where(_in(lane, mine), theirs.c.unit.is_(None))
        with reading(self._engine) as connection:
            todo = joined_ids(connection.execute(due).scalars().partitions(_ROWS_AT_ONCE))
            removed = list(connection.execute(orphans).scalars())
            inputs = connection.execute(sa.select(sa.func.count()).select_from(theirs).where(has_input)).scalar_one()
        return Needs(todo=todo, removed=removed, unchanged=inputs - len(todo))

    def outputs(self, lane: Lane, units: Sequence[str]) -> dict[str, str]:
        """Output hashes of some units (at most a few thousand), whichever source they are of now."""
        query = sa.select(ledger.c.unit, ledger.c.output_hash).where(_among(units, lane))
        with reading(self._engine) as connection:
            return {unit: output for unit, output in connection.execute(query)}

    def outdated(self, lane: Lane, upstream: Lane) -> list[str]:
        """Units that were made from something else than the stage before has now, or has no more."""
        mine, theirs = ledger.alias("mine"), ledger.alias("theirs")
        joined = mine.outerjoin(theirs, same_unit(theirs, mine, upstream))
        is_other = sa.or_(theirs.c.unit.is_(None), theirs.c.output_hash != mine.c.input_hash)
        query = sa.select(mine.c.unit).select_from(joined).where(_in(lane, mine), is_other)
        with reading(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def known(self, lane: Lane, units: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Ledger rows of some units (at most a few thousand), by unit, whichever source they are of now."""
        query = sa.select(ledger).where(_among(units, lane))
        with reading(self._engine) as connection:
            return {row["unit"]: dict(row) for row in connection.execute(query).mappings()}

    def units(self, lane: Lane, with_output: bool = False) -> Iterator[str]:
        """All units of a partition, or those of them that have output; read as they are asked for."""
        query = sa.select(ledger.c.unit).where(_in(lane))
        if with_output:
            query = query.where(ledger.c.output_hash != "")
        with reading(self._engine) as connection:
            yield from connection.execute(query).scalars()

    def record(self, lane: Lane, recipe: Recipe, run_id: str, entries: Iterable[Entry]) -> None:
        """Write outcomes. Called after the data is committed, never before."""
        entries, now = list(entries), datetime.now(UTC)
        before = self.known(lane, [entry.unit for entry in entries if entry.failure])
        rows = []
        for entry in entries:
            old = before.get(entry.unit, {})
            keeps_output = entry.failure is not None and entry.failure.kind not in REMOVES_OUTPUT
            made_by = recipe.under(entry.failure)
            is_same_work = (old.get("status"), old.get("input_hash"), old.get("recipe")) == (
                "failed", entry.input_hash, made_by,
            )  # fmt: skip
            attempts = old["attempts"] + 1 if is_same_work else 1
            rows.append(
                {
                    **asdict(lane),
                    "unit": entry.unit,
                    "status": "failed" if entry.failure else "done",
                    "input_hash": entry.input_hash,
                    "recipe": made_by,
                    "output_hash": old.get("output_hash", "") if keeps_output else entry.output_hash,
                    "rows": old.get("rows", 0) if keeps_output else entry.rows,
                    "attempts": attempts,
                    "next_try_at": next_try(entry.failure, attempts, now) if entry.failure else None,
                    "error_kind": entry.failure.kind if entry.failure else None,
                    "error": str(entry.failure) if entry.failure else None,
                    "tokens": entry.tokens,
                    "cost_usd": entry.cost_usd,
                    "run_id": run_id,
                    "updated_at": now,
                }
            )
        upsert(ledger, self._engine, rows)

    def reopen(self, lane: Lane, units: Sequence[str]) -> None:
        """Let units count as not done; called before their output is touched.

        Without it a run that dies between data and ledger would leave new output beside an old row, and a source that
        goes back to what it was would find that row in order.
        """
        self._update(units, sa.and_(_in(lane), ledger.c.recipe != ""), recipe="")

    @contextmanager
    def removing(self, lane: Lane, units: Sequence[str]) -> Iterator[None]:
        """Around the removal of units' output: not done from the first touch, forgotten once it is gone."""
        self.reopen(lane, units)
        yield
        self.remove(lane, units)

    def doubt(self, lane: Lane, unit: str, failure: UnitFailure) -> None:
        """Let a stage do a unit again whose output turned out to be unusable."""
        here = sa.and_(_in(lane), ledger.c.unit == unit)
        with self._engine.begin() as connection:
            now = datetime.now(UTC)
            values = {"status": "failed", "error_kind": failure.kind, "error": str(failure), "next_try_at": now}
            connection.execute(ledger.update().where(here).values(**values))

    def let_be(self, lane: Lane, recipe: Recipe, seen: Container[str]) -> None:
        """Ask no more for units that a windowed listing has left behind: what they have stands, whatever made it."""
        asked = sa.or_(ledger.c.recipe.not_in((recipe.whole, recipe.capped)), ledger.c.next_try_at.is_not(None))
        with reading(self._engine) as connection:
            units = connection.execute(sa.select(ledger.c.unit).where(_in(lane), asked)).scalars()
            left = sorted(unit for unit in units if unit not in seen)
        self._update(left, _in(lane), recipe=recipe.whole, next_try_at=None)

    def make_due(self, units: Sequence[str]) -> None:
        """Let failed units be tried at the next sync, as if for the first time; in whatever stage they failed."""
        self._update(units, ledger.c.status == "failed", next_try_at=datetime.now(UTC), attempts=0)

    def make_stale(self, units: Sequence[str]) -> None:
        """Let every stage do units anew at the next sync; until then their output stands."""
        self._update(units, sa.true(), recipe="", attempts=0)

    def _update(self, units: Sequence[str], condition: sa.ColumnElement[bool], **values: Any) -> None:
        for some in slices(units):
            with self._engine.begin() as connection:
                connection.execute(ledger.update().where(_each(some, condition)).values(**values))

    def remove(self, lane: Lane, units: Sequence[str]) -> None:
        """Forget units; called after their data is gone. Those that another source has taken over stay."""
        for some in slices(units):
            with self._engine.begin() as connection:
                connection.execute(ledger.delete().where(_each(some, _in(lane))))

    def remove_lane(self, lane: Lane) -> None:
        """Forget all units of a lane."""
        with self._engine.begin() as connection:
            connection.execute(ledger.delete().where(_in(lane)))

    def remove_source(self, kb_id: str, source_id: str) -> None:
        """Forget all units of a source in every stage."""
        with self._engine.begin() as connection:
            here = sa.and_(ledger.c.kb_id == kb_id, ledger.c.source_id == source_id)
            connection.execute(ledger.delete().where(here))

    def remove_unit(self, unit: str) -> None:
        """Forget a unit in every stage."""
        with self._engine.begin() as connection:
            connection.execute(ledger.delete().where(ledger.c.unit == unit))

    def totals(self, lane: Lane) -> tuple[int, int]:
        """(units done, rows they have) of a partition."""
        query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(ledger.c.rows), 0)).where(
            _in(lane), ledger.c.output_hash != ""
        )
        with reading(self._engine) as connection:
            done, rows = connection.execute(query).one()
        return done, rows

    def is_settled(self, lane: Lane, recipe: Recipe) -> bool:
        """True if no unit of a partition is due for another try or was done under another recipe."""
        is_due = ledger.c.next_try_at <= datetime.now(UTC)
        query = (
            sa.select(ledger.c.unit)
            .where(_in(lane), sa.or_(is_due, ledger.c.recipe.not_in((recipe.whole, recipe.capped))))
            .limit(1)
        )
        with reading(self._engine) as connection:
            return connection.execute(query).first() is None

    def failed(self, kb_id: str) -> dict[str, set[str]]:
        """Kinds of the failures that stand, by unit, in whatever stage and space."""
        query = sa.select(ledger.c.unit, ledger.c.error_kind).where(
            ledger.c.kb_id == kb_id, ledger.c.status == "failed"
        )
        found: dict[str, set[str]] = {}
        with reading(self._engine) as connection:
            for unit, kind in connection.execute(query):
                found.setdefault(unit, set()).add(kind)
        return found

    def failures(self, lane: Lane) -> list[tuple[str, str, str]]:
        """(document, kind, reason) of the units of a partition that stand as failed."""
        query = (
            sa.select(ledger.c.unit, ledger.c.error_kind, ledger.c.error)
            .where(_in(lane), ledger.c.status == "failed")
            .order_by(ledger.c.unit)
        )
        with reading(self._engine) as connection:
            return [(unit, kind, reason) for unit, kind, reason in connection.execute(query)]

    def data_version(self, lane: Lane) -> str:
        """Hash of all outputs of a partition: equal exactly when nothing changed."""
        query = (
            sa.select(ledger.c.unit, ledger.c.output_hash)
            .where(_in(lane), ledger.c.output_hash != "")
            .order_by(ledger.c.unit)
        )
        digest = hashlib.sha256()
        with reading(self._engine) as connection:
            for rows in connection.execute(query).partitions(_ROWS_AT_ONCE):
                digest.update("".join(unit + output for unit, output in rows).encode())  # each of one length
        return digest.hexdigest()


def _in(lane: Lane, rows: sa.FromClause = ledger) -> sa.ColumnElement[bool]:
    return sa.and_(*(rows.c[name] == value for name, value in asdict(lane).items()))


def same_unit(rows: sa.FromClause, others: sa.FromClause, lane: Lane) -> sa.ColumnElement[bool]:
    """Rows of a lane's stage and space for the units of other rows, whichever source they are of."""
    return sa.and_(rows.c.unit == others.c.unit, rows.c.stage == lane.stage, rows.c.space == lane.space)


def _among(units: Sequence[str], lane: Lane) -> sa.ColumnElement[bool]:
    """A lane's rows of units by their key, whichever source they are of: to name it would lead through all its rows."""
    return sa.and_(ledger.c.stage == lane.stage, ledger.c.space == lane.space, ledger.c.unit.in_(units))


def _each(units: Sequence[str], condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """The rows of units, locked in the order of `upsert`: two writers of them wait, and never for each other."""
    key = (ledger.c.stage, ledger.c.unit, ledger.c.space)
    found = sa.select(*key).where(condition, ledger.c.unit.in_(units)).order_by(*key).with_for_update()
    return sa.tuple_(*key).in_(found)
