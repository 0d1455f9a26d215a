"""Kill -9 at every commit of every kind of work: the same work again ends where an undisturbed one ends.

The commits are found in the code (`commit_points`): one that no case reaches fails the suite. Every run of the tests
dies once at each function that commits; `make soak` dies before and after each single commit.
"""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline.storage.tables import model_calls
from kb_pipeline_tests.laws.commit_points import find
from kb_pipeline_tests.laws.driver import Driver, difference, state_of
from kb_pipeline_tests.laws.killed import perform

ROOT = Path(__file__).parents[2]
FIRST = [(str(n), f"Buoy {n} rings at depth {n}.") for n in range(6)]
LATER = [*FIRST[:1], ("1", "Buoy 1 rings anew."), ("2", "Buoy 3 rings at depth 3."), *FIRST[4:], ("9", "Buoy 9 rang.")]
"""One is edited, one becomes another's twin, one leaves, one comes."""

CASES = {
    "first sync": (FIRST, [], "sync"),
    "second sync": (LATER, ["sync"], "sync"),
    "forget": (FIRST, ["sync"], "forget"),
    "unforget": (FIRST, ["sync", "forget"], "unforget"),
    "remove": (FIRST, ["sync"], "remove"),
    "share": (FIRST, ["sync"], "share"),
    "maintain": (FIRST, ["sync", "edit_often"], "maintain"),
    "other settings": (LATER, ["sync"], "resize"),
    "promote": (FIRST, ["sync", "resize"], "promote"),
    "after a promotion": (LATER, ["sync", "resize", "promote"], "sync"),
    "removing a space": (FIRST, ["sync", "resize", "promote"], "expire"),
}
"""name -> (records at that time, what was done before, what is cut off)."""
ALONE = {
    "storage.catalog:Catalog.set_budget": "one transaction of a command",
    "storage.catalog:Catalog.set_settings": "one transaction of a command",
    "storage.catalog:Catalog.source_was_requested": "one transaction of the sensor",
    "storage.catalog:Catalog.record_event": "one transaction, after the answer",
    "storage.ledger:Ledger.doubt": "one transaction, tested with lost blobs",
    "storage.blobs:Blobs.get": "removes a damaged blob, tested with lost blobs",
    "storage.parquet:Dataset.set_aside_damaged": "one rename a file, tested with damaged files",
    "storage.lance_upkeep:train": "a large table's index, tested with the vector index",
    "storage.lance_damage:set_aside": "one rename, tested with damaged tables",
    "storage.lance:ChunkIndex.remove_draft": "clears up after a kill, tested with orphans",
    "storage.postgres:make_schema": "one transaction of Postgres, tested with the migrations",
    "storage.model_calls:ModelCalls.fail": "one transaction, tested with a broken service",
}
"""Commits that stand for themselves: nothing follows that could be missing."""


def write(records, rows):
    lines = [json.dumps({"id": key, "title": f"Buoy {key}", "text": text}) for key, text in rows]
    records.write_text("".join(line + "\n" for line in lines))


def settings_of(folder):
    return Settings(
        kb_home=folder / "home", embedding_model="fake:paid:16", batch_documents=2, threads=1,
        prices_file=folder / "prices.csv",
    )  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """For each case a home up to the moment before the work that is cut off, made once."""
    base, made = tmp_path_factory.mktemp("kills"), {}
    for name, (rows, before, _) in CASES.items():
        folder = base / name.replace(" ", "-")
        folder.mkdir()
        head = "service,provider,model,usd_per_million_tokens,valid_from\n"
        (folder / "prices.csv").write_text(f"{head}embedder,fake,paid,1,2020-01-01\n")
        records = base / "r.jsonl"
        write(records, FIRST)
        store = Store(settings_of(folder))
        store.initialise()
        store.catalog.create_knowledge_base("k")
        store.catalog.add_source("k", "records", str(records))
        for action in before:
            perform(store, None, action)
        store.catalog.engine.dispose()
        made[name] = (folder, records, rows)
    return made


@pytest.fixture
def case(prepared, tmp_path, request):
    """A copy of the prepared home of a case, its records as they are at that time."""
    folder, records, rows = prepared[request.param]
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    write(records, rows)
    return tmp_path, CASES[request.param][2]


def run_child(folder, action, kill_at=None, when="after"):
    return run_child_with(settings_of(folder), folder, action, kill_at, when)


def run_child_with(settings, folder, action, kill_at=None, when="after"):
    """Do something in a process of its own, which dies around the n-th commit if it comes so far."""
    settings = settings.model_dump(mode="json")
    order = {"settings": settings, "action": action, "kill_at": kill_at, "when": when, "log": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "kb_pipeline_tests.laws.killed"],
        input=json.dumps(order), cwd=ROOT, text=True, capture_output=True, timeout=100, check=False,
    )  # fmt: skip


