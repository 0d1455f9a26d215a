"""What a sync of a source would do and cost: the stages' own steps, in order, with nothing written or paid for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from kb_pipeline.assets import s1_fetch, s2_normalize, s4_chunk
from kb_pipeline.assets.listing import intake_of, state_to_list_with, verdict_of
from kb_pipeline.assets.space_plan import SpacePlan
from kb_pipeline.assets.spaces import wanted_space, works_of
from kb_pipeline.assets.stage import guarded
from kb_pipeline.connectors.base import Connector
from kb_pipeline.errors import UnitFailure
from kb_pipeline.records import Item, vector_space_of
from kb_pipeline.retries import is_due
from kb_pipeline.schemas import CHUNKS, DOCUMENTS, RAW_ITEMS
from kb_pipeline.services.embedders import Embedders
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.stages.normalize import ParseLimits
from kb_pipeline.storage.blobs import digest_of
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.parquet import Dataset
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
        builds: id of the space beside the one that search reads, if some of this is for it.
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
    builds: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


class Planner:
    """Plans one source. Fetches and reads what is new, as the sync would, and keeps nothing of it.

    Raises: UsageError: nobody knows what the embedder costs.
    """

    def __init__(self, store: Store, source: SourceRow, embedders: Embedders, sandbox: Sandbox) -> None:
        self._store, self._source, self._sandbox = store, source, sandbox
        self._limits = ParseLimits.of(store.settings)
        wanted = wanted_space(store, source.kb_id, embedders)
        works = works_of(store.spaces.would_have(wanted), embedders)
        counted: dict[str, set[str]] = {}
        built = [
            SpacePlan(store, source, work, counted.setdefault(vector_space_of(work.space.space_id), set()))
            for work in works
            if work.embedder
        ]
        self._documents = Lane("documents", source.kb_id, source.source_id)
        self._splits: dict[Lane, list[SpacePlan]] = {}
        for space in built:
            self._splits.setdefault(space.chunks, []).append(space)
        self._recipes = {
            self._documents: s2_normalize.recipe_of(self._limits),
            **{space.chunks: s4_chunk.recipe_of(space.rules) for space in built},
            **{space.lane: space.recipe for space in built},
        }
        self._now = datetime.now(UTC)
        self._plan = SourcePlan(source=source.partition)
        self._seen: dict[Lane, set[str]] = {lane: set() for lane in self._recipes}

    def plan(self, connector: Connector) -> SourcePlan:
        """What `kb sync` of the source would do now."""
        try:
            gone = self._list(connector)
        except UnitFailure as failure:
            self._plan.error = str(failure)
            return self._plan
        self._plan_stored(gone)
        return self._plan

    def _plan_stored(self, gone: set[str]) -> None:
        """Plan what is stale without the listing's saying so."""
        raw_items = Lane("raw_items", self._source.kb_id, self._source.source_id)
        for rows in self._left(self._documents, raw_items, self._store.dataset(RAW_ITEMS, self._source), gone):
            for row in rows:
                content = self._try(row["external_id"], partial(self._store.blobs.get, row["raw_sha256"]))
                if content is not None:
                    self._parse(row, content)
        for chunks in self._splits:
            for rows in self._left(chunks, self._documents, self._store.dataset(DOCUMENTS, self._source), gone):
                for row in rows:
                    self._split(chunks, row)
        for chunks, spaces in self._splits.items():
            for space in spaces:
                stored = self._store.dataset(CHUNKS, self._source, chunks.space)
                for rows in self._left(space.lane, chunks, stored, gone):
                    self._index(space, rows)

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
        if self._is_due(self._documents, unit, output):
            self._parse(row, content)

    def _parse(self, row: Mapping[str, Any], content: bytes) -> None:
        self._seen[self._documents].add(row["document_id"])
        self._plan.parse += 1
        read = self._try(row["external_id"], partial(s2_normalize.read, row, content, self._sandbox, self._limits))
        if read is None:
            return
        document, output = read
        for chunks in self._splits:
            if self._is_due(chunks, row["document_id"], output):
                self._split(chunks, document)

    def _split(self, chunks: Lane, document: Mapping[str, Any]) -> None:
        self._seen[chunks].add(document["document_id"])
        self._plan.split += 1
        spaces = self._splits[chunks]
        done = self._try(document["external_id"], partial(s4_chunk.split, document, spaces[0].rules, chunks.space))
        if done is None:
            return
        rows, output = done
        for space in spaces:
            if self._is_due(space.lane, document["document_id"], output):
                self._index(space, rows)

    def _index(self, space: SpacePlan, rows: Sequence[Mapping[str, Any]]) -> None:
        documents = {row["document_id"] for row in rows}
        self._seen[space.lane] |= documents
        self._plan.index += len(documents)
        if not space.work.is_served:
            self._plan.builds = space.lane.space
        texts, tokens, cost = space.embed(rows)
        self._plan.embed += texts
        self._plan.tokens += tokens
        self._plan.cost_usd += cost

    def _left(self, lane: Lane, upstream: Lane, stored: Dataset, gone: set[str]) -> Iterator[list[dict[str, Any]]]:
        """Stored rows of the documents that are stale by what the ledger says, in batches."""
        needs = self._store.ledger.needing(lane, upstream, self._recipes[lane])
        leaving = gone | self._seen[self._documents] | self._seen[lane] | self._seen.get(upstream, set())
        for rows in stored.scan([unit for unit in map(str, needs.todo.to_pylist()) if unit not in leaving]):
            yield rows.to_pylist()

    def _is_due(self, lane: Lane, unit: str, input_hash: str) -> bool:
        row = self._store.ledger.known(lane, [unit]).get(unit)
        return is_due(row, input_hash, self._recipes[lane], self._now)

    def _try(self, name: str, work: Callable[[], T]) -> T | None:
        done = guarded("plan", name, work)
        if isinstance(done, UnitFailure):
            self._plan.unreadable += 1
            return None
        return done
