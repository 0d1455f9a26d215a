"""The sync assets end to end on real Dagster, database, Parquet, LanceDB: what a sync brings, repeats and removes."""

import json
from functools import partial

import pytest

from kb_pipeline.automation.run import open_syncer
from kb_pipeline.lifecycle.spaces import promote
from kb_pipeline.settings import Settings
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.assets.conftest import Home, SilentProgress
from kb_pipeline_tests.laws.driver import difference, state_of

pytestmark = pytest.mark.databases("sqlite", "postgres")


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def test_a_folder_becomes_ready_documents_with_chunks_and_index_rows(home, folder):
    write(folder, rope="# Rope\n\nCoil a wet rope loosely.", anchor="The anchor weighs forty kilograms.")
    source = home.add(folder)
    report = home.sync(source)
    assert (report.status, report.new, report.failed, report.embedded) == ("ok", 2, 0, 2)
    assert {name: row["status"] for name, row in home.documents().items()} == {"rope.md": "ready", "anchor.md": "ready"}
    assert home.rows(source) == {"raw_items": 2, "documents": 2, "chunks": 2}
    assert len(home.indexed()) == 2


def test_a_second_sync_writes_nothing_at_all(home, folder):
    write(folder, rope="Coil a wet rope loosely.", anchor="The anchor weighs forty kilograms.")
    source = home.add(folder)
    home.sync(source)
    before = home.files()
    report = home.sync(source)
    assert (report.new, report.changed, report.unchanged, report.embedded) == (0, 0, 2, 0)
    assert home.files() == before


def test_an_edit_embeds_only_the_chunks_it_touched(home, folder):
    paragraphs = [f"Paragraph {n} is about knot number {n}. " * 12 for n in range(12)]
    write(folder, knots="\n\n".join(paragraphs), other="Another document stays as it is.")
    source = home.add(folder)
    first = home.sync(source)
    paragraphs[-1] += "And this sentence is new."
    write(folder, knots="\n\n".join(paragraphs))
    report = home.sync(source)
    assert first.embedded > 4
    assert (report.changed, report.documents_embedded) == (1, 1)
    assert 1 <= report.embedded <= 2
    assert any("sentence is new" in text for _, text in home.indexed().values())


def test_a_touched_file_with_equal_bytes_goes_no_further_than_its_bytes(home, folder):
    write(folder, rope="Coil a wet rope loosely.")
    source = home.add(folder)
    home.sync(source)
    before = home.store.ledger.data_version(Lane("raw_items", "k", source.source_id))
    (folder / "rope.md").touch()
    report = home.sync(source)
    assert report.embedded == 0
    assert home.store.ledger.data_version(Lane("raw_items", "k", source.source_id)) == before
    assert home.documents()["rope.md"]["status"] == "ready"


def test_a_removed_file_leaves_no_row_and_comes_back_when_the_file_does(home, folder):
    write(folder, rope="Coil a wet rope loosely.", anchor="The anchor weighs forty kilograms.")
    source = home.add(folder)
    home.sync(source)
    (folder / "rope.md").unlink()
    report = home.sync(source)
    assert report.removed == 1 or report.removed >= 1
    assert home.documents()["rope.md"]["status"] == "archived"
    assert home.rows(source) == {"raw_items": 1, "documents": 1, "chunks": 1}
    assert all("wet rope" not in text for _, text in home.indexed().values())
    write(folder, rope="Coil a wet rope loosely.")
    home.sync(source)
    assert home.documents()["rope.md"]["status"] == "ready"
    assert any("wet rope" in text for _, text in home.indexed().values())


def test_a_broken_file_harms_no_other_and_is_read_again_when_it_is_mended(home, folder):
    write(folder, rope="Coil a wet rope loosely.")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing more")
    (folder / "empty.txt").write_bytes(b"")
    source = home.add(folder)
    report = home.sync(source)
    assert (report.status, report.failed) == ("ok", 2)
    failed = home.documents("failed")
    assert set(failed) == {"broken.pdf", "empty.txt"}
    assert all(name in row["error"] for name, row in failed.items())
    assert home.sync(source).failed == 0  # corrupt bytes are not tried again until they change
    (folder / "empty.txt").write_text("Now it has a text about mooring.")
    home.sync(source)
    assert home.documents()["empty.txt"]["status"] == "ready"


def test_a_file_that_becomes_unreadable_no_longer_answers_with_its_old_text(home, folder):
    write(folder, page="The old text about lanterns.")
    source = home.add(folder)
    home.sync(source)
    (folder / "page.md").write_bytes(b"")
    home.sync(source)
    assert home.documents()["page.md"]["status"] == "failed"
    assert home.indexed() == {}


