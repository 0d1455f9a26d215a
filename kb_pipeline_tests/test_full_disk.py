"""A disk that takes no more: every command ends with one sentence, and once there is room a sync finishes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_LIMITED = """import resource, sys
from kb_pipeline.cli import main
if sys.argv[1]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
del sys.argv[1]
main()
"""


def kb(folder, *words, most_bytes=None):
    """(exit code, stdout, stderr) of `kb …` in a process that cannot make a file longer than `most_bytes`."""
    env = {
        "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(folder), "KB_HOME": str(folder / "home"),
        "EMBEDDING_MODEL": "fake:cli:64", "COLUMNS": "400",
        "PYTHONDONTWRITEBYTECODE": "1",  # CPython 3.11 leaves what it could write of a .pyc, for all that come after
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(most_bytes or ""), *words],
        cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes").mkdir()
    for number in range(20):
        (tmp_path / "notes" / f"{number}.txt").write_text(f"Buoy {number} rings at depth {number}.")
    for words in (("create", "k"), ("add", "k", "notes")):
        assert kb(tmp_path, *words)[0] == 0
    return tmp_path


@pytest.mark.parametrize("most_bytes", [1, 60_000, 250_000])
def test_a_full_disk_is_one_sentence_and_no_work_is_lost(folder, most_bytes):
    for words in (("sync", "k"), ("sync", "k"), ("create", "z")):
        code, _, err = kb(folder, *words, most_bytes=most_bytes)
        assert "Traceback" not in err, err
        assert code in (0, 1)
        assert code == 0 or err.splitlines()[-1].startswith("Error: "), err  # Dagster may grumble before
    code, out, err = kb(folder, "sync", "k", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["runs"][0]["listed"] == 20
    assert len(json.loads(kb(folder, "docs", "k", "--status", "ready", "--json")[1])["documents"]) == 20


def test_the_first_command_on_a_full_disk_is_one_sentence(tmp_path):
    for words in (("create", "k"), ("sync", "--all"), ("doctor",)):
        code, _, err = kb(tmp_path, *words, most_bytes=1)
        assert (code, len(err.splitlines())) == (1, 1), err
        assert "Traceback" not in err
