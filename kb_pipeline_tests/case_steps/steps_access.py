"""Calls made as somebody. Each call on a base also runs with an id that does not exist, to compare the answers."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kb_pipeline.errors import KbError
from kb_pipeline.lifecycle import sharing
from kb_pipeline.query import Caller
from kb_pipeline.query.scope import Scope, scope_of
from kb_pipeline_tests.case_steps.reading import DocumentView
from kb_pipeline_tests.case_steps.steps_life import delete_as, document_for, sync_quietly
from kb_pipeline_tests.case_steps.steps_sources import files_named, put_file
from kb_pipeline_tests.case_steps.steps_use import known_as, one_search
from kb_pipeline_tests.case_steps.vocabulary import (
    LATER_STEPS,
    Args,
    NotSupportedYet,
    UnknownWord,
    as_list,
    only,
    step,
)
from kb_pipeline_tests.case_steps.world import NO_BASE, NO_DOCUMENT, Call, World, refusal_of

Answer = tuple[list[str], list[str]]
"""(texts, titles) a call gave back."""
_KEYS: dict[str, tuple[str, frozenset[str]]] = {
    "search": ("query", frozenset({"query", "kb", "kbs", "top_k", "mode", "modes", "label"})),
    "get_document": ("document", frozenset({"document", "kb"})),
    "get_chunk": ("chunk", frozenset({"chunk", "document", "kb"})),
    "list_documents": ("kb", frozenset({"kb"})),
    "list_kbs": ("kb", frozenset()),
    "delete_document": ("document", frozenset({"document", "kb"})),
    "replace": ("document", frozenset({"document", "path", "file", "kb"})),
    "upload": ("file", frozenset({"kb", "file", "name"})),
    "reingest": ("document", frozenset({"document", "kb"})),
    "set_scope": ("kb", frozenset({"kb", "scope", "owner", "account"})),
}


@step("as", "user", "account", "calls")
def act_as(world: World, args: Args) -> None:
    """Every call is made and its answer kept, whatever it is."""
    who = str(args.get("user") or "") + (f"@{args['account']}" if args.get("account") else "")
    caller = world.caller(who)
    for entry in as_list(args.get("calls")):
        name, given = only(entry, "call")
        bases = _bases_of(world, given)
        if name in LATER_STEPS and name not in CALLS:
            world.unsupported.append(str(NotSupportedYet(name)))
            continue
        if name not in CALLS:
            raise UnknownWord(f"unknown call: {name}")
        arguments = _arguments(name, given)
        twin = _made(world, name, _twin(world, arguments), (), caller) if len(bases) == 1 else None
        made = _made(world, name, arguments, bases, caller)
        world.calls.append(Call(**{**made.__dict__, "twin": twin}))


def _arguments(name: str, given: object) -> dict[str, Any]:
    bare, keys = _KEYS[name]
    arguments = dict(given) if isinstance(given, Mapping) else {bare: given}
    unknown = sorted(set(arguments) - keys - {bare})
    if unknown:
        raise UnknownWord(f"unknown key in call {name}: {', '.join(unknown)}")
    return arguments


def _bases_of(world: World, given: object) -> tuple[str, ...]:
    """The bases of the case that a call aims at, by their own name or through a document in them."""
    values = [given] if isinstance(given, str) else []
    if isinstance(given, Mapping):
        values = [*as_list(given.get("kbs")), given.get("kb")]
        values += [given.get(key) for key in ("document", "path", "chunk")] if given.get("kb") is None else []
    found = []
    for value in values:
        name = str(value or "").removeprefix("first of ")
        if name in world.bases:
            found.append(name)
        elif name:
            found += [view.kb for view in world.now().find(name)]
    return tuple(dict.fromkeys(found))


def _twin(world: World, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same call on something that does not exist."""
    changed = dict(arguments)
    if changed.get("kbs"):
        changed["kbs"] = [NO_BASE]
    elif changed.get("kb") is not None:
        changed["kb"] = NO_BASE
    else:
        for key in ("document", "path", "chunk"):
            if key in changed:
                changed[key] = f"first of {NO_DOCUMENT}" if str(changed[key]).startswith("first of ") else NO_DOCUMENT
    return changed