def test_a_missing_folder_fails_the_run_and_retires_nothing(home, folder, tmp_path):
    write(folder, rope="Coil a wet rope loosely.")
    source = home.add(folder)
    home.sync(source)
    folder.rename(tmp_path / "elsewhere")
    report = home.sync(source)
    assert report.status == "failed"
    assert "folder" in report.error
    assert len(home.indexed()) == 1
    assert home.store.catalog.source("k", source.source_id).status == "failed"


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_equal_bytes_are_two_documents_and_one_embedding(home, folder):
    write(folder, a="The same words in both.", b="The same words in both.")
    for name in "ab":
        (folder / f"{name}.md").rename(folder / f"{name}.txt")
    (folder / "a.txt").write_text("# Same\n\nThe same words in both.")
    (folder / "b.txt").write_text("# Same\n\nThe same words in both.")
    records = folder / "r.jsonl"
    records.write_text(
        "".join(json.dumps({"id": i, "title": "Same", "text": "The same words in both."}) + "\n" for i in ("1", "2"))
    )
    report = home.sync(home.add(records, "records"))
    assert (report.new, report.embedded) == (2, 1)
    assert len(home.indexed()) == 2


def test_two_folders_with_a_file_of_one_name_are_two_documents(home, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "readme.md").write_text(f"This is folder {name} and nothing else.")
        home.sync(home.add(tmp_path / name))
    assert len(home.indexed()) == 2


def test_other_chunk_sizes_and_models_make_exactly_the_later_stages_stale(home, folder, settings, request):
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline_tests.assets.conftest import Home, SilentProgress

    write(folder, long="\n\n".join(f"Sentence number {n} about the harbour wall and its stones." for n in range(60)))
    source = home.add(folder)
    home.sync(source)
    raw = home.store.ledger.data_version(Lane("documents", "k", source.source_id))
    before = set(home.indexed())
    changed = Settings(
        **{**settings.model_dump(), "chunk_size": 300, "chunk_overlap": 50, "embedding_model": "fake:other:16"}
    )
    store = Store(changed)
    with open_syncer(store, SilentProgress()) as syncer:
        other = Home(store, syncer)
        report = other.sync(source)
        assert report.new == report.changed == 0
        assert report.embedded > len(before)
        assert store.ledger.data_version(Lane("documents", "k", source.source_id)) == raw
        assert set(other.indexed()) == before
        promote(store, "k")
        assert len(other.indexed()) == report.embedded
    store.catalog.engine.dispose()


def test_a_run_that_died_leaves_its_documents_pending_and_the_next_sync_finishes_them(home, folder):
    write(folder, rope="Coil a wet rope loosely.")
    source = home.add(folder)
    home.sync(source)
    document = home.documents()["rope.md"]["document_id"]
    home.store.documents.set_status([document], "chunking", "dead-run")
    row = home.store.catalog.source("k", source.source_id)
    with home.store.working_on(row):
        assert home.store.release_orphans(row) == 0  # a living run keeps its documents
    assert home.store.release_orphans(row) == 1
    assert home.documents()["rope.md"]["status"] == "pending"
    home.sync(source)
    assert home.documents()["rope.md"]["status"] == "ready"


@pytest.mark.databases("sqlite")  # about files: one database is enough
@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_batch_size_changes_neither_ids_nor_rows(home, folder, batch, settings, tmp_path):
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline_tests.assets.conftest import Home, SilentProgress

    write(folder, **{f"doc{n}": f"Document {n} speaks of buoy {n}." for n in range(5)})
    home.sync(home.add(folder))
    store = Store(Settings(**{**settings.model_dump(), "kb_home": tmp_path / "other", "batch_documents": batch}))
    store.initialise()
    store.catalog.create_knowledge_base("k")
    with open_syncer(store, SilentProgress()) as syncer:
        other = Home(store, syncer)
        other.sync(other.add(folder))
        assert other.indexed() == home.indexed()
    store.catalog.engine.dispose()


