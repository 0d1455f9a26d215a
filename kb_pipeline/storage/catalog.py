"""The catalog: knowledge bases, sources and retrieval events. Documents and the ledger are beside it."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from kb_pipeline import ids
from kb_pipeline.errors import NotVisible, UnitFailure, UsageError
from kb_pipeline.records import VALIDATORS, Scope
from kb_pipeline.settings import Settings
from kb_pipeline.storage.catalog_records import Base, KnowledgeBase, SourceRow
from kb_pipeline.storage.catalog_rules import VISIBLE
from kb_pipeline.storage.documents import Documents
from kb_pipeline.storage.engine import deciding, open_engine, reading
from kb_pipeline.storage.tables import PlainText, kb_sources, kb_spaces, knowledge_bases, retrieval_events
from kb_pipeline.urls import name_in


def _now() -> datetime:
    return datetime.now(UTC)


class Catalog:
    """Reads and writes of the catalog; one short transaction a call."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, settings: Settings) -> "Catalog":
        """Open the home's catalog and bring its schema up to date."""
        return cls(open_engine(settings))

    # Knowledge bases

    def create_knowledge_base(
        self,
        name: str,
        scope: Scope = "account",
        *,
        owner: str = "",
        client_id: str = "",
        agency_id: str = "",
        description: str = "",
        budget_usd: float | None = None,
    ) -> KnowledgeBase:
        """Add a knowledge base under a fresh id made from its name.

        Raises: UsageError: empty name, a `user` scope without an owner, or the same tenant already has this name.
        """
        if not name.strip():
            raise UsageError("A knowledge base needs a name.")
        if scope == "user" and not owner:
            raise UsageError(f"Knowledge base {name!r} has scope user: say whose with --owner.")
        client_id = client_id or ("default" if scope == "account" else "")
        tenant = ids.tenant_of(scope, owner, client_id)
        with deciding(self.engine) as connection:
            same = sa.select(knowledge_bases.c.kb_id).where(
                knowledge_bases.c.name == name, knowledge_bases.c.tenant == tenant
            )
            if connection.execute(same).first():
                raise UsageError(f"There is a knowledge base named {name!r} already.")
            kb_id = _free_id(connection, knowledge_bases.c.kb_id, ids.slug(name))
            row: dict[str, Any] = {
                "kb_id": kb_id, "name": name, "scope": scope, "tenant": tenant, "owner": owner, "client_id": client_id,
                "agency_id": agency_id, "description": description, "created_at": _now(), "budget_usd": budget_usd,
                "settings": {},
            }  # fmt: skip
            connection.execute(knowledge_bases.insert(), row)
        return KnowledgeBase(**row)

    def knowledge_bases(self) -> list[KnowledgeBase]:
        """All, by name."""
        return self._knowledge_bases(sa.true())

    def visible(self, user_id: str | None, client_id: str | None, is_operator: bool = False) -> list[KnowledgeBase]:
        """What a caller may see: their own, their account's, and the public ones; everything for the local operator."""
        if is_operator:
            return self.knowledge_bases()
        text = PlainText()
        mine = sa.text(VISIBLE).bindparams(
            sa.bindparam("user_id", user_id or None, text), sa.bindparam("client_id", client_id or None, text)
        )
        return self._knowledge_bases(mine)

    def knowledge_base(self, name_or_id: str) -> KnowledgeBase:
        """One by id, else by name.

        Raises: NotVisible: there is none; UsageError: several tenants have one of this name.
        """
        table = knowledge_bases.c
        found = self._knowledge_bases(table.kb_id == name_or_id) or self._knowledge_bases(table.name == name_or_id)
        if not found:
            raise NotVisible(
                f"There is no knowledge base {name_or_id!r}; `kb create` makes one, `kb sources` lists them."
            )
        if len(found) > 1:
            raise UsageError(
                f"{name_or_id!r} names several knowledge bases; use one id of: {', '.join(k.kb_id for k in found)}."
            )
        return found[0]

    def change_scope(self, kb_id: str, scope: Scope, tenant: str, owner: str, client_id: str) -> KnowledgeBase:
        """Make a knowledge base another's; who sees it follows from that at once. Its rows are moved by `sharing`.

        Raises: UsageError: the new tenant already has one of this name.
        """
        table = knowledge_bases.c
        with deciding(self.engine) as connection:
            name = connection.execute(sa.select(table.name).where(table.kb_id == kb_id)).scalar_one()
            same = sa.select(table.kb_id).where(table.name == name, table.tenant == tenant, table.kb_id != kb_id)
            if connection.execute(same).first():
                raise UsageError(f"There is a knowledge base named {name!r} already.")
            changed = {"scope": scope, "tenant": tenant, "owner": owner, "client_id": client_id}
            connection.execute(knowledge_bases.update().where(table.kb_id == kb_id).values(**changed))
        return self.knowledge_base(kb_id)

    def set_budget(self, kb_id: str, budget_usd: float | None) -> None:
        """What paid models may cost a knowledge base in a month; None for no limit."""
        with self.engine.begin() as connection:
            change = knowledge_bases.update().where(knowledge_bases.c.kb_id == kb_id)
            connection.execute(change.values(budget_usd=budget_usd))

    def set_settings(self, kb_id: str, settings: Mapping[str, Any]) -> None:
        """What a knowledge base has set for itself; the rest is the home's."""
        with self.engine.begin() as connection:
            change = knowledge_bases.update().where(knowledge_bases.c.kb_id == kb_id)
            connection.execute(change.values(settings=dict(settings)))

    def searchable(self, user_id: str | None, client_id: str | None, is_operator: bool = False) -> list[Base]:
        """`visible`, with the space that search reads of each."""
        spaces = {}
        with reading(self.engine) as connection:
            for row in connection.execute(sa.select(kb_spaces).where(kb_spaces.c.role == "serving")).mappings():
                spaces[row["kb_id"]] = (row["space_id"], row["embedding_model"])
        seen = self.visible(user_id, client_id, is_operator)
        return [Base(each.kb_id, each.name, each.tenant, *spaces.get(each.kb_id, (None, None))) for each in seen]

    def _knowledge_bases(self, condition: sa.ColumnElement[bool] | sa.TextClause) -> list[KnowledgeBase]:
        with reading(self.engine) as connection:
            query = sa.select(knowledge_bases).where(condition).order_by(knowledge_bases.c.name)
            return [KnowledgeBase(**row) for row in connection.execute(query).mappings()]

    # Sources

    def add_source(
        self,
        kb_id: str,
        connector: str,
        source_input: str,
        *,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        schedule: tuple[int | None, str | None] | None = None,
        keeps_the_rest: bool = False,
        ids_are_global: bool = False,
    ) -> SourceRow:
        """Add a source; adding the same input again sets its schedule and options and keeps its identity.

        Args:
            options: an empty one is none.
            schedule: (seconds, cron), one of them or neither.
            keeps_the_rest: of a known source, options that are not named and a schedule of None stay as they are.
            ids_are_global: the connector's external ids mean the same document in every source.
        """
        with deciding(self.engine) as connection:
            here = kb_sources.c.kb_id == kb_id
            standing = kb_sources.c.removed_at.is_(None)
            same = sa.and_(here, standing, kb_sources.c.connector == connector, kb_sources.c.input == source_input)
            found = connection.execute(sa.select(kb_sources).where(same)).mappings().first()
            known, stays = found and found["source_id"], found if keeps_the_rest and found else {}
            wanted = {**stays.get("options", {}), **(options or {})}
            every_s, cron = schedule or (stays.get("every_s"), stays.get("cron"))
            changed: dict[str, Any] = {"every_s": every_s, "cron": cron, "due_at": _now()}
            changed["options"] = {option: value for option, value in wanted.items() if value}
            if known:
                if name:
                    changed["name"] = name
                connection.execute(kb_sources.update().where(kb_sources.c.source_id == known), changed)
            else:
                alike = sa.and_(here, standing, kb_sources.c.connector == connector)
                rivals = sa.select(kb_sources.c.source_id).where(alike).limit(1)
                is_alone = ids_are_global or connection.execute(rivals).first() is None
                base = ids.slug(name or name_in(source_input), 30)
                known = _free_id(connection, kb_sources.c.source_id, base, always_suffix=True)
                row = {
                    "source_id": known, "kb_id": kb_id, "name": name or source_input, "connector": connector,
                    "input": source_input, "namespace": "" if is_alone else ids.sha256_hex(source_input)[:12],
                    "created_at": _now(), **changed,
                }  # fmt: skip
                connection.execute(kb_sources.insert(), row)
        return self.source(kb_id, known)

    def sources(self, kb_id: str | None = None, *, removed: bool = False) -> list[SourceRow]:
        """Sources of one knowledge base, or of all, oldest first; or those that were removed."""
        here = kb_sources.c.kb_id == kb_id if kb_id else sa.true()
        return self._sources(here, removed)

    def due_sources(self, now: datetime) -> list[SourceRow]:
        """Sources with a schedule whose next sync is due, longest overdue first."""
        scheduled = sa.or_(kb_sources.c.every_s.is_not(None), kb_sources.c.cron.is_not(None))
        found = self._sources(sa.and_(scheduled, kb_sources.c.due_at <= now))
        return sorted(found, key=lambda source: (source.due_at or now, source.source_id))

    def source(self, kb_id: str, name_or_id: str, *, removed: bool = False) -> SourceRow:
        """One source of a knowledge base by id, else by name or input; among those that stand, or were removed.

        Raises: NotVisible: there is none.
        """
        table = kb_sources.c
        here = table.kb_id == kb_id
        by_name = sa.or_(table.name == name_or_id, table.input == name_or_id)
        by_id = sa.and_(here, table.source_id == name_or_id)
        found = self._sources(by_id, removed) or self._sources(sa.and_(here, by_name), removed)
        if not found:
            raise NotVisible(f"Knowledge base {kb_id!r} has no source {name_or_id!r}; `kb sources {kb_id}` lists them.")
        return found[0]

    def source_was_listed(self, source: SourceRow, state: Mapping[str, Any], due_at: datetime | None) -> None:
        """Record a listing that ended well; its cursor counts from now on."""
        self._update_source(
            source, state=dict(state), listed_at=_now(), due_at=due_at, status="ready", error_kind=None, error=None
        )

    def source_failed(self, source: SourceRow, failure: UnitFailure, due_at: datetime | None) -> None:
        """Record a listing that failed; cursor and documents stay as they were."""
        self._update_source(source, due_at=due_at, status="failed", error_kind=failure.kind, error=str(failure))

    def source_was_requested(self, source_ids: Sequence[str], until: datetime) -> None:
        """Keep the sensor from asking again before `until`; the run itself sets the real next time."""
        if source_ids:
            asked = kb_sources.update().where(kb_sources.c.source_id.in_(source_ids))
            with self.engine.begin() as connection:
                connection.execute(asked.values(due_at=until, syncs=kb_sources.c.syncs + 1))

    def source_was_removed(self, source: SourceRow) -> None:
        """Take a source out of every list; what it had goes afterwards."""
        self._update_source(source, removed_at=_now(), due_at=None, state={})

    def list_afresh(self, kb_id: str) -> None:
        """Let the sources of a knowledge base name everything they hold at their next sync, changed or not."""
        with self.engine.begin() as connection:
            query = sa.select(kb_sources.c.source_id, kb_sources.c.state).where(kb_sources.c.kb_id == kb_id)
            for source_id, state in connection.execute(query.with_for_update()).all():
                kept = {key: value for key, value in state.items() if key not in VALIDATORS}
                change = kb_sources.update().where(kb_sources.c.source_id == source_id)
                connection.execute(change.values(state=kept))

    def _update_source(self, source: SourceRow, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(kb_sources.update().where(kb_sources.c.source_id == source.source_id).values(**values))

    def _sources(self, condition: sa.ColumnElement[bool], removed: bool = False) -> list[SourceRow]:
        state = kb_sources.c.removed_at.is_not(None) if removed else kb_sources.c.removed_at.is_(None)
        with reading(self.engine) as connection:
            query = (
                sa.select(kb_sources).where(condition, state).order_by(kb_sources.c.created_at, kb_sources.c.source_id)
            )
            return [SourceRow(**row) for row in connection.execute(query).mappings()]

    # Events

    def record_event(self, row: Mapping[str, Any]) -> None:
        """Append a retrieval event; keys are the columns of retrieval_events."""
        with self.engine.begin() as connection:
            connection.execute(retrieval_events.insert(), dict(row))

    def not_live(self, document_ids: Sequence[str]) -> set[str]:
        """Those of the documents that are archived or unknown."""
        return Documents(self.engine).not_live(document_ids)


def _free_id(connection: sa.Connection, column: sa.ColumnElement[str], base: str, always_suffix: bool = False) -> str:
    """`base`, or `base-<4 hex>` where it is taken in whatever tenant (or always, for ids that are never used again)."""
    candidate = ids.with_suffix(base, secrets.token_hex(2)) if always_suffix else base
    while connection.execute(sa.select(column).where(column == candidate)).first():
        candidate = ids.with_suffix(base, secrets.token_hex(2))
    return candidate
