"""What a search asks the catalog, without SQLAlchemy, whose import costs as much as the rest of a cold search.

For the SQLite catalog of a home only; a database given by URL is asked through `Catalog`, which answers the same.
"""

import json
import sqlite3
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from kb_pipeline.errors import SystemicError
from kb_pipeline.storage.catalog_records import Base
from kb_pipeline.storage.catalog_rules import BUSY_TIMEOUT_MS, HEAD, VISIBLE
from kb_pipeline.storage.sqlite_errors import damaged, sentence

if TYPE_CHECKING:
    from kb_pipeline.settings import Settings
    from kb_pipeline.storage.catalog import Catalog


class SqliteReads:
    """Visible knowledge bases, gone documents and events of one catalog file. Safe to share between threads."""

    def __init__(self, file: Path) -> None:
        self._file, self._asking = file, Lock()
        self._connection = _connect(file)
        weakref.finalize(self, self._connection.close)

    def searchable(self, user_id: str | None, client_id: str | None, is_operator: bool = False) -> list[Base]:
        """What a caller may see, by name; everything for the local operator."""
        where = "1" if is_operator else VISIBLE
        query = (
            "SELECT b.kb_id, b.name, b.tenant, s.space_id, s.embedding_model FROM knowledge_bases b "  # noqa: S608 - fixed
            "LEFT JOIN kb_spaces s ON s.kb_id = b.kb_id AND s.role = 'serving' "
            f"WHERE {where} ORDER BY b.name"
        )
        return [Base(*row) for row in self._ask(query, {"user_id": user_id or None, "client_id": client_id or None})]

    def not_live(self, document_ids: Sequence[str]) -> set[str]:
        """Those of the documents that are archived or unknown."""
        known = (
            "SELECT document_id FROM kb_documents WHERE status <> 'archived' "
            "AND document_id IN (SELECT value FROM json_each(:ids))"
        )
        return set(document_ids).difference(*self._ask(known, {"ids": json.dumps(list(document_ids))}))

    def record_event(self, row: Mapping[str, Any]) -> None:
        """Append a retrieval event; keys are the columns of retrieval_events."""
        plain = {name: _plain(value) for name, value in row.items()}
        columns, marks = ", ".join(plain), ", ".join(f":{name}" for name in plain)
        statement = f"INSERT INTO retrieval_events ({columns}) VALUES ({marks})"  # noqa: S608 - names of our columns
        with _named(self._file), closing(_connect(self._file)) as connection, connection:
            connection.execute(statement, plain)

    def _ask(self, query: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        with _named(self._file), self._asking:
            return self._connection.execute(query, values).fetchall()


def open_reads(settings: "Settings") -> "SqliteReads | Catalog":
    """The catalog for searching.

    Raises: UsageError: there is no home. SystemicError: the database cannot be opened, or a newer version wrote it.
    """
    from kb_pipeline.storage.layout import Layout, require_home

    require_home(settings)
    file = Layout.of(settings).catalog
    if settings.kb_database_url is None and _revision(file) == HEAD:
        return SqliteReads(file)
    from kb_pipeline.storage.catalog import Catalog  # makes the schema, or brings it up to date

    return Catalog.open(settings)


def _revision(file: Path) -> str | None:
    if not file.is_file():
        return None
    try:
        with closing(_connect(file)) as connection:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return None  # what is wrong with it is said where it is opened in full
    return None if found is None else str(found[0])


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=BUSY_TIMEOUT_MS / 1e3, check_same_thread=False)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


@contextmanager
def _named(file: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise SystemicError(damaged(file, error)) from error
    except sqlite3.Error as error:
        raise SystemicError(sentence(f"The catalog at {file}", error)) from error


def _plain(value: object) -> object:
    """As SQLAlchemy writes it: times in UTC without zone, lists and mappings as JSON."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return value if isinstance(value, str | int | float | None) else json.dumps(value)
