"""Records: a .jsonl file with one document a line: id, title, text, url, author, published_at, metadata."""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from kb_pipeline.connectors.document import canonical_path, failure_of, in_home
from kb_pipeline.connectors.own import OwnFolders
from kb_pipeline.errors import Blocked, Corrupt, Gone, UsageError
from kb_pipeline.records import Item, Json, Listing, RawItem, Source
from kb_pipeline.settings import Settings


class RecordsConnector:
    """Reads the file once to list it, and seeks to a line to fetch it. A line in error is an item whose fetch says why.

    A line above `max_file_bytes` is refused like a damaged one.
    """

    name: ClassVar[str] = "records"
    has_global_ids: ClassVar[bool] = False
    understands: ClassVar[str] = "a .jsonl file of records (id, title, text, url, author, published_at, metadata)"

    def __init__(self, settings: Settings) -> None:
        self._most_line_bytes = settings.max_file_bytes
        self._own = OwnFolders(settings)

    def detect(self, source_input: str) -> bool:
        """True for a path that ends in .jsonl."""
        return "://" not in source_input and source_input.lower().endswith(".jsonl")

    def canonical(self, source_input: str) -> str:
        """Absolute path. Raises: UsageError: no such file, or it lies in the home."""
        path = canonical_path(source_input, self._own)
        if not Path(path).is_file():
            raise UsageError(f"{source_input}: records come from a .jsonl file, and this is a folder")
        return path

    def list_items(self, source: Source, state: Json) -> Listing:
        """One item a line, as a generator.

        Raises: UnitFailure: the file is missing or cannot be read.
        """
        if self._own.hold(Path(source.input)):
            raise Blocked(in_home(source.input))
        try:
            Path(source.input).open("rb").close()
        except OSError as error:
            raise failure_of(error, source.input, "it is read again at the next sync") from error
        return Listing(items=_items(source.input, self._most_line_bytes), is_complete=True)

    def fetch(self, item: Item) -> RawItem:
        """The record, checked.

        Raises: Corrupt: no JSON object, no id, no text, a second use of an id; the message names the line.
        Gone: the file changed since it was listed.
        """
        place = item.locator
        name = f"{Path(str(place['path'])).name} line {place['line']}"
        if "problem" in place:
            raise Corrupt(f"{name}: {place['problem']}")
        try:
            with Path(str(place["path"])).open("rb") as file:
                file.seek(int(place["offset"]))
                line = file.read(int(place["length"]))
        except OSError as error:
            raise failure_of(error, str(place["path"]), "it is read again at the next sync") from error
        if _version(line) != item.version:
            raise Gone(f"{name}: the file changed after it was listed; it is read again at the next sync")
        return _raw(json.loads(line), name)


def _version(line: bytes) -> str:
    return hashlib.sha256(line.strip()).hexdigest()[:32]


def _items(path: str, most_line_bytes: int) -> Iterator[Item]:
    """Every line that is not blank. What is remembered is a hash of each id with its line, to find repeats."""
    lines_of: dict[bytes, int] = {}
    offset = 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(most_line_bytes), b""), 1):
            length = len(line)
            start, offset = offset, offset + length
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line, start = line[3:], 3
            if line.strip():
                yield _item(path, line, number, start, lines_of, len(line) >= most_line_bytes)


def _item(path: str, line: bytes, number: int, offset: int, lines_of: dict[bytes, int], is_cut: bool) -> Item:
    locator: dict[str, Any] = {"path": path, "line": number, "offset": offset, "length": len(line)}
    record, problem = ({}, "the line is too large; MAX_FILE_BYTES raises the cap") if is_cut else _parsed(line)
    record_id = "" if problem else str(record["id"])
    if not problem:
        first = lines_of.setdefault(hashlib.sha256(record_id.encode("utf-8", "surrogatepass")).digest()[:16], number)
        if first != number:
            problem = f"the id {record_id!r} stands in line {first} already; give each record its own"
    if problem:
        locator["problem"] = problem
        digest = _version(line)  # what it says, not where: other lines come and go above it
        return Item(external_id=f"line:{digest[:12]}", version=f"{digest}:{number}", locator=locator)
    url, title = record.get("url"), record.get("title")
    return Item(
        external_id=record_id,
        version=_version(line),
        url=url if isinstance(url, str) else None,
        title=title if isinstance(title, str) else None,
        locator=locator,
    )


def _parsed(line: bytes) -> tuple[dict[str, Any], str]:
    """The record and "", or what is wrong with the line."""
    try:
        record = json.loads(line)
    except UnicodeDecodeError:
        return {}, "not UTF-8; save the file as UTF-8"
    except (ValueError, RecursionError) as error:
        return {}, f"not a JSON object ({error})"
    if not isinstance(record, dict):
        return {}, "not a JSON object"
    record_id = record.get("id", record.get("_id"))
    if not isinstance(record_id, str | int) or isinstance(record_id, bool) or not str(record_id).strip():
        return {}, "the record has no id"
    if not isinstance(record.get("text"), str):
        return {}, "the record has no text"
    record["id"] = str(record_id).strip()
    return record, ""


def _raw(record: dict[str, Any], name: str) -> RawItem:
    """The record as the normaliser takes it; fields of the wrong type are refused rather than guessed."""
    for field in ("title", "url", "author"):
        if record.get(field) is not None and not isinstance(record[field], str):
            raise Corrupt(f"{name}: {field} is not a text")
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise Corrupt(f"{name}: metadata is not an object")
    kept = {"title": record.get("title") or "", "text": record["text"]}
    return RawItem(
        content=json.dumps(kept, ensure_ascii=True).encode(),
        kind="record",
        url=record.get("url"),
        file_name=name,
        title=record.get("title") or str(record.get("id", record.get("_id"))),
        author=record.get("author"),
        published_at=_moment(record.get("published_at"), name),
        metadata=metadata,
    )


def _moment(value: object, name: str) -> datetime | None:
    """ISO 8601 text or seconds since 1970, as UTC; without a zone it is taken as UTC."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(str(value))
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise Corrupt(f"{name}: published_at {value!r} is not a date such as 2026-01-31T12:00:00Z") from error
