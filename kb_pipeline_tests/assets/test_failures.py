"""Failures of single units and of listings, told by a connector that fails on demand."""

from typing import ClassVar

import pytest

from kb_pipeline.automation.instance import open_instance
from kb_pipeline.automation.run import Syncer
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import Blocked, Corrupt, SystemicError, Transient
from kb_pipeline.records import Item, Listing, RawItem
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.storage.store import Store
from kb_pipeline.testing.embedder import HashingEmbedder
from kb_pipeline_tests.assets.conftest import Home, SilentProgress


class OnDemand:
    """Lists what it is told to and fails where it is told to."""

    name: ClassVar[str] = "ondemand"
    has_global_ids: ClassVar[bool] = False
    understands: ClassVar[str] = "nothing"

    def __init__(self):
        self.texts = {}
        self.failing = {}
        self.breaks_after = None
        self.is_complete = True

    def detect(self, source_input):
        return False

    def canonical(self, source_input):
        return source_input

    def list_items(self, source, state):
        return Listing(items=self._items(), is_complete=self.is_complete)

    def _items(self):
        for number, (name, text) in enumerate(self.texts.items()):
            if number == self.breaks_after:
                raise Transient("the listing broke off")
            yield Item(external_id=name, version=text)

    def fetch(self, item):
        if error := self.failing.get(item.external_id):
            raise error
        return RawItem(content=self.texts[item.external_id].encode(), kind="file", file_name=item.external_id)


@pytest.fixture
def connector():
    return OnDemand()


@pytest.fixture
def home(settings, connector):
    store = Store(settings)
    store.initialise()
    store.catalog.create_knowledge_base("k")
    with open_instance(settings) as instance, Sandbox(settings) as sandbox:
        resources = {
            "store": store,
            "connectors": Registry([connector]),
            "embedder": HashingEmbedder("test", 32),
            "sandbox": sandbox,
            "progress": SilentProgress(),
        }
        yield Home(store, Syncer(store, resources, instance))
    store.catalog.engine.dispose()


@pytest.fixture
def source(home):
    return home.store.catalog.add_source("k", "ondemand", "anything")


def test_each_kind_of_failure_stays_with_its_document_and_passes_when_it_can(home, source, connector):
    connector.texts = {f"{name}.txt": f"The text of {name} speaks of buoys." for name in ("good", "slow", "odd", "bad")}
    connector.failing = {
        "slow.txt": Transient("slow.txt: the server was busy"),
        "odd.txt": ZeroDivisionError("division by zero"),
        "bad.txt": Corrupt("bad.txt: damaged"),
    }
    report = home.sync(source)
    assert (report.status, report.failed) == ("ok", 3)
    rows = home.documents()
    assert rows["good.txt"]["status"] == "ready"
    kinds = {name: row["error_kind"] for name, row in rows.items() if row["status"] == "failed"}
    assert kinds == {"slow.txt": "transient", "odd.txt": "bug", "bad.txt": "corrupt"}
    assert "ZeroDivisionError" in rows["odd.txt"]["error"]
    connector.failing = {}
    report = home.sync(source)
    assert (report.new, report.changed) == (0, 0)
    statuses = {name: row["status"] for name, row in home.documents().items()}
    assert statuses == {"good.txt": "ready", "slow.txt": "ready", "odd.txt": "ready", "bad.txt": "failed"}
    connector.texts["bad.txt"] = "Now the bytes are whole again."
    assert home.sync(source).changed == 1
    assert home.documents()["bad.txt"]["status"] == "ready"


def test_a_listing_that_breaks_off_keeps_what_it_brought_and_retires_nothing(home, source, connector, settings):
    connector.texts = {f"{n}.txt": f"Text number {n} about lanterns." for n in range(4)}
    home.sync(source)
    connector.texts = {"new.txt": "A new text about wicks.", **connector.texts}
    connector.breaks_after = 2
    report = home.sync(source)
    assert report.status == "failed"
    assert "broke off" in report.error
    assert len(home.indexed()) == 4
    connector.breaks_after = None
    assert home.sync(source).status == "ok"
    assert len(home.indexed()) == 5


def test_a_window_that_moved_on_retires_nothing(home, source, connector):
    connector.is_complete = False
    connector.texts = {"old.txt": "The old entry about tar."}
    home.sync(source)
    connector.texts = {"new.txt": "The new entry about pitch."}
    report = home.sync(source)
    assert (report.removed, len(home.indexed())) == (0, 2)


def test_a_document_that_cannot_be_looked_at_keeps_its_older_text(home, source, connector):
    connector.texts = {"a.txt": "The first text about oars."}
    home.sync(source)
    connector.texts = {"a.txt": "The second text about oars."}
    connector.failing = {"a.txt": Blocked("a.txt: a login wall")}
    home.sync(source)
    assert home.documents()["a.txt"]["error_kind"] == "blocked"
    assert [text for _, text in home.indexed().values()] == ["The first text about oars."]
    connector.failing = {}
    home.sync(source)
    assert [text for _, text in home.indexed().values()] == ["The second text about oars."]


def test_a_systemic_error_stops_the_run_with_one_line(home, source, connector):
    connector.texts = {"a.txt": "One.", "b.txt": "Two."}
    connector.failing = {"a.txt": SystemicError("the key was refused; set it anew")}
    report = home.sync(source)
    assert report.status == "failed"
    assert "the key was refused; set it anew" in report.error


def test_an_item_named_twice_is_one_document(home, source, connector):
    class Doubled(dict):
        def items(self):
            return [*super().items(), *super().items()]

    connector.texts = Doubled({"a.txt": "Named twice in one listing."})
    report = home.sync(source)
    assert (report.new, report.failed, len(home.indexed())) == (1, 0, 1)