def test_in_a_run_of_many_sources_a_failed_one_keeps_no_other_from_the_index(home, folder, tmp_path):
    import dagster as dg

    from kb_pipeline.automation.partitions import source_partitions

    write(folder, rope="Coil a wet rope loosely.")
    gone = tmp_path / "gone"
    gone.mkdir()
    bad, good = home.add(gone), home.add(folder)
    gone.rmdir()
    instance = home.syncer._instance
    instance.add_dynamic_partitions(source_partitions.name, [bad.partition, good.partition])
    span = {
        "dagster/asset_partition_range_start": bad.partition,
        "dagster/asset_partition_range_end": good.partition,
    }
    result = home.syncer._job.execute_in_process(instance=instance, tags=span)
    assert result.success
    assert home.documents()["rope.md"]["status"] == "ready"
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed]
    assert [check.check_name for check in failed] == ["no_source_failed"]
    assert failed[0].severity == dg.AssetCheckSeverity.ERROR
    assert "gone" in failed[0].description
    assert home.store.catalog.source("k", bad.source_id).status == "failed"
    told = {
        (event.materialization.asset_key.to_user_string(), event.materialization.partition): event.materialization
        for event in result.get_asset_materialization_events()
    }
    raw = told["raw_items", good.partition].metadata
    assert (raw["dagster/row_count"].value, raw["written"].value, raw["run/written"].value) == (1, 1, 1)
    raw = told["raw_items", bad.partition].metadata
    assert "gone" in raw["not_worked_on"].value
    assert "written" not in raw


def test_a_source_can_be_registered_from_the_launchpad(home, folder):
    import dagster as dg

    from kb_pipeline.automation.jobs import register_source_job
    from kb_pipeline.automation.partitions import source_partitions
    from kb_pipeline.connectors.document import DocumentConnector
    from kb_pipeline.connectors.registry import Registry

    registry = Registry([DocumentConnector(home.store.settings)])
    with dg.DagsterInstance.ephemeral() as instance:
        register_source_job.execute_in_process(
            instance=instance,
            resources={"store": home.store, "connectors": registry},
            run_config={"ops": {"register_source": {"config": {"kb": "new", "input": str(folder), "every": "1h"}}}},
        )
        (source,) = home.store.catalog.sources("new")
        assert instance.get_dynamic_partitions(source_partitions.name) == [source.partition]
        assert source.every_s == 3600


def test_a_feed_that_says_not_modified_counts_its_documents_as_unchanged(home, settings):
    from kb_pipeline.testing.loopback import Loopback

    feed = """<rss version="2.0"><channel><title>f</title><link>https://harbour.example/</link>
    <item><guid>1</guid><title>One</title><description>{0}</description></item></channel></rss>"""
    body = feed.format("A long enough text about the tide. " * 30)
    with Loopback() as stub:
        stub.serve("https://harbour.example/feed.xml", body=body, content_type="application/rss+xml", etag='"v1"')
        routed = Store(Settings(**{**settings.model_dump(), "http_route": stub.route}))
        from kb_pipeline.automation.run import open_syncer
        from kb_pipeline_tests.assets.conftest import Home, SilentProgress

        with open_syncer(routed, SilentProgress()) as syncer:
            other = Home(routed, syncer)
            source = other.add("https://harbour.example/feed.xml", "rss")
            first, second = other.sync(source), other.sync(source)
        routed.catalog.engine.dispose()
    assert (first.new, first.failed) == (1, 0)
    assert (second.listed, second.unchanged, second.new, second.changed) == (1, 1, 0, 0)


@pytest.mark.databases("sqlite")  # about files: one database is enough
@pytest.mark.parametrize("what", ["lance", "parquet/raw_items", "parquet/documents", "parquet/chunks", "blobs"])
def test_what_was_lost_on_disk_is_made_anew_by_the_next_sync(home, folder, what):
    import shutil

    write(folder, rope="Coil a wet rope loosely.", anchor="The anchor weighs forty kilograms.")
    source = home.add(folder)
    home.sync(source)
    before = home.indexed()
    shutil.rmtree(home.store.layout.root / what)
    if what in ("blobs", "parquet/raw_items"):
        (folder / "rope.md").touch()
    assert home.sync(source).status == "ok"
    home.sync(source)
    assert home.indexed() == before
    assert home.rows(source) == {"raw_items": 2, "documents": 2, "chunks": 2}
    assert {row["status"] for row in home.documents().values()} == {"ready"}


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_a_lost_blob_is_fetched_again_when_it_is_needed(home, folder):
    import shutil

    write(folder, rope="Coil a wet rope loosely.")
    source = home.add(folder)
    home.sync(source)
    shutil.rmtree(home.store.layout.blobs)
    lane = Lane("documents", "k", source.source_id)
    home.store.ledger.remove(lane, [home.documents()["rope.md"]["document_id"]])
    assert home.sync(source).failed == 1
    assert home.documents()["rope.md"]["error_kind"] == "transient"
    assert home.sync(source).failed == 0
    assert home.documents()["rope.md"]["status"] == "ready"


