"""Identifiers and hashes: pure, deterministic, golden-tested. The catalog sees to their uniqueness."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

KB_ID = re.compile(r"(?!.*--)[a-z0-9-]{1,40}")
MAX_EXTERNAL_ID_CHARS = 1_000
"""A connector's key for an item; what is longer is a text in the wrong place."""
PARTITION_SEPARATOR = "--"


def sha256_hex(*parts: bytes | str) -> str:
    """Hash of the parts, each length-prefixed so that ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def json_hash(value: Mapping[str, Any]) -> str:
    """Hash of a JSON-able mapping, independent of key order."""
    return sha256_hex(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))


def slug(name: str, limit: int = 40) -> str:
    """`[a-z0-9-]{1,limit}` without `--` or outer hyphens, from any name; "kb" where no letter survives."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:limit].strip("-") or "kb"


def with_suffix(base: str, suffix: str, limit: int = 40) -> str:
    """`<base>-<suffix>`, the base cut so that the whole fits `limit`."""
    return f"{base[: limit - len(suffix) - 1].strip('-')}-{suffix}"


def source_partition(kb_id: str, source_id: str) -> str:
    """Partition key of a source."""
    return f"{kb_id}{PARTITION_SEPARATOR}{source_id}"


def split_partition(key: str) -> tuple[str, str]:
    """The (kb_id, source_id) of a source's partition key.

    Raises: ValueError: not such a key.
    """
    kb_id, separator, source_id = key.partition(PARTITION_SEPARATOR)
    if not separator or not KB_ID.fullmatch(kb_id) or not KB_ID.fullmatch(source_id):
        raise ValueError(f"{key!r} is not a source partition key '<kb_id>--<source_id>'")
    return kb_id, source_id


def tenant_of(scope: str, owner: str, client_id: str) -> str:
    """Whose a knowledge base is: `user-…`, `account-…` or `public`; safe as a folder name and collision-free."""
    if scope == "public":
        return "public"
    name = owner if scope == "user" else client_id
    plain = slug(name, 40)
    return f"{scope}-{plain}" if plain == name else f"{scope}-{plain}-{text_hash(name)[:8]}"


def document_id(kb_id: str, connector: str, external_id: str, namespace: str = "") -> str:
    """`d` + 24 hex of the document's identity. `namespace` sets apart sources whose external ids are only their own."""
    return "d" + sha256_hex(kb_id, connector + (f":{namespace}" if namespace else ""), external_id)[:24]


def chunk_id(document: str, idx: int) -> str:
    """`<document_id>-<4 digit index>`."""
    return f"{document}-{idx:04d}"


def content_hash(title: str, text: str, places: Iterable[str] = ()) -> str:
    """Hash of what retrieval can see of a document."""
    return sha256_hex(title, text, *places)


def text_hash(text: str) -> str:
    """Plain sha256 of a text, hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
