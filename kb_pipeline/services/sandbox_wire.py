"""What parent and child of the sandbox say: pickles with their length, of which the parent trusts plain values only."""

import io
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any

from kb_pipeline import errors

HEADER = struct.Struct(">Q")
_PART = 1 << 20
_PLAIN = {
    ("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")
} | {("builtins", name) for name in ("set", "frozenset", "bytearray", "complex", "slice", "range")}  # fmt: skip
_OWN_MODULE = "kb_pipeline.records"


def recv_exactly(connection: socket.socket, size: int, wait_s: Callable[[], float | None]) -> bytes:
    """`size` bytes. `wait_s` is asked before each wait how long to wait at most; it may raise to give up.

    Raises: EOFError: the other side is gone. OSError.
    """
    data = bytearray(size)
    view = memoryview(data)
    got = 0
    while got < size:
        connection.settimeout(wait_s())
        try:
            count = connection.recv_into(view[got : got + _PART])
        except TimeoutError:
            continue
        if count == 0:
            raise EOFError
        got += count
    return bytes(data)


class _Values(pickle.Unpickler):
    """Unpickles values and the project's records; any other class or function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module == _OWN_MODULE and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == _OWN_MODULE:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in an answer")


def load_reply(message: bytes) -> tuple[str, Any]:
    """A child's (status, value).

    Raises: pickle.UnpicklingError: it holds anything else than plain values and records, or is no reply at all.
    """
    try:
        reply = _Values(io.BytesIO(message)).load()
    except pickle.UnpicklingError:
        raise
    except (EOFError, LookupError, ValueError, TypeError, AttributeError, ImportError) as error:
        raise pickle.UnpicklingError(str(error)) from error
    if not isinstance(reply, tuple) or len(reply) != 2 or not _is_reply(*reply):
        raise pickle.UnpicklingError("no reply")
    return reply


def _is_reply(status: Any, value: Any) -> bool:
    if status == "failure":
        known = isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], str)
        found = getattr(errors, value[0], None) if known else None
        return isinstance(found, type) and issubclass(found, errors.KbError)
    is_bug = status == "bug" and isinstance(value, tuple) and len(value) == 2
    return status in ("result", "memory", "ready") or is_bug
