"""Expectations on how it went: status of files, addresses and syncs, reports of syncs."""

from dataclasses import dataclass

from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline_tests.case_steps.looking import WHEN, shown, state
from kb_pipeline_tests.case_steps.reading import WORKING, DocumentView, Snapshot, name_rank
from kb_pipeline_tests.case_steps.vocabulary import Args, Mismatch, UnknownWord, as_list, expect_number, expectation
from kb_pipeline_tests.case_steps.world import Sync, World

_STATES = ("ready", "failed", "skipped", "ready with warnings", "archived", "pending")


@dataclass(frozen=True)
class Outcome:
    """The states that truly describe a thing, and what was said about it."""

    states: frozenset[str]
    said: str


@expectation(
    "status", "file", "document", "url", "source", "sync", "kb", "state", "or_state", "error_mentions",
    "error_must_not_mention", "warning_mentions", *WHEN,
)  # fmt: skip
def status(world: World, args: Args) -> None:
    """State of one file, address or sync; what it says is looked at without regard to case."""
    name, outcome = _outcome(world, args)
    check_outcome(name, outcome, args)


def check_outcome(name: str, outcome: Outcome, args: Args) -> None:
    """Raises: Mismatch: another state, a mention that is missing or must not be."""
    wanted = [str(each) for key in ("state", "or_state") for each in as_list(args.get(key))]
    unknown = [each for each in wanted if each not in _STATES]
    if unknown:
        raise UnknownWord(f"status: unknown state {', '.join(unknown)}")
    said = f": {shown(outcome.said)}" if outcome.said else ""
    if wanted and not outcome.states & set(wanted):
        raise Mismatch(
            f"status of {name}: expected {' or '.join(wanted)}, found {'/'.join(sorted(outcome.states))}{said}"
        )
    has_failed = bool(outcome.states & {"failed", "skipped"})
    if args.get("error_mentions") and not has_failed:
        raise Mismatch(f"status of {name}: expected an error, found {'/'.join(sorted(outcome.states))}")
    for key, wanted_there in (("error_mentions", True), ("warning_mentions", True), ("error_must_not_mention", False)):
        for mention in as_list(args.get(key)):
            if (str(mention).lower() in outcome.said.lower()) != wanted_there:
                what = "a mention of" if wanted_there else "no mention of"
                raise Mismatch(f"status of {name}: expected {what} {mention!r}, found {shown(outcome.said)!r}")


def _outcome(world: World, args: Args) -> tuple[str, Outcome]:
    snapshot = state(world, args)
    if "sync" in args:
        made = sync_meant(world, args["sync"])
        return f"sync {args['sync']}", Outcome(
            frozenset({"failed" if made.errors else "ready"}), "; ".join(made.errors)
        )
    name = next((str(args[key]) for key in ("file", "document", "url", "source") if key in args), None)
    if name is None:
        raise UnknownWord("status names neither file nor document, url, source or sync")
    if "url" in args or "source" in args:
        return name, of_address(world, snapshot, name)
    return name, _of_file(world, snapshot, name, args)


def _of_file(world: World, snapshot: Snapshot, name: str, args: Args) -> Outcome:
    found = snapshot.find(name, args.get("kb"))
    if name in world.refusals and not any(view.is_live for view in found):
        return Outcome(frozenset({"failed", "skipped"}), world.refusals[name])
    if found:
        return _of_document(found[0])
    if any(path.name == name or str(path).endswith("/" + name) for path in (world.root / "files").rglob("*")):
        return Outcome(frozenset({"skipped"}), "")
    raise Mismatch(f"status of {name}: there is no such document")


