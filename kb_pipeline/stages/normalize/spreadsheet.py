"""Workbooks (.xlsx, .xls): each sheet under its name, each stretch of rows as a table."""

from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Any

from kb_pipeline.errors import AuthFailed, TooLarge
from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import Archive, ParseLimits, stream_of

_STREAMED_BYTES = 20_000_000
"""Workbooks that unpack to more are read as a stream, in half the time and little memory, but without comments."""


def read_xlsx(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Shown values of all sheets, also hidden ones, with cell comments; a merged cell once."""
    import openpyxl

    archive = Archive(content, name, limits)
    archive.refuse_definitions()
    is_large = archive.expanded_bytes > _STREAMED_BYTES
    workbook = openpyxl.load_workbook(stream_of(content), data_only=True, read_only=is_large)
    try:
        _check_sheets(name, len(workbook.worksheets), limits)
        blocks = Blocks()
        properties = workbook.properties
        blocks.title, blocks.author = properties.title or "", properties.creator or None
        for sheet in workbook.worksheets:
            if is_large:
                sheet.reset_dimensions()
            rows = ([_cell(cell.value) for cell in row] for row in sheet.iter_rows())
            _add_sheet(blocks, sheet.title, rows)
            if not is_large:
                _add_comments(blocks, sheet)
        return blocks
    finally:
        workbook.close()


def read_xls(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """Shown values of all sheets of an old workbook.

    Raises: AuthFailed: password.
    """
    import xlrd  # type: ignore[import-untyped]

    try:
        with open_quietly() as log:
            workbook = xlrd.open_workbook(file_contents=content, logfile=log, on_demand=True)
    except xlrd.XLRDError as error:
        if "encrypted" in str(error).lower():
            raise AuthFailed(f"{name}: protected by a password; remove it and sync again") from error
        raise ValueError(str(error)) from error
    _check_sheets(name, workbook.nsheets, limits)
    blocks = Blocks()
    for sheet in workbook.sheets():
        rows = (
            [_xls_cell(sheet.cell(row, column), workbook.datemode) for column in range(sheet.ncols)]
            for row in range(sheet.nrows)
        )
        _add_sheet(blocks, sheet.name, rows)
    return blocks


def open_quietly() -> Any:
    """A sink for the chatter of a library."""
    import io

    return io.StringIO()


def _check_sheets(name: str, sheets: int, limits: ParseLimits) -> None:
    if sheets > limits.max_pages:
        raise TooLarge(f"{name}: too large, {sheets:,} sheets (at most {limits.max_pages:,})")


def _xls_cell(cell: Any, datemode: int) -> str:
    import xlrd

    if cell.ctype == xlrd.XL_CELL_DATE:
        try:
            return _cell(xlrd.xldate_as_datetime(cell.value, datemode))
        except (ValueError, OverflowError):  # a number that is formatted as a date and is none
            return _cell(cell.value)
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return _cell(bool(cell.value))
    return "" if cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK, xlrd.XL_CELL_ERROR) else _cell(cell.value)


def _cell(value: Any) -> str:
    """A value as a reader of the sheet would write it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "minutes")
    if isinstance(value, date | time):
        return value.isoformat()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _add_sheet(blocks: Blocks, title: str, rows: Iterable[list[str]]) -> None:
    """The sheet's name as heading, then each stretch between empty rows as a table, without its empty columns."""
    blocks.place("sheet", title)
    is_named = False
    stretch: list[list[str]] = []
    for row in rows:
        if any(cell.strip() for cell in row):
            stretch.append(row)
            continue
        if stretch and not is_named:
            blocks.heading(title, 1)
            is_named = True
        blocks.table(_without_empty_columns(stretch))
        stretch = []
    if stretch:
        if not is_named:
            blocks.heading(title, 1)
        blocks.table(_without_empty_columns(stretch))


def _without_empty_columns(rows: list[list[str]]) -> list[list[str]]:
    width = max((len(row) for row in rows), default=0)
    full = [[*row, *[""] * (width - len(row))] for row in rows]
    kept = [column for column in range(width) if any(row[column].strip() for row in full)]
    return [[row[column] for column in kept] for row in full]


def _add_comments(blocks: Blocks, sheet: Any) -> None:
    for row in sheet.iter_rows():
        for cell in row:
            if getattr(cell, "comment", None) is not None and cell.comment.text:
                text = cell.comment.text
                if text.startswith("[Threaded comment]"):  # followed by advice for older programs
                    text = text.partition("Comment:")[2]
                blocks.add(f"Comment on {cell.coordinate}: {text.strip()}")
