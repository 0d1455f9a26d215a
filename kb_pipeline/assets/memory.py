"""Memory of long runs: what a stage has freed is given back to the machine before the next one begins."""

import ctypes
import platform
from functools import cache
from typing import Any

_M_ARENA_MAX, _ARENAS = -8, 2
_M_MMAP_THRESHOLD, _LARGE = -3, 256 * 1024
"""glibc would give every thread of the index engine an arena of its own, and keep what was freed in each (measured:
150 MB of 700 after 100,000 documents)."""


@cache
def _libc() -> Any:
    """The C library where it is glibc; it has both calls."""
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def bound_arenas() -> None:
    """Keep what threads free in few places, from which it is used again, and give what is large back at once."""
    if _libc():
        _libc().mallopt(_M_ARENA_MAX, _ARENAS)
        _libc().mallopt(_M_MMAP_THRESHOLD, _LARGE)


def give_back() -> None:
    """Return what is free to the machine."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if _libc():
        _libc().malloc_trim(0)
