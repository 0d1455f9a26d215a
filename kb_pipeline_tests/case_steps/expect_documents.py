"""Expectations on documents: how many live, what is known of one, what became of one."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from kb_pipeline_tests.case_steps.expect_text import stored_document
from kb_pipeline_tests.case_steps.looking import WHEN, documents_meant, state
from kb_pipeline_tests.case_steps.reading import DocumentView, Snapshot, name_rank, plain, urlsplit_path
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import World

_STATES = ("ready", "failed", "archived", "pending")


@expectation(
    "documents", "kb", "source", "live", "total", "unchanged", "never_lost", "includes", "excludes", *_STATES, *WHEN,
)  # fmt: skip
def documents(world: World, args: Args) -> None:
    """How many documents live (are listed and retrievable), of a base, a source, or all."""
    snapshot = state(world, args)
    views = _of(snapshot, args)
    live = [view for view in views if view.is_live]
    if "live" in args:
        names = ", ".join(sorted(view.name for view in live)[:10])
        lost = "; ".join(
            f"{view.name}: {view.status} {view.row.get('error') or ''}".strip() for view in views if not view.is_live
        )
        expect_number(
            len(live),
            args["live"],
            f"live documents of {args.get('kb', 'all')} ({names}{' | not live: ' + lost if lost else ''})",
        )
    _check_states(args, views)
    _check_names(args, live)
    for name in as_list(args.get("never_lost")):
        _never_lost(world, str(name), args.get("kb"))
    if args.get("unchanged"):
        _unchanged(world, args)


def _check_states(args: Args, views: Sequence[DocumentView]) -> None:
    whose = f"documents of {args.get('kb', 'all')}"
    for status in _STATES:
        if status in args:
            expect_number(sum(view.status == status for view in views), args[status], f"{status} {whose}")
    if "total" in args:
        expect_number(sum(view.status != "archived" for view in views), args["total"], whose)


def _check_names(args: Args, live: Sequence[DocumentView]) -> None:
    for key, wanted in (("includes", True), ("excludes", False)):
        for name in as_list(args.get(key)):
            if any(view.rank_of(str(name)) is not None for view in live) != wanted:
                raise Mismatch(f"documents: expected {name!r} {'' if wanted else 'not '}to live")


def _of(snapshot: Snapshot, args: Args) -> list[DocumentView]:
    views = [view for view in snapshot.of(args.get("kb")) if view.row]
    if "kb" in args and args["kb"] not in {*snapshot.names.values()}:
        raise UnknownWord(f"documents: there is no kb {args['kb']!r}")
    if "source" not in args:
        return views
    sources = {
        s.source_id for s in snapshot.sources if name_rank(str(args["source"]), s.input, s.input, s.name) is not None
    }
    if not sources:
        raise Mismatch(f"documents: there is no source {args['source']!r}")
    return [view for view in views if view.row["source_id"] in sources]


def _never_lost(world: World, name: str, kb: object) -> None:
    was_there = False
    for number, snapshot in enumerate([*world.history, world.final]):
        lives = any(view.is_live for view in snapshot.find(name, kb))
        if was_there and not lives:
            raise Mismatch(f"documents: {name} was lost (state {number} of {len(world.history)})")
        was_there = was_there or lives
    if not was_there:
        raise Mismatch(f"documents: {name} never lived")


def _unchanged(world: World, args: Args) -> None:
    """Equal to the state before the first call as somebody; without one, after the first sync."""
    mark = world.marks.get("before step as", world.marks.get("after sync 1"))
    if mark is None:
        raise UnknownWord("documents: unchanged since when? there is neither a sync nor a call as somebody")
    before, after = (_facts(snapshot, args.get("kb")) for snapshot in (world.history[max(0, mark)], state(world, args)))
    if before != after:
        raise Mismatch(
            f"documents of {args.get('kb', 'all')}: expected unchanged, found {sorted(set(after) ^ set(before))[:4]}"
        )


def _facts(snapshot: Snapshot, kb: object) -> list[tuple[str, ...]]:
    bases = [
        (base.kb_id, base.scope, base.owner, base.client_id)
        for base in snapshot.bases
        if kb is None or snapshot.names[base.kb_id] == kb
    ]
    rows = [
        (view.row["document_id"], view.status, str(view.row["content_hash"]), view.text)
        for view in snapshot.of(kb)
        if view.row
    ]
    return sorted([*map(tuple, bases), *rows])


_FIELDS = {
    "source_url": "url", "url": "url", "link": "url", "canonical_url": "url", "author": "author", "title": "title",
    "published": "published_at", "published_at": "published_at", "date": "published_at",
    "partial_or_preview": "is_partial", "partial": "is_partial", "is_partial": "is_partial", "preview": "is_partial",
    "status": "status", "path": "external_id", "external_id": "external_id", "language": "language",
    "warnings": "warnings", "chunks": "chunks", "metadata": "metadata",
}  # fmt: skip
_STORED = {"language", "metadata"}


@expectation("document_field", "document", "kb", "field", "is", "is_not", "contains", "one_of", *WHEN)
def document_field(world: World, args: Args) -> None:
    """One thing known of a document."""
    view = documents_meant(world, args)[0]
    found = _field(world, view, str(args.get("field")))
    what = f"{args['field']} of {args['document']}"
    if "is" in args and not same_value(found, args["is"]):
        raise Mismatch(f"{what}: expected {args['is']!r}, found {found!r}")
    if "is_not" in args and same_value(found, args["is_not"]):
        raise Mismatch(f"{what}: expected anything but {args['is_not']!r}")
    if "one_of" in args and not any(same_value(found, each) for each in as_list(args["one_of"])):
        raise Mismatch(f"{what}: expected one of {args['one_of']!r}, found {found!r}")
    for needle in as_list(args.get("contains")):
        if str(needle) not in str(found):
            raise Mismatch(f"{what}: expected {needle!r} in it, found {found!r}")


def _field(world: World, view: DocumentView, field: str) -> object:
    """By the names of `_FIELDS`, else what its metadata holds under this name. Raises: UnknownWord."""
    name = _FIELDS.get(field)
    if name is not None and name not in _STORED:
        return view.row.get(name)
    row = stored_document(world, view)
    metadata = json.loads(row.get("metadata") or "{}")
    if name is None and field not in metadata:
        raise UnknownWord(f"document_field: unknown field {field!r}")
    return row.get(name) if name else metadata[field]


def same_value(found: object, wanted: object) -> bool:
    """Equal as a case writes it: times by moment (a bare date by its day), texts by their words, the rest by value."""
    if isinstance(found, datetime):
        moment = _moment(wanted)
        is_day = len(str(wanted)) == 10
        return moment is not None and (found.date() == moment.date() if is_day else found == moment)
    if isinstance(wanted, str):
        return plain(str(found if found is not None else "")) == plain(wanted)
    return found == wanted


def _moment(value: object) -> datetime | None:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@expectation("document_state", "document", "kb", "nth", "is", "is_not", *WHEN)
def document_state(world: World, args: Args) -> None:
    """What became of a document; `nth` is its n-th life under this name, counted by deletes in between."""
    for key, wanted in (("is", True), ("is_not", False)):
        for word in [part.strip() for part in str(args.get(key, "")).split(",") if part.strip()]:
            if _is(world, args, word.lower()) != wanted:
                raise Mismatch(
                    f"state of {args['document']}: {word} expected to be {wanted}, found {_shown(world, args)}"
                )


def _is(world: World, args: Args, word: str) -> bool:
    found = state(world, args).find(args["document"], args.get("kb"))
    if "nth" in args:
        found = _nth_life(world, args, found)
    is_retrievable = any(view.chunks for view in found)
    meanings = {
        "absent": not found,
        "archived": bool(found) and all(view.status == "archived" for view in found),
        "retrievable": is_retrievable,
        "not retrievable": not is_retrievable,
        "live": any(view.is_live for view in found),
        "gone": not is_retrievable and all(view.status == "archived" for view in found),
        "deleted": not is_retrievable and all(view.status == "archived" for view in found),
        "ready": any(view.status == "ready" for view in found),
        "failed": any(view.status == "failed" for view in found),
        "pending": any(view.status == "pending" for view in found),
    }
    if word not in meanings:
        raise UnknownWord(f"document_state: unknown state {word!r}")
    return meanings[word]


def _nth_life(world: World, args: Args, now: list[DocumentView]) -> list[DocumentView]:
    """The n-th life of a name. One that the same row took over is absent, unless a chunk of it is still there."""
    lives = [view for snapshot in world.history for view in _births(snapshot, args)]
    distinct: list[DocumentView] = []
    for view in lives:
        key = (view.row["document_id"], view.text)
        if key not in {(other.row["document_id"], other.text) for other in distinct}:
            distinct.append(view)
    number = int(args["nth"])
    if number > len(distinct):
        raise Mismatch(f"state of {args['document']}: there were {len(distinct)} of this name, not {number}")
    life = distinct[number - 1]
    old = {chunk["text"] for chunk in life.chunks}
    held = {chunk["text"]: view for view in state(world, args).documents for chunk in view.chunks}
    rests = [held[each] for each in old if each in held]
    if rests:
        return rests
    return [view for view in now if view.row["document_id"] == life.row["document_id"] and not view.chunks]


def _births(snapshot: Snapshot, args: Args) -> list[DocumentView]:
    return [view for view in snapshot.find(args["document"], args.get("kb")) if view.is_live]


def _shown(world: World, args: Args) -> str:
    found = state(world, args).find(args["document"], args.get("kb"))
    return ", ".join(f"{view.status} with {len(view.chunks)} retrievable chunks" for view in found) or "absent"


@expectation("media_or_links", "document", "kb", "if_kept_must_be", "never", "must_include", *WHEN)
def media_or_links(world: World, args: Args) -> None:
    """Addresses kept with a document: those of the names expected must be exactly these."""
    view = documents_meant(world, args)[0]
    row = stored_document(world, view)
    kept = {str(media["url"]) for media in row.get("media") or ()} | _links(view.text) | _links(_metadata(row))
    wanted = [str(each) for each in as_list(args.get("if_kept_must_be"))]
    by_name = {PurePosixPath(urlsplit_path(url)).name: url for url in wanted}
    for url in sorted(kept):
        right = by_name.get(PurePosixPath(urlsplit_path(url)).name)
        if right and url != right:
            raise Mismatch(f"links of {args['document']}: expected {right}, found {url}")
    for start in as_list(args.get("never")):
        for url in sorted({*kept, str(view.row.get("url") or "")}):
            if str(start) in url:
                raise Mismatch(f"links of {args['document']}: expected never {start}, found {url}")
    missing = [url for url in as_list(args.get("must_include")) if url not in kept]
    if missing:
        raise Mismatch(f"links of {args['document']}: expected {missing}, found {sorted(kept)}")


def _links(text: str) -> set[str]:
    return set(re.findall(r"https?://[^\s<>\"')\]]+", text)) | set(re.findall(r"\]\(([^)\s]+)\)", text))


def _metadata(row: Mapping[str, Any]) -> str:
    return json.dumps(json.loads(row.get("metadata") or "{}"), ensure_ascii=False)
