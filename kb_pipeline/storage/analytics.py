"""DuckDB over what is stored: a view per dataset and catalog table. In memory; writes nothing but exports."""

import itertools
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from kb_pipeline.errors import UsageError
from kb_pipeline.schemas import CHUNKS, PARQUET_TABLES
from kb_pipeline.storage.catalog_records import KnowledgeBase
from kb_pipeline.storage.engine import reading
from kb_pipeline.storage.store import Store
from kb_pipeline.storage.tables import metadata

if TYPE_CHECKING:
    import duckdb

_MEMORY_LIMIT = "2GB"
_SERVED = "(kb_id, split_id) IN (SELECT (kb_id, split_id) FROM kb_spaces WHERE role = 'serving')"
_GLOB_SIGNS = re.compile(r"[*?\[]")
"""What in the home's own path would make the pattern match other homes."""


class Analytics:
    """SQL for the local operator, who sees every knowledge base."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tables = [table.name for table in PARQUET_TABLES] + list(metadata.tables)

    @cached_property
    def _connection(self) -> "duckdb.DuckDBPyConnection":
        import duckdb

        connection = duckdb.connect(config={"memory_limit": _MEMORY_LIMIT})
        with reading(self._store.catalog.engine) as catalog:
            for name, catalog_table in metadata.tables.items():
                connection.register(name, _arrow(catalog, catalog_table))
        for table in PARQUET_TABLES:
            folder = _GLOB_SIGNS.sub(r"[\g<0>]", str(self._store.layout.parquet / table.name))
            pattern = f"{folder}/**/*.parquet".replace("'", "''")
            # Names come from schemas.py and the path is quoted: a view cannot take parameters.
            files = f"read_parquet('{pattern}', hive_partitioning=false, union_by_name=true)"
            shown = f" WHERE {_SERVED}" if table is CHUNKS else ""
            connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM {files}{shown}")  # noqa: S608
        return connection

    def query(self, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """(column names, rows) of one statement; of equal names the later ones are numbered, as DuckDB does in tables.

        Raises: UsageError: the statement is wrong; the message is DuckDB's own.
        """
        import duckdb

        try:
            result = self._connection.execute(statement)
            if result is None:
                raise UsageError("There is no statement to run: only blanks, comments or semicolons.")
            description = result.description or []
            return _unlike([str(column[0]) for column in description]), result.fetchall() if description else []
        except (duckdb.Error, OverflowError) as error:  # OverflowError: a value that Python has no type for
            raise UsageError(f"SQL failed: {error}") from None

    def export(self, base: KnowledgeBase, folder: Path) -> dict[str, int]:
        """Copy a knowledge base's rows into Parquet files and its description into kb.json; rows by dataset."""
        folder.mkdir(parents=True, exist_ok=True)
        written = {}
        for table in PARQUET_TABLES:
            rows = self._connection.table(table.name).filter(f"kb_id = '{base.kb_id}'")  # a slug, made by ids.py
            written[table.name] = len(rows)
            rows.write_parquet(str(folder / f"{table.name}.parquet"), compression="zstd")
        described = {
            "kb_id": base.kb_id, "name": base.name, "scope": base.scope, "description": base.description,
            "sources": [
                {"source_id": s.source_id, "type": s.connector, "input": s.input, "name": s.name}
                for s in self._store.catalog.sources(base.kb_id)
            ],
        }  # fmt: skip
        (folder / "kb.json").write_text(json.dumps(described, ensure_ascii=False, indent=2), encoding="utf-8")
        return written


def _unlike(names: Sequence[str]) -> list[str]:
    """The names, none of them twice."""
    taken: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        taken[next(each for each in itertools.chain([name], numbered) if each not in taken)] = None
    return list(taken)


def _arrow(catalog: sa.Connection, table: sa.Table) -> pa.Table:
    rows = catalog.execute(sa.select(table)).mappings().all()
    columns: dict[str, pa.Array[Any]] = {}
    for column in table.columns:
        if isinstance(column.type, sa.LargeBinary):
            continue  # results of models: bulky, and nothing to read
        values = [row[column.name] for row in rows]
        if isinstance(column.type, sa.JSON):
            columns[column.name] = pa.array([json.dumps(value) for value in values], pa.string())
        else:
            columns[column.name] = pa.array(values, _arrow_type(column.type))
    return pa.table(columns)


def _arrow_type(kind: sa.types.TypeEngine[Any]) -> pa.DataType:
    known: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return known.get(kind.python_type, pa.timestamp("us", tz="UTC"))
