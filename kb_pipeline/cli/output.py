"""How commands print: tables that fit the terminal for people, one JSON document for programs."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

_SHORT_CHARS = 10
_SENTENCE_END = re.compile(r"[.!?] |[。！？]")


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | Mapping[str, str],
    title: str = "",
    empty: str = "Nothing yet.",
) -> None:
    """A table of some columns, as wide as the terminal; only texts fold. Control characters are dropped.

    Args:
        columns: keys of the rows, or key -> heading.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo(empty)
        return
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    headings = columns if isinstance(columns, Mapping) else {column: column for column in columns}
    for column, heading in headings.items():
        is_number = all(isinstance(row.get(column), int | float | None) for row in rows)
        is_short = is_number or all(len(str(row.get(column) or "")) <= _SHORT_CHARS for row in rows)
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=is_short)
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column))) for column in headings))
    Console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    return printable(str(value))


def printable(text: str) -> str:
    """Text that cannot move a terminal's cursor or colours: control characters other than newline and tab go."""
    return "".join(c for c in text if (c >= " " and c != "\x7f" and not "\x80" <= c <= "\x9f") or c in "\n\t")


def excerpt(text: str, query: str, width: int) -> str:
    """The stretch of a passage that holds most of a query's words, from the start of a sentence."""
    from kb_pipeline.stages.terms import coverage, index_terms, query_terms

    plain = " ".join(printable(text).split())
    wanted = query_terms(query)
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(plain) if match.end() < len(plain))]
    start = max(starts, key=lambda at: (coverage(wanted, index_terms(plain[at : at + width])), -at))
    shown = plain[start : start + width]
    return f"{'… ' if start else ''}{shown}{' …' if start + width < len(plain) else ''}"