def test_a_row_nobody_accounts_for_goes(home, folder):
    write(folder, rope="Coil a wet rope loosely.", anchor="The anchor weighs forty kilograms.")
    source = home.add(folder)
    home.sync(source)
    document = home.documents()["rope.md"]["document_id"]
    home.store.ledger.remove_unit(document)
    (folder / "rope.md").unlink()
    home.sync(source)
    assert [text for _, text in home.indexed().values()] == ["The anchor weighs forty kilograms."]
    assert home.rows(source) == {"raw_items": 1, "documents": 1, "chunks": 1}


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_a_touched_failed_file_stays_failed_with_its_reason(home, folder):
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 garbage")
    source = home.add(folder)
    home.sync(source)
    before = home.documents()["bad.pdf"]
    (folder / "bad.pdf").touch()
    home.sync(source)
    after = home.documents()["bad.pdf"]
    assert (after["status"], after["error_kind"], after["error"]) == ("failed", before["error_kind"], before["error"])


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_a_touched_file_keeps_the_title_it_has(home, folder):
    (folder / "a.html").write_text("<title>Nice title</title><p>" + "Some words about the quay. " * 20)
    source = home.add(folder)
    home.sync(source)
    (folder / "a.html").touch()
    home.sync(source)
    assert home.documents()["a.html"]["title"] == "Nice title"


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_two_files_that_swap_names_swap_texts_also_with_equal_size_and_time(home, folder):
    import os

    for name, text in (("p.txt", "aaaa alpaca"), ("q.txt", "bbbb baboon")):
        (folder / name).write_text(text)
        os.utime(folder / name, (1_500_000_000, 1_500_000_000))
    source = home.add(folder)
    home.sync(source)
    (folder / "p.txt").rename(folder / "x")
    (folder / "q.txt").rename(folder / "p.txt")
    (folder / "x").rename(folder / "q.txt")
    assert home.sync(source).changed == 2
    ids = {row["document_id"]: name for name, row in home.documents().items()}
    assert {ids[document]: text for document, text in home.indexed().values()} == {
        "p.txt": "bbbb baboon",
        "q.txt": "aaaa alpaca",
    }


def test_a_record_with_a_lone_surrogate_anywhere_is_cleaned_and_harms_no_other(home, folder):
    lines = [
        '{"id": "ok", "text": "A fine record about tar."}',
        '{"id": "s\\ud800", "text": "Surrogate in the id."}',
        '{"id": "t", "title": "T\\ud800", "url": "https://a.example/\\ud800", "text": "In the title."}',
        '{"id": "m", "text": "In the metadata.", "metadata": {"a\\ud800": ["\\ud800"]}}',
    ]
    (folder / "r.jsonl").write_text("\n".join(lines))
    report = home.sync(home.add(folder / "r.jsonl", "records"))
    assert (report.status, report.new, report.failed, len(home.indexed())) == ("ok", 4, 0, 4)
    assert all("\ud800" not in row["title"] for row in home.documents().values())


def test_a_title_of_any_length_is_cut(home, folder):
    (folder / "r.jsonl").write_text(json.dumps({"id": "1", "title": "T" * 100_000, "text": "A short text."}))
    home.sync(home.add(folder / "r.jsonl", "records"))
    assert len(home.documents()["1"]["title"]) == 500


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_a_damaged_part_file_is_set_aside_and_its_documents_are_made_anew(home, folder):
    from kb_pipeline.doctor import examine

    write(folder, rope="Coil a wet rope loosely.")
    source = home.add(folder)
    home.sync(source)
    (part,) = (home.store.layout.root / "parquet" / "documents").rglob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:100])
    from kb_pipeline.testing.embedder import HashingEmbedder

    found = partial(examine, home.store, lambda model: HashingEmbedder("t", 8), lambda: None)
    broken = [finding for finding in found() if finding.state == "broken"]
    assert [finding.subject.split()[0] for finding in broken] == ["documents"]
    assert home.sync(source).status == "ok"
    assert home.rows(source) == {"raw_items": 1, "documents": 1, "chunks": 1}
    assert all(finding.state == "ok" for finding in found())


