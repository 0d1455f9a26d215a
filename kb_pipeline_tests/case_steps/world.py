"""The world of one case: a fresh home with the product opened on it, and a stub of the outside."""

import ipaddress
import re
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kb_pipeline.automation.run import Syncer, SyncReport, open_syncer
from kb_pipeline.connectors.registry import Registry, build_registry
from kb_pipeline.errors import KbError, NotVisible
from kb_pipeline.query import OPERATOR, Caller, Query, SearchResult
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.services.embedders import embedders_of
from kb_pipeline.services.http import HttpClient
from kb_pipeline.settings import Settings
from kb_pipeline.storage.catalog_records import KnowledgeBase, SourceRow
from kb_pipeline.storage.store import Store
from kb_pipeline.testing.loopback import Loopback
from kb_pipeline_tests.case_steps.case import Case
from kb_pipeline_tests.case_steps.measure import Connections, Watch
from kb_pipeline_tests.case_steps.reading import DocumentView, Snapshot, take_snapshot
from kb_pipeline_tests.case_steps.vocabulary import UnknownWord

CHEAP_MODEL = "fake:cases:64"
NO_BASE, NO_DOCUMENT = "no-such-base-4711", "no-such-document-4711"


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search that was made; one for each mode where a step names several.

    Attributes:
        own_chunks: those of the hits whose vector is of the model by which the query was embedded for their base.
        wanted: the line of a file that it was made from.
    """

    label: str | None
    query: str
    kbs: tuple[str, ...]
    mode: str
    seconds: float
    result: SearchResult | None = None
    error: BaseException | None = None
    own_chunks: frozenset[str] = frozenset()
    wanted: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Sync:
    """What one sync step did, source by source."""

    label: str | None
    reports: list[tuple[SourceRow, SyncReport]]
    before: int
    after: int
    was_killed: bool = False

    @property
    def errors(self) -> list[str]:
        if self.was_killed:
            return ["the process was killed"]
        return [report.error or "failed" for _, report in self.reports if report.status != "ok"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call made as somebody, and what came back; `twin` is the same call with an id that does not exist."""

    name: str
    args: Any
    bases: tuple[str, ...]
    texts: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    error: BaseException | None = None
    twin: "Call | None" = None


class Quiet:
    """Progress that nobody watches."""

    def begin(self, stage: str, source: str, total: int | None) -> None:
        """Nothing."""

    def advance(self, units: int) -> None:
        """Nothing."""


