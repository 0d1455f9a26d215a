"""Expectations on what happened around the product: requests, files, time and memory, a change of model."""

from pathlib import Path

from kb_pipeline.records import vector_space_of
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import World, refusal_of

_ABSENT = ("not_exists", "must_not_exist", "absent", "never_created", "not_created")
_OUTSIDE = ("nothing_outside", "nothing_outside_home", "no_file_outside", "no_files_outside")


@expectation(
    "requests",
    "never_to",
    "canary_hits",
    "count",
    "max_count",
    "at_most",
    "max_total",
    "must_include",
    "user_agent_mentions",
)
def requests(world: World, args: Args) -> None:
    """What was asked of the stub and of the canary, and which addresses were connected to."""
    seen = [*(request.address for request in world.stub.requests), *world.connections.seen]
    for address in as_list(args.get("never_to")):
        hits = [each for each in seen if _is_below(each, str(world.filled(address)))]
        if hits:
            raise Mismatch(f"requests: expected never to {address}, found {hits[:3]}")
    if "canary_hits" in args:
        if world.canary is None:
            raise Mismatch("requests: there is no canary to be hit")
        expect_number(len(world.canary.requests), args["canary_hits"], "requests: hits of the canary")
    for mention in as_list(args.get("user_agent_mentions")):
        if not all(str(mention) in request.headers.get("user-agent", "") for request in world.stub.requests):
            raise Mismatch(f"requests: expected {mention!r} in every User-Agent")
    _check_hits(world, args)


def _check_hits(world: World, args: Args) -> None:
    for url, wanted in (args.get("count") or {}).items():
        expect_number(world.stub.hits(str(url)), wanted, f"requests to {url}")
    if "max_total" in args and len(world.stub.requests) > args["max_total"]:
        raise Mismatch(f"requests: expected at most {args['max_total']}, found {len(world.stub.requests)}")
    for url, most in {**(args.get("max_count") or {}), **(args.get("at_most") or {})}.items():
        if world.stub.hits(str(url)) > most:
            raise Mismatch(f"requests to {url}: expected at most {most}, found {world.stub.hits(str(url))}")
    for url in as_list(args.get("must_include")):
        if not world.stub.hits(str(url)):
            raise Mismatch(f"requests: expected one to {url}, found none")


def _is_below(seen: str, address: str) -> bool:
    """True if a request was to this address or below it."""
    plain = address.removeprefix("https://").removeprefix("http://")
    return seen == plain or seen.startswith(plain if plain.endswith("/") else f"{plain}/")


@expectation("filesystem", *_ABSENT, *_OUTSIDE, "exists")
def filesystem(world: World, args: Args) -> None:
    """Files that must not have appeared; a relative path is tried from every place the product works in."""
    places = [
        world.root,
        world.root / "home",
        Path.cwd(),
        *(p for p in (world.root / "files").rglob("*") if p.is_dir()),
    ]
    for name in [each for key in _ABSENT for each in as_list(args.get(key))]:
        found = [place / str(name) for place in places if (place / str(name)).exists()]
        if found:
            raise Mismatch(f"filesystem: expected no {name}, found it")
    for name in as_list(args.get("exists")):
        if not any((place / str(name)).exists() for place in places):
            raise Mismatch(f"filesystem: expected {name}, and it is not there")
    if any(args.get(key) for key in _OUTSIDE):
        foreign = sorted(path.name for path in world.root.iterdir() if path.name not in ("home", "files", "filled"))
        if foreign:
            raise Mismatch(f"filesystem: expected nothing outside the home, found {foreign}")


@expectation("limits", "seconds", "seconds_without_embedding", "peak_mb_above_idle", "max_bytes_read_per_url")
def limits(world: World, args: Args) -> None:
    """All steps together. The stand-in embedder costs next to nothing, so time without it is the whole time."""
    for key in ("seconds", "seconds_without_embedding"):
        if key in args and world.watch.seconds > args[key]:
            raise Mismatch(f"limits: expected within {args[key]} s, took {world.watch.seconds:.1f}")
    if "peak_mb_above_idle" in args and world.watch.above_idle_mb > args["peak_mb_above_idle"]:
        raise Mismatch(
            f"limits: expected {args['peak_mb_above_idle']} MB above idle, found {world.watch.above_idle_mb:.0f}"
        )
    most = args.get("max_bytes_read_per_url")
    for url in world.case.served_urls() if most is not None else ():
        if world.stub.bytes_sent(url) > most:
            raise Mismatch(f"limits: expected at most {most} bytes read of {url}, found {world.stub.bytes_sent(url)}")


@expectation("no_crash", "is", bare="is")
def no_crash(world: World, args: Args) -> None:
    """Nothing ended in an error that was not foreseen; the runner checks that for every case."""
    if args.get("is") is not True:
        raise UnknownWord(f"no_crash: {args.get('is')!r}")
    bugs = [str(view.row["error"]) for view in world.final.documents if view.row.get("error_kind") == "bug"]
    if world.crashes or bugs:
        raise Mismatch(f"expected no crash, found {(world.crashes + bugs)[0]}")


@expectation("clear_error", "at", "mentions")
def clear_error(world: World, args: Args) -> None:
    """Some call was refused, or a sync failed, in words that mention all of these."""
    said = [str(s.error) for s in world.searches if s.error and refusal_of(s.error)]
    said += [error for made in world.syncs for error in made.errors]
    wanted = [str(each).lower() for each in as_list(args.get("mentions"))]
    if not any(all(mention in text.lower() for mention in wanted) for text in said):
        raise Mismatch(f"expected a clear error that mentions {wanted}, found {said[:2] or 'none'}")


@expectation("automatic", "what", bare="what")
def automatic(world: World, args: Args) -> None:
    """`all documents are re-embedded before being compared`: in the end search reads vectors of the model in use."""
    if "re-embedded" not in str(args.get("what", "")):
        raise UnknownWord(f"automatic: {args.get('what')!r}")
    own = world.embedder.space.vector_space_id
    for view in world.final.documents:
        if view.is_live and {vector_space_of(space) for space in view.spaces} != {own}:
            raise Mismatch(f"{view.name}: expected vectors of {own} alone, found {sorted(view.spaces)}")
    for made in world.searches:
        foreign = (
            [h for h in made.result.hits if "dense" in h.ranks and h.chunk_id not in made.own_chunks]
            if made.result
            else []
        )
        if foreign:
            raise Mismatch(
                f"search {made.query!r}: {len(foreign)} passages of another model were ranked by their vectors"
            )
