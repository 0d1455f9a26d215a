"""Ctrl-C and SIGTERM: one sentence and 128 + the signal's number, whatever the process is at.

Raised as an exception, a signal is swallowed by libraries that are being imported, by threads and finalizers, or shown
as a traceback. Nothing needs an orderly end: what is committed survives `kill -9`, too. While Dagster runs it keeps
signals for itself, closes the run, and automation/interrupts.py raises what came.
"""

import os
import signal
from types import FrameType

SENTENCE = "Stopped. What was finished is kept; the same command goes on from there."
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar has hidden it


def end_on_signals() -> None:
    """From now on SIGINT and SIGTERM end the process at once; one that the caller had ignored stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def end(number: int) -> None:
    """Say that the process was stopped, and end it."""
    _end(number, None)


def _end(number: int, _frame: FrameType | None) -> None:
    is_terminal = os.isatty(2)
    try:
        os.write(2, f"{_SHOW_CURSOR if is_terminal else ''}{SENTENCE}\n".encode())
    finally:
        os._exit(128 + number)
