"""Failures of single units and of listings, told by a connector that fails on demand."""

from dataclasses import replace
from typing import ClassVar

import pytest

from kb_pipeline.assets import s1_fetch, s2_normalize, s4_chunk
from kb_pipeline.assets.plan import Planner
from kb_pipeline.automation.instance import open_instance
from kb_pipeline.automation.run import Syncer
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import Blocked, Corrupt, SystemicError, Transient
from kb_pipeline.records import Item, Listing, RawItem
from kb_pipeline.services.embedders import Embedders
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
        self.extras = {}

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
        content, extras = self.texts[item.external_id].encode(), self.extras.get(item.external_id, {})
        return RawItem(**{"content": content, "kind": "file", "file_name": item.external_id, **extras})


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
            "embedders": Embedders(lambda _: HashingEmbedder("test", 32)),
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


def nested(depth):
    value = "deep"
    for _ in range(depth):
        value = {"in": [value]}
    return value


def planned(home, source, connector):
    with Sandbox(home.store.settings) as sandbox:
        return Planner(home.store, source, Embedders(lambda _: HashingEmbedder("test", 32)), sandbox).plan(connector)


@pytest.mark.parametrize(
    ("extras", "kind"),
    [
        ({"metadata": nested(450)}, "corrupt"),
        ({"metadata": nested(200_000)}, "corrupt"),
        ({"metadata": {"key": object, 5: 1}}, "bug"),  # keys that no JSON sorts
        ({"content": "no bytes"}, "bug"),
    ],
)
def test_whatever_a_connector_brings_the_others_go_on(home, source, connector, extras, kind):
    connector.texts = {f"{n}.txt": f"Text number {n} about lanterns." for n in range(3)}
    connector.extras = {"1.txt": extras}
    plan = planned(home, source, connector)
    report = home.sync(source)
    assert (report.status, report.failed, len(home.indexed())) == ("ok", 1, 2), report.error
    assert (plan.error, plan.unreadable, plan.embed) == (None, 1, report.embedded)
    row = home.documents("failed")["1.txt"]
    assert (row["error_kind"], "1.txt" in row["error"]) == (kind, True)
    assert home.rows(source) == {"raw_items": 2, "documents": 2, "chunks": 2}
    connector.extras = {}
    connector.texts["1.txt"] += " And more."
    home.sync(source)
    assert len(home.indexed()) == 3


def test_an_item_with_an_endless_id_is_refused_and_known_by_its_beginning(home, source, connector):
    for name in ("a" * 1_000, "b" * 1_001, "b" * 1_002, "c" * 100_000):
        connector.texts[name] = "A text about lanterns."
    plan, report = planned(home, source, connector), home.sync(source)
    assert (report.status, report.failed, plan.unreadable) == ("ok", 3, 3), report.error
    failed = home.documents("failed")
    assert all(len(name) < 200 and "longer than 1,000" in row["error"] for name, row in failed.items())
    assert home.sync(source).changed == 0


@pytest.mark.parametrize(
    "place",
    [
        (s1_fetch, "raw_output_hash"),
        (s2_normalize, "document_row"),
        (s2_normalize, "document_output_hash"),
        (s4_chunk, "marks_of"),
        (s4_chunk, "chunk_rows"),
        (s4_chunk, "chunks_output_hash"),
    ],
)
def test_an_unexpected_error_on_one_document_s_way_is_that_document_s(home, source, connector, monkeypatch, place):
    whole = getattr(*place)

    def failing(first, *more):
        if "1.txt" in str(first):
            raise RecursionError("too deep")
        return whole(first, *more)

    connector.texts = {f"{n}.txt": f"Text number {n}, of {n}.txt, about lanterns." for n in range(3)}
    monkeypatch.setattr(*place, failing)
    plan, report = planned(home, source, connector), home.sync(source)
    assert (report.status, report.failed, plan.unreadable) == ("ok", 1, 1), report.error
    assert home.documents("failed")["1.txt"]["error_kind"] == "bug"
    monkeypatch.undo()
    assert home.sync(source).failed == 0
    assert len(home.indexed()) == 3


def test_rows_that_their_table_cannot_take_fail_their_documents_only(home, source, connector, monkeypatch):
    whole = s4_chunk.split_document

    def split(text, *more):
        return [replace(chunk, page=2**40) if "number 1" in text else chunk for chunk in whole(text, *more)]

    monkeypatch.setattr(s4_chunk, "split_document", split)
    connector.texts = {f"{n}.txt": f"Text number {n} about lanterns." for n in range(4)}
    connector.extras = {"2.txt": {"author": 5}}
    report = home.sync(source)
    assert (report.status, report.failed, len(home.indexed())) == ("ok", 2, 2), report.error
    assert {row["error_kind"] for row in home.documents("failed").values()} == {"bug"}
    assert [home.documents("failed")[name]["chunks"] for name in ("1.txt", "2.txt")] == [0, 0]


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
