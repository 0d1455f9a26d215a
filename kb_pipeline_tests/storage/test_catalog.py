"""Catalog and ledger on real SQLite."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from kb_pipeline.errors import Corrupt, NotVisible, SystemicError, Transient, UsageError
from kb_pipeline.retries import Recipe
from kb_pipeline.storage import engine as engine_module
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_records import next_due
from kb_pipeline.storage.ledger import Entry, Ledger
from kb_pipeline.storage.tables import metadata


@pytest.fixture
def catalog(settings):
    found = Catalog.open(settings)
    yield found
    found.engine.dispose()


@pytest.fixture
def ledger(catalog):
    return Ledger(catalog.engine)


def needs(ledger, recipe="r"):
    found = ledger.needing("documents", "raw_items", "kb", "s", Recipe.of(recipe))
    return sorted(unit.unit for unit in found.todo), sorted(found.removed), found.unchanged


def record(ledger, stage, *entries, recipe="r"):
    ledger.record(stage, "kb", "s", Recipe.of(recipe), "run", entries)


def done(unit, input_hash, output_hash, rows=1):
    return Entry(unit=unit, input_hash=input_hash, output_hash=output_hash, rows=rows)


def test_migrations_make_exactly_the_tables_the_code_declares(catalog):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with catalog.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_head_is_the_newest_migration():
    versions = Path(engine_module.__file__).parent / "migrations" / "versions"
    assert max(path.name[:4] for path in versions.glob("0*.py")) == engine_module.HEAD


def test_a_catalog_of_a_newer_version_is_refused_in_one_sentence(settings, catalog):
    with catalog.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SystemicError, match="newer version"):
        Catalog.open(settings)


def test_a_file_that_is_no_database_is_refused_in_one_sentence(settings):
    settings.kb_home.mkdir(parents=True)
    (settings.kb_home / "catalog.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(SystemicError, match="cannot be used"):
        Catalog.open(settings)


def test_two_tenants_may_use_one_name_and_neither_learns_of_the_other(catalog):
    one = catalog.create_knowledge_base("Notes", "user", owner="u1")
    other = catalog.create_knowledge_base("Notes", "user", owner="u2")
    assert one.kb_id == "notes"
    assert other.kb_id != one.kb_id
    assert [kb.kb_id for kb in catalog.visible("u2", None)] == [other.kb_id]


def test_one_tenant_cannot_use_a_name_twice(catalog):
    catalog.create_knowledge_base("Notes")
    with pytest.raises(UsageError, match="already"):
        catalog.create_knowledge_base("Notes")


def test_a_caller_sees_their_own_their_accounts_and_public_bases(catalog):
    catalog.create_knowledge_base("mine", "user", owner="u1")
    catalog.create_knowledge_base("theirs", "user", owner="u2")
    catalog.create_knowledge_base("team", "account", client_id="acme")
    catalog.create_knowledge_base("rivals", "account", client_id="other")
    catalog.create_knowledge_base("world", "public")
    assert {kb.name for kb in catalog.visible("u1", "acme")} == {"mine", "team", "world"}
    assert {kb.name for kb in catalog.visible(None, None)} == {"world"}
    assert len(catalog.visible(None, None, is_operator=True)) == 5


def test_adding_the_same_input_again_keeps_the_source(catalog):
    kb = catalog.create_knowledge_base("k").kb_id
    first = catalog.add_source(kb, "rss", "https://a.example/feed", every_s=60)
    again = catalog.add_source(kb, "rss", "https://a.example/feed", every_s=3600)
    assert again.source_id == first.source_id
    assert (again.every_s, len(catalog.sources(kb))) == (3600, 1)


def test_two_folders_with_equal_paths_get_namespaces_of_their_own(catalog):
    kb = catalog.create_knowledge_base("k").kb_id
    first = catalog.add_source(kb, "document", "/data/a")
    second = catalog.add_source(kb, "document", "/data/b")
    assert first.namespace != second.namespace


def test_unknown_names_are_not_visible(catalog):
    with pytest.raises(NotVisible, match="no knowledge base 'x'"):
        catalog.knowledge_base("x")


def test_times_come_back_in_utc_and_due_sources_by_age(catalog):
    kb = catalog.create_knowledge_base("k").kb_id
    now = datetime.now(UTC)
    late = catalog.add_source(kb, "rss", "https://a.example/1", every_s=60)
    catalog.add_source(kb, "rss", "https://a.example/2")
    later = catalog.add_source(kb, "rss", "https://a.example/3", cron="0 6 * * *")
    catalog.source_was_listed(late, {}, now - timedelta(hours=2))
    catalog.source_was_listed(later, {}, now - timedelta(hours=1))
    assert [source.source_id for source in catalog.due_sources(now)] == [late.source_id, later.source_id]
    assert next_due(later, datetime(2026, 1, 1, 7, tzinfo=UTC)) == datetime(2026, 1, 2, 6, tzinfo=UTC)


def test_the_ledger_names_new_changed_and_removed_units_and_nothing_else(ledger):
    record(ledger, "raw_items", done("a", "v1", "x"), done("b", "v1", "y"), done("c", "v1", "z"))
    assert needs(ledger) == (["a", "b", "c"], [], 0)
    record(ledger, "documents", done("a", "x", "1"), done("b", "y", "2"), done("c", "z", "3"), done("old", "q", "4"))
    record(ledger, "raw_items", done("b", "v2", "y2"))
    assert needs(ledger) == (["b"], ["old"], 2)


def test_a_recipe_change_makes_every_unit_stale(ledger):
    record(ledger, "raw_items", done("a", "v1", "x"))
    record(ledger, "documents", done("a", "x", "1"))
    assert needs(ledger)[0] == []
    assert needs(ledger, recipe="other")[0] == ["a"]


def test_a_corrupt_unit_waits_for_new_bytes_and_a_transient_one_does_not(ledger):
    record(ledger, "raw_items", done("bad", "v1", "x"), done("slow", "v1", "y"))
    record(
        ledger,
        "documents",
        Entry(unit="bad", input_hash="x", failure=Corrupt("broken")),
        Entry(unit="slow", input_hash="y", failure=Transient("later")),
    )
    assert needs(ledger)[0] == ["slow"]
    record(ledger, "raw_items", done("bad", "v2", "x2"))
    assert needs(ledger)[0] == ["bad", "slow"]


def test_a_failed_look_keeps_older_output_and_an_unreadable_one_drops_it(ledger):
    record(ledger, "raw_items", done("a", "v1", "x"), done("b", "v1", "x"))
    record(
        ledger,
        "raw_items",
        Entry(unit="a", input_hash="v2", failure=Transient("time-out")),
        Entry(unit="b", input_hash="v2", failure=Corrupt("broken")),
    )
    assert ledger.totals("raw_items", "kb", "s") == (1, 1)
    assert needs(ledger)[0] == ["a"]


def test_the_data_version_changes_exactly_with_outputs(ledger):
    record(ledger, "raw_items", done("a", "v1", "x"))
    before = ledger.data_version("raw_items", "kb", "s")
    record(ledger, "raw_items", done("a", "v2", "x"))
    assert ledger.data_version("raw_items", "kb", "s") == before
    record(ledger, "raw_items", done("a", "v2", "y"))
    assert ledger.data_version("raw_items", "kb", "s") != before


def test_a_reader_does_not_wait_for_a_writer(settings, catalog):
    catalog.create_knowledge_base("k")
    writer = sqlite3.connect(settings.kb_home / "catalog.sqlite", isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        assert len(catalog.knowledge_bases()) == 1
    finally:
        writer.close()
