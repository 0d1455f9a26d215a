"""What leaves a source leaves the index, and nothing leaves because a listing went wrong."""

import pytest

from kb_pipeline.automation.run import open_syncer
from kb_pipeline.doctor import examine
from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline.testing.embedder import HashingEmbedder
from kb_pipeline.testing.loopback import Loopback
from kb_pipeline_tests.assets.conftest import Home, SilentProgress

pytestmark = pytest.mark.databases("sqlite", "postgres")


@pytest.fixture
def ten(home, folder):
    """A synced folder of ten files."""
    for n in range(10):
        (folder / f"f{n}.md").write_text(f"Buoy number {n} rings.")
    source = home.add(folder)
    home.sync(source)
    return source


def live(home):
    return {name for name, row in home.documents().items() if row["status"] == "ready"}


def test_a_folder_that_loses_half_of_its_files_keeps_them_until_a_second_listing(home, folder, ten):
    for n in range(5):
        (folder / f"f{n}.md").unlink()
    report = home.sync(ten)
    assert (report.status, report.removed, report.waiting) == ("ok", 0, 5)
    assert len(live(home)) == len(home.indexed()) == 10
    assert sum(row["missing_since"] is not None for row in home.documents().values()) == 5
    (finding,) = (each for each in examine(home.store, lambda _: HashingEmbedder("t", 8), lambda: None) if each.advice)
    assert "5 of them are missing from its last listing" in finding.found
    assert "--accept-removals" in finding.advice
    before = home.files()
    report = home.sync(ten)
    assert report.waiting == 0
    assert live(home) == {f"f{n}.md" for n in range(5, 10)}
    assert len(home.indexed()) == 5
    assert home.rows(ten) == {"raw_items": 5, "documents": 5, "chunks": 5}
    assert home.files() != before


def test_an_emptied_folder_keeps_everything_and_forgets_the_suspicion_when_the_files_are_back(home, folder, ten):
    texts = {path: path.read_text() for path in folder.iterdir()}
    for path in texts:
        path.unlink()
    assert home.sync(ten).waiting == 10
    for path, text in texts.items():
        path.write_text(text)
    report = home.sync(ten)
    assert (report.removed, report.waiting, report.embedded) == (0, 0, 0)
    assert all(row["missing_since"] is None for row in home.documents().values())
    for path in texts:
        path.unlink()
    assert home.sync(ten).waiting == 10  # counted anew
    assert len(home.indexed()) == 10


def test_a_person_can_accept_removals_at_once(home, folder, ten):
    for n in range(9):
        (folder / f"f{n}.md").unlink()
    row = home.store.catalog.source("k", ten.source_id)
    report = home.syncer.sync(row, accept_removals=True)
    assert (report.removed >= 9, report.waiting) == (True, 0)
    assert len(home.indexed()) == 1
    archived = home.documents("archived")
    assert len(archived) == 9
    assert {row["chunks"] for row in archived.values()} == {0}


def test_a_listing_that_breaks_off_retires_nothing_and_confirms_nothing(home, folder, ten, monkeypatch):
    from kb_pipeline.connectors.document import DocumentConnector
    from kb_pipeline.errors import Transient

    whole = DocumentConnector.list_items

    def broken(self, source, state):
        listing = whole(self, source, state)

        def some():
            yield from list(listing.items)[:2]
            raise Transient("the folder went away")

        return type(listing)(items=some(), is_complete=True, state=listing.state)

    monkeypatch.setattr(DocumentConnector, "list_items", broken)
    for _ in range(2):
        assert home.sync(ten).status == "failed"
    assert len(home.indexed()) == 10
    assert all(row["missing_since"] is None for row in home.documents().values())


def test_a_page_that_answers_404_is_archived_at_the_second_time_and_comes_back(settings):
    with Loopback() as site:
        site.serve("https://pages.example/tide", body=b"<html><body><article>" + b"<p>The tide turns at noon.</p>" * 9)
        store = Store(Settings(**{**settings.model_dump(), "http_route": site.route}))
        store.initialise()
        store.catalog.create_knowledge_base("k")
        with open_syncer(store, SilentProgress()) as syncer:
            home = Home(store, syncer)
            source = home.add("https://pages.example/tide", "url")
            assert home.sync(source).status == "ok"
            site.serve("https://pages.example/tide", status=404)
            first = home.sync(source)
            assert (first.status, len(home.indexed())) == ("failed", 1)
            second = home.sync(source)
            assert (second.status, second.removed >= 1, home.indexed()) == ("ok", True, {})
            assert set(home.documents("archived")) == {"https://pages.example/tide"}
            assert "404" in store.catalog.source("k", source.source_id).error
            assert home.sync(source).status == "failed"
            site.serve("https://pages.example/tide", body=b"<html><body><article>" + b"<p>It turns at one.</p>" * 9)
            assert home.sync(source).status == "ok"
            assert any("turns at one" in text for _, text in home.indexed().values())
        store.catalog.engine.dispose()
