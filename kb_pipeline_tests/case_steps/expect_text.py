"""Expectations on texts of documents and on how they were split."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from kb_pipeline.schemas import DOCUMENTS
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline_tests.case_steps.looking import WHEN, documents_meant, found_in, shown
from kb_pipeline_tests.case_steps.reading import DocumentView, contents, plain
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import World


@expectation(
    "text", "document", "kb", "contains", "contains_any", "not_contains", "count", "in_order", "same_chunk",
    "not_same_chunk", "exact_whitespace", "max_chars", "min_chars", "warning_mentions", "equals", *WHEN,
)  # fmt: skip
def text(world: World, args: Args) -> None:
    """The joined chunks of a document, or of all."""
    views = documents_meant(world, args)
    name, bare = args.get("document", "*"), world.case.compares_without_emphasis
    exact = bool(args.get("exact_whitespace"))
    whole = _exact(world, views) if exact else contents(views)

    def count(needle: object) -> int:
        return found_in(str(needle), whole, exact, bare)

    missing = [needle for needle in as_list(args.get("contains")) if not count(needle)]
    if missing:
        raise Mismatch(f"text of {name}: expected {missing}, found {shown(whole)!r}{_reasons(views)}")
    any_of = as_list(args.get("contains_any"))
    if any_of and not any(count(needle) for needle in any_of):
        raise Mismatch(f"text of {name}: expected one of {any_of}, found {shown(whole)!r}{_reasons(views)}")
    there = [needle for needle in as_list(args.get("not_contains")) if count(needle)]
    if there:
        raise Mismatch(f"text of {name}: expected without {there}, found {shown(_around(whole, str(there[0])))!r}")
    for needle, wanted in (args.get("count") or {}).items():
        expect_number(count(needle), wanted, f"text of {name}: times {needle!r}")
    _check_shape(args, views, whole, name, bare)


def _check_shape(args: Args, views: Sequence[DocumentView], whole: str, name: object, bare: bool) -> None:
    flat = plain(whole, bare)
    _check_order(args, flat, name, bare)
    for key, wanted in (("same_chunk", True), ("not_same_chunk", False)):
        for group in as_list(args.get(key)):
            if _is_together(views, as_list(group), bare) != wanted:
                raise Mismatch(f"text of {name}: {group} expected {'' if wanted else 'not '}in one chunk")
    if "max_chars" in args and len(whole) > args["max_chars"]:
        raise Mismatch(f"text of {name}: expected at most {args['max_chars']} characters, found {len(whole)}")
    if "min_chars" in args and len(whole) < args["min_chars"]:
        raise Mismatch(f"text of {name}: expected at least {args['min_chars']} characters, found {len(whole)}")
    if "equals" in args and flat != plain(str(args["equals"]), bare):
        raise Mismatch(f"text of {name}: expected {args['equals']!r}, found {shown(whole)!r}")
    warnings = " ".join(str(w) for view in views for w in view.row.get("warnings") or ()).lower()
    for mention in as_list(args.get("warning_mentions")):
        if str(mention).lower() not in warnings:
            raise Mismatch(f"warnings of {name}: expected a mention of {mention!r}, found {shown(warnings)!r}")


def _check_order(args: Args, flat: str, name: object, bare: bool) -> None:
    at = 0
    for needle in as_list(args.get("in_order")):
        found = flat.find(plain(str(needle), bare), at)
        if found < 0:
            raise Mismatch(f"text of {name}: expected {args['in_order']} in order, {needle!r} is not")
        at = found + len(plain(str(needle), bare))


def _is_together(views: Sequence[DocumentView], group: Sequence[object], bare: bool) -> bool:
    texts = [chunk["text"] for view in views for chunk in view.chunks]
    return any(all(found_in(str(each), text, without_emphasis=bare) for each in group) for text in texts)


def _reasons(views: Sequence[DocumentView]) -> str:
    reasons = [f"{view.status}: {view.row.get('error')}" for view in views if view.row.get("error")]
    return f" ({shown('; '.join(reasons))})" if reasons else ""


def _around(text: str, needle: str) -> str:
    at = text.find(needle)
    return text[max(0, at - 40) : at + 80] if at >= 0 else text


def _exact(world: World, views: Sequence[DocumentView]) -> str:
    """The stored text from the first chunk to the end of the last; every chunk must be what stands there."""
    parts = []
    for view in views:
        stored = str(stored_document(world, view).get("text", ""))
        for chunk in view.chunks:
            if stored[chunk["start_char"] : chunk["end_char"]] != chunk["text"]:
                raise Mismatch(f"{view.name}: chunk {chunk['chunk_idx']} is not the text at its offsets")
        parts.append(stored[view.chunks[0]["start_char"] : view.chunks[-1]["end_char"]] if view.chunks else "")
    return "\n\n".join(parts)


def stored_document(world: World, view: DocumentView) -> Mapping[str, Any]:
    """The documents row of a document; empty if there is none."""
    if "kb_id" not in view.row:
        return {}
    source: SourceRow = world.store.catalog.source(view.row["kb_id"], view.row["source_id"])
    for table in world.store.dataset(DOCUMENTS, source).scan([view.row["document_id"]]):
        for row in table.to_pylist():
            return dict(row)
    return {}


@expectation("title", "document", "kb", "equals", "or_equals", "contains", "not_contains", *WHEN)
def title(world: World, args: Args) -> None:
    """The title people see."""
    found = str(documents_meant(world, args)[0].row.get("title") or "")
    allowed = [plain(str(each)) for key in ("equals", "or_equals") for each in as_list(args.get(key))]
    if allowed and plain(found) not in allowed:
        raise Mismatch(f"title of {args['document']}: expected {' or '.join(map(repr, allowed))}, found {found!r}")
    for needle in as_list(args.get("contains")):
        if not found_in(str(needle), found):
            raise Mismatch(f"title of {args['document']}: expected {needle!r} in it, found {found!r}")
    for needle in as_list(args.get("not_contains")):
        if found_in(str(needle), found):
            raise Mismatch(f"title of {args['document']}: expected without {needle!r}, found {found!r}")


def is_mark(character: str) -> bool:
    """True for a character that belongs to the one before it."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me")
