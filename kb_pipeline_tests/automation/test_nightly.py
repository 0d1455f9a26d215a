"""The maintenance of tenants on a real Dagster instance: partitions in step, nightly runs, one at a time, checks."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from kb_pipeline.assets.upkeep_result import CHECKS
from kb_pipeline.automation.instance import open_instance
from kb_pipeline.automation.maintenance import keep_in_step, maintain_here, maintenance_job, nightly_maintenance
from kb_pipeline.automation.partitions import MAINTENANCE_POOL, tenant_partitions
from kb_pipeline.definitions import defs
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.storage.index_rows import SPACE, rows_of


@pytest.fixture
def store(settings):
    made = Store(settings)
    made.initialise()
    yield made
    made.catalog.engine.dispose()


@pytest.fixture
def instance(store):
    with open_instance(store.settings) as made:
        yield made


def tick(store, instance):
    at = datetime(2026, 11, 30, 3, tzinfo=UTC)
    with dg.build_schedule_context(instance=instance, scheduled_execution_time=at) as context:
        return list(nightly_maintenance(context, store=store))


def partitions(instance):
    return set(instance.get_dynamic_partitions(tenant_partitions.name))


def test_every_night_each_tenant_gets_a_run_of_its_own(store, instance):
    (skipped,) = tick(store, instance)
    assert skipped.skip_message == "There is no knowledge base yet."
    store.catalog.create_knowledge_base("ours")
    store.catalog.create_knowledge_base("mine", "user", owner="ann")
    requests = tick(store, instance)
    assert [request.partition_key for request in requests] == ["account-default", "user-ann"]
    assert [request.run_key for request in requests] == ["account-default:2026-11-30", "user-ann:2026-11-30"]
    assert partitions(instance) == {"account-default", "user-ann"}


def test_a_tenant_that_is_gone_loses_its_partition_once_no_run_holds_it(instance):
    keep_in_step(instance, ["public", "user-ann"])
    job = maintenance_job.resolve(asset_graph=defs().resolve_asset_graph())
    run = instance.create_run_for_job(job, tags={"dagster/partition": "user-ann"})
    keep_in_step(instance, ["public"])
    assert partitions(instance) == {"public", "user-ann"}
    instance.report_run_canceled(run)
    keep_in_step(instance, ["public"])
    assert partitions(instance) == {"public"}


def test_one_maintenance_runs_at_a_time_in_a_home(store, instance):
    keep_in_step(instance, ["public"])
    pools = {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}
    assert pools == {MAINTENANCE_POOL: 1}
    (node,) = (defs().resolve_job_def(maintenance_job.name).all_node_defs,)
    assert {pool for each in node for pool in each.pools} == {MAINTENANCE_POOL}


def test_a_run_here_reports_counts_and_what_its_checks_found(store, instance):
    store.catalog.create_knowledge_base("ours")
    index = ChunkIndex(store.layout.root, "account-default", SPACE, store.lease)
    for number in range(3):
        index.replace_documents("gone", "s", [f"d{number}"], rows_of(f"d{number}", ["stray words"], "gone", "s"))
    (report,) = maintain_here(store, instance, ["account-default"])
    assert (report.status, report.error, report.warnings) == ("ok", None, [])
    counts = report.as_json()
    assert counts["orphans_removed"] == 3
    assert (counts["row_count"], counts["unindexed_rows"]) == (0, 0)
    sizes = {f"{name}_{when}" for name in ("fragments", "versions", "files", "bytes") for when in ("before", "after")}
    assert sizes | {"blobs_removed", "leftovers_removed", "seconds"} <= counts.keys()
    run = instance.get_run_by_id(report.run_id)
    assert run.tags["dagster/partition"] == "account-default"
    checks = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(dg.AssetKey("index_maintenance"), name) for name in CHECKS]
    )
    assert len(checks) == len(CHECKS)


def test_a_damaged_table_fails_the_run_with_one_sentence_and_no_second_try(store, instance):
    store.catalog.create_knowledge_base("ours")
    index = ChunkIndex(store.layout.root, "account-default", SPACE, store.lease)
    index.replace_documents("gone", "s", ["d"], rows_of("d", ["stray words"], "gone", "s"))
    for manifest in (index.path / "_versions").iterdir():
        manifest.write_bytes(b"garbage")
    (report,) = maintain_here(store, instance, ["account-default"])
    assert report.status == "failed"
    assert "sync again to rebuild it" in report.error
    assert report.error.startswith("index_maintenance account-default: The search index")
