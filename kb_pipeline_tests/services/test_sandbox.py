"""The sandbox: hostile work harms one unit, never the parent, its output, or the next unit."""

import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kb_pipeline.errors import Bug, Corrupt, Gone, TooLarge, UnitFailure
from kb_pipeline.records import RawItem
from kb_pipeline.services import sandbox as sandbox_module
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline_tests.services import sandbox_tasks as tasks


@pytest.fixture
def sandbox():
    with Sandbox(Settings(parse_timeout_s=5, parse_memory_mb=200, threads=2)) as opened:
        yield opened


def test_a_result_comes_back_and_the_childs_output_does_not(sandbox, capfd):
    assert sandbox.call(tasks.double, 21) == 42
    assert capfd.readouterr() == ("", "")


def test_records_cross_the_border_whole(sandbox):
    raw = RawItem(content=b"\0\xff" * 1_000_000, kind="file", file_name="a.bin", metadata={"k": [1, None]})
    assert sandbox.call(tasks.echo, raw) == raw


def test_one_child_serves_many_calls(sandbox):
    first = sandbox.call(tasks.process_id)
    assert {sandbox.call(tasks.process_id) for _ in range(200)} == {first}
    assert first != os.getpid()


def test_a_child_is_replaced_after_its_share_of_calls(sandbox, monkeypatch):
    monkeypatch.setattr(sandbox_module, "CALLS_PER_CHILD", 3)
    assert len({sandbox.call(tasks.process_id) for _ in range(7)}) == 3


def test_a_typed_failure_arrives_with_its_type_message_and_wait(sandbox):
    with pytest.raises(Gone, match=r"^a\.txt: gone$") as caught:
        sandbox.call(tasks.fail, "a.txt: gone")
    assert caught.value.retry_after_s == 3.5


def test_work_that_takes_too_long_is_ended_and_the_next_call_works():
    with Sandbox(Settings(parse_timeout_s=0.3), workers=1) as sandbox:
        started = time.perf_counter()
        with pytest.raises(TooLarge, match=r"took longer than 0\.3 s"):
            sandbox.call(tasks.sleep, 30)
        assert time.perf_counter() - started < 20, "ended at its deadline, not after its thirty seconds"
        assert sandbox.call(tasks.double, 1) == 2


def test_work_that_takes_too_much_memory_is_too_large(sandbox):
    with pytest.raises(TooLarge, match="200 MiB"):
        sandbox.call(tasks.eat_memory)
    assert sandbox.call(tasks.double, 1) == 2


@pytest.mark.parametrize("task", [tasks.exit_at_once, tasks.crash])
def test_a_dying_parser_is_a_corrupt_file_and_the_next_call_works(sandbox, task):
    with pytest.raises(Corrupt, match="the parser died"):
        sandbox.call(task)
    assert sandbox.call(tasks.double, 1) == 2


def test_a_failure_of_the_process_names_the_file(sandbox):
    with pytest.raises(Corrupt, match=r"^deck\.pptx: "):
        sandbox.call(tasks.exit_at_once, RawItem(content=b"x", kind="file", file_name="deck.pptx"))


def test_an_unexpected_error_is_a_bug_whose_trace_is_logged_not_shown(sandbox, caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(Bug) as caught:
        sandbox.call(tasks.index_error)
    assert "Traceback" not in str(caught.value)
    assert "return [][1]" in caplog.text


def test_an_answer_may_hold_values_and_records_only(sandbox):
    with pytest.raises(Corrupt, match="not allowed"):
        sandbox.call(tasks.forbidden_result)


def test_the_child_has_no_network(sandbox, caplog):
    with caplog.at_level(logging.CRITICAL), pytest.raises(UnitFailure):
        sandbox.call(tasks.open_socket)
    assert "Error" in sandbox.call(tasks.open_socket_in_grandchild)


def test_the_child_sees_no_secret_of_the_environment(sandbox, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in str(sandbox.call(tasks.environment))


def test_map_keeps_the_order_and_one_outcome_per_unit(sandbox):
    outcomes = list(sandbox.map(tasks.odd_ones_fail, ((number,) for number in range(7))))
    assert [type(one) for one in outcomes] == [int, Corrupt, int, Corrupt, Corrupt, Corrupt, int]
    assert [one for one in outcomes if isinstance(one, int)] == [0, 2, 6]
    assert "the parser died" in str(outcomes[4])
    assert str(outcomes[5]) == "unit 5 is odd"


def test_map_draws_its_arguments_as_it_goes(sandbox):
    drawn = []

    def arguments():
        for number in range(1_000):
            drawn.append(number)
            yield (number,)

    results = sandbox.map(tasks.double, arguments())
    assert next(results) == 0
    assert len(drawn) <= 2 * sandbox.workers
    results.close()


def test_no_child_is_started_before_the_first_call_and_none_is_left_after_close():
    sandbox = Sandbox(Settings(), workers=1)
    assert sandbox._idle.empty()
    child = sandbox.call(tasks.process_id)
    sandbox.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.call(tasks.double, 1)


def test_a_killed_parent_leaves_no_child_behind_even_a_busy_one():
    script = textwrap.dedent("""
        import threading, time
        from kb_pipeline.services.sandbox import Sandbox
        from kb_pipeline.settings import Settings
        from kb_pipeline_tests.services import sandbox_tasks as tasks
        sandbox = Sandbox(Settings(), workers=1)
        print(sandbox.call(tasks.process_id), flush=True)
        threading.Thread(target=sandbox.call, args=(tasks.sleep, 60)).start()
        time.sleep(60)
    """)
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        child = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(child)


def _is_running(process_id):
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
