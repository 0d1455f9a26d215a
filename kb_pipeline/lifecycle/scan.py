"""Looks for a text in everything a home keeps: every file as bytes, Parquet and search tables also as rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kb_pipeline.storage.lance_engine import engine
from kb_pipeline.storage.postgres import columns_with
from kb_pipeline.storage.store import Store

_PIECE = 16_000_000


def places_of(store: Store, text: str) -> Iterator[str]:
    """Where the text stands: a file, a table of it with its version, or a column of the database. Files of packed
    formats (a .docx as it was fetched) are looked at as they lie, not unpacked.
    """
    roots = dict.fromkeys([store.layout.home, store.layout.root])
    files = {path: None for root in roots for path in sorted(root.rglob("*")) if path.is_file()}
    models = store.layout.models
    for path in files:
        if models in path.parents:
            continue
        if _holds_bytes(path, text.encode()) or (
            path.suffix in (".parquet", ".damaged") and _is_parquet(path) and _holds(pq.read_table(path), text)
        ):
            yield str(path)
    for table in sorted((store.layout.root / "lance").glob("*/*.lance")):
        yield from _versions_with(table, text)
    if store.catalog.engine.dialect.name == "postgresql":
        yield from columns_with(store.catalog.engine, text)


def _versions_with(table: Path, text: str) -> Iterator[str]:
    newest: Any = engine().dataset(table)
    for version in newest.versions():
        rows = newest.checkout_version(version["version"]).to_table()
        if _holds(rows, text):
            yield f"{table} version {version['version']}"


def _holds(rows: pa.Table, text: str) -> bool:
    return any(
        pc.any(pc.match_substring(rows[name].combine_chunks(), text)).as_py()
        for name in rows.column_names
        if pa.types.is_string(rows[name].type)
    )


def _is_parquet(path: Path) -> bool:
    try:
        pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def _holds_bytes(path: Path, wanted: bytes) -> bool:
    tail = b""
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                if wanted in tail + piece:
                    return True
                tail = piece[-len(wanted) :]
    except FileNotFoundError:  # it went while we looked
        return False
    return False