def _made(world: World, name: str, arguments: dict[str, Any], bases: tuple[str, ...], caller: Caller) -> Call:
    try:
        texts, titles = CALLS[name](world, arguments, caller)
    except NotSupportedYet as error:
        world.unsupported.append(str(error))
        return Call(name=name, args=arguments, bases=())
    except Exception as error:  # noqa: BLE001 - the answer to a hostile call is what the case is about
        if not refusal_of(error):
            world.crashes.append(f"call {name}: {type(error).__name__}: {error}")
        return Call(name=name, args=arguments, bases=bases, error=error)
    return Call(name=name, args=arguments, bases=bases, texts=tuple(texts), titles=tuple(titles))


def _search(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    texts: list[str] = []
    titles: list[str] = []
    for mode in as_list(arguments.get("modes")) or as_list(arguments.get("mode")) or ["hybrid"]:
        made = one_search(world, arguments, str(mode), caller)
        world.searches.append(made)
        if made.error:
            raise made.error
        assert made.result is not None
        texts.append(json.dumps(made.result.to_json(), ensure_ascii=False))
        titles += [title for hit in made.result.hits for title in (hit.document_title, hit.source, hit.external_id)]
    return texts, titles


def _visible(world: World, name: object, caller: Caller) -> Scope:
    return scope_of(
        world.store.catalog.visible(caller.user_id, caller.client_id, caller.is_operator),
        known_as(world, str(name), caller),
    )


def _get_document(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    view = document_for(world, str(arguments["document"]), arguments.get("kb"), caller)
    return [view.text], [view.name]


def _get_chunk(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    name = str(arguments.get("document") or arguments.get("chunk")).removeprefix("first of ")
    view = document_for(world, name, arguments.get("kb"), caller)
    return [str(chunk["text"]) for chunk in view.chunks[:1]], [view.name]


def _list_documents(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    scope = _visible(world, arguments["kb"], caller)
    rows = [row for kb_id in scope.kb_ids for row in world.store.documents.rows(kb_id)]
    return [], [str(row[field]) for row in rows for field in ("title", "external_id")]


def _list_kbs(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    seen = world.store.catalog.visible(caller.user_id, caller.client_id, caller.is_operator)
    return [], [base.name for base in seen]


def _delete_document(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    delete_as(world, str(arguments["document"]), arguments.get("kb"), caller)
    return [], []


def _replace(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    name = str(arguments.get("document") or arguments.get("path"))
    view: DocumentView = document_for(world, name, arguments.get("kb"), caller)
    base = world.base_to_write(view.row["kb_id"], caller)
    content = world.file(arguments["file"]).read_bytes() if arguments.get("file") else b"replaced"
    paths: list[Path] = files_named(world, base, str(view.row["external_id"]))
    for path in paths:
        path.write_bytes(content)
    return [], []


def _upload(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    name = known_as(world, str(arguments["kb"]), caller)
    base = world.base_to_write(name, caller)
    who = f"{caller.user_id or ''}@{caller.client_id or ''}"
    put_file(
        world,
        {"kb": base.kb_id, "as": who},
        world.file(arguments["file"]),
        str(arguments.get("name") or arguments["file"]),
    )
    return [], []


def _reingest(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    """Refused for what is not theirs; for what is, the product has no such call."""
    view = document_for(world, str(arguments["document"]), arguments.get("kb"), caller)
    world.base_to_write(view.row["kb_id"], caller)
    raise NotSupportedYet("reingest")


def _set_scope(world: World, arguments: dict[str, Any], caller: Caller) -> Answer:
    base = world.base_to_write(known_as(world, str(arguments["kb"]), caller), caller)
    owner, account = arguments.get("owner"), arguments.get("account")
    if owner and account:
        world.accounts[str(owner)] = str(account)
    sharing.set_scope(world.store, base.kb_id, arguments["scope"], owner=owner, client_id=account)
    for source in world.store.catalog.sources(base.kb_id):
        sync_quietly(world, source)
    return [], []


@step("set_scope", "kb", "scope", "owner", "account", "as", "label")
def set_scope(world: World, args: Args) -> None:
    """Another scope, owner or account, and the sync that brings the base to them."""
    try:
        _set_scope(world, dict(args), world.caller(args.get("as")))
    except KbError as refusal:
        world.refusals[str(args["kb"])] = str(refusal)


CALLS: dict[str, Callable[[World, dict[str, Any], Caller], Answer]] = {
    "search": _search, "get_document": _get_document, "get_chunk": _get_chunk, "list_documents": _list_documents,
    "list_kbs": _list_kbs, "delete_document": _delete_document, "replace": _replace, "upload": _upload,
    "reingest": _reingest, "set_scope": _set_scope,
}  # fmt: skip