def finished_calls(store):
    with store.catalog.engine.connect() as connection:
        done = sa.select(model_calls.c.input_sha256).where(model_calls.c.status == "done")
        return set(connection.execute(done).scalars())


def sent_texts(folder):
    log = folder / "sent.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def undisturbed(folder, action, tmp_path_factory):
    """The state that the case ends in when nothing cuts it off."""
    twin = tmp_path_factory.mktemp("twin")
    shutil.copytree(folder, twin, dirs_exist_ok=True)
    store = Store(settings_of(twin))
    perform(store, None, action)
    perform(store, None, "sync")
    state = state_of(store)
    store.catalog.engine.dispose()
    return state


def check(folder, action, expected, kill_at, when):
    done = run_child(folder, action, kill_at, when)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    store = Store(settings_of(folder))
    paid_before, sent_before = finished_calls(store), sent_texts(folder)
    again(store, action)
    perform(store, None, "sync")
    found = difference(state_of(store), expected)
    assert not found, found
    paid = {digest: text for digest, text in _digests(sent_texts(folder)[len(sent_before) :])}
    assert not paid.keys() & paid_before, "a finished call was paid for again"
    assert not list(store.layout.root.rglob("*.tmp"))
    driver = Driver(store, None)
    before = state_of(store)
    for source in store.catalog.sources():
        outcome = driver.sync(source)
        assert (outcome.total("new"), outcome.total("changed"), outcome.total("embedded")) == (0, 0, 0)
    assert not difference(state_of(store), before)
    store.catalog.engine.dispose()


def again(store, action):
    """The same command once more; what it had finished it may say is not there."""
    from kb_pipeline.errors import NotVisible

    try:
        perform(store, None, action)
    except NotVisible:
        assert action == "unforget"


def _digests(texts):
    from kb_pipeline import ids

    return [(ids.text_hash(text), text) for text in texts]


@pytest.fixture(scope="module")
def commits(prepared, tmp_path_factory):
    """The commits of each case, in order, from a run that nothing disturbs."""
    found = {}
    for name, (folder, records, rows) in prepared.items():
        twin = tmp_path_factory.mktemp("count")
        shutil.copytree(folder, twin, dirs_exist_ok=True)
        write(records, rows)
        done = run_child(twin, CASES[name][2])
        assert done.returncode == 0, done.stderr[-2000:]
        found[name] = json.loads(done.stdout)
    return found


def test_every_commit_of_the_code_is_reached_by_a_case(commits):
    reached = {point.removeprefix("kb_pipeline.") for seen in commits.values() for point in seen}
    known = {point.removeprefix("kb_pipeline.") for point in find()}
    assert known - reached - ALONE.keys() == set(), "no case reaches these commits: add one"
    assert ALONE.keys() <= known, "these are no commits any more"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_work_that_was_killed_ends_where_undisturbed_work_ends(case, commits, request, tmp_path_factory):
    """Dies once at each function that commits, at its first commit of the case, by turns before and after."""
    folder, action = case
    seen = commits[request.node.callspec.params["case"]]
    expected = undisturbed(folder, action, tmp_path_factory)
    for turn, place in enumerate(sorted({seen.index(point) for point in seen})):
        _at(folder, action, expected, place, ("before", "after")[turn % 2], tmp_path_factory)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", ["second sync"], indirect=True)
def test_a_source_that_goes_back_after_a_kill_is_what_it_was(case, commits, tmp_path_factory):
    """New output of a dead run beside the old row of the ledger must not be taken for what that row stands for."""
    folder, action = case
    store = Store(settings_of(folder))
    expected, records = state_of(store), Path(store.catalog.sources("k")[0].input)
    store.catalog.engine.dispose()
    seen = commits["second sync"]
    for place in sorted({seen.index(point) for point in seen}):
        copy = tmp_path_factory.mktemp("back")
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        write(records, LATER)
        assert run_child(copy, action, place).returncode == -signal.SIGKILL
        write(records, FIRST)
        store = Store(settings_of(copy))
        perform(store, None, "sync")
        perform(store, None, "sync")  # a removal that looks wrong wants a second listing
        found = difference(state_of(store), expected)
        assert not found, (seen[place], found)
        store.catalog.engine.dispose()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_work_killed_at_each_single_commit_ends_where_undisturbed_work_ends(
    case, commits, when, request, tmp_path_factory
):
    folder, action = case
    expected = undisturbed(folder, action, tmp_path_factory)
    for place in range(len(commits[request.node.callspec.params["case"]])):
        _at(folder, action, expected, place, when, tmp_path_factory)


def _at(folder, action, expected, place, when, tmp_path_factory):
    copy = tmp_path_factory.mktemp("killed")
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    try:
        check(copy, action, expected, place, when)
    except AssertionError as error:
        raise AssertionError(f"killed {when} commit {place}: {error}") from error
    shutil.rmtree(copy)
