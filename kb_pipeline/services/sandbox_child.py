"""The child's side of the sandbox: confines itself, then answers calls until the parent is gone. Run by `sandbox`."""

import contextlib
import ctypes
import fcntl
import os
import pickle
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from kb_pipeline.errors import KbError, Transient
from kb_pipeline.services.sandbox_wire import HEADER, recv_exactly

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_NO_NEW_PRIVS = 38
_MIB = 1 << 20


def main() -> None:
    """Arguments: descriptor of the socket, descriptor of the lifeline, memory headroom in MiB."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    _die_with_parent(int(sys.argv[2]))
    _cut_network()
    _cap_memory(int(sys.argv[3]))
    _send(connection, ("ready", None))
    while True:
        try:
            (length,) = HEADER.unpack(recv_exactly(connection, HEADER.size, lambda: None))
            message = recv_exactly(connection, length, lambda: None)
        except (EOFError, OSError):
            return
        _send(connection, _answer(message))


def _answer(message: bytes) -> tuple[str, Any]:
    """The outcome of one call as a value; whatever it raises is caught, because here a unit's failure ends."""
    try:
        function, args = pickle.loads(message)  # noqa: S301 - from our own parent, over a socket that only it holds
        return "result", function(*args)
    except KbError as failure:
        wait_s = failure.retry_after_s if isinstance(failure, Transient) else None
        return "failure", (type(failure).__name__, str(failure), wait_s)
    except MemoryError:
        return "memory", None
    except Exception as error:  # noqa: BLE001 - becomes a Bug, with its trace in the parent's log
        return "bug", (type(error).__name__, "".join(traceback.format_exception(error))[-20_000:])


def _send(connection: socket.socket, reply: tuple[str, Any]) -> None:
    try:
        message = pickle.dumps(reply, protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        message = pickle.dumps(("bug", (type(error).__name__, f"the result cannot be pickled: {error}")))
    connection.settimeout(None)
    connection.sendall(HEADER.pack(len(message)))
    connection.sendall(message)


def _die_with_parent(lifeline: int) -> None:
    """The kernel kills this process when the parent's end of the pipe closes, even in the middle of native code.

    PR_SET_PDEATHSIG would fire when the *thread* that started us ends, which is not what is meant.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):  # open and empty: the parent lives
        if os.read(lifeline, 1) == b"":
            sys.exit(1)


def _cut_network() -> None:
    """A network namespace of our own without any interface where the kernel allows it; Python's sockets off."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if hasattr(libc, "unshare") and libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0:
        with contextlib.suppress(OSError):  # without the maps files cannot be created: a loss, not a hole
            for name, line in (
                ("uid_map", f"{user} {user} 1"),
                ("setgroups", "deny"),
                ("gid_map", f"{group} {group} 1"),
            ):
                Path(f"/proc/self/{name}").write_text(line, encoding="ascii")

    def refuse(*args: Any, **options: Any) -> NoReturn:
        raise PermissionError("the network is not available while a document is read")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        setattr(socket.socket, name, refuse)
    socket.getaddrinfo = refuse
    socket.gethostbyname = refuse


def _cap_memory(headroom_mb: int) -> None:
    """Private memory beyond what is in use now fails as MemoryError; the parent watches resident memory besides.

    RLIMIT_AS would also count reserved, untouched address space, of which pandoc's runtime takes a terabyte.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    in_use = 0
    with contextlib.suppress(OSError, ValueError, IndexError), Path("/proc/self/statm").open("rb") as statm:
        in_use = int(statm.read().split()[5]) * resource.getpagesize()
    cap = in_use + headroom_mb * _MIB
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = cap if hard == resource.RLIM_INFINITY else min(cap, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    main()
