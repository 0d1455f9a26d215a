"""The body of an HTTP answer, expanded in bounded steps."""

import zlib
from collections.abc import Generator, Iterable, Iterator

import httpx

from kb_pipeline.errors import Corrupt, Transient, Unsupported
from kb_pipeline.services.http_failures import TryAgain

_PIECE = 65_536
_MEMBER = b"\x1f\x8b"
"""How every member of a gzip stream begins."""


def expanded(response: httpx.Response, encoding: str, name: str) -> Iterator[bytes]:
    """The body in pieces of at most 64 KiB, whatever the ratio of its compression.

    Raises: Corrupt: damaged compression. TryAgain: it breaks off before its end, however many bytes were announced.
    Unsupported: a compression that was not asked for.
    """
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        yield from response.iter_raw()
        return
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise Unsupported(f"the address {name} sends its answer compressed as {kind!r}, unasked")
    try:
        is_whole = yield from _inflated(response.iter_raw(), kind)
    except zlib.error as error:
        raise Corrupt(f"the address {name} sends damaged compression") from error
    if not is_whole:
        raise TryAgain(Transient(f"the address {name} broke off its answer: its compressed bytes end too early"))


def _inflated(parts: Iterable[bytes], kind: str) -> Generator[bytes, None, bool]:
    """The stream expanded, all members of it; returns whether it came to its end. What is no member is padding."""
    inflater: zlib._Decompress | None = None
    rest = b""
    for part in parts:
        rest += part
        while rest:
            if inflater is None:
                inflater = _inflater(kind, rest)
            elif inflater.eof:
                if kind == "deflate" or not _MEMBER.startswith(rest[:2]):
                    return True
                if len(rest) < len(_MEMBER):
                    break
                inflater = _inflater(kind, rest)
            yield inflater.decompress(rest, _PIECE)
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    if inflater is None:
        return True
    yield inflater.flush()
    return inflater.eof


def _inflater(kind: str, head: bytes) -> "zlib._Decompress":
    is_bare = kind == "deflate" and (head[0] & 0x0F) != 8
    return zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)
