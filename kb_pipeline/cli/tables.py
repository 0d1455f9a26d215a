"""`kb sql` and `kb export`: the data as tables, for analysts."""

import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.cli.home import open_known_store
from kb_pipeline.cli.output import print_json, print_records, print_table, printable
from kb_pipeline.errors import UsageError

if TYPE_CHECKING:
    from kb_pipeline.storage.analytics import Analytics

_TABLE_COLUMNS = 8
"""More than these are shown a row at a time."""


@click.command("sql")
@click.argument("statement", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(min=0), help="Rows shown; 0 for all.")
def sql_command(statement: str | None, as_json: bool, limit: int) -> None:
    """Run SQL (DuckDB) over every dataset; without STATEMENT, read statements from a prompt or stdin."""
    from kb_pipeline.storage.analytics import Analytics

    store = open_known_store()
    for source in store.catalog.sources():
        store.release_orphans(source)
    analytics = Analytics(store)
    if statement is not None:
        columns, rows = analytics.query(statement)
        shown = rows[:limit] if limit and not as_json else rows
        records = [dict(zip(columns, row, strict=True)) for row in shown]
        if as_json:
            print_json({"columns": columns, "rows": records})
        else:
            _print(records, columns)
            if len(rows) > len(shown):
                click.echo(f"{len(rows) - len(shown)} more rows; --limit 0 shows all.")
        return
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # DuckDB says what is wrong with such a line
    click.echo(f"Tables: {', '.join(analytics.tables)}. End with Ctrl-D.", err=True)
    while True:
        if sys.stdin.isatty():
            click.echo("kb> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            _run_line(analytics, line, limit)


def _run_line(analytics: "Analytics", line: str, limit: int) -> None:
    try:
        columns, rows = analytics.query(line)
    except UsageError as error:
        click.echo(printable(str(error)), err=True)
        return
    _print([dict(zip(columns, row, strict=True)) for row in rows[: limit or None]], columns)


def _print(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    if len(columns) > _TABLE_COLUMNS:
        print_records(rows, columns)
    if not rows or len(columns) <= _TABLE_COLUMNS:
        print_table(rows, columns, empty="No rows.")


@click.command("export")
@click.argument("kb")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def export_command(kb: str, folder: Path) -> None:
    """Write KB's documents, chunks and raw items as Parquet files, and what made them as JSON, into DIR."""
    from kb_pipeline.storage.analytics import Analytics

    store = open_known_store()
    base = store.catalog.knowledge_base(kb)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give a new one.")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; give a new folder.")
    for name, rows in Analytics(store).export(base, folder).items():
        click.echo(f"{name}: {rows} rows")
    click.echo(f"Exported {base.kb_id} to {folder}")
