"""Fixtures shared by all tests: a home of its own for each, no settings from the environment."""

import os

import pytest

from kb_pipeline.settings import Settings
from kb_pipeline_tests.postgres import binaries, serving


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.lower() in Settings.model_fields:
            monkeypatch.delenv(name)
    monkeypatch.setenv("KB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def pytest_generate_tests(metafunc):
    """A test marked `databases("sqlite", "postgres")` runs on each of them."""
    marker = metafunc.definition.get_closest_marker("databases")
    if marker and "database" in metafunc.fixturenames:
        metafunc.parametrize("database", marker.args, indirect=True)


@pytest.fixture(scope="session")
def postgres():
    """A Postgres server of these tests' own."""
    tools = binaries()
    if tools is None:
        reason = "Postgres is not installed; on Debian: apt-get install postgresql"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with serving(tools) as server:
        yield server


@pytest.fixture(scope="session")
def filled_database(postgres, tmp_path_factory):
    """Name of a database that has the tables of catalog and Dagster: copying it takes a tenth of the time."""
    from dagster import DagsterInstance

    from kb_pipeline.automation.instance import write_config
    from kb_pipeline.storage.engine import open_engine

    url = postgres.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KB_DATABASE_URL", url)
        settings = Settings(kb_home=tmp_path_factory.mktemp("template"))
        open_engine(settings).dispose()
        with DagsterInstance.from_config(str(write_config(settings))):
            pass
    return url.rsplit("/", 1)[-1]


@pytest.fixture
def new_database(postgres, filled_database):
    """Makes databases with all tables and no row; returns the address."""
    made = []

    def make():
        made.append(postgres.create(filled_database))
        return made[-1]

    yield make
    for url in made:
        postgres.drop(url)


@pytest.fixture
def database(request, monkeypatch):
    """Address of the database of this test's home, set for its processes as well; None: SQLite."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return None
    url = request.getfixturevalue("new_database")()
    monkeypatch.setenv("KB_DATABASE_URL", url)
    return url


@pytest.fixture
def settings(tmp_path, database):
    """Settings of a fresh home with the cheap embedder."""
    return Settings(
        kb_home=tmp_path / "home", kb_database_url=database, embedding_model="fake:test:32", http_host_interval_s=0,
        threads=1,
    )  # fmt: skip


@pytest.fixture(scope="session")
def model_dir(pytestconfig):
    """Folder with the exported packaged model, kept between runs: to export it takes a while."""
    from kb_pipeline.services.minilm_graph import graph_file

    folder = pytestconfig.cache.mkdir("models")
    graph_file(folder)
    return folder
