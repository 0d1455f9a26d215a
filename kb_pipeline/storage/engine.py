"""Opens the catalog's database: SQLite in WAL by default, Postgres by URL; brings its schema up to date."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event

from kb_pipeline.errors import SystemicError
from kb_pipeline.settings import Settings
from kb_pipeline.storage import postgres
from kb_pipeline.storage.catalog_rules import BUSY_TIMEOUT_MS, HEAD
from kb_pipeline.storage.layout import Layout
from kb_pipeline.storage.lease import Taken, lease_of, lock_key
from kb_pipeline.storage.sqlite_errors import damaged, is_lasting, sentence

_MIGRATION_WAIT_S = 600.0
_IN_LIMIT = 5_000  # both databases bound the parameters of one statement


def open_engine(settings: Settings) -> sa.Engine:
    """Engine of the catalog with its schema at HEAD.

    Raises: SystemicError: the database cannot be opened, or was written by a newer version.
    """
    layout = Layout.of(settings)
    engine = _engine(settings, layout)
    try:
        _bring_up_to_date(engine, layout)
    except UnicodeDecodeError as error:  # names of tables, of all things
        raise SystemicError(damaged(engine.url.database, error)) from error
    except sa.exc.DatabaseError as error:
        where = engine.url.set(query={}).render_as_string(hide_password=True)
        reason = (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
        raise SystemicError(
            f"The catalog at {where} cannot be opened: {reason}. Check KB_HOME or KB_DATABASE_URL."
        ) from error
    return engine


def _engine(settings: Settings, layout: Layout) -> sa.Engine:
    if settings.kb_database_url:
        given = settings.kb_database_url.get_secret_value()
    else:
        layout.home.mkdir(parents=True, exist_ok=True)
        given = f"sqlite:///{layout.catalog}"
    reason = "it is neither Postgres nor SQLite"
    try:
        url = sa.make_url(given)
        if url.drivername in postgres.DRIVERS:
            return postgres.engine_of(url)
        if url.drivername == "sqlite":
            engine = sa.create_engine(url)
            event.listen(engine, "connect", _sqlite_pragmas)
            event.listen(engine, "begin", _begin_immediate)
            event.listen(engine, "handle_error", partial(_name_lasting, f"The catalog at {url.database}"))
            return engine
    except (sa.exc.ArgumentError, ValueError, ModuleNotFoundError) as error:
        reason = type(error).__name__  # its message may hold the password
    advice = "it looks like postgresql://user:password@host/name, and needs the extra `postgres`"
    raise SystemicError(f"KB_DATABASE_URL cannot be used ({reason}): {advice}.")


def reading(engine: sa.Engine) -> sa.Connection:
    """A connection for reads: takes no lock, sees each statement's own snapshot."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def deciding(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that looks first and writes then; no other such one comes in between, on whatever machine."""
    with engine.begin() as connection:  # which is enough on SQLite: see _begin_immediate
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock_key("catalog"))))
        yield connection


def slices(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Values as many at a time as one `IN` takes."""
    for start in range(0, len(values), _IN_LIMIT):
        yield values[start : start + _IN_LIMIT]


def damage(engine: sa.Engine) -> str:
    """What SQLite itself finds wrong with the file; empty where nothing is, or where it is not ours to check.

    Reads the whole file.
    """
    if engine.dialect.name != "sqlite":
        return ""
    with reading(engine) as connection:
        found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    return "" if found == "ok" else " ".join(found.split())


def vacuum(engine: sa.Engine, tables: Sequence[sa.Table]) -> None:
    """Write the tables anew (SQLite: the whole database), so that what was deleted is in no page of them any more.

    Raises: SystemicError: another process keeps reading them.
    """
    with reading(engine) as connection:
        if engine.dialect.name == "postgresql":
            postgres.rewrite(connection, tables)
            return
        connection.exec_driver_sql("VACUUM")
        busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
    if busy:
        raise SystemicError("The catalog is being read by another process, so its log could not be emptied; try again.")


def upsert(
    table: sa.Table,
    database: sa.Engine | sa.Connection,
    rows: list[dict[str, object]],
    keep: frozenset[str] = frozenset(),
) -> None:
    """Insert rows, or update them by primary key except the columns in `keep`. All rows have the same columns.

    Of rows with one key the last counts.

    Args:
        database: a connection whose transaction it joins, or an engine for one of its own.
    """
    if not rows:
        return
    if database.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in rows[0] if name not in keys and name not in keep}
    distinct = {tuple(str(row[name]) for name in keys): row for row in rows}  # Postgres refuses a key twice
    ordered = [distinct[key] for key in sorted(distinct)]  # two writers of the same rows wait, and never for each other
    whole = statement.on_conflict_do_update(index_elements=keys, set_=changed)
    if isinstance(database, sa.Connection):
        database.execute(whole, ordered)
        return
    with database.begin() as connection:
        connection.execute(whole, ordered)


def _sqlite_pragmas(connection: object, _record: object) -> None:
    connection.isolation_level = None  # type: ignore[attr-defined]  # the driver would begin by itself, and late
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _name_lasting(what: str, context: sa.engine.ExceptionContext) -> None:
    """Raises: SystemicError: the file or the disk is at fault, not the statement."""
    error = context.original_exception
    if is_lasting(error):
        raise SystemicError(sentence(what, error)) from error


def _begin_immediate(connection: sa.Connection) -> None:
    """A transaction that reads first and writes later would fail at once under another writer; this one waits."""
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def schema_revision(engine: sa.Engine) -> str | None:
    """Migration the database stands at, None for an empty one. Plain SQL: alembic costs 0.3 s to import."""
    with reading(engine) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _bring_up_to_date(engine: sa.Engine, layout: Layout) -> None:
    if schema_revision(engine) == HEAD:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["engine"] = engine
    try:
        with lease_of(engine, layout.locks).hold("migrate", wait_s=_MIGRATION_WAIT_S):
            if engine.dialect.name == "postgresql":
                postgres.make_schema(engine)
            command.upgrade(config, "head")
    except Taken:
        raise SystemicError(
            f"Another process has been changing the catalog's schema for {_MIGRATION_WAIT_S / 60:.0f} minutes; "
            "wait for it or stop it."
        ) from None
    except CommandError as error:
        raise SystemicError(
            f"The catalog was written by a newer version of kb_pipeline ({error}); upgrade the package."
        ) from error
