"""Maintenance removes what nobody accounts for, kind by kind, and nothing else; and it never gets in a sync's way."""

import os
import shutil
import time
from datetime import timedelta

import pytest

from kb_pipeline.assets.upkeep_result import CHECKS, checks_of
from kb_pipeline.errors import SystemicError
from kb_pipeline.lifecycle.maintenance import maintain_tenant
from kb_pipeline.lifecycle.orphans import strays_of
from kb_pipeline.schemas import RAW_ITEMS
from kb_pipeline.storage import leftovers
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lance_table import database
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.storage.index_rows import SPACE, rows_of

TENANT = "account-default"
TEXTS = {"one.md": "Lanterns burn low.", "two.md": "Buoys ring at night."}


@pytest.fixture
def source(home, folder):
    """A folder of two documents, synced."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    made = home.add(folder)
    home.sync(made)
    return made


def texts(home):
    return sorted(text for _, text in home.indexed().values())


def put(home, document, kb_id, source_id, tenant=TENANT, space=SPACE):
    """Rows as a writer leaves them that knows more than the catalog."""
    index = ChunkIndex(home.store.layout.root, tenant, space, home.store.lease)
    index.replace_documents(kb_id, source_id, [document], rows_of(document, ["stray words"], kb_id, source_id))
    return index


def age(path, days):
    """Let the whole of a table, or a file, look older; `st_ctime` does not follow, so leftovers are told the time."""
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        os.utime(each, (time.time() - 86_400 * days,) * 2)


def test_nothing_is_removed_where_nothing_is_orphaned(home, source):
    before = home.indexed()
    upkeep = maintain_tenant(home.store, TENANT)
    assert home.indexed() == before
    assert (upkeep.blobs_removed, upkeep.leftovers_removed, upkeep.notes) == (0, 0, [])
    assert [(table.orphans_removed, table.orphans_left) for table in upkeep.tables] == [(0, 0)]
    assert home.rows(source) == {"raw_items": 2, "documents": 2, "chunks": 2}


def test_rows_of_an_archived_document_go(home, source):
    home.store.documents.archive([home.documents()["one.md"]["document_id"]], run_id="")
    (table,) = maintain_tenant(home.store, TENANT).tables
    assert (table.orphans_removed, table.orphans_left) == (1, 0)
    assert texts(home) == [TEXTS["two.md"]]


@pytest.mark.parametrize("kind", ["document", "source", "knowledge base"])
def test_rows_of_an_unknown_one_go(home, source, kind):
    kb_id, source_id = "k" if kind != "knowledge base" else "unheard", source.source_id if kind == "document" else "s"
    put(home, "d-unknown", kb_id, source_id)
    upkeep = maintain_tenant(home.store, TENANT)
    assert sum(table.orphans_removed for table in upkeep.tables) == 1
    assert texts(home) == sorted(TEXTS.values())


def test_rows_of_a_removed_source_go(home, source):
    home.store.catalog.source_was_removed(source)
    (table,) = maintain_tenant(home.store, TENANT).tables
    assert table.orphans_removed == 2
    assert texts(home) == []


def test_rows_in_another_tenant_go_and_those_in_the_right_one_stay(home, source):
    wrong = put(home, home.documents()["one.md"]["document_id"], "k", source.source_id, tenant="user-ann")
    assert home.store.tenants() == [TENANT, "user-ann"]
    (table,) = maintain_tenant(home.store, "user-ann").tables
    assert table.orphans_removed == 1
    assert wrong.count_rows("k", source.source_id) == 0
    assert texts(home) == sorted(TEXTS.values())


def test_an_empty_table_goes_a_day_after_its_last_write_and_its_tenant_with_it(home, source):
    index = put(home, "d1", "unheard", "s", tenant="user-ann")
    (table,) = maintain_tenant(home.store, "user-ann").tables
    assert table.after is not None, "just emptied: a writer may be about to come back"
    age(index.path, days=2)
    (table,) = maintain_tenant(home.store, "user-ann").tables
    assert table.after is None
    assert home.store.tenants() == [TENANT]
    assert maintain_tenant(home.store, TENANT).tables[0].after is not None


def test_rows_of_a_space_that_the_base_does_not_have_go(home, source):
    index = put(home, home.documents()["one.md"]["document_id"], "k", source.source_id)
    maintain_tenant(home.store, TENANT)
    assert index.count_rows("k", source.source_id) == 0
    assert texts(home) == sorted(TEXTS.values())


def test_a_half_made_table_goes(home, source):
    draft = database(home.store.layout.root, TENANT) / f"chunks-{SPACE.space_id}.draft"
    (draft / "data").mkdir(parents=True)
    assert maintain_tenant(home.store, TENANT).leftovers_removed == 1
    assert not draft.exists()


def test_bytes_that_no_document_has_go_and_the_others_stay(home, source):
    unused = home.store.blobs.put(b"nobody's")
    assert maintain_tenant(home.store, TENANT).blobs_removed == 1
    assert unused not in home.store.blobs.digests()
    assert len(list(home.store.blobs.digests())) == 2


def test_what_dead_writers_and_damage_left_goes_with_time(home, source):
    folder = home.store.layout.dataset(RAW_ITEMS.name, "k", source.source_id)
    (folder / ".part-1.parquet.99.tmp").write_bytes(b"half")
    (folder / "part-1.damaged").write_bytes(b"torn")
    blob = home.store.blobs.put(b"x")
    new = home.store.layout.blobs / blob[:2] / ".new-abc"
    new.write_bytes(b"half")
    layout, now = home.store.layout, time.time()
    assert maintain_tenant(home.store, TENANT).leftovers_removed == 0, "their writers may still live"
    tomorrow, next_week = (now + timedelta(days=days).total_seconds() for days in (1.1, 7.1))
    assert leftovers.remove_of_sources(layout, [source], tomorrow) == 1
    assert leftovers.remove_of_home(layout, tomorrow) == 1
    assert not new.exists()
    assert leftovers.remove_of_sources(layout, [source], next_week) == 1
    assert [path.suffix for path in folder.iterdir()] == [".parquet"]


def test_only_the_first_tenant_sees_to_what_belongs_to_the_home(home, source):
    home.store.catalog.create_knowledge_base("z", "user", owner="zoe")
    home.store.blobs.put(b"nobody's")
    assert maintain_tenant(home.store, "user-zoe").blobs_removed == 0
    assert maintain_tenant(home.store, TENANT).blobs_removed == 1


def test_under_the_hands_of_a_sync_rows_and_bytes_stay_and_it_says_so(home, source):
    home.store.documents.archive([home.documents()["one.md"]["document_id"]], run_id="")
    home.store.blobs.put(b"nobody's")
    with home.store.working_on(source):
        upkeep = maintain_tenant(home.store, TENANT)
    assert upkeep.blobs_removed == 0
    assert [table.orphans_left for table in upkeep.tables] == [1]
    assert upkeep.notes == [
        f"Orphaned rows of k/{source.source_id} stay: a sync of it is at work.",
        "Unused bytes were not looked for: a sync is at work.",
    ]
    failed = {check.check_name: check.description for check in checks_of(upkeep) if not check.passed}
    (table,) = upkeep.tables
    assert failed == {"no_orphans": f"{table.space_id}: 1 rows are of no document that is here"}
    assert len(texts(home)) == 2


def test_the_checks_say_what_is_wrong(home, source):
    upkeep = maintain_tenant(home.store, TENANT)
    assert {check.check_name for check in checks_of(upkeep)} == CHECKS.keys()
    assert all(check.passed for check in checks_of(upkeep))


def test_a_sync_after_maintenance_finds_nothing_to_do(home, source):
    maintain_tenant(home.store, TENANT)
    before = home.files()
    report = home.sync(source)
    assert (report.embedded, report.unchanged, report.status) == (0, 2, "ok")
    assert home.files() == before


def test_maintenance_of_a_tenant_without_tables_is_nothing(home):
    shutil.rmtree(home.store.layout.root / "lance", ignore_errors=True)
    upkeep = maintain_tenant(home.store, TENANT)
    assert (upkeep.tables, upkeep.notes) == ([], [])
    assert strays_of(home.store, ChunkIndex(home.store.layout.root, TENANT, SPACE, home.store.lease)) == []


def test_a_catalog_that_knows_nothing_makes_no_orphans_of_everything(home, source):
    (index,) = home.index()
    home.store.catalog.engine.dispose()
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (home.store.layout.home / name).unlink(missing_ok=True)
    emptied = Store(home.store.settings)
    with pytest.raises(SystemicError, match="knows no knowledge base"):
        maintain_tenant(emptied, TENANT)
    assert index.count_rows("k", source.source_id) == len(TEXTS)
    emptied.catalog.engine.dispose()
