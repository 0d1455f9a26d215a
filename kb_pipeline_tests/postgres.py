"""A Postgres server of the tests' own: a folder and a port that nobody else uses; gone when they end."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import sqlalchemy as sa

_BINARIES = "/usr/lib/postgresql/*/bin/initdb"
_FAST = (
    "-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c autovacuum=off -c max_connections=60 "
    "-c shared_buffers=32MB -c max_wal_size=256MB -c listen_addresses=127.0.0.1"
)


def binaries() -> Path | None:
    """Folder of initdb and pg_ctl, of the newest version; None where Postgres is not installed."""
    found = [Path(path).resolve() for path in map(shutil.which, ["initdb"]) if path]
    found += sorted(Path("/").glob(_BINARIES.lstrip("/")), key=lambda path: int(path.parts[-3]), reverse=True)
    return found[0].parent if found else None


class Server:
    """A running server that makes databases."""

    def __init__(self, port: int, folder: Path) -> None:
        self.folder = folder
        self._root = sa.make_url(f"postgresql://kb:secret-4711@127.0.0.1:{port}/postgres")
        self._engine = sa.create_engine(self._root, isolation_level="AUTOCOMMIT")
        self._numbers = count(1)

    def create(self, template: str = "template0") -> str:
        """Address of a new database, a copy of the template."""
        name = f"kb{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")
        return self._root.set(database=name).render_as_string(hide_password=False)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.run(f"DROP DATABASE IF EXISTS {sa.make_url(url).database} WITH (FORCE)")

    def run(self, statement: str) -> None:
        """Run a statement as the server's owner."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def files_with(self, text: str) -> list[str]:
        """Files of tables that hold a text; what the write-ahead log has goes by itself."""
        files = [path for path in (self.folder / "data" / "base").rglob("*") if path.is_file()]
        return [str(path) for path in files if text.encode() in path.read_bytes()]

    def close(self) -> None:
        """Close the own connections."""
        self._engine.dispose()


@contextmanager
def serving(tools: Path) -> Iterator[Server]:
    """A server of the binaries in `tools`."""
    with tempfile.TemporaryDirectory(prefix="kb-postgres-") as made:
        folder, port = Path(made), _free_port()
        data = folder / "data"
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        auth = ["--auth-local=trust", "--auth-host=trust", "--username=kb"]
        _as_owner(tools / "initdb", "-D", data, "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", *auth)
        options = f"{_FAST} -c unix_socket_directories={folder} -p {port}"
        _as_owner(tools / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            with closing(Server(port, folder)) as server:
                yield server
        finally:
            _as_owner(tools / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


def _as_owner(*command: object) -> None:
    """Postgres refuses to run as root."""
    changed = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    done = subprocess.run(
        [*changed, *map(str, command)], cwd="/", capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _free_port() -> int:
    with closing(socket.socket()) as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])
