"""Ctrl-C that nothing can swallow: libraries catch it while they are imported, Dagster keeps it for itself."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

_STOPS = {signal.SIGINT, signal.SIGTERM}


@contextmanager
def noticed() -> Iterator[Callable[[], None]]:
    """Yields a check that raises KeyboardInterrupt with the number of a SIGINT or SIGTERM that came since.

    Outside the main thread it never does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        ours.setblocking(False)
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield lambda: _raise_if_any(ours)
        except KeyboardInterrupt:  # Dagster's own, which does not say which signal it was
            _raise_if_any(ours)
            raise
        finally:
            signal.set_wakeup_fd(before)


def _raise_if_any(received: socket.socket) -> None:
    try:
        numbers = received.recv(4_096)
    except BlockingIOError:
        return
    if came := _STOPS & set(numbers):
        raise KeyboardInterrupt(max(came))
