"""Steps in the life of a base: sync, delete, restart, crash, repeat."""

import json
import re
from pathlib import Path
from typing import Any

from kb_pipeline.errors import KbError, NotVisible
from kb_pipeline.lifecycle.spaces import promote
from kb_pipeline.query import Caller
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline_tests.case_steps import crash
from kb_pipeline_tests.case_steps.reading import DocumentView, name_rank
from kb_pipeline_tests.case_steps.steps_sources import RECORDS, product_settings, without_record
from kb_pipeline_tests.case_steps.vocabulary import (
    Args,
    Mismatch,
    NotSupportedYet,
    UnknownWord,
    as_entries,
    as_list,
    only,
    step,
    step_word,
)
from kb_pipeline_tests.case_steps.world import Sync, World


@step("sync", "kb", "kbs", "label", "expect_ok", "source", "url", bare="kb")
def sync(world: World, args: Args) -> None:
    """Sources of the bases named, of all where none is."""
    if world.has_just_crashed and args.get("expect_ok") is False:
        # crash_at was the sync that is said here to fail
        number = world.remember()
        world.syncs.append(Sync(label=args.get("label"), reports=[], before=number, after=number, was_killed=True))
        return
    names = as_list(args.get("kbs")) or as_list(args.get("kb"))
    kb_ids = [world.base(name).kb_id for name in names] or list(world.bases.values())
    only_source = args.get("source") or args.get("url")
    sources = [source for kb_id in kb_ids for source in world.store.catalog.sources(kb_id)]
    if only_source:
        sources = [s for s in sources if name_rank(str(only_source), s.input, s.input, s.name) is not None]
    before = world.remember()
    reports = [(source, world.syncer.sync(source)) for source in sources]
    world.syncs.append(Sync(label=args.get("label"), reports=reports, before=before, after=world.remember()))
    if "expect_ok" in args:
        failures = world.syncs[-1].errors + [f"{r.failed} documents failed" for _, r in reports if r.failed]
        if args["expect_ok"] and world.syncs[-1].errors:
            raise Mismatch(f"sync: expected to go well, found {'; '.join(failures)}")
        if not args["expect_ok"] and not failures:
            raise Mismatch("sync: expected to fail, and it went well")


@step("reembed_all", "kb", "label", bare="kb")
def reembed_all(world: World, args: Args) -> None:
    """A sync, which embeds for the model that is set, and the word that lets search read that."""
    sync(world, args)
    for base in world.store.catalog.knowledge_bases():
        if any(space.role == "candidate" for space in world.store.spaces.of(base.kb_id)):
            promote(world.store, base.kb_id)


@step("delete_document", "kb", "document", "path", "as", bare="document")
def delete_document(world: World, args: Args) -> None:
    """Takes a document away at its source and syncs that source; one that is not there is noted."""
    name = str(args.get("document") or args.get("path"))
    try:
        delete_as(world, name, args.get("kb"), world.caller(args.get("as")))
    except KbError as refusal:
        world.refusals[name] = str(refusal)


def delete_as(world: World, name: str, kb: object, caller: Caller) -> None:
    """Raises: NotVisible: no such document for the caller."""
    if kb is not None:
        world.base_to_write(kb, caller)
    view = document_for(world, name, kb, caller)
    world.base_to_write(view.kb if caller.is_operator else view.row["kb_id"], caller)
    source = world.store.catalog.source(view.row["kb_id"], view.row["source_id"])
    path = Path(source.input)
    if source.connector == "document":
        (path / str(view.row["external_id"]) if path.is_dir() else path).unlink(missing_ok=True)
    elif source.connector == "records":
        without_record(path, str(view.row["external_id"]))
    else:
        raise NotSupportedYet(f"delete_document of a document from {source.connector}")
    world.remember()
    sync_quietly(world, source)


def document_for(world: World, name: str, kb: object, caller: Caller) -> DocumentView:
    """The document a caller means, among the bases they see. Raises: NotVisible: none."""
    seen = {base.kb_id for base in world.store.catalog.visible(caller.user_id, caller.client_id, caller.is_operator)}
    state = world.now()
    found = [view for view in state.find(name, kb) if view.row["kb_id"] in seen]
    if not found and caller.is_operator:
        found = _not_synced_yet(world, name, kb)
    if not found:
        raise NotVisible(f"There is no document {name!r}.")
    return found[0]


