"""The Dagster instance of a home: its dagster.yaml, and runs whose process died."""

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance.ref import InstanceRef  # public, and exported nowhere
from dagster._serdes import ConfigurableClassData
from dagster_shared.check import CheckError
from yaml import YAMLError

from kb_pipeline.errors import SystemicError
from kb_pipeline.settings import Settings
from kb_pipeline.storage.layout import Layout
from kb_pipeline.storage.sqlite_errors import sentence

PROCESS_TAG = "kb/process"
_UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]

_CONFIG = """\
# Written by `kb init`.
{storage}telemetry: {{enabled: false}}
nux: {{enabled: false}}
python_logs: {{python_log_level: INFO}}
concurrency:
  runs: {{max_concurrent_runs: {jobs}}}
  pools: {{granularity: op, default_limit: 2}}
run_monitoring: {{enabled: true, start_timeout_seconds: 180, max_runtime_seconds: 14400}}
run_retries: {{enabled: true, max_retries: 1, retry_on_asset_or_op_failure: false}}
retention:
  sensor: {{purge_after_days: {{skipped: 2, failure: 30, success: 7}}}}
code_servers: {{local_startup_timeout: 180}}
"""

_POSTGRES = "storage: {postgres: {postgres_url: {env: KB_DATABASE_URL}}}\n"
"""The address stays in the environment: a password has no place in a file."""


def config_of(settings: Settings) -> str:
    """The dagster.yaml of a home: runs and events in the catalog's database if that is Postgres, else in files."""
    url = settings.kb_database_url
    is_postgres = url is not None and url.get_secret_value().startswith("postgresql")
    return _CONFIG.format(jobs=settings.max_concurrent_jobs, storage=_POSTGRES if is_postgres else "")


def write_config(settings: Settings) -> Path:
    """Make DAGSTER_HOME below the home if it is not there. Returns the folder.

    An edited dagster.yaml stays; one as it was written for SQLite moves on to Postgres with the home, never back.
    """
    folder = Layout.of(settings).dagster
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "dagster.yaml"
    on_files = _CONFIG.format(jobs=settings.max_concurrent_jobs, storage="")
    if not config.exists() or (config.read_text(errors="replace") == on_files != config_of(settings)):
        config.write_text(config_of(settings))
    return folder


@contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The home's instance; runs that a dead process of this machine left behind are closed first.

    Raises: SystemicError: its databases cannot be used, now or while a run writes to them; dagster.yaml is
        wrong; or the home's runs are in Postgres, and this process does not know where that is.
    """
    folder = write_config(settings)
    if settings.kb_database_url is None and _POSTGRES in (folder / "dagster.yaml").read_text(errors="replace"):
        raise SystemicError(f"{folder}/dagster.yaml keeps runs in Postgres: set KB_DATABASE_URL to its address.")
    with named_failures(folder), _configured(folder) as instance:
        close_dead_runs(instance)
        yield instance


def check_instance(settings: Settings) -> None:
    """Read something of each of its databases. Raises: SystemicError: one of them, or dagster.yaml, cannot be used."""
    with open_instance(settings) as instance:
        instance.get_dynamic_partitions("source")
        instance.event_log_storage.get_event_records(
            dg.EventRecordsFilter(dg.DagsterEventType.ASSET_MATERIALIZATION), 1
        )
        instance.all_instigator_state()


def _configured(folder: Path) -> dg.DagsterInstance:
    try:
        return dg.DagsterInstance.from_ref(_writing_to_the_terminal(InstanceRef.from_dir(str(folder))))
    except (dg.DagsterError, CheckError, YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SystemicError(
            f"Dagster's configuration {folder / 'dagster.yaml'} cannot be used: {reason}. "
            "Mend it, or move it away: the next command writes the default one."
        ) from error


def _writing_to_the_terminal(ref: InstanceRef) -> InstanceRef:
    """What a command prints goes to whoever called it, not by way of a file and two processes that show it in turn.

    They would answer Ctrl-C with a traceback each. Runs of the daemon and the UI are no commands, and keep their files.
    """
    if ref.compute_logs_data.class_name != "LocalComputeLogManager":  # somebody chose another
        return ref
    nowhere = ConfigurableClassData("dagster._core.storage.noop_compute_log_manager", "NoOpComputeLogManager", "{}")
    return ref._replace(compute_logs_data=nowhere)


@contextmanager
def named_failures(folder: Path) -> Iterator[None]:
    """What Dagster lets through of its databases, as a sentence. Those of the catalog are named where they arise."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig else error
        raise SystemicError(sentence(f"Dagster's own record of runs in {folder}", cause)) from error


def process_tag() -> str:
    """Which process runs: `<host>:<pid>`."""
    return f"{socket.gethostname()}:{os.getpid()}"


def close_dead_runs(instance: dg.DagsterInstance) -> int:
    """Mark as failed the runs of `kb sync` processes that are gone, and free their pool slots; returns how many."""
    closed = 0
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        host, _, pid = run.tags.get(PROCESS_TAG, "").rpartition(":")
        if host == socket.gethostname() and not _is_alive(int(pid)):
            instance.report_run_failed(run, "The process of this run died; its documents go on at the next sync.")
            if instance.event_log_storage.supports_global_concurrency_limits:
                instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            closed += 1
    return closed


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
