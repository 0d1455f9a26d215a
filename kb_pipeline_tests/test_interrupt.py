"""Ctrl-C of `kb sync`: it says one sentence, keeps what was finished, and the next sync goes on from there."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

COUNT = 1_200
ROOT = Path(__file__).parents[1]


def start(folder, *words):
    env = {
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "EMBEDDING_MODEL": "fake:cli:64",
        "BATCH_DOCUMENTS": "64",
    }
    return subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "kb_pipeline.cli", *words],
        cwd=folder, env=env | {"KB_HOME": str(folder / "home")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def wait_for_documents(folder, process):
    """Until the first batch is in the ledger."""
    while process.poll() is None:
        with closing(sqlite3.connect(folder / "home" / "catalog.sqlite")) as catalog:
            if catalog.execute("SELECT count(*) FROM ledger").fetchone()[0]:
                return
        time.sleep(0.01)
    raise AssertionError("the sync was over before it could be interrupted")


def test_an_interrupted_sync_says_so_and_the_next_one_goes_on(tmp_path):
    rows = [{"id": str(n), "title": f"Buoy {n}", "text": f"Buoy {n} rings at depth {n}."} for n in range(COUNT)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for words in (["create", "k"], ["add", "k", "r.jsonl"]):
        assert finish(start(tmp_path, *words))[0] == 0
    sync = start(tmp_path, "sync", "k")
    wait_for_documents(tmp_path, sync)
    sync.send_signal(signal.SIGINT)
    code, out, err = finish(sync)
    assert (code, out) == (130, "")
    assert err.strip() == "Stopped. What was finished is kept; the same command goes on from there."
    code, out, err = finish(start(tmp_path, "sync", "k", "--json"))
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    assert 0 < run["unchanged"] < COUNT
    assert run["unchanged"] + run["new"] == run["embedded"] == COUNT
    code, out, _ = finish(start(tmp_path, "docs", "k", "--status", "ready", "--json"))
    assert len(json.loads(out)["documents"]) == COUNT
