"""The catalog as a search asks it: the same answers as `Catalog`, without SQLAlchemy."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from kb_pipeline.errors import SystemicError, UsageError
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_read import SqliteReads, open_reads
from kb_pipeline.storage.documents import Documents
from kb_pipeline.storage.tables import retrieval_events


@pytest.fixture
def catalog(settings):
    found = Catalog.open(settings)
    yield found
    found.engine.dispose()


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize(
    "caller",
    [
        (None, None), ("", ""), ("u1", None), ("u2", "acme"), (None, "acme"), ("acme", "u1"), ("' OR 1=1 --", "%"),
        (None, None, True),
    ],
)  # fmt: skip
def test_a_caller_sees_the_same_knowledge_bases_as_through_the_catalog(settings, catalog, caller):
    catalog.create_knowledge_base("public notes", "public")
    catalog.create_knowledge_base("mine", "user", owner="u1")
    catalog.create_knowledge_base("another's", "user", owner="u2")
    catalog.create_knowledge_base("ours", "account", client_id="acme")
    catalog.create_knowledge_base("theirs", "account")
    reads = open_reads(settings)
    assert isinstance(reads, Catalog if settings.kb_database_url else SqliteReads)
    expected = catalog.searchable(*caller)
    assert reads.searchable(*caller) == expected
    assert [k.kb_id for k in catalog.visible(*caller)] == [k.kb_id for k in expected]
    seen = {(None, None): 1, ("", ""): 1, ("u1", None): 2, ("u2", "acme"): 3, (None, "acme"): 2, (None, None, True): 5}
    assert len(expected) == seen.get(caller, 1)


@pytest.mark.databases("sqlite", "postgres")
def test_archived_and_unknown_documents_are_not_live(settings, catalog):
    Documents(catalog.engine).save(
        {"document_id": d, "kb_id": "k", "source_id": "s", "external_id": d, "status": status}
        for d, status in (("d1", "ready"), ("d2", "archived"), ("d3", "failed"))
    )
    asked = ["d1", "d2", "d3", "d4'"]
    assert open_reads(settings).not_live(asked) == catalog.not_live(asked) == {"d2", "d4'"}
    assert open_reads(settings).not_live([]) == set()


@pytest.mark.databases("sqlite", "postgres")
def test_an_event_reads_back_as_it_was_given(settings, catalog):
    at = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    event = {
        "event_id": "e1", "at": at, "query": "naïve “quoted” ' query", "caller_hash": "c", "kb_ids": ["a", "b"],
        "top_k": 5, "settings_hash": "s",
        "detail": {"injected": [{"chunk_id": "x", "ranks": {"dense": 1}}], "notes": ["é"]},
    }  # fmt: skip
    open_reads(settings).record_event(event)
    catalog.record_event({**event, "event_id": "e2"})
    with catalog.engine.connect() as connection:
        one, two = connection.execute(sa.select(retrieval_events).order_by("event_id")).mappings()
        stored = connection.exec_driver_sql("SELECT at, CAST(kb_ids AS TEXT) FROM retrieval_events").all()
    assert dict(one) == event | {"at": at.astimezone(UTC)}
    assert dict(two) == dict(one) | {"event_id": "e2"}
    assert stored[0] == stored[1]


def test_where_no_home_is_reading_makes_none(settings):
    with pytest.raises(UsageError, match="no home of knowledge bases"):
        open_reads(settings)
    assert not (settings.kb_home / "catalog.sqlite").exists()


@pytest.mark.databases("sqlite", "postgres")
def test_a_catalog_of_a_newer_version_is_refused(settings, catalog):
    with catalog.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SystemicError, match="newer version"):
        open_reads(settings)


def test_a_catalog_that_breaks_later_is_named(settings, catalog):
    reads = open_reads(settings)
    with catalog.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE kb_documents"))
    with pytest.raises(SystemicError, match=r"catalog\.sqlite"):
        reads.not_live(["d"])


def test_searching_a_home_imports_no_sqlalchemy(settings, catalog):
    script = (
        "import sys; from kb_pipeline.settings import Settings\n"
        "from kb_pipeline.storage.catalog_read import open_reads\n"
        f"open_reads(Settings(kb_home={str(settings.kb_home)!r})).searchable(None, None)\n"
        "sys.exit('sqlalchemy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
