"""Documents that must not come back, known only by a keyed hash of their id."""

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import sqlalchemy as sa

from kb_pipeline.storage.engine import reading, upsert
from kb_pipeline.storage.tables import forgotten


class Forgotten:
    """Reads and writes of the table `forgotten`.

    Args:
        key_file: holds the key, made on first use; without it nobody can tell which document a row is about.
    """

    def __init__(self, engine: sa.Engine, key_file: Path) -> None:
        self._engine, self._key_file = engine, key_file

    def identity(self, document_id: str) -> str:
        """Keyed hash of a document's id, 64 hex."""
        return hmac.new(self._key, document_id.encode(), hashlib.sha256).hexdigest()

    def among(self, kb_id: str, document_ids: Sequence[str]) -> set[str]:
        """Those of the documents of a knowledge base that were forgotten."""
        with reading(self._engine) as connection:
            known = set(connection.execute(sa.select(forgotten.c.identity).where(forgotten.c.kb_id == kb_id)).scalars())
        return {document for document in document_ids if self.identity(document) in known} if known else set()

    def begin(self, kb_id: str, document_id: str, by: str) -> datetime:
        """From now on the document does not come back; returns when that was asked for."""
        now = datetime.now(UTC)
        row: dict[str, object] = {
            "identity": self.identity(document_id), "kb_id": kb_id, "by": by, "at": now, "completed_at": None,
        }  # fmt: skip
        upsert(forgotten, self._engine, [row])
        return now

    def complete(self, document_id: str) -> None:
        """Nothing of the document is left."""
        self._change(forgotten.update().values(completed_at=datetime.now(UTC)), document_id)

    def lift(self, document_id: str) -> bool:
        """Let a document come back; False if it was not forgotten."""
        return self._change(forgotten.delete(), document_id) > 0

    def _change(self, statement: "sa.Update | sa.Delete", document_id: str) -> int:
        with self._engine.begin() as connection:
            identity = self.identity(document_id)
            return connection.execute(statement.where(forgotten.c.identity == identity)).rowcount

    @cached_property
    def _key(self) -> bytes:
        try:
            return bytes.fromhex(self._key_file.read_text("ascii"))
        except FileNotFoundError:
            self._key_file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._key_file.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        try:
            os.link(draft, self._key_file)  # fails where another process was first: its key counts
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return bytes.fromhex(self._key_file.read_text("ascii"))
