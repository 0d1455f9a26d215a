"""Opens the catalog's database: SQLite in WAL by default, Postgres by URL; brings its schema up to date."""

from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event

from kb_pipeline.errors import SystemicError
from kb_pipeline.settings import Settings
from kb_pipeline.storage.catalog_rules import BUSY_TIMEOUT_MS, HEAD
from kb_pipeline.storage.layout import Layout
from kb_pipeline.storage.sqlite_errors import damaged, is_lasting, sentence


def open_engine(settings: Settings) -> sa.Engine:
    """Engine of the catalog with its schema at HEAD.

    Raises: SystemicError: the database cannot be opened, or was written by a newer version.
    """
    layout = Layout.of(settings)
    if settings.kb_database_url:
        url = settings.kb_database_url.get_secret_value()
    else:
        layout.home.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{layout.catalog}"
    try:
        engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    except (sa.exc.ArgumentError, ModuleNotFoundError) as error:
        advice = "it looks like postgresql://user:password@host/name, and needs the extra `postgres`"
        raise SystemicError(f"KB_DATABASE_URL cannot be used ({type(error).__name__}): {advice}.") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _sqlite_pragmas)
        event.listen(engine, "begin", _begin_immediate)
        event.listen(engine, "handle_error", partial(_name_lasting, f"The catalog at {engine.url.database}"))
    try:
        _bring_up_to_date(engine, layout)
    except UnicodeDecodeError as error:  # names of tables, of all things
        raise SystemicError(damaged(engine.url.database, error)) from error
    except sa.exc.DatabaseError as error:
        where = engine.url.render_as_string(hide_password=True)
        raise SystemicError(
            f"The catalog at {where} cannot be opened: {error.orig}. Check KB_HOME or KB_DATABASE_URL."
        ) from error
    return engine


def reading(engine: sa.Engine) -> sa.Connection:
    """A connection for reads: takes no lock, sees each statement's own snapshot."""
    return engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def damage(engine: sa.Engine) -> str:
    """What SQLite itself finds wrong with the file; empty where nothing is, or where it is not ours to check.

    Reads the whole file.
    """
    if engine.dialect.name != "sqlite":
        return ""
    with reading(engine) as connection:
        found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
    return "" if found == "ok" else " ".join(found.split())


def vacuum(engine: sa.Engine) -> None:
    """Write the database anew, so that what was deleted is in no page and no log of it any more.

    Raises: SystemicError: another process keeps reading it.
    """
    with reading(engine) as connection:
        if engine.dialect.name != "sqlite":
            connection.exec_driver_sql("VACUUM FULL")
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
    whole = statement.on_conflict_do_update(index_elements=keys, set_=changed)
    if isinstance(database, sa.Connection):
        database.execute(whole, rows)
        return
    with database.begin() as connection:
        connection.execute(whole, rows)


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
    from filelock import FileLock

    layout.locks.mkdir(parents=True, exist_ok=True)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["engine"] = engine
    with FileLock(layout.locks / "migrate.lock"):
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise SystemicError(
                f"The catalog was written by a newer version of kb_pipeline ({error}); upgrade the package."
            ) from error
