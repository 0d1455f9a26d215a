"""A sync without Dagster around it: the stages' own work on real storage, fast enough for thousands of histories."""

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from kb_pipeline.assets import s1_fetch, s2_normalize, s4_chunk, s5_embed
from kb_pipeline.assets.stage import StageRun
from kb_pipeline.connectors.document import DocumentConnector
from kb_pipeline.connectors.records import RecordsConnector
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import UnitFailure
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import CHUNKS, PARQUET_TABLES
from kb_pipeline.services.embedders import embedders_of
from kb_pipeline.stages.normalize import ParseLimits
from kb_pipeline.storage.lance_table import open_table
from kb_pipeline.storage.store import Store

_COMPARED = ("external_id", "title", "url", "status", "error_kind", "chunks", "content_hash")


class Quiet:
    """Progress for nobody."""

    def begin(self, stage, source, total):
        self.stage = stage

    def advance(self, units):
        self.units = units


@dataclass
class Outcome:
    """What one sync did: counts by stage, or why the source could not be listed."""

    counts: dict[str, dict[str, float]]
    error: str | None = None

    def total(self, name):
        return int(sum(stage.get(name, 0) for stage in self.counts.values()))


class Driver:
    """Syncs sources of one store, one stage after another, under the same locks as the assets."""

    def __init__(self, store: Store, sandbox) -> None:
        self.store, self.sandbox = store, sandbox
        self.embedders = embedders_of(store.settings, store.layout.models)
        self.registry = Registry([RecordsConnector(store.settings), DocumentConnector(store.settings)])
        self.runs = 0

    def sync(self, source, accept_removals: bool = False) -> Outcome:
        """Bring a source in line."""
        self.store.release_orphans(source)
        source = self.store.catalog.source(source.kb_id, source.source_id)
        self.runs += 1
        run_id, counts = f"run-{self.runs}", {}
        connector = self.registry.named(source.connector)
        limits = ParseLimits.of(self.store.settings)
        steps = [
            (
                "raw_items",
                s1_fetch.recipe_of(self.store.settings),
                lambda run: s1_fetch.sync_listing(run, connector, accept_removals),
            ),
            (
                "documents",
                s2_normalize.recipe_of(limits),
                lambda run: s2_normalize.normalize_source(run, self.sandbox, limits),
            ),
            ("chunks", Recipe.of(""), lambda run: s4_chunk.chunk_for_spaces(run, self.embedders)),
            ("chunk_index", Recipe.of(""), lambda run: s5_embed.index_spaces(run, self.embedders)),
        ]
        for stage, recipe, work in steps:
            run = StageRun(stage, recipe, self.store, source, run_id, Quiet())
            try:
                with self.store.working_on(source):
                    work(run)
            except UnitFailure as failure:
                return Outcome(counts, str(failure))
            counts[stage] = run.counts
        return Outcome(counts)


def state_of(store: Store, role: str = "serving") -> dict[str, Any]:
    """All that a knowledge base's readers could see, without times, runs and source ids: to be held against another.

    Of a space that is not served, only what is in it.
    """
    documents = {
        row["document_id"]: {**{name: row[name] for name in _COMPARED}, "is_missing": row["missing_since"] is not None}
        for base in store.catalog.knowledge_bases()
        for row in store.documents.rows(base.kb_id)
        if row["status"] != "archived" and role == "serving"
    }
    skipped = {"source_id", "fetched_at"}
    datasets = {}
    serving = {b.kb_id: s for b in store.catalog.knowledge_bases() for s in store.spaces.of(b.kb_id) if s.role == role}
    for table in PARQUET_TABLES:
        rows: list[dict[str, Any]] = []
        for source in store.catalog.sources():
            if table is CHUNKS and source.kb_id not in serving:
                continue
            split = serving[source.kb_id].split_id if table is CHUNKS else ""
            for part in store.dataset(table, source, split).scan():
                rows += part.to_pylist()
        kept = [{name: row[name] for name in row if name not in skipped} for row in rows]
        datasets[table.name] = sorted(kept, key=repr)
    index = {}
    for base in store.catalog.knowledge_bases():
        for space in [serving[base.kb_id]] if base.kb_id in serving else []:
            opened = open_table(store.index(base.tenant, space.space_id).path)
            rows = opened.to_table(filter=pc.field("kb_id") == base.kb_id).to_pylist() if opened else []
            index.update({row["chunk_id"]: {n: row[n] for n in row if n not in skipped} for row in rows})
            assert len({row["chunk_id"] for row in rows}) == len(rows), "a chunk stands twice"
    return {"catalog": documents, **datasets, "index": index}


def difference(left: dict[str, Any], right: dict[str, Any]) -> str:
    """Where two states differ first, in words; "" where they are equal."""
    for name in left:
        if left[name] == right[name]:
            continue
        ours, theirs = left[name], right[name]
        if isinstance(ours, dict):
            keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
            return f"{name}: {len(keys)} differ, first {keys[0]}: {ours.get(keys[0])} against {theirs.get(keys[0])}"
        only = [row for row in ours if row not in theirs], [row for row in theirs if row not in ours]
        return f"{name}: {len(ours)} against {len(theirs)} rows; only here {only[0][:1]}, only there {only[1][:1]}"
    return ""
