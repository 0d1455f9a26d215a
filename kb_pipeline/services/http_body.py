"""The body of an HTTP answer, expanded in bounded steps."""

import zlib
from collections.abc import Iterator

import httpx

from kb_pipeline.errors import Corrupt, Unsupported


def expanded(response: httpx.Response, encoding: str, name: str) -> Iterator[bytes]:
    """The body in pieces of at most 64 KiB, whatever the ratio of its compression.

    Raises: Corrupt: damaged compression. Unsupported: a compression that was not asked for.
    """
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        yield from response.iter_raw()
        return
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise Unsupported(f"the address {name} sends its answer compressed as {kind!r}, unasked")
    inflater: zlib._Decompress | None = None
    for part in response.iter_raw():
        if inflater is None:
            is_bare = kind == "deflate" and (part[0] & 0x0F) != 8
            inflater = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)
        try:
            while part and not inflater.eof:
                yield inflater.decompress(part, 65_536)
                part = inflater.unconsumed_tail
        except zlib.error as error:
            raise Corrupt(f"the address {name} sends damaged compression") from error
    if inflater is not None:
        yield inflater.flush()
