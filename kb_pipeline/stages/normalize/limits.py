"""What one document may cost, and the guards that look before a parser does. The parsers live beside this file."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Protocol

from kb_pipeline.errors import AuthFailed, Corrupt, KbError, TooLarge

RATIO_FLOOR_BYTES = 10_000_000
"""An expansion ratio says nothing below this size: small XML may well compress 200 times."""


class HasFileLimits(Protocol):
    """The two settings that bound a file."""

    @property
    def max_file_bytes(self) -> int: ...
    @property
    def max_expanded_bytes(self) -> int: ...


DAMAGED_MEMBER = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseLimits:
    """Caps on one document.

    Attributes:
        max_bytes: of the file.
        max_expanded_bytes: of all members of an archive-like file together, unpacked.
        max_ratio: unpacked by packed size, once unpacked passes 10 MB.
        max_members: files in an archive.
        max_nesting: documents in documents (mail in mail, archive in archive).
        max_pages: pages, slides or sheets.

    """

    max_bytes: int = 200_000_000
    max_expanded_bytes: int = 100_000_000
    max_ratio: int = 200
    max_members: int = 20_000
    max_nesting: int = 4
    max_pages: int = 10_000

    @classmethod
    def of(cls, settings: HasFileLimits) -> "ParseLimits":
        """The limits that the settings ask for."""
        return cls(max_bytes=settings.max_file_bytes, max_expanded_bytes=settings.max_expanded_bytes)


class Archive:
    """A zip container read in memory, within limits; no member is ever written to disk.

    Raises: TooLarge, AuthFailed, Corrupt on opening and on reading, each naming the file.
    """

    def __init__(self, content: bytes, name: str, limits: ParseLimits) -> None:
        self._name = name
        try:
            self._zip = zipfile.ZipFile(BytesIO(content))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise Corrupt(f"{name}: damaged container, its directory cannot be read ({error})") from error
        self._members = [member for member in self._zip.infolist() if not member.is_dir()]
        self._left = limits.max_expanded_bytes
        self._check(limits)

    def _check(self, limits: ParseLimits) -> None:
        expanded = self.expanded_bytes
        packed = max(1, sum(member.compress_size for member in self._members))
        if len(self._members) > limits.max_members:
            raise TooLarge(f"{self._name}: too large, {len(self._members):,} members (at most {limits.max_members:,})")
        if expanded > limits.max_expanded_bytes:
            raise TooLarge(
                f"{self._name}: too large when unpacked, {expanded / 1e6:.0f} MB "
                f"(at most {limits.max_expanded_bytes / 1e6:.0f}; MAX_EXPANDED_BYTES raises it)"
            )
        if expanded > RATIO_FLOOR_BYTES and expanded / packed > limits.max_ratio:
            raise TooLarge(f"{self._name}: too large when unpacked, {expanded / packed:.0f} times its packed size")
        if any(member.flag_bits & 0x1 for member in self._members):
            raise AuthFailed(f"{self._name}: protected by a password; remove it and sync again")

    @property
    def names(self) -> list[str]:
        """Member names in archive order, folders left out."""
        return [member.filename for member in self._members]

    @property
    def expanded_bytes(self) -> int:
        """Size of all members unpacked, as the directory says."""
        return sum(member.file_size for member in self._members)

    def read(self, member: str) -> bytes:
        """The bytes of a member; what it says of its size is not believed.

        Raises: KeyError: no such member. Corrupt, TooLarge.
        """
        info = self._zip.getinfo(member)
        try:
            with self._zip.open(info) as stream:
                data = stream.read(self._left + 1)
        except DAMAGED_MEMBER as error:
            raise Corrupt(f"{self._name}: damaged member {member} ({error})") from error
        if len(data) > self._left:
            raise TooLarge(f"{self._name}: too large when unpacked, member {member} passes the cap")
        return data

    def refuse_definitions(self) -> None:
        """Office formats forbid document type definitions; one that is there is an attack.

        Raises: Corrupt.
        """
        for name in self.names:
            if name.endswith((".xml", ".rels")) and b"<!DOCTYPE" in self._head(name):
                raise Corrupt(f"{self._name}: member {name} declares entities, which this format forbids; refused")

    def _head(self, member: str) -> bytes:
        try:
            with self._zip.open(member) as stream:
                head = stream.read(4096)
        except DAMAGED_MEMBER:
            return b""  # a damaged member is the parser's to report
        return head.replace(b"\0", b"")


_DAMAGE = (ArithmeticError, EOFError, LookupError, OSError, SyntaxError, ValueError, struct.error, zlib.error)


@contextmanager
def damaged(name: str, what: str) -> Iterator[None]:
    """What a parser raises on damaged bytes becomes Corrupt.

    Libraries raise anything, down to AttributeError; raised in our own modules such an error is our fault and passes.
    """
    try:
        yield
    except (KbError, MemoryError):
        raise
    except RecursionError as error:
        raise TooLarge(f"{name}: nested too deeply to read, too large a depth for {what}") from error
    except Exception as error:
        if not isinstance(error, _DAMAGE) and _is_ours(error):
            raise
        detail = " ".join(str(error).split())[:160]
        raise Corrupt(f"{name}: damaged, or not really {what} ({type(error).__name__}: {detail})") from error


def _is_ours(error: Exception) -> bool:
    """True if the error was raised by a line of this project."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or str(trace.tb_frame.f_globals.get("__name__", "")).startswith("kb_pipeline")


def stream_of(content: bytes) -> IO[bytes]:
    """The bytes as a seekable file, for libraries that want one."""
    return BytesIO(content)
