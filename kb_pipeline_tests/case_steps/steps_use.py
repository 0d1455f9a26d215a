"""Steps that use a base: search, many searches, the splitter alone."""

import json
import time
from dataclasses import asdict
from typing import Any

from kb_pipeline.query import Caller, SearchResult
from kb_pipeline.records import vector_space_of
from kb_pipeline.stages.chunk import SplitRules, split_document
from kb_pipeline.storage.lance_table import KEY, one_of, open_table, table_path
from kb_pipeline_tests.case_steps.reading import DocumentView
from kb_pipeline_tests.case_steps.steps_sources import product_settings
from kb_pipeline_tests.case_steps.vocabulary import Args, NotSupportedYet, UnknownWord, as_list, step
from kb_pipeline_tests.case_steps.world import Search, World, refusal_of

MODES = {
    "vector": ("dense",), "dense": ("dense",), "semantic": ("dense",), "fts": ("sparse",), "sparse": ("sparse",),
    "keyword": ("sparse",), "text": ("sparse",), "bm25": ("sparse",), "hybrid": ("dense", "sparse"),
}  # fmt: skip
_LINE_KEYS = {"q", "query", "want", "id", "kb", "as", "top_k", "note"}


@step("search", "label", "query", "kb", "kbs", "as", "top_k", "mode", "modes", "rerank", bare="query")
def search(world: World, args: Args) -> None:
    """A search, in each of the modes named; hybrid where none is."""
    _make_searches(world, args, world.caller(args.get("as")))


def _make_searches(world: World, args: Args, caller: Caller, wanted: dict[str, Any] | None = None) -> list[Search]:
    if args.get("rerank") not in (None, False):
        raise NotSupportedYet("rerank")
    modes = as_list(args.get("modes")) or as_list(args.get("mode")) or ["hybrid"]
    made = [one_search(world, args, str(mode), caller, wanted) for mode in modes]
    world.searches += made
    return made


def one_search(world: World, args: Args, mode: str, caller: Caller, wanted: dict[str, Any] | None = None) -> Search:
    """One search in one mode; an error is kept with it, and one that is no clear refusal counts as a crash."""
    if mode.lower() not in MODES:
        raise UnknownWord(f"unknown search mode: {mode}")
    names = as_list(args["kbs"]) if args.get("kbs") else ([] if args.get("kb") is None else [args["kb"]])
    query = str(args.get("query", ""))
    made: dict[str, Any] = {
        "label": args.get("label"), "query": query, "kbs": tuple(map(str, names)), "mode": mode.lower(),
        "wanted": wanted,
    }  # fmt: skip
    started = time.perf_counter()
    try:
        wanted_ids = [known_as(world, str(name), caller) for name in names]
        result = world.query.search(
            query, caller=caller, kb_id=wanted_ids or None, top_k=int(args.get("top_k") or 5), modes=MODES[mode.lower()]
        )
    except Exception as error:  # noqa: BLE001 - whatever a search raises is what the case is about
        if not refusal_of(error):
            world.crashes.append(f"search {query[:60]!r} in mode {mode}: {type(error).__name__}: {error}")
        return Search(**made, seconds=time.perf_counter() - started, error=error)
    seconds = time.perf_counter() - started
    return Search(**made, seconds=seconds, result=result, own_chunks=_own(world, result))


def _own(world: World, result: SearchResult) -> frozenset[str]:
    """Chunks of the hits whose vector is of the model by which the query was embedded for their base."""
    found: set[str] = set()
    keys = [hit.chunk_id for hit in result.hits]
    for base in world.store.catalog.knowledge_bases() if world.case.changes_models else ():
        for space in world.store.spaces.of(base.kb_id)[:1]:
            model = world.embedders.named(space.embedding_model).space
            table = open_table(table_path(world.store.layout.root, base.tenant, space.space_id))
            if table is not None and model.vector_space_id == vector_space_of(space.space_id):
                mine = one_of(KEY, keys) & one_of("kb_id", [base.kb_id])
                found.update(table.to_table(columns=[KEY], filter=mine)[KEY].to_pylist())
    return frozenset(found)


def known_as(world: World, name: str, caller: Caller) -> str:
    """What a caller would write for a base: the name where it is theirs, else its id, which they may have learnt."""
    if caller.is_operator:
        return world.bases.get(name, name)
    seen = world.store.catalog.visible(caller.user_id, caller.client_id)
    return name if any(name in (base.name, base.kb_id) for base in seen) else world.bases.get(name, name)


@step("search_each", "kb", "kbs", "file", "mode", "modes", "top_k", "as", "label", "rerank", bare="file")
def search_each(world: World, args: Args) -> None:
    """Each line of a file as a query: {q, want}."""
    for line in world.file(args["file"]).read_text(encoding="utf-8").split("\n"):
        if not line.strip():
            continue
        fields = json.loads(line)
        unknown = sorted(set(fields) - _LINE_KEYS)
        if unknown:
            raise UnknownWord(f"unknown key in a query line: {', '.join(unknown)}")
        own = {name: fields[name] for name in ("kb", "as", "top_k") if name in fields}
        one = {
            **{k: v for k, v in args.items() if k != "file"},
            **own,
            "query": fields.get("q", fields.get("query", "")),
        }
        _make_searches(world, one, world.caller(one.get("as")), {"want": None, **fields})


@step("chunk_each", "files", "file", "settings", "kb", "label", bare="files")
def chunk_each(world: World, args: Args) -> None:
    """The splitter alone on the text of files, with each of the settings; those that cannot be are noted as refused."""
    names = [str(each) for each in [*as_list(args.get("files")), *as_list(args.get("file"))]]
    for given in as_list(args.get("settings")) or [{}]:
        for name in names:
            try:
                rules = _rules(world, product_settings(given))
            except ValueError as refusal:
                world.refusals[name] = str(refusal)
                continue
            text = world.file(name).read_bytes().decode("utf-8-sig", "replace")
            chunks = [asdict(chunk) | {"chunk_idx": chunk.idx} for chunk in split_document(text, [], name, rules)]
            row = {"external_id": name, "title": name, "status": "ready", "url": None}
            world.split_alone.append(DocumentView(str(args.get("kb") or ""), row, chunks))


def _rules(world: World, given: dict[str, Any]) -> SplitRules:
    """Raises: ValueError: sizes that make no sense."""
    is_tokens = given.get("chunk_unit", "chars") == "tokens"
    return SplitRules(
        size=given.get("chunk_size", 800 if is_tokens else 1000),
        overlap=given.get("chunk_overlap", 80 if is_tokens else 200),
        unit="tokens" if is_tokens else "chars",
        count_tokens=world.embedder.count_tokens if is_tokens else None,
    )
