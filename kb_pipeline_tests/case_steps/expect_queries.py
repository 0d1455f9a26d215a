"""Expectations on many searches at once, and on what a search cites."""

from collections.abc import Sequence

from kb_pipeline.query import OPERATOR, Source
from kb_pipeline_tests.case_steps.expect_documents import same_value
from kb_pipeline_tests.case_steps.expect_search import CHECKS, check_search, means
from kb_pipeline_tests.case_steps.looking import named, searches_meant
from kb_pipeline_tests.case_steps.reading import plain
from kb_pipeline_tests.case_steps.steps_use import one_search
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import Search, World


def _queries(world: World, args: Args) -> list[Search]:
    """Searches made from lines of a file, of the modes named. Raises: Mismatch: none."""
    modes = as_list(args.get("mode")) or as_list(args.get("modes"))
    found = [s for s in world.searches if s.wanted is not None and (not modes or s.mode in modes)]
    if not found:
        raise Mismatch("no query of a file was made that this expectation could mean")
    return found


@expectation("each_query", "mode", "modes", *CHECKS)
def each_query(world: World, args: Args) -> None:
    """Every query of a file. Where an empty query is refused clearly, that is no error."""
    for made in _queries(world, args):
        if made.error is not None and not made.query.strip() and not world.crashes:
            continue
        check_search(world, made, {key: value for key, value in args.items() if key not in ("mode", "modes")})


@expectation(
    "each_query_with_want",
    "mode",
    "modes",
    "want_in_top",
    "want_top1",
    "want_top1_share",
    "want_in_top_share",
    "no_error",
)
def each_query_with_want(world: World, args: Args) -> None:
    """Every query of a file that says what it wants."""
    wanting = [made for made in _queries(world, args) if made.wanted and made.wanted.get("want") is not None]
    if not wanting:
        raise Mismatch("no query says what it wants")
    depth = int(args.get("want_in_top") or 1)
    missed = [made for made in wanting if not _has(made, depth)]
    share = args.get("want_top1_share") if "want_top1_share" in args else args.get("want_in_top_share")
    if share is None and ("want_in_top" in args or args.get("want_top1")) and missed:
        shown = "; ".join(f"{named(made)} wants {made.wanted['want'] if made.wanted else ''}" for made in missed[:3])
        raise Mismatch(
            f"expected every wanted document in the first {depth}, missed {len(missed)} of {len(wanting)}: {shown}"
        )
    if share is not None and len(missed) > (1 - float(share)) * len(wanting) + 1e-9:
        raise Mismatch(
            f"expected {share} of the wanted documents in the first {depth}, missed {len(missed)} of {len(wanting)}"
        )


def _has(made: Search, depth: int) -> bool:
    wanted = as_list(made.wanted["want"]) if made.wanted else []
    return made.result is not None and any(means(name, hit) for name in wanted for hit in made.result.hits[:depth])


@expectation("query", "q", "mode", "modes", *CHECKS)
def query(world: World, args: Args) -> None:
    """The queries of a file with exactly these words."""
    found = [made for made in _queries(world, args) if made.query == str(args["q"])]
    if not found:
        raise Mismatch(f"there is no query {args['q']!r}")
    for made in found:
        check_search(world, made, {key: value for key, value in args.items() if key not in ("q", "mode", "modes")})


@expectation("each_reply", *CHECKS)
def each_reply(world: World, args: Args) -> None:
    """Every search made for a line of a file."""
    _check_replies(world, list(world.replies), args)


@expectation("reply", "ids", *CHECKS)
def reply(world: World, args: Args) -> None:
    """Searches made for the lines with these ids."""
    _check_replies(
        world, [str(each) for each in as_list(args["ids"])], {key: value for key, value in args.items() if key != "ids"}
    )


def _check_replies(world: World, ids: Sequence[str], args: Args) -> None:
    found = [made for each in ids for made in world.replies.get(each, [])]
    if not found:
        raise Mismatch("no search was made for a line of a file")
    for made in found:
        check_search(world, made, args)


_SOURCE_FIELDS = {
    "number": "number", "document": "document", "title": "document", "kb": "kbName", "score": "relevanceScore",
    "text": "text", "url_or_path": "source", "source": "source", "url": "url", "page": "page", "slide": "page",
    "slide_or_page": "page", "page_or_slide": "page", "start_seconds": "start_seconds", "document_id": "document_id",
}  # fmt: skip


