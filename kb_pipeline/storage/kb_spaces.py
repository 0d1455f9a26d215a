"""Which spaces a knowledge base has: one that search reads, perhaps a candidate beside it and the one before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa

from kb_pipeline.errors import UsageError
from kb_pipeline.storage.catalog_records import KbSpace, SpaceRole
from kb_pipeline.storage.documents import settle_anew
from kb_pipeline.storage.engine import deciding, reading, upsert
from kb_pipeline.storage.ledger import Lane, same_unit
from kb_pipeline.storage.tables import kb_spaces, ledger

_LAST_STAGE = "chunk_index"
_COLUMNS = [column.name for column in kb_spaces.columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """How many documents of a knowledge base are in a space, failed on the way into it, or are still to come.

    Attributes:
        reason: why one of them failed or has to wait; empty if none did.
    """

    done: int
    failed: int
    waiting: int
    reason: str = ""


class Spaces:
    """Reads and writes of kb_spaces. A swap is one transaction: search and documents say one or the other."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def of(self, kb_id: str) -> list[KbSpace]:
        """Spaces of a knowledge base, the serving one first."""
        with reading(self._engine) as connection:
            return _read(connection, kb_id)

    def want(self, wanted: KbSpace) -> list[KbSpace]:
        """Give a knowledge base the space its settings ask for, and return all that it has then."""
        standing = self.of(wanted.kb_id)
        if with_wanted(standing, wanted, self._is_empty(standing)) == standing:
            return standing
        with deciding(self._engine) as connection:
            standing = _read(connection, wanted.kb_id)
            return _write(connection, standing, with_wanted(standing, wanted, self._is_empty(standing)))

    def would_have(self, wanted: KbSpace) -> list[KbSpace]:
        """What `want` would return."""
        standing = self.of(wanted.kb_id)
        return with_wanted(standing, wanted, self._is_empty(standing))

    def promote(self, kb_id: str) -> list[KbSpace]:
        """Let search read the candidate; what it read before stays for `roll_back`. All sources are to be held.

        Raises: UsageError: there is no candidate.
        """
        return self._swap(kb_id, "candidate", "`kb sync` builds one once other settings ask for it")

    def roll_back(self, kb_id: str) -> list[KbSpace]:
        """Let search read again what it read before the last promotion.

        Raises: UsageError: that was removed, or there was none.
        """
        return self._swap(kb_id, "previous", "the one before was removed, or nothing was ever promoted")

    def let_previous_go(self, before: datetime) -> None:
        """Mark for removal what search has not read since that time."""
        old = sa.and_(kb_spaces.c.role == "previous", kb_spaces.c.since < before)
        with self._engine.begin() as connection:
            connection.execute(kb_spaces.update().where(old).values(role="dropped", since=datetime.now(UTC)))

    def dropped(self) -> list[KbSpace]:
        """Those of all knowledge bases that are to be removed."""
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(kb_spaces).where(kb_spaces.c.role == "dropped")).mappings()
            return [KbSpace(**row) for row in rows]

    def remove(self, space: KbSpace) -> None:
        """Remove the row of a space whose data is gone, unless it is wanted again by now."""
        same = sa.and_(kb_spaces.c.kb_id == space.kb_id, kb_spaces.c.space_id == space.space_id)
        with self._engine.begin() as connection:
            connection.execute(kb_spaces.delete().where(same, kb_spaces.c.role == "dropped"))

    def built(self, space: KbSpace) -> Built:
        """How far a space is, over all sources; what will be tried again is still to come."""
        document, chunk, row = ledger.alias("document"), ledger.alias("chunk"), ledger.alias("row")
        is_split = same_unit(chunk, document, Lane("chunks", space.kb_id, "", space.split_id))
        is_indexed = same_unit(row, document, Lane(_LAST_STAGE, space.kb_id, "", space.space_id))
        of_document = chunk.c.input_hash == document.c.output_hash
        of_chunk = row.c.input_hash == chunk.c.output_hash
        is_failed = sa.or_(sa.and_(_is_given_up(chunk), of_document), sa.and_(_is_given_up(row), of_chunk))
        is_done = sa.and_(row.c.status == "done", of_document, of_chunk)
        state = sa.case((is_failed, "failed"), (is_done, "done"), else_="waiting")
        reason = sa.case(
            (sa.and_(chunk.c.status == "failed", of_document), chunk.c.error),
            (sa.and_(row.c.status == "failed", of_chunk), row.c.error),
        )
        here = sa.and_(document.c.stage == "documents", document.c.kb_id == space.kb_id, document.c.output_hash != "")
        joined = document.outerjoin(chunk, is_split).outerjoin(row, is_indexed)
        found = sa.select(state.label("state"), reason.label("reason")).select_from(joined).where(here).subquery()
        query = sa.select(found.c.state, sa.func.count(), sa.func.max(found.c.reason)).group_by(found.c.state)
        with reading(self._engine) as connection:
            found_as = {name: (count, why or "") for name, count, why in connection.execute(query)}
        (done, _), (failed, refused), (waiting, delayed) = (
            found_as.get(name, (0, "")) for name in ("done", "failed", "waiting")
        )
        return Built(done=done, failed=failed, waiting=waiting, reason=refused or delayed)

    def _swap(self, kb_id: str, role: SpaceRole, why_not: str) -> list[KbSpace]:
        with deciding(self._engine) as connection:
            standing = _read(connection, kb_id)
            chosen = _with_role(standing, role)
            if chosen is None:
                raise UsageError(f"{kb_id} has no {role} space: {why_not}.")
            swapped = _write(connection, standing, with_serving(standing, chosen))
            settle_anew(connection, kb_id, _LAST_STAGE)
            return swapped

    def _is_empty(self, standing: Sequence[KbSpace]) -> bool:
        """Whether nothing is in the serving space."""
        serving = _with_role(standing, "serving")
        if serving is None:
            return True
        here = sa.and_(ledger.c.kb_id == serving.kb_id, ledger.c.space == serving.space_id, ledger.c.output_hash != "")
        with reading(self._engine) as connection:
            return connection.execute(sa.select(ledger.c.unit).where(here).limit(1)).first() is None


