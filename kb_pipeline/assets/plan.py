"""What a sync of a source would do and cost: the stages' own steps, in order, with nothing written or paid for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from kb_pipeline.assets import s1_fetch, s2_normalize, s4_chunk, s5_embed
from kb_pipeline.assets.listing import intake_of, state_to_list_with, verdict_of
from kb_pipeline.assets.stage import guarded
from kb_pipeline.connectors.base import Connector
from kb_pipeline.errors import UnitFailure
from kb_pipeline.metering import call_kind, usd_per_token
from kb_pipeline.records import Item
from kb_pipeline.retries import is_due
from kb_pipeline.schemas import CHUNKS, DOCUMENTS, RAW_ITEMS, Table
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.stages.normalize import ParseLimits
from kb_pipeline.stages.rows import indexed_text
from kb_pipeline.storage.blobs import digest_of
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.model_calls import ModelCalls
from kb_pipeline.storage.store import Store

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class SourcePlan:
    """What a sync would do for one source now.

    Attributes:
        error: why the source cannot be listed; then nothing else is known.
        fetch: items to fetch, the `new` and `changed` ones among them.
        remove: documents that leave; `waiting` are missed for the first time, in a suspicious listing.
        unreadable: documents that cannot be fetched, read or split.
        embed: texts that go to the model, with what that costs.
    """

    source: str
    error: str | None = None
    fetch: int = 0
    new: int = 0
    changed: int = 0
    remove: int = 0
    waiting: int = 0
    parse: int = 0
    split: int = 0
    index: int = 0
    unreadable: int = 0
    embed: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


class Planner:
    """Plans one source. Fetches and reads what is new, as the sync would, and keeps nothing of it.

    Raises: UsageError: nobody knows what the embedder costs.
    """

    def __init__(self, store: Store, source: SourceRow, embedder: Embedder, sandbox: Sandbox) -> None:
        self._store, self._source, self._embedder, self._sandbox = store, source, embedder, sandbox
        self._price = usd_per_token(store, embedder.space)
        self._rules = s4_chunk.rules_of(store.settings, embedder)
        self._limits = ParseLimits.of(store.settings)
        tenant = store.catalog.knowledge_base(source.kb_id).tenant
        self._index = store.index(tenant, embedder.space)
        self._calls = ModelCalls(store.catalog.engine, call_kind(embedder.space), source.kb_id, source.source_id, "")
        self._recipes = {
            "documents": s2_normalize.recipe_of(self._limits),
            "chunks": s4_chunk.recipe_of(self._rules),
            "chunk_index": s5_embed.recipe_of(embedder.space, tenant),
        }
        self._now = datetime.now(UTC)
        self._plan = SourcePlan(source=source.partition)
        self._seen: dict[str, set[str]] = {stage: set() for stage in self._recipes}
        self._counted: set[str] = set()

    def plan(self, connector: Connector) -> SourcePlan:
        """What `kb sync` of the source would do now."""
        try:
            gone = self._list(connector)
        except UnitFailure as failure:
            self._plan.error = str(failure)
            return self._plan
        for rows in self._left("documents", "raw_items", RAW_ITEMS, gone):
            for row in rows:
                content = self._try(row["external_id"], partial(self._store.blobs.get, row["raw_sha256"]))
                if content is not None:
                    self._parse(row, content)
        for rows in self._left("chunks", "documents", DOCUMENTS, gone):
            for row in rows:
                self._split(row)
        for rows in self._left("chunk_index", "chunks", CHUNKS, gone):
            self._embed(rows)
        return self._plan

    def _list(self, connector: Connector) -> set[str]:
        """Plan what the listing brings; the documents that leave with it."""
        store, source, seen = self._store, self._source, set[str]()
        recipe = s1_fetch.recipe_of(store.settings)
        listing = connector.list_items(source, state_to_list_with(store, source, recipe))
        items = iter(listing.items)
        while batch := list(islice(items, store.settings.batch_documents)):
            intake = intake_of(store, source, batch, seen, recipe)
            seen.update(intake.present)
            self._plan.fetch += len(intake.wanted)
            self._plan.new += intake.new
            self._plan.changed += intake.changed
            for unit, item in intake.wanted:
                self._fetch(connector, unit, item)
        verdict = verdict_of(store, source, listing, seen, is_accepted=False)
        if listing.gone and (verdict.waiting or not verdict.retired):
            raise listing.gone
        self._plan.remove, self._plan.waiting = len(verdict.retired), len(verdict.waiting)
        return set(verdict.retired)

    def _fetch(self, connector: Connector, unit: str, item: Item) -> None:
        fetched = self._try(item.external_id, partial(s1_fetch.fetch, connector, self._source, unit, item, digest_of))
        if fetched is None:
            return
        row, output, content = fetched
        if self._is_due("documents", unit, output):
            self._parse(row, content)

    def _parse(self, row: Mapping[str, Any], content: bytes) -> None:
        self._seen["documents"].add(row["document_id"])
        self._plan.parse += 1
        read = self._try(row["external_id"], partial(s2_normalize.read, row, content, self._sandbox, self._limits))
        if read is None:
            return
        document, output = read
        if self._is_due("chunks", row["document_id"], output):
            self._split(document)

    def _split(self, document: Mapping[str, Any]) -> None:
        self._seen["chunks"].add(document["document_id"])
        self._plan.split += 1
        split = self._try(document["external_id"], partial(s4_chunk.split, document, self._rules))
        if split is None:
            return
        rows, output = split
        if self._is_due("chunk_index", document["document_id"], output):
            self._embed(rows)

    def _embed(self, rows: Sequence[Mapping[str, Any]]) -> None:
        documents = {row["document_id"] for row in rows}
        self._seen["chunk_index"] |= documents
        self._plan.index += len(documents)
        texts = {r["indexed_hash"]: indexed_text(r) for r in rows if r["indexed_hash"] not in self._counted}
        known = set(self._index.vectors_by_hash(list(texts)))
        if self._price:
            known.update(self._calls.results(list(texts)))
        missing = [text for digest, text in texts.items() if digest not in known]
        tokens = sum(self._embedder.count_tokens(missing))
        self._counted |= texts.keys()
        self._plan.embed += len(missing)
        self._plan.tokens += tokens
        self._plan.cost_usd += tokens * self._price

    def _left(self, stage: str, upstream: str, table: Table, gone: set[str]) -> Iterator[list[dict[str, Any]]]:
        """Stored rows of the documents that are stale by what the ledger says, in batches."""
        source = self._source
        needs = self._store.ledger.needing(stage, upstream, source.kb_id, source.source_id, self._recipes[stage])
        units = [unit.unit for unit in needs.todo if unit.unit not in gone and not self._is_handled(unit.unit)]
        for rows in self._store.dataset(table, source).scan(units):
            yield rows.to_pylist()

    def _is_handled(self, unit: str) -> bool:
        return any(unit in seen for seen in self._seen.values())

    def _is_due(self, stage: str, unit: str, input_hash: str) -> bool:
        row = self._store.ledger.known(stage, [unit]).get(unit)
        return is_due(row, input_hash, self._recipes[stage], self._now)

    def _try(self, name: str, work: Callable[[], T]) -> T | None:
        done = guarded("plan", name, work)
        if isinstance(done, UnitFailure):
            self._plan.unreadable += 1
            return None
        return done