@dataclass
class World:
    """Everything steps act on and expectations look at."""

    case: Case
    root: Path
    model: str = CHEAP_MODEL
    overrides: dict[str, Any] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    placeholders: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    searches: list[Search] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    replies: dict[str, list[Search]] = field(default_factory=dict)
    given_urls: list[str] = field(default_factory=list)
    split_alone: list[DocumentView] = field(default_factory=list)
    history: list[Snapshot] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    watch: Watch = field(default_factory=lambda: Watch(with_memory=False))
    canary: Loopback | None = None
    has_just_crashed: bool = False

    def __post_init__(self) -> None:
        self.stub = Loopback()
        self.connections = Connections.recorder()
        self.connections.seen.clear()
        self._open = ExitStack()
        self.open()

    def open(self) -> None:
        """Open the product on the home."""
        settings = self.settings
        self.store = Store(settings)
        self.store.initialise()
        self.embedders = embedders_of(settings, self.store.layout.models)
        self.embedder: Embedder = self.embedders.named(settings.embedding_model)
        self.syncer: Syncer = self._open.enter_context(open_syncer(self.store, Quiet()))
        http = self._open.enter_context(closing(HttpClient(settings)))
        self.registry: Registry = build_registry(http, settings)
        self.query: Query = self._open.enter_context(Query(settings, lambda: self.store.catalog, self.embedders.named))
        self._open.callback(lambda: self.store.catalog.engine.dispose())

    @property
    def settings(self) -> Settings:
        """Those of the product in this world: cheap embedder, no waiting, the stub as its outside."""
        given: dict[str, Any] = {
            "kb_home": self.root / "home", "embedding_model": self.model, "http_route": self._route(),
            "http_host_interval_s": 0, "threads": 1, **self.overrides,
        }  # fmt: skip
        return Settings(**given)

    def _route(self) -> str:
        hosts = {urlsplit(url).hostname or "" for url in self.case.served_urls()}
        names = [
            host for host in sorted(hosts) if host and not host.endswith((".example", ".test")) and not _is_own(host)
        ]
        return ",".join([self.stub.route, *(f"{name}=127.0.0.1:{self.stub.port}" for name in names)])

    def restart(self, model: str | None = None, overrides: dict[str, Any] | None = None) -> None:
        """Close everything and open it again, as a new process would."""
        self._open.close()
        self.model = model or self.model
        self.overrides.update(overrides or {})
        self.open()

    def close(self) -> None:
        """Close the product and the stubs."""
        self._open.close()
        self.stub.close()
        if self.canary:
            self.canary.close()

    # Who and where

    def caller(self, who: str | None) -> Caller:
        """`user`, `user@account` or `@account`; the operator for None."""
        if who is None:
            return OPERATOR
        user, at, account = str(who).partition("@")
        return Caller(user_id=user or None, client_id=(account if at else self.accounts.get(user)) or None)

    def base(self, name: object, caller: Caller = OPERATOR) -> KnowledgeBase:
        """The knowledge base a caller means. Raises: NotVisible: unknown, or not theirs."""
        seen = self.store.catalog.visible(caller.user_id, caller.client_id, caller.is_operator)
        if caller.is_operator and name in self.bases:
            name = self.bases[str(name)]
        for base in seen:
            if name in (base.kb_id, base.name):
                return base
        raise NotVisible(f"There is no knowledge base {name!r}.")

    def base_to_write(self, name: object, caller: Caller) -> KnowledgeBase:
        """A visible base that is the caller's own. Raises: NotVisible: unknown, or not theirs to change."""
        base = self.base(name, caller)
        is_owner = bool(caller.user_id) and base.owner == caller.user_id
        is_account = bool(caller.client_id) and base.client_id == caller.client_id and base.scope == "account"
        if caller.is_operator or is_owner or is_account:
            return base
        raise NotVisible(f"There is no knowledge base {name!r}.")

    def kb_name(self, kb_id: str) -> str:
        """The name a case gave to a base."""
        return next((name for name, known in self.bases.items() if known == kb_id), kb_id)

    # Files

    def file(self, name: object) -> Path:
        """An input of the case, its placeholders filled in. Raises: UnknownWord: there is none of this name."""
        path = (self.case.folder / str(name)).resolve()
        if not path.is_relative_to(self.case.folder.resolve()) or not path.exists():
            raise UnknownWord(f"the case holds no file {name!r}")
        content = path.read_bytes() if self.placeholders and path.is_file() else b""
        filled = self.filled(content.decode("latin-1")).encode("latin-1")
        if filled == content:
            return path
        copy = self.root / "filled" / str(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(filled)
        return copy

    def filled(self, value: Any) -> Any:
        """A value of the case with its placeholders filled in."""
        if isinstance(value, str):
            for name, filling in self.placeholders.items():
                value = re.sub(rf"\b{re.escape(name)}\b", filling, value)
            return value
        if isinstance(value, dict):
            return {key: self.filled(below) for key, below in value.items()}
        return [self.filled(below) for below in value] if isinstance(value, list) else value

    def folder(self, base: KnowledgeBase, name: str = "uploads") -> Path:
        """The folder on disk that is a source of a base."""
        return self.root / "files" / base.kb_id / name

    # States

    def now(self) -> Snapshot:
        """The state as it is."""
        return take_snapshot(self.store, {kb_id: name for name, kb_id in self.bases.items()})

    @cached_property
    def final(self) -> Snapshot:
        """The state after all steps; asked for by expectations only."""
        return self.now()

    def remember(self) -> int:
        """Keeps the state if an expectation may look back at it; returns its number."""
        if self.case.needs_history:
            self.history.append(self.now())
        return len(self.history) - 1


def refusal_of(error: BaseException) -> bool:
    """True for an answer of the product that says no; anything else is a crash."""
    return isinstance(error, KbError)


def _is_own(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
