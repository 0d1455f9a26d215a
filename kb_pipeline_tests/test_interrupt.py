"""Ctrl-C and SIGTERM: one sentence at any moment; what was finished is kept, and the next sync goes on from there."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

COUNT = 1_200
ROOT = Path(__file__).parents[1]

SENTENCE = "Stopped. What was finished is kept; the same command goes on from there."


def start(folder, *words):
    env = {
        "PYTHONPATH": str(ROOT),
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "EMBEDDING_MODEL": "fake:cli:64",
        "BATCH_DOCUMENTS": "64",
    }
    return subprocess.Popen(
        ["env", "--default-signal=INT,TERM", sys.executable, "-m", "kb_pipeline.cli", *words],
        cwd=folder, env=env | {"KB_HOME": str(folder / "home")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
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
    os.killpg(sync.pid, signal.SIGINT)  # as a terminal does it
    code, out, err = finish(sync)
    assert (code, out, err.strip()) == (130, "", SENTENCE)
    code, out, err = finish(start(tmp_path, "sync", "k", "--json"))
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    assert 0 < run["unchanged"] < COUNT
    assert run["unchanged"] + run["new"] == run["embedded"] == COUNT
    code, out, _ = finish(start(tmp_path, "docs", "k", "--status", "ready", "--json"))
    assert len(json.loads(out)["documents"]) == COUNT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["search", "buoy"], ["sync", "--all"], ["sources"]])
def test_a_signal_ends_any_command_at_any_moment_with_one_sentence(tmp_path, words, number):
    assert finish(start(tmp_path, "init"))[0] == 0
    stopped = 0
    for wait in (0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8):
        process = start(tmp_path, *words)
        wait_for_our_code(process, wait)
        process.send_signal(number)
        code, _, err = finish(process)
        assert "Traceback" not in err, (wait, err)
        if code == 128 + number:
            assert err.splitlines()[-1] == SENTENCE
            stopped += 1
        else:
            assert code in (0, 1, 2, -number), (wait, code, err)  # it was over before, at most the interpreter ended
    assert stopped


def wait_for_our_code(process, wait):
    """Until the process has taken SIGTERM into its hands, and some time more."""
    status = Path(f"/proc/{process.pid}/status")
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1):
            break
        time.sleep(0.005)
    time.sleep(wait - 0.06)


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path):
    code = (
        "import signal; from kb_pipeline.cli.stops import end_on_signals; end_on_signals(); "
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    shown = subprocess.run(
        ["env", "--ignore-signal=INT", sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert shown.stdout == "True\n"


def test_a_sync_that_is_terminated_closes_its_run_and_says_143(tmp_path):
    rows = [{"id": str(n), "text": f"Buoy {n} rings at depth {n}."} for n in range(COUNT)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for words in (["create", "k"], ["add", "k", "r.jsonl"]):
        assert finish(start(tmp_path, *words))[0] == 0
    sync = start(tmp_path, "sync", "k")
    wait_for_documents(tmp_path, sync)
    sync.send_signal(signal.SIGTERM)
    code, out, err = finish(sync)
    assert (code, out, err.strip()) == (143, "", SENTENCE)