def with_wanted(standing: Sequence[KbSpace], wanted: KbSpace, is_empty: bool) -> list[KbSpace]:
    """Spaces once the settings ask for one: it serves where nothing is served yet, else it is built as the candidate.

    A candidate that nobody wants any more is dropped.

    Args:
        is_empty: nothing is in the serving space.
    """
    serving = _with_role(standing, "serving")
    roles: dict[str, SpaceRole] = {space.space_id: "dropped" for space in standing if space.role == "candidate"}
    if serving is None or is_empty:
        if serving:
            roles[serving.space_id] = "dropped"
        roles[wanted.space_id] = "serving"
    elif serving.space_id != wanted.space_id:
        roles[wanted.space_id] = "candidate"
    return _with_roles(standing, roles, wanted)


def with_serving(standing: Sequence[KbSpace], chosen: KbSpace) -> list[KbSpace]:
    """Spaces once search reads another: the one before is kept, what was kept until then is dropped."""
    roles: dict[str, SpaceRole] = {}
    for space in standing:
        if space.role == "previous":
            roles[space.space_id] = "dropped"
        elif space.role == "serving":
            roles[space.space_id] = "previous"
    return _with_roles(standing, {**roles, chosen.space_id: "serving"})


def _is_given_up(rows: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.and_(rows.c.status == "failed", rows.c.next_try_at.is_(None))


def _with_role(spaces: Sequence[KbSpace], role: SpaceRole) -> KbSpace | None:
    return next((space for space in spaces if space.role == role), None)


def _with_roles(
    standing: Sequence[KbSpace], roles: dict[str, SpaceRole], fresh: KbSpace | None = None
) -> list[KbSpace]:
    known = {space.space_id: space for space in standing}
    if fresh is not None:  # its model may go by another name now: a folder that was moved, a shorter spelling
        known[fresh.space_id] = replace(known.get(fresh.space_id, fresh), embedding_model=fresh.embedding_model)
    now = datetime.now(UTC)
    changed = [
        replace(space, role=roles[key], since=now) if roles.get(key, space.role) != space.role else space
        for key, space in known.items()
    ]
    return sorted(changed, key=lambda space: space.order)


def _read(connection: sa.Connection, kb_id: str) -> list[KbSpace]:
    rows = connection.execute(sa.select(kb_spaces).where(kb_spaces.c.kb_id == kb_id)).mappings()
    return sorted((KbSpace(**row) for row in rows), key=lambda space: space.order)


def _write(connection: sa.Connection, before: Sequence[KbSpace], after: list[KbSpace]) -> list[KbSpace]:
    changed = [space for space in after if space not in before]
    upsert(kb_spaces, connection, [{name: getattr(space, name) for name in _COLUMNS} for space in changed])
    return after
