"""Leases: who may work on what, over all processes of a home; a dead holder's lease is free again at once.

On SQLite they are file locks, for one machine. On Postgres they are advisory locks of a session, so that all machines
on one database see them, and the server frees them when the session ends, however it ends.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa
from filelock import FileLock, Timeout

from kb_pipeline.errors import SystemicError

_LOOK_EVERY_S = 0.1


class Taken(Exception):
    """Another holds the lease `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Lease(Protocol):
    """Hands out leases by name; not reentrant."""

    def hold(self, *names: str, wait_s: float = 0.0) -> AbstractContextManager[None]:
        """Hold all of these names.

        Args:
            wait_s: seconds to wait for each; 0 asks once.
        Raises: Taken: another holds one of them.
        """
        ...


class FileLease:
    """Leases of one machine: a locked file each.

    Args:
        folder: where the files are; made on first use.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, *names: str, wait_s: float = 0.0) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            for name in sorted(names):
                try:
                    held.enter_context(FileLock(self._folder / f"{name}.lock").acquire(timeout=wait_s))
                except Timeout:
                    raise Taken(name) from None
            yield


class PostgresLease:
    """Leases of all machines on one database. Each `hold` keeps one connection, however many names it has."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def hold(self, *names: str, wait_s: float = 0.0) -> Iterator[None]:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
            try:
                for name in sorted(names):
                    _acquire(session, name, wait_s)
                yield
            finally:
                _release(session, names)


def lease_of(engine: sa.Engine, folder: Path) -> Lease:
    """The leases of a catalog; `folder` is where SQLite's go."""
    return PostgresLease(engine) if engine.dialect.name == "postgresql" else FileLease(folder)


def _acquire(session: sa.Connection, name: str, wait_s: float) -> None:
    """Asks again and again: a statement that waits in the server could not be interrupted by Ctrl-C."""
    deadline = time.monotonic() + wait_s
    while not session.execute(sa.select(sa.func.pg_try_advisory_lock(lock_key(name)))).scalar_one():
        if time.monotonic() >= deadline:
            raise Taken(name)
        time.sleep(_LOOK_EVERY_S)


def _release(session: sa.Connection, names: tuple[str, ...]) -> None:
    try:
        session.execute(sa.select(sa.func.pg_advisory_unlock_all()))
    except sa.exc.DBAPIError as error:
        raise SystemicError(
            f"The connection to the database broke while {' and '.join(names)} was held, so another run may have "
            "worked on it meanwhile; sync again."
        ) from error


def lock_key(name: str) -> int:
    """The number under which Postgres knows a name: 63 bits of its hash."""
    return int.from_bytes(hashlib.sha256(f"kb_pipeline {name}".encode()).digest()[:8], "big") >> 1
