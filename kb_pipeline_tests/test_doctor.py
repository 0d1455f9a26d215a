"""What `kb doctor` and the commands beside it say of damage to the catalog and to Dagster's own files."""

import shutil
from contextlib import suppress

import pytest

from kb_pipeline.automation.instance import check_instance, open_instance
from kb_pipeline.doctor import examine
from kb_pipeline.errors import SystemicError
from kb_pipeline.services.embedders import open_embedder
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_read import open_reads
from kb_pipeline.storage.store import Store
from kb_pipeline.testing.embedder import HashingEmbedder
from kb_pipeline_tests.query.homes import Home


def flip(path, start=8192, step=37):
    """Turn every 37th byte past the first pages around, as a failing disk may."""
    content = bytearray(path.read_bytes())
    for at in range(start, len(content), step):
        content[at] ^= 0xFF
    path.write_bytes(content)


@pytest.fixture
def filled(settings):
    """Settings of a home with a few rows, its catalog closed and in one file."""
    home = Home(settings)
    home.put(home.knowledge_base("k"), {f"Buoy {n}": f"Buoy {n} rings." for n in range(50)})
    home.catalog.engine.dispose()
    Store(settings).initialise()
    with open_instance(settings):
        pass
    return settings


def broken(settings):
    store = Store(settings)
    found = examine(store, lambda model: HashingEmbedder("t", 8), lambda: check_instance(settings))
    return {finding.subject: finding for finding in found if finding.state == "broken"}


def test_a_home_whose_catalog_was_emptied_has_rows_that_nobody_owns(filled):
    filled.kb_home.joinpath("catalog.sqlite").write_bytes(b"")
    finding = broken(filled)["rows without an owner"]
    assert "k/s" in finding.found
    assert "backup" in finding.advice


def test_the_model_of_each_base_is_tried(filled):
    catalog = Catalog.open(filled)
    catalog.create_knowledge_base("own")
    catalog.set_settings("own", {"embedding_model": "/nowhere/a-model"})
    store, tried = Store(filled), []

    def opening(model):
        tried.append(model)
        return open_embedder(filled, store.layout.models, model)

    found = {finding.found: finding.state for finding in examine(store, opening, lambda: None)}
    assert "/nowhere/a-model" in tried
    assert any("a-model" in said and state == "broken" for said, state in found.items())


@pytest.mark.parametrize("start", [100, 4096, 8192, 20_000])
def test_a_damaged_catalog_is_named_by_doctor_and_in_a_sentence_elsewhere(filled, start):
    flip(filled.kb_home / "catalog.sqlite", start)
    finding = broken(filled)["catalog"]
    assert "backup" in finding.advice
    for open_it in (Catalog.open, open_reads):
        with suppress(SystemicError):  # where the damage is of no concern to it
            open_it(filled).searchable(None, None, is_operator=True)


@pytest.mark.parametrize("name", ["runs.db", "index.db", "schedules.db"])
def test_a_damaged_record_of_runs_is_named_and_made_anew_once_it_is_moved_away(filled, name):
    folder = filled.kb_home / "dagster"
    (database,) = folder.rglob(name)
    database.write_bytes(b"junk" * 2_000)
    with pytest.raises(SystemicError, match="record of runs"):
        check_instance(filled)
    assert "move that folder away" in broken(filled)["runs"].advice
    shutil.move(folder, filled.kb_home / "dagster-before")
    check_instance(filled)


@pytest.mark.parametrize("text", [b"a: [", b"nonsense: 1", b"\x80\x81", b"- 1"])
def test_a_wrong_dagster_yaml_is_named(filled, text):
    (filled.kb_home / "dagster" / "dagster.yaml").write_bytes(text)
    assert "dagster.yaml" in broken(filled)["runs"].found
