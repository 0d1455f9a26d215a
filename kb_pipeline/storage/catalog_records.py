"""What the catalog hands out: a knowledge base, and a source with its schedule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from kb_pipeline import ids
from kb_pipeline.records import Scope, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBase:
    """A knowledge base; `tenant` follows from scope, owner and client."""

    kb_id: str
    name: str
    scope: Scope
    tenant: str
    owner: str
    client_id: str
    agency_id: str
    description: str
    created_at: datetime
    budget_usd: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Base:
    """As much of a knowledge base as a search needs.

    Attributes:
        space_id: the space it is read from; None where nothing was indexed yet.
        embedding_model: the model of that space, as `EMBEDDING_MODEL` names it.
    """

    kb_id: str
    name: str
    tenant: str
    space_id: str | None = None
    embedding_model: str | None = None


SpaceRole = Literal["serving", "candidate", "previous", "dropped"]
_ROLES: tuple[SpaceRole, ...] = ("serving", "candidate", "previous", "dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class KbSpace:
    """A space of a knowledge base with the settings it is made by.

    Attributes:
        role: `serving`: search reads it; `candidate`: built beside it; `previous`: read before, kept for a way back;
            `dropped`: about to be removed.
        since: when it got that role.
    """

    kb_id: str
    space_id: str
    split_id: str
    embedding_model: str
    chunk_unit: Literal["chars", "tokens"]
    chunk_size: int
    chunk_overlap: int
    role: SpaceRole
    since: datetime

    @property
    def order(self) -> tuple[int, str]:
        """By role, the serving one first."""
        return _ROLES.index(self.role), self.space_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow(Source):
    """A source with its schedule and the outcome of its last listing."""

    name: str
    namespace: str
    every_s: int | None
    cron: str | None
    state: Mapping[str, Any] = field(default_factory=dict)
    syncs: int = 0
    due_at: datetime | None = None
    listed_at: datetime | None = None
    status: str = "pending"
    error_kind: str | None = None
    error: str | None = None
    created_at: datetime | None = None
    removed_at: datetime | None = None

    @property
    def partition(self) -> str:
        """Partition key."""
        return ids.source_partition(self.kb_id, self.source_id)


def next_due(source: SourceRow, now: datetime) -> datetime | None:
    """When the source wants its next sync; None without a schedule."""
    if source.every_s:
        return now + timedelta(seconds=source.every_s)
    if source.cron:
        from croniter import CroniterBadDateError, croniter

        try:
            due: datetime = croniter(source.cron, now).get_next(datetime)
        except CroniterBadDateError:  # stored before such a thing was refused
            return None
        return due
    return None
