"""A damaged search index is seen, set aside, and made anew from the stored chunks, source by source."""

import pytest

from kb_pipeline.doctor import examine
from kb_pipeline.services.embedders import open_embedder
from kb_pipeline.storage.lance_damage import DAMAGED, damage_of


def empty_data(table):
    for path in table.glob("data/*.lance"):
        path.write_bytes(b"")


def drop_data(table):
    for path in table.glob("data/*.lance"):
        path.unlink()


def empty_indexes(table):
    for path in table.glob("_indices/*/*"):
        path.write_bytes(b"")


def junk_manifests(table):
    for path in table.glob("_versions/*.manifest"):
        path.write_bytes(b"no manifest at all" * 9)


@pytest.fixture
def two(home, tmp_path):
    """Two synced sources in one table."""
    sources = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for n in range(20):
            (tmp_path / name / f"{name}{n}.md").write_text(f"Folder {name} speaks of lantern {n}.")
        sources.append(home.add(tmp_path / name))
        home.sync(sources[-1])
    return sources


def findings(home):
    store = home.store
    return list(examine(store, lambda model: open_embedder(store.settings, store.layout.models, model), lambda: None))


@pytest.mark.parametrize("damage", [empty_data, drop_data, empty_indexes, junk_manifests])
def test_a_damaged_index_is_set_aside_and_each_sync_makes_its_passages_anew(home, two, damage):
    before = home.indexed()
    (index,) = home.index()
    damage(index.path)
    assert damage_of(index.path)
    broken = [finding for finding in findings(home) if finding.state == "broken"]
    assert any("damaged" in finding.found and "kb sync --all" in finding.advice for finding in broken)
    assert home.sync(two[0]).status == "ok"
    assert len(home.indexed()) == 20
    assert list(index.path.parent.glob(f"*{DAMAGED}*"))
    assert home.sync(two[1]).status == "ok"
    assert home.indexed() == before
    assert not [finding for finding in findings(home) if finding.state == "broken"]


def test_a_sound_index_is_left_alone(home, two):
    (index,) = home.index()
    assert damage_of(index.path) == damage_of(index.path, whole=True) == ""
    assert index.set_aside_if_damaged() is None
