"""Content-addressed bytes: a blob's name is its sha256, so a blob is written once and checked at every read."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kb_pipeline.errors import Lost


def digest_of(content: bytes) -> str:
    """The name of a blob."""
    return hashlib.sha256(content).hexdigest()


class Blobs:
    """Bytes below one folder, fanned out by the first two hex digits."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, content: bytes) -> str:
        """Store bytes if they are not there yet; returns their sha256, hex."""
        digest = digest_of(content)
        path = self._path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of a blob.

        Raises: Lost: the blob is missing, or its bytes are not what was stored (it is removed then).
        """
        try:
            content = self._path(digest).read_bytes()
        except FileNotFoundError:
            raise Lost(f"The stored bytes {digest[:12]}… are missing; the next sync fetches them again.") from None
        if digest_of(content) != digest:
            self._path(digest).unlink(missing_ok=True)
            raise Lost(f"The stored bytes {digest[:12]}… are damaged; the next sync fetches them again.")
        return content

    def digests(self) -> Iterator[str]:
        """Names of all blobs."""
        for path in self._root.glob("??/*"):
            if not path.name.startswith("."):
                yield path.parent.name + path.name

    def remove(self, digest: str) -> None:
        """Remove a blob if it is there."""
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._root / digest[:2] / digest[2:]
