"""A plan spends and writes nothing, and the sync after it does exactly what it said."""

import pytest

from kb_pipeline.assets.plan import Planner
from kb_pipeline.automation.run import open_syncer
from kb_pipeline.connectors.document import DocumentConnector
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.services.embedders import embedders_of
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.assets.conftest import Home, SilentProgress
from kb_pipeline_tests.assets.test_money import calls, paid, sent

__all__ = ["paid", "sent"]


def plan_of(home, source):
    store = home.store
    row = store.catalog.source(source.kb_id, source.source_id)
    before, rows = home.files(), len(calls(home))
    with Sandbox(store.settings) as sandbox:
        embedders = embedders_of(store.settings, store.layout.models)
        connector = Registry([DocumentConnector(store.settings)]).named(row.connector)
        plan = Planner(store, row, embedders, sandbox).plan(connector)
    assert (home.files(), len(calls(home))) == (before, rows)
    return plan


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)


def both(home, source):
    """The plan, and the report of the sync that follows it, held against each other."""
    plan, report = plan_of(home, source), home.sync(source)
    assert (plan.new, plan.changed, plan.waiting) == (report.new, report.changed, report.waiting)
    assert plan.embed == report.embedded
    assert plan.cost_usd == pytest.approx(report.cost_usd, abs=1e-6)
    return plan


def test_plan_and_sync_agree_through_a_life(paid, folder, sent):
    long = "\n\n".join(f"Paragraph {n} is about knot number {n}. " * 12 for n in range(12))
    write(folder, a="Buoy a rings.", b="Buoy b rings.", c="Buoy c rings.", long=long, bad="")
    source = paid.add(folder)
    plan = both(paid, source)
    assert (plan.fetch, plan.parse, plan.split, plan.index, plan.unreadable) == (5, 5, 4, 4, 1)
    assert plan.cost_usd > 0
    plan = both(paid, source)
    assert (plan.fetch, plan.parse, plan.split, plan.index, plan.embed) == (0, 0, 0, 0, 0)
    write(folder, long=long + " And more.", twin="Buoy a rings.")
    plan = both(paid, source)
    assert (plan.new, plan.changed, plan.embed) == (1, 1, 2)
    (folder / "a.md").rename(folder / "moved.md")
    assert both(paid, source).embed == 1  # its title, which is its name, is in what is embedded
    (folder / "b.md").unlink()
    assert both(paid, source).remove == 1
    for name in ("moved", "c", "twin"):
        (folder / f"{name}.md").unlink()
    assert both(paid, source).waiting == 3


def test_a_change_of_settings_is_planned_from_what_is_stored(paid, folder, sent):
    write(folder, long="\n\n".join(f"Sentence number {n} about the harbour wall." for n in range(60)))
    source = paid.add(folder)
    paid.sync(source)
    store = Store(Settings(**{**paid.store.settings.model_dump(), "chunk_size": 300, "chunk_overlap": 50}))
    with open_syncer(store, SilentProgress()) as syncer:
        other = Home(store, syncer)
        plan = both(other, source)
    assert (plan.fetch, plan.parse, plan.split, plan.index) == (0, 0, 1, 1)
    assert plan.embed > 3
    store.catalog.engine.dispose()


def test_a_source_that_cannot_be_listed_says_so(paid, folder):
    source = paid.add(folder)
    folder.rmdir()
    assert "folder" in plan_of(paid, source).error
