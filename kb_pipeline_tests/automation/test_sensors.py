"""The source_sync sensor on a real Dagster instance: what is due, few runs for many, no source starves."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from kb_pipeline.assets.sync_asset import SOURCES_PER_RUN
from kb_pipeline.automation.instance import PROCESS_TAG, close_dead_runs, process_tag
from kb_pipeline.automation.jobs import sync_job
from kb_pipeline.automation.partitions import source_partitions
from kb_pipeline.automation.sensors import GRACE, SOURCES_TAG, ranges, source_sync
from kb_pipeline.storage.store import Store


@pytest.fixture
def store(settings):
    made = Store(settings)
    made.initialise()
    made.catalog.create_knowledge_base("k")
    yield made
    made.catalog.engine.dispose()


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def add(store, name, every_s=60, overdue_s=0):
    source = store.catalog.add_source("k", "rss", f"https://{name}.example/feed", name=name, schedule=(every_s, None))
    if overdue_s:
        store.catalog.source_was_listed(source, {}, datetime.now(UTC) - timedelta(seconds=overdue_s))
    return store.catalog.source("k", source.source_id)


def tick(store, instance):
    with dg.build_sensor_context(instance=instance) as context:
        return source_sync(context, store=store)


def make_known(instance, result):
    for request in result.dynamic_partitions_requests or []:
        instance.add_dynamic_partitions(source_partitions.name, request.partition_keys)


def requested(result):
    return [key for run in result.run_requests or [] for key in json.loads(run.tags[SOURCES_TAG])]


def test_due_sources_become_partitions_and_share_one_run(store, instance):
    sources = [add(store, name) for name in "abc"]
    result = tick(store, instance)
    (run,) = result.run_requests
    assert requested(result) == [source.partition for source in sources]
    assert run.tags["dagster/asset_partition_range_start"] == sources[0].partition
    assert run.tags["dagster/asset_partition_range_end"] == sources[-1].partition
    assert [key for request in result.dynamic_partitions_requests for key in request.partition_keys] == requested(
        result
    )


def test_a_second_tick_asks_for_nothing_and_says_when_it_will(store, instance):
    add(store, "a")
    make_known(instance, tick(store, instance))
    result = tick(store, instance)
    assert not result.run_requests
    assert "No source is due; the next at" in result.skip_reason.skip_message


def test_a_source_without_a_schedule_becomes_a_partition_and_is_never_requested(store, instance):
    source = add(store, "a", every_s=None)
    result = tick(store, instance)
    assert requested(result) == []
    assert result.dynamic_partitions_requests[0].partition_keys == [source.partition]
    make_known(instance, result)
    assert "kb add" in tick(store, instance).skip_reason.skip_message


def test_a_source_whose_run_was_lost_is_asked_for_again_under_another_key(store, instance):
    source = add(store, "a")
    first = tick(store, instance)
    make_known(instance, first)
    with store.catalog.engine.begin() as connection:
        from kb_pipeline.storage.tables import kb_sources

        connection.execute(kb_sources.update().values(due_at=datetime.now(UTC) - GRACE))
    second = tick(store, instance)
    assert requested(second) == [source.partition]
    assert second.run_requests[0].run_key != first.run_requests[0].run_key


def test_a_source_that_a_run_already_holds_is_left_to_it(store, instance):
    source = add(store, "a", overdue_s=10)
    run = instance.create_run_for_job(
        sync_job.resolve(asset_graph=_graph()), tags={SOURCES_TAG: json.dumps([source.partition])}
    )
    assert requested(tick(store, instance)) == []
    instance.report_run_canceled(run)
    assert requested(tick(store, instance)) == [source.partition]


def _graph():
    from kb_pipeline.definitions import defs

    return defs().resolve_asset_graph()


def test_neighbours_share_a_run_gaps_split_it_and_the_most_overdue_comes_first(store):
    a, b, _, d = (add(store, name, overdue_s=late) for name, late in (("a", 5), ("b", 9), ("c", 0), ("d", 100)))
    ordered = [source.partition for source in store.catalog.sources()]
    assert [[s.name for s in group] for group in ranges([a, b, d], ordered)] == [["d"], ["a", "b"]]


def test_one_run_takes_a_bounded_number_of_sources(store):
    sources = [add(store, f"s{n}") for n in range(SOURCES_PER_RUN + 1)]
    groups = ranges(sources, [source.partition for source in sources])
    assert [len(group) for group in groups] == [SOURCES_PER_RUN, 1]


def test_runs_of_dead_processes_are_closed_and_those_of_living_ones_are_not(instance):
    job = sync_job.resolve(asset_graph=_graph())
    host = process_tag().rpartition(":")[0]
    dead = instance.create_run_for_job(job, tags={PROCESS_TAG: f"{host}:999999999"}, status=dg.DagsterRunStatus.STARTED)
    alive = instance.create_run_for_job(job, tags={PROCESS_TAG: process_tag()}, status=dg.DagsterRunStatus.STARTED)
    other = instance.create_run_for_job(job, tags={PROCESS_TAG: "elsewhere:1"}, status=dg.DagsterRunStatus.STARTED)
    unstarted = instance.create_run_for_job(job, tags={PROCESS_TAG: f"{host}:999999999"})
    assert unstarted.status == dg.DagsterRunStatus.NOT_STARTED  # it died before the run began
    assert close_dead_runs(instance) == 2
    assert instance.get_run_by_id(unstarted.run_id).status == dg.DagsterRunStatus.FAILURE
    status = {run.run_id: instance.get_run_by_id(run.run_id).status for run in (dead, alive, other)}
    assert status[dead.run_id] == dg.DagsterRunStatus.FAILURE
    assert status[alive.run_id] == status[other.run_id] == dg.DagsterRunStatus.STARTED
