"""What a case costs: seconds, memory of this process and its children above idle, and who was connected to."""

import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_MIB = 1 << 20
_EVERY_S = 0.1


class Watch:
    """Measures what happens inside `with`; memory only where asked, as looking costs time."""

    def __init__(self, with_memory: bool) -> None:
        self._with_memory = with_memory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.idle_mb = self.peak_mb = 0.0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        if self._with_memory:
            self.idle_mb = self.peak_mb = memory_mb()
            self._thread.start()
        self._started = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self._started
        if self._with_memory:
            self._stop.set()
            self._thread.join()

    @property
    def above_idle_mb(self) -> float:
        """Highest level seen over the level at the start."""
        return self.peak_mb - self.idle_mb

    def _look(self) -> None:
        while True:
            self.peak_mb = max(self.peak_mb, memory_mb())
            if self._stop.wait(_EVERY_S):
                return


def memory_mb() -> float:
    """Memory of this process and all below it; pages they share count once."""
    return sum(_memory(pid) for pid in _family(os.getpid())) / _MIB


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = task.read_text().split()
        except OSError:  # the thread ended meanwhile
            continue
        for child in below:
            found += _family(int(child))
    return found


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:  # the process ended meanwhile
        pass
    return 0


class Connections:
    """Every address this process connects to, by the interpreter's own audit events."""

    _installed: "Connections | None" = None

    def __init__(self) -> None:
        self.seen: list[str] = []

    @classmethod
    def recorder(cls) -> "Connections":
        """The recorder of this process; installed once, since an audit hook cannot be taken away."""
        if cls._installed is None:
            cls._installed = cls()
            sys.addaudithook(cls._installed._hear)
        return cls._installed

    def _hear(self, event: str, details: tuple[object, ...]) -> None:
        if event == "socket.connect" and isinstance(details[1], tuple):
            host, port = details[1][:2]
            self.seen.append(f"{host}:{port}")
