"""Fixtures shared by all tests: a home of its own for each, no settings from the environment."""

import os

import pytest

from kb_pipeline.settings import Settings


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.lower() in Settings.model_fields:
            monkeypatch.delenv(name)
    monkeypatch.setenv("KB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def settings(tmp_path):
    """Settings of a fresh home with the cheap embedder."""
    return Settings(kb_home=tmp_path / "home", embedding_model="fake:test:32", http_host_interval_s=0, threads=1)


@pytest.fixture(scope="session")
def model_dir(pytestconfig):
    """Folder with the exported packaged model, kept between runs: to export it takes a while."""
    from kb_pipeline.services.minilm_graph import graph_file

    folder = pytestconfig.cache.mkdir("models")
    graph_file(folder)
    return folder
