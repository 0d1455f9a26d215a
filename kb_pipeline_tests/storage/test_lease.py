"""Leases: one holder at a time over processes; a dead holder's is taken over; who waits too long is told so."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from kb_pipeline.errors import SystemicError, UsageError
from kb_pipeline.storage import lance, store
from kb_pipeline.storage.lease import Taken, lock_key
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.storage.index_rows import SPACE, rows_of

pytestmark = pytest.mark.databases("sqlite", "postgres")
ROOT = Path(__file__).parents[2]
_HOLDER = """
import sys, time
from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
with Store(Settings()).lease.hold(*sys.argv[1:]):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def home(settings):
    made = Store(settings)
    yield made
    made.catalog.engine.dispose()


@pytest.fixture
def source(home):
    kb = home.catalog.create_knowledge_base("k").kb_id
    return home.catalog.add_source(kb, "document", "/data/a")


@contextmanager
def held_elsewhere(*names):
    """A process that holds leases of the home, until the end or until it is killed."""
    command = [sys.executable, "-c", _HOLDER, *names]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


def test_a_lease_has_one_holder_and_is_free_again_after_it(home):
    with home.lease.hold("a", "b"):
        with pytest.raises(Taken) as taken, home.lease.hold("c", "b"):
            pass
        assert taken.value.name == "b"
        with home.lease.hold("c"):  # was let go when `b` was refused
            pass
    with home.lease.hold("b"):
        pass


def test_an_error_under_a_lease_frees_it(home):
    with pytest.raises(RuntimeError, match="struck"), home.lease.hold("a"):
        raise RuntimeError("struck")
    with home.lease.hold("a"):
        pass


def test_the_lease_of_a_holder_that_was_killed_is_taken_over(home):
    with held_elsewhere("a") as holder:
        with pytest.raises(Taken), home.lease.hold("a"):
            pass
        with pytest.raises(Taken), home.lease.hold("a", wait_s=0.3):
            pass
        holder.send_signal(signal.SIGKILL)
        with home.lease.hold("a", wait_s=20):
            pass


def test_what_another_process_holds_is_refused_in_one_sentence(home, source, monkeypatch):
    monkeypatch.setattr(store, "_LEASE_WAIT_S", 0.3)
    monkeypatch.setattr(lance, "_LEASE_WAIT_S", 0.3)
    index = home.index("public", SPACE)
    with held_elsewhere(source.partition, f"index-public-{SPACE.space_id}"):
        with pytest.raises(SystemicError, match=rf"^Source {source.partition} has been held.*sync again\.$"):
            home.working_on(source).__enter__()
        with pytest.raises(UsageError, match=rf"^A run is at work on k/{source.source_id}; wait for it"):
            home.holding([source]).__enter__()
        assert home.release_orphans(source) == 0
        with pytest.raises(SystemicError, match=r"^The search index .* has been written to.*sync again\.$"):
            index.replace_documents("kb", "s", ["d1"], rows_of("d1", ["tide"]))
    assert index.statistics().rows == 0


@pytest.mark.databases("postgres")
def test_a_lease_that_the_server_lost_is_said_to_be_lost(home):
    from sqlalchemy import text

    end = text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    with (
        pytest.raises(SystemicError, match="broke while a was held"),
        home.lease.hold("a"),
        home.catalog.engine.begin() as other,
    ):
        other.execute(end)
    with home.lease.hold("a"):
        pass


def test_names_have_keys_that_postgres_takes_and_that_never_change():
    assert lock_key("migrate") == 4202711135287939775
    assert all(0 <= lock_key(f"k--s-{n}") < 2**63 for n in range(100))
