"""The catalog on Postgres: how it connects, a schema of its own, and tables written anew."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from kb_pipeline.errors import SystemicError
from kb_pipeline.storage.catalog_rules import BUSY_TIMEOUT_MS

SCHEMA = "kb_catalog"
"""Not the default one: Dagster keeps its tables there, and both record their migrations in `alembic_version`.
Nor a name that a role is likely to have: a schema of the role's own name is the default one."""
DRIVERS = ("postgresql", "postgresql+psycopg2")
_SESSION = {
    "search_path": SCHEMA,
    "timezone": "UTC",
    "lock_timeout": BUSY_TIMEOUT_MS,
    "tcp_keepalives_idle": 30,  # the server notices within a minute that a machine is gone, and frees its leases
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
}


def engine_of(url: sa.URL) -> sa.Engine:
    """Engine whose sessions see the catalog's schema only; options in the URL count as well."""
    given = url.query.get("options", "")
    options = [given] if isinstance(given, str) else list(given)
    options += [f"-c{name}={value}" for name, value in _SESSION.items()]
    return sa.create_engine(
        url,
        pool_pre_ping=True,
        connect_args={"options": " ".join(options).strip()},
        executemany_mode="values_plus_batch",  # else every row of an update is a round trip
    )


def make_schema(engine: sa.Engine) -> None:
    """Make the catalog's schema if it is not there. One process at a time.

    Raises: SystemicError: the database's encoding cannot hold every text.
    """
    with engine.begin() as connection:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise SystemicError(
                f"The database of KB_DATABASE_URL has the encoding {encoding}; make one with ENCODING 'UTF8'."
            )
        if connection.scalar(sa.select(sa.func.to_regnamespace(SCHEMA))) is None:
            connection.execute(sa.schema.CreateSchema(SCHEMA))


def rewrite(connection: sa.Connection, tables: Sequence[sa.Table]) -> None:
    """Write tables anew, without the rows that were deleted; waits for their readers. In AUTOCOMMIT.

    Raises: SystemicError: one is being read all the time.
    """
    for table in tables:
        try:
            connection.exec_driver_sql(f"VACUUM FULL {table.name}")
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "pgcode", None) != "55P03":  # lock_not_available
                raise
            raise SystemicError(
                f"The catalog's table {table.name} is being read by another process, so it could not be written "
                "anew; try again."
            ) from error


def columns_with(engine: sa.Engine, text: str) -> list[str]:
    """`schema.table.column` of every column of the database, Dagster's too, that holds a text in some row."""
    found = []
    query = sa.text(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns JOIN information_schema.tables "
        "USING (table_schema, table_name) WHERE table_type = 'BASE TABLE' "
        "AND table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2, 3"
    )
    with engine.connect() as connection:
        for schema, table, column in connection.execute(query).all():
            value: Any = sa.cast(sa.column(column), sa.Text)
            rows = sa.select(sa.literal(1)).select_from(sa.table(table, schema=schema))
            if connection.execute(rows.where(sa.func.strpos(value, text) > 0).limit(1)).first():
                found.append(f"{schema}.{table}.{column}")
    return found
