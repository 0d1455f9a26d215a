"""What expectations share: which state they look at, which documents and searches they mean."""

from collections.abc import Iterable

from kb_pipeline_tests.case_steps.reading import DocumentView, Snapshot, plain
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord
from kb_pipeline_tests.case_steps.world import Search, World

WHEN = ("after", "after_step", "before", "before_step")
SHOWN = 160


def state(world: World, args: Args) -> Snapshot:
    """The last state, or the one that after/before name: a label, a kind of step, the n-th sync or (…_step) step."""
    for key in WHEN:
        if key in args:
            side, is_step = key.partition("_")[0], key.endswith("_step")
            return world.history[max(0, _mark(world, side, args[key], is_step))]
    return world.final


def _mark(world: World, side: str, value: object, is_step: bool) -> int:
    if isinstance(value, int):
        names = [f"{side} step {value}" if is_step else f"{side} sync {value}"]
    else:
        names = [f"{side} label {value}", f"{side} step {value}"]
    for name in names:
        if name in world.marks:
            return world.marks[name]
    raise UnknownWord(f"no step, label or sync {value!r} to look back at")


def documents_meant(world: World, args: Args) -> list[DocumentView]:
    """Documents of `document` (`*` for all that are retrievable). Raises: Mismatch: none of this name."""
    name = args.get("document", "*")
    if world.split_alone:
        alone = [view for view in world.split_alone if name in ("*", view.row["external_id"])]
        if alone:
            return alone
    snapshot = state(world, args)
    if name == "*":
        return [view for view in snapshot.of(args.get("kb")) if view.chunks]
    found = snapshot.find(name, args.get("kb"))
    if not found:
        names = ", ".join(sorted({view.name for view in snapshot.of(args.get("kb"))})[:8]) or "none"
        raise Mismatch(f"there is no document {name!r} (there are: {names})")
    return found


def searches_meant(world: World, args: Args) -> list[Search]:
    """Searches by label, bases, query and mode. Raises: Mismatch: none."""
    found: Iterable[Search] = world.searches
    if "label" in args:
        found = [search for search in found if search.label == args["label"]]
    if "kbs" in args:
        found = [search for search in found if search.kbs == tuple(map(str, args["kbs"]))]
    if "kb" in args:
        found = [search for search in found if search.kbs == (() if args["kb"] is None else (str(args["kb"]),))]
    if "query" in args:
        found = [search for search in found if search.query == args["query"]]
    modes = args.get("mode") or args.get("modes")
    if modes:
        found = [search for search in found if search.mode in (modes if isinstance(modes, list) else [modes])]
    if not list(found):
        raise Mismatch("no search was made that this expectation could mean")
    return list(found)


def named(search: Search) -> str:
    """A search as failures name it."""
    label = f" {search.label!r}" if search.label else ""
    return f"search{label} {search.query[:50]!r} ({search.mode})"


def shown(text: str) -> str:
    """A text cut for a line of output."""
    text = plain(text)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def found_in(needle: str, text: str, exact: bool = False, without_emphasis: bool = False) -> int:
    """How often a string is in a text; white space runs are one space unless `exact`."""
    if exact:
        return text.count(needle)
    looked_for = plain(needle, without_emphasis)
    if not looked_for:  # white space or control characters alone: as they are
        return text.count(needle)
    return plain(text, without_emphasis).count(looked_for)
