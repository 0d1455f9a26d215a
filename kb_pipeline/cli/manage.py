"""Commands that set up a home: init, create, add, apply, and the lists of sources and documents."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click

from kb_pipeline.cli.home import open_known_store, open_registry, open_store
from kb_pipeline.cli.output import print_folded, print_json, print_table, printable, reason_line, width
from kb_pipeline.records import DocumentStatus
from kb_pipeline.retries import next_step

_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_WIDE = 120
"""Columns from which a table has room for addresses."""


@click.command("init")
@click.option(
    "--home", type=click.Path(file_okay=False, path_type=Path), help="Folder that holds everything; default KB_HOME."
)
def init_command(home: Path | None) -> None:
    """Make a home: catalog, storage, Dagster's configuration."""
    if home:
        os.environ["KB_HOME"] = str(home)
    from kb_pipeline.automation.instance import write_config

    store = open_store()
    write_config(store.settings)
    click.echo(f"Home is ready: {store.layout.home}")
    if home and home.absolute() != (Path.cwd() / "kb_home"):
        click.echo(f"Set KB_HOME={store.layout.home} for the next commands.")


@click.command("create")
@click.argument("name")
@click.option("--scope", type=click.Choice(["user", "account", "public"]), default="account", show_default=True)
@click.option("--client", "client_id", default="", help="Whose account; scope account.")
@click.option("--agency", "agency_id", default="")
@click.option("--owner", default="", help="Whose; scope user.")
@click.option("--description", default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def create_command(
    name: str, scope: str, client_id: str, agency_id: str, owner: str, description: str, as_json: bool
) -> None:
    """Create knowledge base NAME."""
    made = open_store().catalog.create_knowledge_base(
        name,
        scope,  # type: ignore[arg-type]  # click.Choice has checked it
        owner=owner,
        client_id=client_id,
        agency_id=agency_id,
        description=description,
    )
    if as_json:
        print_json({"kb_id": made.kb_id, "name": made.name, "scope": made.scope, "tenant": made.tenant})
    else:
        click.echo(f"Created {made.kb_id}. Next: kb add {made.kb_id} URL|FILE|FOLDER")


@click.command("add")
@click.argument("kb")
@click.argument("source_input", metavar="INPUT")
@click.option("--type", "source_type", help="Connector: rss, url, document, records; default by the input.")
@click.option("--every", help="Sync interval (15m, 1h, 1d) or cron expression.")
@click.option("--name", help="Name of the source; default the input.")
@click.option("--include", multiple=True, metavar="GLOB", help="Folder: only paths that match.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Folder: no paths that match.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def add_command(
    kb: str,
    source_input: str,
    source_type: str | None,
    every: str | None,
    name: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add a source to KB: a feed, page, file, folder, or .jsonl of records.

    The same input again changes what is given and keeps the rest; --every never, --include "" and --exclude "" take
    away.
    """
    from kb_pipeline.sources import add_source

    store = open_store()
    given = (("include", include), ("exclude", exclude))
    options = {key: [glob for glob in globs if glob] for key, globs in given if globs}
    known = {source.source_id for source in store.catalog.sources()}
    with open_registry(store.settings) as registry:
        source = add_source(
            store.catalog, registry, kb, source_input, source_type=source_type, name=name, every=every, options=options
        )
    if as_json:
        print_json(
            {"source_id": source.source_id, "kb_id": source.kb_id, "type": source.connector, "input": source.input}
        )
    else:
        done = "Updated" if source.source_id in known else "Added"
        where = f"{'in' if source.source_id in known else 'to'} {source.kb_id}"
        click.echo(f"{done} {source.source_id} ({source.connector}) {where}. Next: kb sync {source.kb_id}")


@click.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show what would change, change nothing.")
def apply_command(file: Path, dry_run: bool) -> None:
    """Make knowledge bases and sources as FILE (kb.yaml) says."""
    from kb_pipeline.configfile import Applier, load

    store = open_store()
    wanted = load(file)
    with open_registry(store.settings) as registry:
        applier = Applier(store.catalog, registry, store.settings, file.absolute().parent, dry_run)
        lines, unnamed = applier.apply(wanted), applier.unnamed(wanted)
    for line in [*lines, *unnamed]:
        click.echo(printable(line))
    click.echo(
        "Nothing to change." if not lines else "Would change the above." if dry_run else "Done. Next: kb sync --all"
    )


@click.command("sources")
@click.argument("kb", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def sources_command(kb: str | None, as_json: bool) -> None:
    """List the sources of KB (of all when none is named), with schedule and last outcome."""
    catalog = open_known_store().catalog
    names = {base.kb_id: base.name for base in catalog.knowledge_bases()}
    kb_id = catalog.knowledge_base(kb).kb_id if kb else None
    rows = [
        {
            "kb_id": s.kb_id,
            "kb": names[s.kb_id],
            "source_id": s.source_id,
            "type": s.connector,
            "input": s.input,
            "name": s.name,
            "every": _interval(s.every_s) if s.every_s else s.cron,
            "status": s.status,
            "listed_at": s.listed_at,
            "due_at": s.due_at,
            "error_kind": s.error_kind,
            "error": s.error,
        }
        for s in catalog.sources(kb_id)
    ]
    if as_json:
        print_json({"sources": rows})
    else:
        _print_sources(rows, is_one_base=bool(kb))
        for bare in sorted(({kb_id} if kb_id else names.keys()) - {row["kb_id"] for row in rows}):
            click.echo(f"{bare} has no sources yet; `kb add {bare} INPUT` adds one.")


def _print_sources(rows: list[dict[str, Any]], is_one_base: bool) -> None:
    """A table, and under it what has no room there: what each source is on a narrow terminal, and why it failed."""
    rows = [
        {
            **row,
            "source": row["source_id"] if is_one_base else f"{row['kb_id']}/{row['source_id']}",
            "what": row["input"] if row["name"] in ("", row["input"]) else f"{row['name']}: {row['input']}",
        }
        for row in rows
    ]
    columns = {"source": "source", "type": "type", "every": "every", "status": "status", "listed_at": "listed"}
    is_wide = width() >= _WIDE
    if is_wide:
        columns["what"] = "what"
    print_table(rows, columns, empty="No sources.")
    for row in rows:
        failure = f"failed ({row['error_kind']}): {row['error']}" if row["error"] else ""
        if not is_wide:
            print_folded(f"{row['source']}: {row['what']}", "  ", "")
            print_folded(failure, "  ")
        elif failure:
            print_folded(f"{row['source']} {failure}", "  ", "")


def _interval(seconds: int) -> str:
    """As `--every` takes it: `1h`, `90s`."""
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS if seconds % size == 0)


@click.command("docs")
@click.argument("kb")
@click.option("--status", type=click.Choice(get_args(DocumentStatus)), help="Only documents with this status.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def docs_command(kb: str, status: str | None, as_json: bool) -> None:
    """List the documents of KB with status, reason and next step."""
    store = open_known_store()
    kb_id = store.catalog.knowledge_base(kb).kb_id
    for source in store.catalog.sources(kb_id):
        store.release_orphans(source)
    now = datetime.now(UTC)
    rows = [{**row, "next_step": _next_step(row, now)} for row in store.documents.rows(kb_id, status=status)]
    if as_json:
        print_json({"documents": rows})
    else:
        shown = [
            {**row, "where": row["url"] or row["external_id"], "reason": row["error"] or "; ".join(row["warnings"])}
            for row in rows
        ]
        empty = f"No documents are {status}." if status else "No documents; `kb sync` fetches them."
        print_table(shown, ["title", "status", "chunks", "where"], empty=empty)
        for row in shown:
            if row["reason"]:
                print_folded(reason_line(row["where"], row["reason"], row["error_kind"]), "  ", "")
                if row["next_step"]:
                    print_folded(f"→ {row['next_step']}", "  ")
            elif row["next_step"]:
                print_folded(f"{row['where']}: {row['next_step']}", "  ", "")


def _next_step(row: Mapping[str, Any], now: datetime) -> str:
    if row["status"] == "failed":
        return next_step(row["error_kind"], row["attempts"] or 1, row["next_try_at"], now)
    if row["missing_since"] and row["status"] != "archived":
        return f"not in the listing since {row['missing_since']:%Y-%m-%d %H:%M} UTC; archived when another agrees"
    return ""
