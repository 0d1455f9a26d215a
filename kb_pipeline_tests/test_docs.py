"""What the documents say is run: commands of the README and the guides, links, and what is made from the code."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kb_pipeline import schemas, settings
from kb_pipeline.query.result import Hit
from kb_pipeline.storage import tables

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.S | re.M)


def run(script, folder, **environment):
    """A shell script as somebody in a fresh clone would type it; stops at the first command that fails."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "HF_HUB_OFFLINE": "1", **environment}
    shell = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory, model_dir):
    """A folder that looks like a fresh clone after `make setup`, its model exported already."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "docs").mkdir()
    for page in ("architecture.md", "operate.md"):
        shutil.copy(ROOT / "docs" / page, folder / "docs" / page)
    (folder / ".venv" / "bin").mkdir(parents=True)
    kb = folder / ".venv" / "bin" / "kb"
    kb.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m kb_pipeline.cli "$@"\n')
    kb.chmod(0o755)
    shutil.copytree(model_dir, folder / "kb_home" / "models")
    return folder


@pytest.mark.timeout(600)
def test_the_readme_and_the_guides_work_as_they_are_typed(clone):
    use = next(block for block in blocks("README.md", "bash") if "kb create" in block)
    shown = run(use, clone)
    assert "[1] Architecture" in shown
    assert "ready" in shown
    setup = "export KB_HOME=$PWD/kb_home PATH=$PWD/.venv/bin:$PATH\n"
    for block in blocks("docs/analyse.md", "bash"):
        run(setup + block, clone)
    for code in [*blocks("README.md", "python"), *blocks("docs/query.md", "python")]:
        script = clone / "agent.py"
        script.write_text(code)
        assert run(f"PYTHONPATH={ROOT} {sys.executable} agent.py", clone), f"prints nothing:\n{code}"
    (clone / "kb.yaml").write_text(next(iter(blocks("docs/own.md", "yaml"))))
    (clone / "manuals").mkdir()
    assert "source https://example.org/feed.xml" in run(setup + "kb apply kb.yaml --dry-run", clone)


def test_the_tables_and_settings_pages_are_what_the_code_says():
    written = f"{schemas.as_markdown()}\n{tables.as_markdown()}"
    assert (ROOT / "docs/tables.md").read_text() == written, "run `make docs`"
    assert all(column.doc for table in tables.metadata.tables.values() for column in table.columns)
    assert (ROOT / "docs/settings.md").read_text() == settings.as_markdown(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_house_in_the_architecture_page_is_the_house_on_disk():
    page = (ROOT / "docs/architecture.md").read_text()
    for path in (ROOT / "kb_pipeline").iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            assert path.name in page, f"docs/architecture.md does not mention {path.name}"


def test_no_page_names_a_path_of_this_machine():
    for page in PAGES:
        assert f"{ROOT}/" not in page.read_text(encoding="utf-8"), page.name


def test_the_guides_name_every_field_of_a_hit_and_every_table():
    fields = set(re.findall(r"\w+", (ROOT / "docs/query.md").read_text().partition("| `hits[]`")[2].partition("\n")[0]))
    assert {field.name for field in dataclasses.fields(Hit)} <= fields
    views = set(re.findall(r"`(\w+)`", (ROOT / "docs/analyse.md").read_text().partition("Columns")[0]))
    assert {table.name for table in schemas.PARQUET_TABLES} | set(tables.metadata.tables) <= views
