"""`kb sync`: runs the Dagster assets in this process, a progress bar per stage, a closing table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline import ids
from kb_pipeline.cli.home import open_store
from kb_pipeline.cli.output import print_folded, print_json, print_table, reason_line
from kb_pipeline.errors import UsageError

if TYPE_CHECKING:
    from kb_pipeline.storage.catalog import Catalog
    from kb_pipeline.storage.documents import Documents
    from kb_pipeline.storage.store import Store
from kb_pipeline.storage.catalog_records import SourceRow


class BarProgress:
    """One bar per stage on stderr; silent where stderr is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task: Any = None

    def __enter__(self) -> "BarProgress":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()
        self._bars.stop()

    def begin(self, stage: str, source: str, total: int | None) -> None:
        """A bar for a stage that has something to do; the stage before it is over."""
        self._finish()
        self._task = None if total == 0 else self._bars.add_task(f"{source} {stage}", total=total)

    def advance(self, units: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bars.advance(self._task, units)

    def _finish(self) -> None:
        """Stop the clock of the last bar; a stage that did not know its total had what it did."""
        if self._task is None:
            return
        task = next(task for task in self._bars.tasks if task.id == self._task)
        if task.total is None:
            self._bars.update(self._task, total=task.completed, visible=task.completed > 0)
        self._bars.stop_task(self._task)
        self._task = None


@click.command("sync")
@click.argument("targets", metavar="[KB[/SOURCE]]…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every source of every knowledge base.")
@click.option("--accept-removals", is_flag=True, help="Retire at once all that the sources no longer name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def sync_command(targets: tuple[str, ...], everything: bool, accept_removals: bool, as_json: bool) -> None:
    """Bring knowledge bases in line with their sources. Exit 1 if a run failed; failed documents are listed.

    Where a source suddenly misses more than a fifth of its documents, or all, they stay until another listing agrees
    or --accept-removals vouches for it.

    One source is KB/SOURCE, or its partition as Dagster shows it, KB--SOURCE.
    """
    store = open_store()
    run_sync(store, choose_sources(store.catalog, targets, everything), as_json, accept_removals)


def run_sync(store: "Store", sources: "Sequence[SourceRow]", as_json: bool, accept_removals: bool = False) -> None:
    """Sync sources with progress, print what each run did and which documents failed; exit 1 if a run failed."""
    from kb_pipeline.automation.run import open_syncer

    with BarProgress() as progress, open_syncer(store, progress) as syncer:
        reports = [syncer.sync(source, accept_removals).as_json() for source in sources]
    failed = failed_documents(store.documents, sources)
    candidates = _candidates(store, dict.fromkeys(source.kb_id for source in sources))
    if as_json:
        print_json({"runs": reports, "failed_documents": failed, "candidates": candidates})
    else:
        _print(reports, failed)
        for candidate in candidates:
            click.echo(_said_of(candidate))
    if any(report["status"] == "failed" for report in reports):
        raise SystemExit(1)


def failed_documents(documents: "Documents", sources: "Sequence[SourceRow]") -> list[dict[str, Any]]:
    """Catalog rows of the documents of these sources that failed, with `kb_id`."""
    wanted = {source.partition for source in sources}
    return [
        {**row, "kb_id": kb_id}
        for kb_id in dict.fromkeys(source.kb_id for source in sources)
        for row in documents.rows(kb_id, status="failed")
        if ids.source_partition(kb_id, row["source_id"]) in wanted
    ]


def choose_sources(catalog: "Catalog", targets: Sequence[str], everything: bool) -> "list[SourceRow]":
    """The sources that arguments of the form KB, KB/SOURCE or KB--SOURCE name; of the one base where there is one.

    Raises: UsageError: nothing is named, or a base has no sources. NotVisible: unknown.
    """
    if everything:
        return catalog.sources()
    if not targets:
        bases = catalog.knowledge_bases()
        if len(bases) != 1:
            names = ", ".join(base.kb_id for base in bases) or "none yet; `kb create` makes one"
            raise UsageError(f"Say which knowledge base to sync, or --all. There are: {names}.")
        targets = [bases[0].kb_id]
    chosen: dict[str, SourceRow] = {}
    partitions = {source.partition: source for source in catalog.sources()}
    for target in targets:
        if target in partitions:
            chosen[target] = partitions[target]
            continue
        name, _, source = target.partition("/")
        kb_id = catalog.knowledge_base(name).kb_id
        found = [catalog.source(kb_id, source)] if source else catalog.sources(kb_id)
        if not found:
            raise UsageError(f"Knowledge base {kb_id} has no sources; `kb add {kb_id} INPUT` adds one.")
        chosen.update((row.partition, row) for row in found)
    return list(chosen.values())


def print_reports(reports: Sequence[Mapping[str, Any]]) -> None:
    """A line per source, and the reason under it where its run failed."""
    headings = {name: name for name in ("source", "status", "new", "changed")}
    headings |= {"unchanged": "same", "removed": "gone", "failed": "failed", "embedded": "embedded", "time": "time"}
    sources = [ids.split_partition(report["source"]) for report in reports]
    is_one_base = len({kb_id for kb_id, _ in sources}) == 1
    rows = [
        {**report, "source": source_id if is_one_base else f"{kb_id}/{source_id}", "time": f"{report['seconds']:.1f}s"}
        for (kb_id, source_id), report in zip(sources, reports, strict=True)
    ]
    print_table(rows, headings)
    for report, row in zip(reports, rows, strict=True):
        if report["waiting"]:
            waits = f"{report['waiting']} documents are not in the listing any more. They stay until another one agrees"
            print_folded(f"{row['source']}: {waits}; `kb sync --accept-removals` retires them now.", "  ", "", err=True)
        if report["error"]:
            said = str(report["error"]).replace(f"{report['source']}: ", "")
            print_folded(f"{row['source']}: {said}", "  ", "", err=True)


def print_failed(failed: Sequence[Mapping[str, Any]]) -> None:
    """A line per document that failed, with its kind and reason."""
    if failed:
        click.echo("Documents that stand as failed, from this sync or before; the others are in:")
    for row in failed:
        print_folded(reason_line(row["external_id"], row["error"], row["error_kind"]), "    ", "  ")


def _candidates(store: "Store", kb_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Spaces that are built beside what search reads, and how far they are."""
    return [
        {"kb_id": space.kb_id, "space_id": space.space_id, **asdict(store.spaces.built(space))}
        for kb_id in kb_ids
        for space in store.spaces.of(kb_id)
        if space.role == "candidate"
    ]


def _said_of(candidate: Mapping[str, Any]) -> str:
    kb_id, done = candidate["kb_id"], f"{candidate['done']} documents are in it"
    if candidate["waiting"] or candidate["failed"]:
        done += f", {candidate['waiting']} are to come, {candidate['failed']} failed"
    whole = f"`kb promote {kb_id}` lets search read it."
    next_step = f"`kb sync {kb_id}` goes on with it." if candidate["waiting"] else whole
    return f"{kb_id}: the settings ask for {candidate['space_id']}, built beside what search reads: {done}. {next_step}"


def _print(reports: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
    print_reports(reports)
    print_failed(failed)