@expectation("citation_field", "query", "kb", "label", "document", "field", "is", "contains", "if_kept", "top_k")
def citation_field(world: World, args: Args) -> None:
    """A field of the citation that a search gives: of the document named, else of the first with the query's words."""
    field = _SOURCE_FIELDS.get(str(args.get("field")))
    if field is None:
        raise UnknownWord(f"citation_field: unknown field {args.get('field')!r}")
    made = (
        searches_meant(world, {"label": args["label"]})[0]
        if "label" in args
        else one_search(world, args, "hybrid", OPERATOR)
    )
    if made.result is None or not made.result.sources:
        raise Mismatch(f"{named(made)}: expected a citation, found none")
    source = _cited(made, args)
    found = getattr(source, field)
    if found is None and args.get("if_kept"):
        return
    what = f"{args['field']} cited by {named(made)}"
    if "is" in args and not same_value(found, args["is"]):
        raise Mismatch(f"{what}: expected {args['is']!r}, found {found!r}")
    for needle in as_list(args.get("contains")):
        if str(needle) not in str(found):
            raise Mismatch(f"{what}: expected {needle!r} in it, found {found!r}")


def _cited(made: Search, args: Args) -> Source:
    assert made.result is not None
    sources = made.result.sources
    if "document" in args:
        sources = tuple(s for s, hit in zip(sources, made.result.hits, strict=True) if means(args["document"], hit))
        if not sources:
            raise Mismatch(f"{named(made)}: {args['document']!r} is not cited")
    exact = [s for s in sources if plain(made.query).lower() in plain(s.text).lower()]
    return (exact or list(sources))[0]


@expectation(
    "citations",
    "label",
    "query",
    "kb",
    "sources",
    "includes",
    "excludes",
    "count",
    "source_fields",
    "source_text_is_substring_of_document",
)
def citations(world: World, args: Args) -> None:
    """The numbered sources of a search: 1, 2, 3 …, each with its passage."""
    for made in searches_meant(world, {key: args[key] for key in ("label", "query", "kb") if key in args}):
        if made.result is None:
            raise Mismatch(f"{named(made)}: expected citations, found {made.error}")
        sources = made.result.sources
        if [s.number for s in sources] != list(range(1, len(sources) + 1)):
            raise Mismatch(f"{named(made)}: expected sources numbered from 1, found {[s.number for s in sources]}")
        _check_cited(world, args, made, sources)


def _check_cited(world: World, args: Args, made: Search, sources: Sequence[Source]) -> None:
    _check_who_is_cited(args, made, sources)
    if "count" in args:
        expect_number(len(sources), args["count"], f"{named(made)}: sources")
    for field in as_list(args.get("source_fields")):
        if str(field) not in _SOURCE_FIELDS:
            raise UnknownWord(f"citations: unknown field {field!r}")
        if any(getattr(s, _SOURCE_FIELDS[str(field)]) in (None, "") for s in sources):
            raise Mismatch(f"{named(made)}: a source has no {field}")
    if args.get("source_text_is_substring_of_document"):
        texts = {view.row["document_id"]: plain(view.text) for view in world.final.documents if view.row}
        for s in sources:
            if plain(s.text) not in texts.get(s.document_id, ""):
                raise Mismatch(f"{named(made)}: the text of source {s.number} is not in its document")


def _check_who_is_cited(args: Args, made: Search, sources: Sequence[Source]) -> None:
    hits = made.result.hits if made.result else ()
    found = [s.source for s in sources]
    wanted = as_list(args.get("sources"))
    for name in [*wanted, *as_list(args.get("includes"))]:
        if not any(means(name, hit) for hit in hits):
            raise Mismatch(f"{named(made)}: expected {name!r} among the sources, found {found}")
    if wanted and not all(any(means(name, hit) for name in wanted) for hit in hits):
        raise Mismatch(f"{named(made)}: expected only {wanted} as sources, found {found}")
    for name in as_list(args.get("excludes")):
        if any(means(name, hit) for hit in hits):
            raise Mismatch(f"{named(made)}: expected {name!r} not among the sources, found {found}")
