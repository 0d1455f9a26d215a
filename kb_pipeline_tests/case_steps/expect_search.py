"""Expectations on searches: what came first, what is in and what is not, and that nothing broke."""

import re
from collections.abc import Sequence

from kb_pipeline.query import Hit, SearchResult
from kb_pipeline_tests.case_steps.looking import found_in, named, searches_meant, shown
from kb_pipeline_tests.case_steps.reading import name_rank
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import Search, World, refusal_of


def means(name: object, hit: Hit) -> bool:
    """True if a hit's document, or one with the same passage, has this title, name or address."""
    if name_rank(str(name), hit.external_id, hit.url, hit.document_title) is not None:
        return True
    return any(name_rank(str(name), None, place.url, place.document_title) is not None for place in hit.also_in)


CHECKS = (
    "top1", "top1_in", "top1_mentions", "includes", "excludes", "text_includes", "text_excludes", "text_count", "hits",
    "min_hits", "max_hits", "no_error", "max_seconds", "one_of", "never", "same_order_as", "same_set_as",
    "no_duplicates",
)  # fmt: skip
"""What can be expected of one search, however it was made."""


@expectation("search", "label", "kb", "kbs", "query", "mode", "modes", *CHECKS)
def search(world: World, args: Args) -> None:
    """Every search meant must be so, in each of its modes."""
    for made in searches_meant(world, args):
        check_search(world, made, args)


def check_search(world: World, made: Search, args: Args) -> None:
    """One search. One that ended in an error is only right where an outcome allows it."""
    if "one_of" in args:
        check_outcomes(world, made, as_list(args["one_of"]))
    if made.error is not None:
        if "one_of" in args and set(args) <= {"label", "kb", "kbs", "query", "q", "mode", "modes", "one_of"}:
            return
        raise Mismatch(f"{named(made)}: expected no error, found {type(made.error).__name__}: {made.error}")
    assert made.result is not None
    if "max_seconds" in args and made.seconds > args["max_seconds"]:
        raise Mismatch(f"{named(made)}: expected within {args['max_seconds']} s, took {made.seconds:.1f}")
    _check_first(made, args, made.result.hits)
    _check_members(made, args, made.result.hits)
    _check_passages(made, args, made.result.hits)
    _check_against(world, made, args, made.result)


def _check_first(made: Search, args: Args, hits: Sequence[Hit]) -> None:
    wanted = [*as_list(args.get("top1")), *as_list(args.get("top1_in"))]
    if wanted and not (hits and any(means(name, hits[0]) for name in wanted)):
        found = f"{hits[0].document_title!r} ({hits[0].source})" if hits else "nothing"
        raise Mismatch(f"{named(made)}: expected first {' or '.join(map(str, wanted))}, found {found}")
    for mention in as_list(args.get("top1_mentions")):
        if not hits or not found_in(str(mention), f"{hits[0].document_title}\n{hits[0].chunk_text}"):
            raise Mismatch(
                f"{named(made)}: expected {mention!r} first, found {[shown(h.chunk_text) for h in hits[:1]]}"
            )


def _check_members(made: Search, args: Args, hits: Sequence[Hit]) -> None:
    titles = [hit.document_title for hit in hits]
    for name in as_list(args.get("includes")):
        if not any(means(name, hit) for hit in hits):
            raise Mismatch(f"{named(made)}: expected {name!r} among the hits, found {titles}")
    for name in as_list(args.get("excludes")):
        if any(means(name, hit) for hit in hits):
            raise Mismatch(f"{named(made)}: expected {name!r} not among the hits, found {titles}")
    if "hits" in args:
        expect_number(len(hits), args["hits"], f"{named(made)}: hits")
    if len(hits) < args.get("min_hits", 0) or len(hits) > args.get("max_hits", len(hits)):
        raise Mismatch(
            f"{named(made)}: expected {args.get('min_hits', 0)}-{args.get('max_hits', '')} hits, found {len(hits)}"
        )
    if args.get("no_duplicates") and len({hit.chunk_id for hit in hits}) < len(hits):
        raise Mismatch(f"{named(made)}: a passage came twice")


def _check_passages(made: Search, args: Args, hits: Sequence[Hit]) -> None:
    passages = [hit.chunk_text for hit in hits]
    for needle in as_list(args.get("text_includes")):
        if not any(found_in(str(needle), passage) for passage in passages):
            raise Mismatch(
                f"{named(made)}: expected a passage with {needle!r}, found {[shown(p) for p in passages[:3]]}"
            )
    for needle in as_list(args.get("text_excludes")):
        if any(found_in(str(needle), passage) for passage in passages):
            raise Mismatch(f"{named(made)}: expected no passage with {needle!r}, and there is one")
    for needle, wanted in (args.get("text_count") or {}).items():
        expect_number(
            sum(found_in(str(needle), p) for p in passages), wanted, f"{named(made)}: times {needle!r} in the passages"
        )


def _check_against(world: World, made: Search, args: Args, result: SearchResult) -> None:
    found = [hit.chunk_id for hit in result.hits]
    for key in ("same_order_as", "same_set_as"):
        if key in args:
            other = searches_meant(world, {"label": args[key], "mode": made.mode})[0]
            wanted = [hit.chunk_id for hit in other.result.hits] if other.result else []
            if (found != wanted) if key == "same_order_as" else (set(found) != set(wanted)):
                raise Mismatch(f"{named(made)}: expected {key.replace('_', ' ')} {args[key]!r}, found other hits")
    for claim in as_list(args.get("never")):
        _check_never(made, str(claim), result)


def _check_never(made: Search, claim: str, result: SearchResult) -> None:
    """`vectors of A compared with a query vector of B …`: no hit ranked by a vector comes from a table of A."""
    models = re.match(r"vectors of ([\w.-]+) compared with a query vector of ([\w.-]+)", claim)
    if not models:
        raise UnknownWord(f"search: never {claim!r}")
    ranked = [hit for hit in result.hits if "dense" in hit.ranks or "cosine" in hit.scores]
    foreign = [hit.chunk_id for hit in ranked if hit.chunk_id not in made.own_chunks]
    if foreign:
        raise Mismatch(f"{named(made)}: {len(foreign)} passages of another model were ranked by their vectors")


def check_outcomes(world: World, made: Search, options: Sequence[object]) -> None:
    """One of several outcomes in words. Raises: Mismatch: none; UnknownWord: none, and a word that is not known."""
    unknown = []
    for option in options:
        try:
            if _is_outcome(world, made, str(option).lower().strip()):
                return
        except UnknownWord as word:
            unknown.append(word)
    if unknown:
        raise unknown[0]
    found = (
        f"{type(made.error).__name__}: {made.error}"
        if made.error
        else f"{len(made.result.hits) if made.result else 0} hits"
    )
    raise Mismatch(f"{named(made)}: expected {' or '.join(map(str, options))}, found {found}")


def _is_outcome(world: World, made: Search, option: str) -> bool:
    hits = made.result.hits if made.result else ()
    if option in ("no results", "no result", "empty result", "empty results", "empty", "no hits", "nothing"):
        return made.error is None and not hits
    if option in ("refused", "not found", "forbidden", "denied", "error", "clear error", "a clear error"):
        return made.error is not None and refusal_of(made.error)
    if option.startswith("clear error that names the query"):
        return made.error is not None and refusal_of(made.error) and "query" in str(made.error).lower()
    if match := re.fullmatch(r"only hits from (\S+)", option):
        return made.error is None and bool(hits) and all(world.kb_name(hit.kb_id).lower() == match[1] for hit in hits)
    raise UnknownWord(f"unknown outcome of a search: {option!r}")
