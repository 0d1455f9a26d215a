"""Catalog and ledger on real databases."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from kb_pipeline.errors import Corrupt, NotVisible, SystemicError, Transient, UsageError
from kb_pipeline.retries import Recipe
from kb_pipeline.settings import Settings
from kb_pipeline.storage import engine as engine_module
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_records import next_due
from kb_pipeline.storage.documents import Documents
from kb_pipeline.storage.ledger import Entry, Lane, Ledger
from kb_pipeline.storage.tables import metadata

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def catalog(settings):
    found = Catalog.open(settings)
    yield found
    found.engine.dispose()


@pytest.fixture
def ledger(catalog):
    return Ledger(catalog.engine)


def lane(stage, space=""):
    return Lane(stage, "kb", "s", space)


def needs(ledger, recipe="r"):
    found = ledger.needing(lane("documents"), lane("raw_items"), Recipe.of(recipe))
    return sorted(found.todo.to_pylist()), sorted(found.removed), found.unchanged


def record(ledger, stage, *entries, recipe="r"):
    ledger.record(lane(stage), Recipe.of(recipe), "run", entries)


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


@pytest.mark.databases("sqlite")
def test_a_file_that_is_no_database_is_refused_in_one_sentence(settings):
    settings.kb_home.mkdir(parents=True)
    (settings.kb_home / "catalog.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(SystemicError, match=r"cannot be (opened|used)"):
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
    first = catalog.add_source(kb, "rss", "https://a.example/feed", schedule=(60, None))
    again = catalog.add_source(kb, "rss", "https://a.example/feed", schedule=(3600, None))
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
    late = catalog.add_source(kb, "rss", "https://a.example/1", schedule=(60, None))
    catalog.add_source(kb, "rss", "https://a.example/2")
    later = catalog.add_source(kb, "rss", "https://a.example/3", schedule=(None, "0 6 * * *"))
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
    assert ledger.totals(lane("raw_items")) == (1, 1)
    assert needs(ledger)[0] == ["a"]


def test_the_data_version_changes_exactly_with_outputs(ledger):
    record(ledger, "raw_items", done("a", "v1", "x"))
    before = ledger.data_version(lane("raw_items"))
    record(ledger, "raw_items", done("a", "v2", "x"))
    assert ledger.data_version(lane("raw_items")) == before
    record(ledger, "raw_items", done("a", "v2", "y"))
    assert ledger.data_version(lane("raw_items")) != before


def test_a_reader_does_not_wait_for_a_writer(catalog):
    catalog.create_knowledge_base("k")
    with catalog.engine.begin() as writer:
        writer.execute(sa.text("UPDATE knowledge_bases SET description = 'half-way'"))
        assert [base.description for base in catalog.knowledge_bases()] == [""]


def test_texts_that_no_database_can_hold_are_cleaned_wherever_they_come_in(catalog, ledger):
    kb = catalog.create_knowledge_base("a\0b", "user", owner="u\ud800", description="\0" * 3).kb_id
    source = catalog.add_source(kb, "records", "/data/\0\udcff.jsonl", name="n\0", options={"include": ["\0*"]})
    assert (source.name, source.input) == ("n\ufffd", "/data/\ufffd\ufffd.jsonl")
    assert source.options == {"include": ["\0*"]}
    assert catalog.add_source(kb, "records", "/data/\0\udcff.jsonl").source_id == source.source_id
    record(ledger, "raw_items", Entry(unit="d", input_hash="v\0", failure=Transient("it said \0")))
    assert ledger.failures(lane("raw_items")) == [("d", "transient", "it said \ufffd")]
    catalog.record_event(
        {
            "event_id": "e", "at": datetime.now(UTC), "query": "q\0\ud800", "caller_hash": "c", "kb_ids": [kb],
            "top_k": 1, "settings_hash": "s", "detail": {"notes": ["\0\ud800"]},
        }
    )  # fmt: skip
    assert [base.kb_id for base in catalog.visible("u\ud800", "\0")] == [kb]
    assert catalog.visible("u", "") == []
    with pytest.raises(NotVisible):
        catalog.knowledge_base("\0")


def test_names_of_any_length_and_script_fit(catalog):
    name, owner = "Ñandú 鳥 " * 2_000, "o" * 5_000
    base = catalog.create_knowledge_base(name, "user", owner=owner, client_id=owner, agency_id=owner)
    source = catalog.add_source(
        base.kb_id, "document", "/" + "d" * 5_000, name=name, schedule=(10 * 366 * 86_400, None)
    )
    assert catalog.knowledge_base(name) == base
    assert catalog.source(base.kb_id, name) == source


def test_many_units_go_in_and_out_at_once_and_of_one_named_twice_the_last_counts(catalog, ledger):
    units = [f"d{n:024x}" for n in range(5_100)]
    record(ledger, "raw_items", *(done(unit, "v", "x") for unit in units), done(units[5], "v2", "y"))
    assert ledger.totals(lane("raw_items"))[0] == len(ledger.known(lane("raw_items"), units)) == len(units)
    assert ledger.known(lane("raw_items"), [units[5]])[units[5]]["input_hash"] == "v2"
    ledger.make_due(units)
    documents = Documents(catalog.engine)
    documents.save(
        {"document_id": u, "kb_id": "kb", "source_id": "s", "external_id": u, "status": "ready"} for u in units
    )
    documents.archive(units[1:], "run")
    assert documents.owners(units) == {units[0]: "s"}


def test_more_units_leave_at_once_than_a_statement_takes_parameters(catalog, ledger):
    stage, units = lane("raw_items"), [f"d{n:024x}" for n in range(66_000)]
    record(ledger, "raw_items", *(done(unit, "v", "x") for unit in units))
    with pytest.raises(OSError, match="disk"), ledger.removing(stage, units):
        raise OSError("disk")  # the output is not gone: they are known, and not done
    assert ledger.totals(stage)[0] == len(units)
    assert {row["recipe"] for row in ledger.known(stage, units[-5:]).values()} == {""}
    with ledger.removing(stage, units[1:]):
        pass
    assert list(ledger.units(stage)) == units[:1]


def test_who_writes_the_same_units_at_once_waits_and_never_for_each_other(ledger):
    units = [hashlib.sha256(str(n).encode()).hexdigest()[:25] for n in range(1_500)]
    failures = [Entry(unit=unit, input_hash="v", failure=Transient("no")) for unit in units]
    writers = [
        lambda: record(ledger, "raw_items", *failures),
        lambda: ledger.make_due(units),
        lambda: ledger.make_stale(units[::-1]),
        lambda: ledger.reopen(lane("raw_items"), units[700:] + units[:700]),
    ]
    record(ledger, "raw_items", *failures)
    with ThreadPoolExecutor(4) as pool:
        for done_by in [pool.submit(writer) for _ in range(4) for writer in writers]:
            done_by.result()
    assert ledger.known(lane("raw_items"), units[:1])[units[0]]["status"] == "failed"


def test_what_two_threads_add_at_once_is_there_once(catalog):
    kb = catalog.create_knowledge_base("k").kb_id

    def add(_number):
        try:
            catalog.create_knowledge_base("Notes")
        except UsageError:
            return catalog.add_source(kb, "rss", "https://a.example/feed").source_id, 1
        return catalog.add_source(kb, "rss", "https://a.example/feed").source_id, 0

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(add, range(8)))
    assert len({source_id for source_id, _ in found}) == 1
    assert sum(refused for _, refused in found) == 7


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://u:pass-4711@127.0.0.1:1/x", "Connection refused"),
        ("postgresql://u@127.0.0.1:1/x?password=pass-4711", "Connection refused"),
        ("postgresql://u:pass-4711@127.0.0.1:port/x", "postgresql://user"),
        ("postgres://u:pass-4711@127.0.0.1/x", "postgresql://user"),
        ("mysql://u:pass-4711@127.0.0.1/x", "neither Postgres nor SQLite"),
        ("pass-4711", "postgresql://user"),
    ],
)
def test_an_address_that_cannot_be_used_is_said_in_one_sentence_without_its_password(settings, url, reason):
    with pytest.raises(SystemicError, match=reason) as said:
        Catalog.open(Settings(**{**settings.model_dump(), "kb_database_url": url}))
    assert "4711" not in str(said.value)
    assert "\n" not in str(said.value)


@pytest.mark.databases("postgres")
def test_catalog_and_dagster_keep_their_tables_apart(catalog):
    with catalog.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one() == engine_module.HEAD
        dagsters = connection.exec_driver_sql("SELECT version_num FROM public.alembic_version").scalar_one()
        assert dagsters != engine_module.HEAD
        names = set(sa.inspect(connection).get_table_names())
    assert names == {*metadata.tables, "alembic_version"}


@pytest.mark.databases("postgres")
def test_a_database_of_another_encoding_is_refused(settings, postgres):
    postgres.run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    url = sa.make_url(settings.kb_database_url.get_secret_value()).set(database="latin")
    with pytest.raises(SystemicError, match="encoding LATIN1"):
        Catalog.open(Settings(kb_home=settings.kb_home, kb_database_url=url.render_as_string(hide_password=False)))


@pytest.mark.databases("postgres")
def test_processes_that_find_an_empty_database_migrate_it_once(settings, postgres):
    url = postgres.create()
    fresh = Settings(kb_home=settings.kb_home, kb_database_url=url)
    with ThreadPoolExecutor(3) as pool:
        opened = list(pool.map(lambda _: Catalog.open(fresh), range(3)))
    assert [catalog.knowledge_bases() for catalog in opened] == [[], [], []]
    for one in opened:
        one.engine.dispose()
    postgres.drop(url)


def test_two_who_change_one_source_at_once_lose_nothing(catalog):
    kb = catalog.create_knowledge_base("k").kb_id
    catalog.add_source(kb, "rss", "https://a.example/feed")
    given = [
        {"schedule": (60, None)}, {"options": {"include": ["a*"]}}, {"options": {"exclude": ["b*"]}}, {"name": "A"},
    ]  # fmt: skip
    add = partial(catalog.add_source, kb, "rss", "https://a.example/feed", keeps_the_rest=True)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda more: add(**more), given))
    (source,) = catalog.sources(kb)
    assert (source.every_s, source.options, source.name) == (60, {"include": ["a*"], "exclude": ["b*"]}, "A")
    assert add(options={"include": []}).options == {"exclude": ["b*"]}
