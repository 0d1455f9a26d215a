"""How commands print: tables that fit the terminal for people, one JSON document for programs."""

import json
import math
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import click

from kb_pipeline.urls import masked

_SHORT_CHARS = 10
_WORD_CHARS = 40
_LEAST_TEXT_CHARS = 16
"""What a column of texts keeps, at least, before columns of words fold."""
_RECORD_CHARS = 200
_CELL_CHARS = 300
_NAME_CHARS = 100
_SENTENCE_END = re.compile(r"[.!?] |[。！？]")


def print_json(value: Any) -> None:
    """One JSON document on stdout; what JSON has no type for is text: times in ISO 8601, bytes in hex."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2, allow_nan=False))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int) else str(value)


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | Mapping[str, str],
    title: str = "",
    empty: str = "Nothing yet.",
) -> None:
    """A table of some columns, as wide as the terminal; texts fold, numbers, times and ids do not where there is room.

    Control characters are dropped, and cells cut at 300 characters.

    Args:
        columns: keys of the rows, or key -> heading.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo(empty)
        return
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    headings = columns if isinstance(columns, Mapping) else {column: column for column in columns}
    console = Console()
    cells = {column: [_cut(_cell(row.get(column)), _CELL_CHARS) for row in rows] for column in headings}
    widths = {
        column: max(cell_len(heading), *map(cell_len, cells[column]))
        for column, heading in headings.items()
        if all(map(_is_whole, cells[column]))
    }
    texts = len(headings) - len(widths)
    while widths and sum(widths.values()) + texts * _LEAST_TEXT_CHARS + 2 * len(headings) > console.width:
        widest = max(widths, key=lambda column: widths[column])
        if widths[widest] <= _SHORT_CHARS:
            break
        del widths[widest]
        texts += 1
    for column, heading in headings.items():
        is_number = all(isinstance(row.get(column), int | float | None) for row in rows)
        justify: Any = "right" if is_number else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=column in widths)
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)


def print_records(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Rows too wide for a table, one after another: a line `column: value` for each value, cut at 200 characters."""
    for number, row in enumerate(rows, start=1):
        click.secho(f"{number}.", bold=True)
        for column in columns:
            click.echo(f"  {column}: {_cut(' '.join(_cell(row[column]).split()), _RECORD_CHARS)}")


def print_folded(text: str, indent: str = "", first: str | None = None, err: bool = False) -> None:
    """Text folded between words at the terminal's width; `indent` before each line, `first` before the first one."""
    lines = textwrap.wrap(
        printable(text), width(), initial_indent=indent if first is None else first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    for line in lines:
        click.echo(line, err=err)


def reason_line(name: str, reason: str, kind: str | None = None) -> str:
    """`name: reason (kind)`, the name cut at 100 characters; a reason that begins with it is not given it twice."""
    said = reason.removeprefix(f"{name}: ")
    return f"{_cut(printable(name), _NAME_CHARS)}: {said}{f' ({kind})' if kind else ''}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def _is_whole(cell: str) -> bool:
    """Whether a cell is to stay on one line: a short one, an id or a time."""
    return len(cell) <= _SHORT_CHARS or (len(cell) <= _WORD_CHARS and (" " not in cell or cell.endswith(" UTC")))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M UTC")
    return printable(str(value))


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Text that cannot move a terminal's cursor, its colours or the direction of writing, and shows no secret."""
    return masked(_CONTROLS.sub("", text))


def excerpt(text: str, query: str, width: int) -> str:
    """The stretch of a passage that holds most of a query's words, from the start of a sentence."""
    from kb_pipeline.stages.terms import coverage, index_terms, query_terms

    plain = " ".join(printable(text).split())
    wanted = query_terms(query)
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(plain) if match.end() < len(plain))]
    start = max(starts, key=lambda at: (coverage(wanted, index_terms(plain[at : at + width])), -at))
    shown = plain[start : start + width]
    return f"{'… ' if start else ''}{shown}{' …' if start + width < len(plain) else ''}"
