"""Runs functions on hostile input in child processes with a deadline and a memory cap; their side is `sandbox_child`.

A child is a fresh interpreter (never a fork: the parent has threads) without the parent's environment and network.
"""

import contextlib
import logging
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kb_pipeline import errors
from kb_pipeline.services.sandbox_wire import HEADER, load_reply, recv_exactly
from kb_pipeline.settings import Settings, child_environment
from kb_pipeline.urls import masked

log = logging.getLogger("kb_pipeline.sandbox")

CALLS_PER_CHILD = 1_000
MOST_WORKERS = 4
_LOOK_EVERY_S = 0.05
_START_TIMEOUT_S = 60.0
_MIB = 1 << 20


class _Dead(Exception):
    """The child is gone, or speaks nonsense."""


class _Child:
    """One child process and the socket to it."""

    def __init__(self, memory_mb: int) -> None:
        ours, theirs = socket.socketpair()
        lifeline_read, self._lifeline = os.pipe()
        command = [sys.executable, "-P", "-m", "kb_pipeline.services.sandbox_child"]
        command += [str(theirs.fileno()), str(lifeline_read), str(memory_mb)]
        paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
        environment = child_environment() | {"PYTHONPATH": paths}
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(), lifeline_read),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(self._lifeline)
            raise errors.SystemicError(f"no parser process could be started ({error})") from error
        finally:
            theirs.close()
            os.close(lifeline_read)
        self._socket = ours
        self.calls = 0
        self.start_bytes = 0
        self._await_ready()

    def _await_ready(self) -> None:
        try:
            self.receive(time.monotonic() + _START_TIMEOUT_S, sys.maxsize)
        except (TimeoutError, MemoryError, _Dead) as error:
            self.kill()
            raise errors.SystemicError(
                f"a parser process started and died at once (exit code {self._process.returncode}); "
                f"try: {sys.executable} -c 'import kb_pipeline'"
            ) from error
        self.start_bytes = self.resident_bytes()

    def send(self, message: bytes, deadline: float) -> None:
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            self._socket.sendall(HEADER.pack(len(message)))
            self._socket.sendall(message)
        except TimeoutError:
            raise
        except OSError as error:
            raise _Dead from error

    def receive(self, deadline: float, cap_bytes: int) -> bytes:
        """One message; watches time and memory while it waits.

        Raises: TimeoutError, MemoryError, _Dead.
        """

        def watch() -> float:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if self.resident_bytes() - self.start_bytes > cap_bytes:
                raise MemoryError
            return min(left, _LOOK_EVERY_S)

        try:
            (length,) = HEADER.unpack(recv_exactly(self._socket, HEADER.size, watch))
            if length > cap_bytes:
                raise MemoryError
            return recv_exactly(self._socket, length, watch)
        except TimeoutError:
            raise
        except (OSError, EOFError, struct.error) as error:
            raise _Dead from error

    def resident_bytes(self) -> int:
        """Resident memory of the child; 0 where the system does not tell."""
        try:
            with Path(f"/proc/{self._process.pid}/statm").open("rb") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0

    @property
    def exit_words(self) -> str:
        """How the process ended, for people."""
        code = self._process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End the child and everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


class Sandbox:
    """Child processes that run module-level functions, started at the first call and ended by `close`.

    Arguments travel by pickle to the child; what comes back may hold plain values and the project's own records only,
    so that a child taken over by its input has no say over this process. Safe to call from several threads.
    """

    def __init__(self, settings: Settings, workers: int | None = None) -> None:
        self._timeout_s = settings.parse_timeout_s
        self._memory_mb = settings.parse_memory_mb
        self.workers = workers or min(settings.threads, MOST_WORKERS)
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        self._slots = threading.Semaphore(self.workers)
        self._busy: set[_Child] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function(*args)`, computed in a child.

        Raises: UnitFailure: raised by the function, or TooLarge (time, memory), Corrupt (the process died), Bug.
        SystemicError: no child can be started.
        """
        if self._is_closed:
            raise RuntimeError("the sandbox is closed")
        message = pickle.dumps((function, args), protocol=5)
        with self._slots:
            child = self._take()
            try:
                result = self._converse(child, message, name_of(function, args))
            except BaseException:
                self._release(child)
                raise
            self._release(child)
        return result

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Results in the order of `arguments`; where a unit failed, its UnitFailure stands in the result's place.

        Arguments are drawn as they are needed, at most twice the number of children ahead.
        """
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox") as pool:
            try:
                for args in arguments:
                    waiting.append(pool.submit(self._outcome, function, args))
                    if len(waiting) >= 2 * self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _outcome(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            return self.call(function, *args)
        except errors.UnitFailure as failure:
            return failure

    def close(self) -> None:
        """End all children, also busy ones."""
        self._is_closed = True
        with self._lock:
            busy = list(self._busy)
        for child in busy:
            child.kill()
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().kill()

    def _take(self) -> _Child:
        try:
            child = self._idle.get_nowait()
        except queue.Empty:
            child = _Child(self._memory_mb)
        with self._lock:
            self._busy.add(child)
        return child

    def _release(self, child: _Child) -> None:
        """Keep a healthy child for the next call; end one that is old, grown, or was given up on."""
        with self._lock:
            self._busy.discard(child)
        is_spent = child.calls < 0 or child.calls >= CALLS_PER_CHILD or self._is_closed
        if is_spent or child.resident_bytes() - child.start_bytes > self._memory_mb * _MIB // 2:
            child.kill()
        else:
            self._idle.put(child)

    def _converse(self, child: _Child, message: bytes, name: str) -> Any:
        deadline = time.monotonic() + self._timeout_s
        calls, child.calls = child.calls, -1  # spent, unless it answers
        try:
            child.send(message, deadline)
            reply = load_reply(child.receive(deadline, self._memory_mb * _MIB))
        except TimeoutError:
            raise errors.TooLarge(f"{name}: took longer than {self._timeout_s:g} s to read and was given up") from None
        except MemoryError:
            raise errors.TooLarge(
                f"{name}: too large, reading it takes more than {self._memory_mb} MiB of memory"
            ) from None
        except _Dead:
            child.kill()
            raise errors.Corrupt(f"{name}: damaged, the parser died on it ({child.exit_words})") from None
        except pickle.UnpicklingError as error:
            raise errors.Corrupt(f"{name}: the parser answered with something else than a result ({error})") from error
        child.calls = calls + 1
        return self._unwrapped(reply, name)

    def _unwrapped(self, reply: tuple[str, Any], name: str) -> Any:
        status, value = reply
        if status == "result":
            return value
        if status == "failure":
            kind, text, retry_after_s = value
            failure = getattr(errors, kind)
            raise failure(text, retry_after_s) if issubclass(failure, errors.Transient) else failure(text)
        if status == "memory":
            raise errors.TooLarge(f"{name}: too large, reading it takes more than {self._memory_mb} MiB of memory")
        kind, trace = value
        log.error("%s: unexpected %s in the sandbox\n%s", name, kind, trace)
        raise errors.Bug(f"{name}: could not be read, a fault of ours ({kind}); the log has the details")


def name_of(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What a failure of this call is about: the file or address of its first argument that has one."""
    for value in args:
        for field in ("file_name", "url"):
            if isinstance(found := getattr(value, field, None), str) and found:
                return masked(found)
    return str(getattr(function, "__name__", function))
