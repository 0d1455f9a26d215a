"""Law 1: after any history of adding, editing, deleting, crashing, changing settings, forgetting, the state equals that
of a fresh build from the same sources and settings; and one more sync does nothing at all.
"""

import itertools
import json
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kb_pipeline.lifecycle.forgetting import forget, unforget
from kb_pipeline.lifecycle.maintenance import maintain_tenant
from kb_pipeline.lifecycle.spaces import promote, roll_back
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.laws.commit_points import Crash, Watch, crash
from kb_pipeline_tests.laws.driver import Driver, difference, state_of
from kb_pipeline_tests.laws.test_kills import run_child_with

TEXTS = (
    "Buoy one rings at dusk.",
    "Buoy two rings at dawn. " * 8,
    "The harbour wall is made of basalt. " * 12 + "Its lamp is red.",
    "The harbour wall is made of basalt. " * 12 + "Its lamp is green.",
    "",
)
"""A few, so that documents often have equal bytes; the last cannot be read."""
NAMES = [f"f{n}.txt" for n in range(8)]
IDS = [str(n) for n in range(6)]
KINDS = ("records", "document")
WORKING = {"fetching", "parsing", "extracting", "chunking", "embedding"}


class Histories(RuleBasedStateMachine):
    """One home, a records file and a folder, and everything that can happen to them."""

    sandbox: Sandbox

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="kb-history-"))
        self.folder, self.records = self.root / "folder", self.root / "r.jsonl"
        self.lines: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self.chunk_size, self.model = 400, "a"
        self.folder.mkdir()
        self.write_records()
        (self.root / "prices.csv").write_text(
            "service,provider,model,usd_per_million_tokens,valid_from\nembedder,fake,b,1000,2020-01-01\n"
        )
        self.store = self.make_store(self.root / "home")
        self.watch = Watch(crash)
        self.watch.arm(None)

    def make_store(self, home, **given):
        wanted = {"embedding_model": f"fake:{self.model}:16", "chunk_size": self.chunk_size, **given}
        store = Store(
            Settings(
                kb_home=home, batch_documents=3, threads=1, chunk_overlap=20, prices_file=self.root / "prices.csv",
                **wanted,
            )
        )  # fmt: skip
        store.initialise()
        if not store.catalog.knowledge_bases():
            store.catalog.create_knowledge_base("k")
            store.catalog.add_source("k", "records", str(self.records))
            store.catalog.add_source("k", "document", str(self.folder))
        return store

    def reopen(self):
        self.store.catalog.engine.dispose()
        self.store = self.make_store(self.root / "home")

    def source(self, kind):
        return next(source for source in self.store.catalog.sources("k") if source.connector == kind)

    def write_records(self):
        lines = [json.dumps({"id": key, "title": f"Record {key}", "text": text}) for key, text in self.lines.items()]
        self.records.write_text("".join(line + "\n" for line in lines))

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    # What happens to the sources

    @initialize(texts=st.lists(st.sampled_from(TEXTS), min_size=3, max_size=6))
    def begin(self, texts):
        for name, text in zip(NAMES, texts, strict=False):
            (self.folder / name).write_text(text)

    @rule(name=st.sampled_from(NAMES), text=st.sampled_from(TEXTS))
    def write_file(self, name, text):
        (self.folder / name).write_text(text)

    @precondition(lambda self: self.names())
    @rule(data=st.data(), new=st.sampled_from(NAMES))
    def rename_file(self, data, new):
        (self.folder / data.draw(st.sampled_from(self.names()))).rename(self.folder / new)

    @precondition(lambda self: self.names())
    @rule(data=st.data())
    def delete_file(self, data):
        (self.folder / data.draw(st.sampled_from(self.names()))).unlink()

    @rule()
    def empty_folder(self):
        for name in self.names():
            (self.folder / name).unlink()

    @rule(key=st.sampled_from(IDS), text=st.sampled_from(TEXTS[:4]))
    def write_record(self, key, text):
        self.lines[key] = text
        self.write_records()

    @precondition(lambda self: self.lines)
    @rule(data=st.data())
    def delete_record(self, data):
        del self.lines[data.draw(st.sampled_from(sorted(self.lines)))]
        self.write_records()

    # What the product does

    @rule(kind=st.sampled_from(KINDS), accept=st.booleans())
    def sync(self, kind, accept):
        outcome = Driver(self.store, self.sandbox).sync(self.source(kind), accept)
        assert outcome.error is None
        statuses = {row["status"] for row in self.store.documents.rows("k", source_id=self.source(kind).source_id)}
        assert not statuses & WORKING

    @rule()
    def sync_while_the_folder_is_away(self):
        before, source = state_of(self.store), self.source("document")
        known = set(self.store.ledger.units(Lane("raw_items", "k", source.source_id), with_output=True))
        others = {
            row["document_id"] for row in self.store.documents.rows("k", source_id=self.source("records").source_id)
        }
        self.folder.rename(self.root / "away")
        try:
            outcome = Driver(self.store, self.sandbox).sync(source)
        finally:
            (self.root / "away").rename(self.folder)
        assert outcome.error
        after = state_of(self.store)
        for state in (before, after):  # what a dead run left is nobody's; its documents wait again
            state["raw_items"] = [row for row in state["raw_items"] if row["document_id"] in known | others]
            state["catalog"] = {
                d: row for d, row in state["catalog"].items() if row["status"] not in WORKING | {"pending"}
            }
        assert not difference(after, before)

    @rule()
    def sync_both_at_once(self):
        failures = []

        def work(kind):
            try:
                Driver(self.store, self.sandbox).sync(self.source(kind))
            except Exception as error:  # noqa: BLE001 - a thread's failure is the test's
                failures.append(error)

        threads = [threading.Thread(target=work, args=(kind,)) for kind in (*KINDS, *KINDS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures

    @rule(kind=st.sampled_from(KINDS), at=st.integers(0, 40), when=st.sampled_from(["before", "after"]))
    def crash_in_a_sync(self, kind, at, when):
        self.watch.arm(at, when)
        try:
            Driver(self.store, self.sandbox).sync(self.source(kind))
        except Crash:
            self.reopen()
        finally:
            self.watch.arm(None)

    @rule(at=st.integers(0, 60), is_killed=st.integers(0, 7))
    def kill_a_process(self, at, is_killed):
        if not is_killed:  # each costs seconds
            run_child_with(self.store.settings, self.root, "sync", at)

    @rule(size=st.sampled_from([60, 400]), model=st.sampled_from(["a", "b"]))
    def change_settings(self, size, model):
        self.chunk_size, self.model = size, model
        self.reopen()

    @rule()
    def promote(self):
        if "candidate" in self.roles():
            promote(self.store, "k", force=True)

    @rule()
    def roll_back(self):
        if "previous" in self.roles():
            roll_back(self.store, "k")

    @rule(keeps=st.booleans())
    def maintain(self, keeps):
        self.store.settings = self.store.settings.model_copy(update={"index_keep_spaces_s": 3600 if keeps else 0})
        maintain_tenant(self.store, "account-default")

    def roles(self):
        return [space.role for space in self.store.spaces.of("k")]

    @rule(budget=st.sampled_from([None, 0.0, 0.02]))
    def set_budget(self, budget):
        self.store.catalog.set_budget("k", budget)

    @rule(data=st.data())
    def do_again(self, data):
        known = [row["document_id"] for row in self.store.documents.rows("k") if row["status"] != "archived"]
        if known:
            mark = data.draw(st.sampled_from([self.store.ledger.make_stale, self.store.ledger.make_due]))
            mark([data.draw(st.sampled_from(known))])

    @rule(data=st.data())
    def forget(self, data):
        known = sorted(row["external_id"] for row in self.store.documents.rows("k"))
        if known:
            name = data.draw(st.sampled_from(known))
            forget(self.store, "k", name, by="ada")
            self.forgotten.add(name)

    @precondition(lambda self: self.forgotten)
    @rule(data=st.data())
    def unforget(self, data):
        name = data.draw(st.sampled_from(sorted(self.forgotten)))
        unforget(self.store, "k", name)
        self.forgotten.remove(name)

    # What must hold in the end

    @rule()
    def compare_with_a_fresh_build(self):
        self.store.catalog.set_budget("k", None)
        driver = Driver(self.store, self.sandbox)
        for _, kind in itertools.product(range(3), KINDS):  # suspicious removals want a second listing
            assert driver.sync(self.source(kind)).error is None
        for space in self.store.spaces.of("k"):
            if space.role != "dropped":
                self.compare_space(space)
        self.nothing_is_done_twice(driver)

    def compare_space(self, space):
        fresh = self.make_store(self.root / "fresh", embedding_model=space.embedding_model, chunk_size=space.chunk_size)
        try:
            fresh_driver = Driver(fresh, self.sandbox)
            for source in fresh.catalog.sources():
                assert fresh_driver.sync(source).error is None
            known = {row["external_id"] for row in fresh.documents.rows("k")}
            for name in self.forgotten & known:
                forget(fresh, "k", name, by="ada")
            ours, theirs = state_of(self.store, space.role), state_of(fresh)
        finally:
            fresh.catalog.engine.dispose()
            shutil.rmtree(self.root / "fresh")
        if space.role == "previous":  # what is kept may be less, and is true
            made_up = [key for key, row in ours["index"].items() if theirs["index"].get(key) != row]
            assert not made_up, (space.space_id, made_up)
            return
        if space.role == "candidate":
            del ours["catalog"]
        found = difference(ours, theirs)
        assert not found, (space.role, found)

    def nothing_is_done_twice(self, driver):
        before = self.files()
        for kind in KINDS:
            outcome = driver.sync(self.source(kind))
            done = [outcome.total(name) for name in ("new", "changed", "written", "removed", "embedded")]
            assert done == [0] * 5, done
        assert self.files() == before

    def files(self):
        root = self.store.layout.root
        return {
            path: path.stat().st_mtime_ns
            for part in ("parquet", "lance", "blobs")
            for path in (root / part).rglob("*")
            if path.is_file() and not path.name.endswith(".lock")
        }

    def teardown(self):
        try:
            self.compare_with_a_fresh_build()
        finally:
            self.watch.close()
            self.store.catalog.engine.dispose()
            shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(Settings(), workers=1) as made:
        Histories.sandbox = made
        yield made


def run(histories, steps):
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=histories, stateful_step_count=steps, deadline=None, print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


@pytest.mark.timeout(900)
def test_a_history_of_anything_ends_as_a_fresh_build(sandbox):
    run(12, 12)


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("part", range(4))
def test_two_thousand_histories_end_as_fresh_builds(sandbox, part):
    run(500, 20)