def _not_synced_yet(world: World, name: str, kb: object) -> list[DocumentView]:
    """A file or record that is given and not synced: no row knows it."""
    for known, kb_id in world.bases.items():
        if kb is not None and known != kb:
            continue
        for source in world.store.catalog.sources(kb_id):
            path = Path(source.input)
            is_there = (
                (path / name).is_file()
                if source.connector == "document"
                else path.name == RECORDS and name in path.read_text()
            )
            if is_there:
                row = {"kb_id": kb_id, "source_id": source.source_id, "external_id": name}
                return [DocumentView(known, row, [])]
    return []


def sync_quietly(world: World, source: SourceRow) -> None:
    """A sync that is part of another step and counts as none; what the step removed, a person removed.

    Raises: Mismatch: it failed.
    """
    row = world.store.catalog.source(source.kb_id, source.source_id)
    report = world.syncer.sync(row, accept_removals=True)
    if report.status != "ok":
        raise Mismatch(f"a sync that belongs to the step failed: {report.error}")


@step("restart", "embedder", "settings", "label")
def restart(world: World, args: Args) -> None:
    """Closes the product and opens it again, with another embedder or other settings where named."""
    model = _model(args["embedder"]) if args.get("embedder") else None
    world.restart(model, product_settings(args.get("settings") or {}))


@step("embedder", "name", "dims", bare="name")
def embedder(world: World, args: Args) -> None:
    """The stand-in embedder from now on."""
    world.restart(_model(args))


@step("embedder_stub", "name", "dims", bare="name")
def embedder_stub(world: World, args: Args) -> None:
    """The same: what it answers follows from the text."""
    world.restart(_model(args))


def _model(given: Any) -> str:
    known = {"name": given} if isinstance(given, str) else dict(given)
    unknown = sorted(set(known) - {"name", "dims"})
    if unknown:
        raise UnknownWord(f"unknown key in embedder: {', '.join(unknown)}")
    return f"fake:{known.get('name', 'cases')}:{known.get('dims', 64)}"


@step("crash_at", "stage", "kb", "label", bare="stage")
def crash_at(world: World, args: Args) -> None:
    """A sync killed in a stage: before its first document and, started again, after its first batch."""
    said = str(args["stage"]).lower()
    words = [*re.findall(r"[a-z_]+", said), *re.findall(r"[a-z]+", said)]
    stage = next((asset for word in words for asset, names in crash.STAGES.items() if word in names.split()), None)
    if stage is None:
        raise UnknownWord(f"crash_at: unknown stage {args['stage']!r}")
    points = ["begin"] if "before" in words else ["advance"] if "after" in words else ["begin", "advance"]
    kb_ids = [world.base(args["kb"]).kb_id] if args.get("kb") else list(world.bases.values())
    died = [crash.sync_and_die(world.settings, kb_ids, stage, point) for point in points]
    if not any(died):
        raise Mismatch(f"crash_at {args['stage']}: the sync never came to that stage")
    world.has_just_crashed = True


@step("repeat", "times", "steps")
def repeat(world: World, args: Args) -> None:
    """The same steps several times."""
    for _ in range(int(args.get("times", 1))):
        for entry in args["steps"]:
            run_step(world, entry)


@step("for_each_line", "file", "do", "label")
def for_each_line(world: World, args: Args) -> None:
    """Steps once for each line of a file: `{key}` stands for a field of a JSON line, `{line}` for the line."""
    for number, line in enumerate(world.file(args["file"]).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        fields = _fields(line)
        first = len(world.searches)
        for entry in as_entries(args["do"]):
            run_step(world, _with_fields(entry, {**fields, "line": line}))
        world.replies[str(fields.get("id", number))] = world.searches[first:]


def _fields(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _with_fields(value: Any, fields: dict[str, Any]) -> Any:
    if isinstance(value, str):
        for name, filling in fields.items():
            value = value.replace("{" + name + "}", str(filling))
        return value
    if isinstance(value, dict):
        return {key: _with_fields(below, fields) for key, below in value.items()}
    return [_with_fields(below, fields) for below in value] if isinstance(value, list) else value


def run_step(world: World, entry: object, number: int | None = None) -> None:
    """One step; marks the states around it for expectations that look back."""
    name, given = only(entry, "step")
    word = step_word(name)
    args = word.args(world.filled(given))
    before = len(world.history) - 1
    word.run(world, args)
    world.has_just_crashed = name == "crash_at"
    after = world.remember()
    marks = {f"label {args['label']}"} if args.get("label") else set()
    marks |= {f"step {name}"} | ({f"step {number}"} if number else set())
    marks |= {f"sync {len(world.syncs)}"} if name == "sync" else set()
    for mark in marks:
        world.marks[f"after {mark}"] = after
        world.marks.setdefault(f"before {mark}", before)