def of_address(world: World, snapshot: Snapshot, url: str) -> Outcome:
    """Of a source: failed if adding or listing it failed, else as its one document; of a document with this address."""
    if url in world.refusals:
        return Outcome(frozenset({"failed", "skipped"}), world.refusals[url])
    sources = [s for s in snapshot.sources if name_rank(url, s.input, s.input, s.name) is not None]
    for source in sources:
        if source.status == "failed":
            return Outcome(frozenset({"failed"}), str(source.error))
        if source.connector == "url":
            own = [v for v in snapshot.documents if v.row.get("source_id") == source.source_id] or _elsewhere(
                snapshot, source
            )
            return _of_document(own[0]) if own else Outcome(frozenset({"skipped"}), "")
        return Outcome(frozenset({source.status}), "")
    found = snapshot.find(url)
    if not found:
        raise Mismatch(f"status of {url}: it is neither a source nor the address of a document")
    return _of_document(found[0])


def _elsewhere(snapshot: Snapshot, source: SourceRow) -> list[DocumentView]:
    """The page of a source that another source of the base brings already."""
    return [view for view in snapshot.find(source.input) if view.row["kb_id"] == source.kb_id]


def _of_document(view: DocumentView) -> Outcome:
    warnings = "; ".join(str(each) for each in view.row.get("warnings") or ())
    if view.status == "ready":
        return Outcome(frozenset({"ready", "ready with warnings"} if warnings else {"ready"}), warnings)
    if view.status == "failed":
        states = {"failed", "skipped"} if view.row.get("error_kind") == "unsupported" else {"failed"}
        return Outcome(frozenset(states), str(view.row.get("error") or ""))
    return Outcome(frozenset({"pending" if view.status in WORKING else view.status}), "")


@expectation("each_url", "except", "state", "or_state", "error_mentions", "error_must_not_mention")
def each_url(world: World, args: Args) -> None:
    """Every address given by add_url_each."""
    spared = {str(each) for each in as_list(args.get("except"))}
    if not world.given_urls:
        raise Mismatch("each_url: no address was given")
    rest = {key: value for key, value in args.items() if key != "except"}
    for url in world.given_urls:
        if url not in {world.filled(each) for each in spared}:
            check_outcome(url, of_address(world, world.final, url), rest)


@expectation("no_status_left", "states", bare="states")
def no_status_left(world: World, args: Args) -> None:
    """No document is in one of these states."""
    words = {str(each) for each in as_list(args["states"])}
    words |= set(WORKING) if words & {"processing", "queued", "running", "in progress"} else set()
    left = [f"{view.name}: {view.status}" for view in world.final.documents if view.row and view.status in words]
    if left:
        raise Mismatch(f"expected no document left in {sorted(words)}, found {left[:5]}")


def sync_meant(world: World, which: object) -> Sync:
    """The n-th sync, or the one with a label. Raises: Mismatch: there was none."""
    found = [s for n, s in enumerate(world.syncs, 1) if which in (n, s.label)]
    if not found:
        raise Mismatch(f"there was no sync {which!r}")
    return found[-1]


_COUNTS = {
    "new": "new", "added": "new", "updated": "changed", "changed": "changed", "unchanged": "unchanged",
    "removed": "removed", "deleted": "removed", "archived": "removed", "failed": "failed", "listed": "listed",
    "embedded_chunks": "embedded", "embedded": "embedded",
    "re_embedded_chunks": "embedded", "embedded_documents": "documents_embedded",
}  # fmt: skip


@expectation("sync_report", "sync", "label", "kb", "re_embedded_documents", *_COUNTS)
def sync_report(world: World, args: Args) -> None:
    """Counts of one sync over its sources; re-embedded are documents that were retrievable before it."""
    which = args.get("sync", args.get("label"))
    made = sync_meant(world, which)
    reports = [
        report for source, report in made.reports if "kb" not in args or world.kb_name(source.kb_id) == args["kb"]
    ]
    for key, field in _COUNTS.items():
        if key in args:
            expect_number(sum(getattr(report, field) for report in reports), args[key], f"sync {which}: {key}")
    if "re_embedded_documents" in args:
        known = {view.row["document_id"] for view in world.history[made.before].documents if view.is_live}
        first = sum(
            view.is_live and view.row["document_id"] not in known for view in world.history[made.after].documents
        )
        again = max(0, sum(report.documents_embedded for report in reports) - first)
        expect_number(again, args["re_embedded_documents"], f"sync {which}: re-embedded documents")