def test_a_file_over_a_cap_is_read_when_the_cap_is_raised_and_nothing_else_is(home, folder):
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline_tests.assets.conftest import Home, SilentProgress

    write(folder, small="Coil a wet rope loosely.", large="The anchor weighs forty kilograms. " * 60)
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 nothing more")
    capped = Store(Settings(**{**home.store.settings.model_dump(), "max_file_bytes": 1000}))
    with open_syncer(capped, SilentProgress()) as syncer:
        other = Home(capped, syncer)
        source = other.add(folder)
        assert other.sync(source).failed == 2
        assert other.documents()["large.md"]["error_kind"] == "too_large"
        assert "1,000 bytes" in other.documents()["large.md"]["error"]
        assert other.sync(source).failed == 0  # the same cap: nothing to try
    capped.catalog.engine.dispose()
    before = home.store.ledger.known(Lane("documents", "k", ""), [home.documents()["small.md"]["document_id"]])
    report = home.sync(source)
    assert (report.failed, report.unchanged) == (0, 2)
    assert home.documents()["large.md"]["status"] == "ready"
    assert home.store.ledger.known(Lane("documents", "k", ""), list(before)) == before
    assert home.documents()["bad.pdf"]["status"] == "failed"


def test_documents_of_a_dead_run_that_leave_the_source_before_the_next_do_not_wait_for_ever(home, folder):
    write(folder, rope="Coil a wet rope loosely.", anchor="The anchor weighs forty kilograms.")
    source = home.add(folder)
    home.sync(source)
    lost = {"document_id": "d" + "0" * 24, "kb_id": "k", "source_id": source.source_id, "external_id": "gone.md"}
    home.store.documents.save([{**lost, "title": "gone.md", "url": None, "status": "fetching", "run_id": "dead"}])
    home.sync(source)
    assert home.documents()["gone.md"]["status"] == "archived"
    assert len(home.documents("ready")) == 2


def test_what_leaves_together_with_a_change_of_model_leaves_the_old_table_too(home, folder):
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline_tests.assets.conftest import Home, SilentProgress

    write(folder, rope="Coil a wet rope loosely.", anchor="The anchor weighs.", lamp="The lamp is red.")
    source = home.add(folder)
    home.sync(source)
    (folder / "rope.md").unlink()
    store = Store(Settings(**{**home.store.settings.model_dump(), "embedding_model": "fake:other:16"}))
    with open_syncer(store, SilentProgress()) as syncer:
        other = Home(store, syncer)
        other.sync(source)
        assert [index.statistics().rows for index in other.index()] == [2, 2]
        assert sorted(text for _, text in other.indexed().values()) == ["The anchor weighs.", "The lamp is red."]
        promote(store, "k")
        assert sorted(text for _, text in other.indexed().values()) == ["The anchor weighs.", "The lamp is red."]
    store.catalog.engine.dispose()


@pytest.mark.databases("sqlite")  # about files: one database is enough
def test_records_that_moved_in_their_file_are_as_in_a_fresh_build(home, folder, settings):
    path = folder / "r.jsonl"
    lines = ['{"id": "a", "text": "Buoy a."}', '{"id": "b", "text": "Buoy b.", "published_at": "soon"}', "{bad"]
    lines += ['{"id": "a", "text": "Again a."}']
    path.write_text("\n".join(lines))
    source = home.add(path, connector="records")
    home.sync(source)
    path.write_text("\n".join(['{"id": "new", "text": "Buoy new."}'] * 3 + lines))
    home.sync(source)
    assert "record b" in home.documents()["b"]["error"]
    fresh = Store(settings.model_copy(update={"kb_home": settings.kb_home.with_name("fresh")}))
    fresh.initialise()
    fresh.catalog.create_knowledge_base("k")
    with open_syncer(fresh, SilentProgress()) as syncer:
        other = Home(fresh, syncer)
        other.sync(other.add(path, connector="records"))
        assert not difference(state_of(home.store), state_of(fresh))
        errors = [{name: row["error"] for name, row in at.documents().items() if row["error"]} for at in (home, other)]
    fresh.catalog.engine.dispose()
    assert errors[0] == errors[1]
    assert len(errors[0]) == 5


@pytest.mark.databases("sqlite")  # about files: one database is enough
@pytest.mark.parametrize("table", ["raw_items", "documents", "chunks"])
@pytest.mark.parametrize("is_older", [False, True])
def test_a_copy_of_a_part_file_is_removed_and_every_document_is_there_once(home, folder, table, is_older):
    write(folder, rope="Coil a wet rope loosely.", knot="A bowline holds.")
    source = home.add(folder)
    home.sync(source)
    before, rows = home.indexed(), home.rows(source)
    (part,) = (home.store.layout.root / "parquet" / table).rglob("part-*.parquet")
    copy = part.read_bytes()
    if is_older:
        write(folder, rope="Coil a wet rope loosely, and never in the sun.")
        home.sync(source)
        before = home.indexed()
    part.with_name("part-0copy.parquet").write_bytes(copy)
    assert home.sync(source).status == "ok"
    assert home.sync(source).status == "ok"
    assert home.rows(source) == rows
    assert home.indexed() == before
    assert len(home.documents("ready")) == 2
