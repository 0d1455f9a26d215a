"""The Dagster project loads, is light to import, and tells a newcomer what each asset is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kb_pipeline.automation.instance import config_of
from kb_pipeline.definitions import defs
from kb_pipeline.settings import Settings

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph():
    return defs().resolve_asset_graph()


def test_every_asset_has_description_group_owner_kind_version_and_checks(graph):
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.description, key
        assert node.group_name == ("quality" if key.to_user_string() == "index_maintenance" else "sync"), key
        assert node.owners, key
        assert node.kinds, key
        assert node.code_version, key
        assert len(graph.get_check_keys_for_assets({key})) >= 4, key


def test_the_stages_stand_in_the_order_of_the_flow(graph):
    order = [key.to_user_string() for level in graph.toposorted_asset_keys_by_level for key in level]
    assert order == ["raw_items", "documents", "chunks", "chunk_index", "index_maintenance"]


def test_jobs_schedule_and_sensor_are_there():
    found = defs()
    assert {job.name for job in found.jobs} == {"sync", "register_source_job", "maintenance"}
    assert [schedule.name for schedule in found.schedules] == ["nightly_maintenance"]
    assert [sensor.name for sensor in found.sensors] == ["source_sync"]


def test_loading_the_definitions_imports_no_model_and_opens_nothing(tmp_path):
    code = "import sys; from kb_pipeline.definitions import defs; defs(); "
    code += "heavy = {'torch', 'lancedb', 'sentence_transformers', 'trafilatura', 'onnxruntime'} & set(sys.modules); "
    code += "assert not heavy, heavy"
    env = {"PATH": "", "KB_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=env, timeout=100)
    assert not (tmp_path / "home").exists()


def test_the_workspace_and_the_deployed_configuration_are_such_as_dagster_takes(tmp_path):
    import dagster as dg

    assert "python_module" in yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"][0]
    deployed = yaml.safe_load((ROOT / "deploy" / "dagster.postgres.yaml").read_text())
    written = yaml.safe_load(config_of(Settings(kb_home=tmp_path, kb_database_url="postgresql://kb@db/kb")))
    assert deployed.keys() == written.keys()
    assert deployed["storage"] == written["storage"]
    del deployed["storage"]  # a database: automation/test_instance.py has one
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(deployed))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.run_monitoring_enabled


def test_the_services_of_the_compose_file_agree_with_each_other():
    services = yaml.safe_load((ROOT / "deploy" / "docker-compose.yaml").read_text())["services"]
    assert services.keys() == {"postgres", "init", "code", "webserver", "daemon"}
    server = yaml.safe_load((ROOT / "deploy" / "workspace.compose.yaml").read_text())["load_from"][0]["grpc_server"]
    command = services[server["host"]]["command"]
    assert str(server["port"]) == command[command.index("-p") + 1]
    for name in services.keys() - {"postgres"}:
        environment = services[name]["environment"]
        assert "@postgres:5432/" in environment["KB_DATABASE_URL"]
        assert environment["DAGSTER_HOME"] == f"{environment['KB_HOME']}/dagster"
        assert services[name]["volumes"] == ["home:/data"]
    files = re.findall(r"deploy/[\w.-]+", (ROOT / "deploy" / "docker-compose.yaml").read_text())
    assert all((ROOT / file).is_file() for file in files)
