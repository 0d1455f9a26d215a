"""Runs cases made from public bug reports: `python -m kb_pipeline_tests.cases DIR [ID…]`.

Every folder below DIR with a `case.yaml` is a case: steps in product-neutral words, then what is expected. Each runs in
a fresh home. Prints `ID  pass` or `ID  FAIL  <what was expected and what was found>`; exit 1 if any failed.
"""

import logging
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kb_pipeline.errors import KbError
from kb_pipeline.settings import Settings
from kb_pipeline_tests.case_steps import (
    expect_access,
    expect_chunks,
    expect_documents,
    expect_outside,
    expect_queries,
    expect_search,
    expect_status,
    expect_text,
    steps_access,
    steps_life,
    steps_sources,
    steps_use,
)
from kb_pipeline_tests.case_steps.case import Case
from kb_pipeline_tests.case_steps.measure import Watch
from kb_pipeline_tests.case_steps.vocabulary import (
    CaseFailure,
    Mismatch,
    as_entries,
    expectation_word,
    is_desirable,
    only,
)
from kb_pipeline_tests.case_steps.world import World

_CASE_DEADLINE_S = 900
WORDS = (
    steps_sources, steps_life, steps_use, steps_access, expect_text, expect_chunks, expect_documents, expect_status,
    expect_search, expect_queries, expect_access, expect_outside,
)  # fmt: skip
"""Imported for the words they register."""


def find_cases(folder: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Folders with a case, in order; those named by id, or by what an id starts with, where any are."""
    found = sorted(path.parent for path in folder.rglob("case.yaml"))
    return [
        path for path in found if not wanted or any(path.name == w or path.name.startswith(f"{w}-") for w in wanted)
    ]


def run_case(folder: Path) -> tuple[list[str], list[str]]:
    """(failures, desirable things missed) of one case; no failure means that it passed."""
    try:
        case = Case.read(folder)
    except CaseFailure as failure:
        return [str(failure)], []
    if problems := list(dict.fromkeys(case.problems())):
        return problems, []
    if case.measures_memory:
        _warm_up()
    with tempfile.TemporaryDirectory(prefix="kb-case-") as root:
        world = World(case, Path(root).resolve())
        try:
            return _run(world, case)
        finally:
            world.close()


def _run(world: World, case: Case) -> tuple[list[str], list[str]]:
    failures: list[str] = []
    try:
        with Watch(case.measures_memory) as world.watch:
            world.remember()
            for number, entry in enumerate(case.steps, 1):
                steps_life.run_step(world, entry, number)
    except (CaseFailure, KbError) as failure:
        return [f"step {number} ({only(entry, 'step')[0]}): {failure}"], []
    failures += [crash for crash in world.crashes]
    missed: list[str] = []
    for entry in case.expect:
        _expect(world, entry, failures, missed)
    failures += dict.fromkeys(world.unsupported)
    if failures:  # a run that failed explains much of the rest
        failures += dict.fromkeys(f"a sync said: {error}" for made in world.syncs for error in made.errors)
    return failures, missed


def _expect(world: World, entry: Any, failures: list[str], missed: list[str]) -> None:
    """Check one expectation; what is only desirable goes to `missed`, a word that is not known always fails."""
    try:
        name, given = only(entry, "expectation")
        if name == "desirable":
            for each in as_entries(given):
                _try(world, *only(each, "expectation"), missed)
        else:
            _try(world, name, given, missed if is_desirable(given) else failures)
    except CaseFailure as failure:
        failures.append(str(failure))


def _try(world: World, name: str, given: Any, misses: list[str]) -> None:
    """Check one expectation or alternative, adding what is not so. Raises: UnknownWord."""
    if name != "one_of":
        _check(world, name, given, misses)
        return
    failures: list[str] = []
    for option in as_entries(given):
        before = len(failures)
        _try(world, *only(option, "expectation"), failures)
        if len(failures) == before:
            return
    misses.append("none of: " + " | ".join(failures))


def _check(world: World, name: str, given: Any, misses: list[str]) -> None:
    word = expectation_word(name)
    try:
        word.run(world, word.args(given))
    except Mismatch as miss:
        misses.append(str(miss))


_is_warm = False


def _warm_up() -> None:
    """Idle is a product that has worked before: its libraries are loaded, so they do not count as the case's memory."""
    global _is_warm
    if _is_warm:
        return
    _is_warm = True
    steps = [{"create_kb": "warm"}, {"upload": "warm.txt"}, {"sync": {}}, {"search": "warm"}]
    with tempfile.TemporaryDirectory(prefix="kb-warm-") as root:
        Path(root, "warm.txt").write_text("Something to warm up with.")
        case = Case(Path(root), {"id": "warm", "steps": steps, "expect": [{"no_crash": True}]})
        world = World(case, Path(root).resolve() / "world")
        try:
            for entry in steps:
                steps_life.run_step(world, entry)
        finally:
            world.close()


class _Overdue(BaseException):
    """A case that takes too long; no Exception, so that nothing on the way takes it for a failure of its own."""


@contextmanager
def _deadline(seconds: int) -> Iterator[None]:
    """Ends what runs inside after so many seconds; 0 for never."""

    def ring(number: int, frame: object) -> None:
        raise _Overdue

    if not seconds:
        yield
        return
    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def report(folders: Sequence[Path], deadline_s: int = 0) -> Iterator[tuple[str, bool, list[str]]]:
    """(line to print, passed, desirable things missed) of each case, as it ends."""
    for folder in folders:
        try:
            with _deadline(deadline_s):
                failures, missed = run_case(folder)
        except _Overdue:
            failures, missed = [f"expected to end, was stopped after {deadline_s} s"], []
        except Exception as error:  # noqa: BLE001 - whatever a case does to the product or to us, the next one runs
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures, missed = [f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"], []
        said = " ;; ".join(" ".join(failure.split())[:600] for failure in failures)
        yield f"{folder.name}  FAIL  {said}" if failures else f"{folder.name}  pass", not failures, missed


def main(arguments: Sequence[str], deadline_s: int = 0) -> int:
    """Returns the exit code; a case that takes longer than the deadline, if there is one, fails."""
    if not arguments or not Path(arguments[0]).is_dir():
        print("usage: python -m kb_pipeline_tests.cases DIR [ID…]", file=sys.stderr)
        return 2
    folders = find_cases(Path(arguments[0]), arguments[1:])
    passed = 0
    for line, is_passed, missed in report(folders, deadline_s):
        print(line, flush=True)
        passed += is_passed
        for miss in missed:
            print(f"    desirable, not met: {' '.join(miss.split())[:300]}", file=sys.stderr, flush=True)
    print(f"{passed} passed, {len(folders) - passed} failed")
    return 0 if passed == len(folders) and folders else 1


def _be_quiet_and_unbiased() -> None:
    """No settings from outside, no downloads, only results on the screen."""
    for name in list(os.environ):
        if name.lower() in Settings.model_fields:
            del os.environ[name]
    os.environ["HF_HUB_OFFLINE"] = "1"
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


if __name__ == "__main__":
    _be_quiet_and_unbiased()
    raise SystemExit(main(sys.argv[1:], _CASE_DEADLINE_S))
