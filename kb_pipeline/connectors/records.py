"""Records: a .jsonl file with one document a line: id, title, text, url, author, published_at, metadata."""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from kb_pipeline.charset import storable
from kb_pipeline.connectors.document import canonical_path, failure_of, in_home
from kb_pipeline.connectors.own import OwnFolders
from kb_pipeline.errors import Blocked, Corrupt, Gone, UsageError
from kb_pipeline.first_met import FirstMet
from kb_pipeline.ids import MAX_EXTERNAL_ID_CHARS
from kb_pipeline.records import Item, Json, Listing, RawItem, Source
from kb_pipeline.settings import Settings

_NO_RECORD = "@line:"
"""How the ids of lines in error begin."""
_SHOWN_BYTES = 60  # of such a line, as its title


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

        Raises: Corrupt: no JSON object, no id, no text, a second use of an id: the message names the line; another
        field in error: it names the record, since lines move without the record's version changing.
        Gone: the file changed since it was listed.
        """
        place = item.locator
        file_name = Path(str(place["path"])).name
        if "problem" in place:
            raise Corrupt(f"{file_name} line {place['line']}: {place['problem']}")
        name = f"{file_name} record {item.external_id}"
        try:
            with Path(str(place["path"])).open("rb") as file:
                file.seek(int(place["offset"]))
                line = file.read(int(place["length"]))
        except OSError as error:
            raise failure_of(error, str(place["path"]), "it is read again at the next sync") from error
        if _version(line) != item.version:
            raise Gone(f"{name}: the file changed after it was listed; it is read again at the next sync")
        try:
            return _raw(json.loads(line), name)
        except RecursionError:  # the listing, with less above it on the stack, could read it
            raise Corrupt(f"{name}: lists and objects lie too deep inside each other") from None


def _version(line: bytes) -> str:
    return hashlib.sha256(line.strip()).hexdigest()[:32]


def _items(path: str, most_line_bytes: int) -> Iterator[Item]:
    """Every line that is not blank."""
    listing = _Lines(path)
    offset = 0
    with Path(path).open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(most_line_bytes), b""), 1):
            length = len(line)
            start, offset = offset, offset + length
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                line, start = line[3:], 3
            if line.strip():
                yield listing.item(line, number, start, is_cut=len(line) >= most_line_bytes)


class _Lines:
    """Gives each line of one listing an id, none of them twice: the record's own, or one that no record can have."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._line_of = FirstMet()
        self._copies: dict[str, int] = {}

    def item(self, line: bytes, number: int, offset: int, is_cut: bool) -> Item:
        locator: dict[str, Any] = {"path": self._path, "line": number, "offset": offset, "length": len(line)}
        record, problem = ({}, "the line is too large; MAX_FILE_BYTES raises the cap") if is_cut else _parsed(line)
        if problem:
            return self._broken(line, f"{number}", {**locator, "problem": problem})
        record_id = str(record["id"])
        first = self._line_of.add(record_id, number)
        if first != number:
            problem = f"the id {record_id!r} stands in line {first} already; give each record its own"
            return self._broken(line, f"{number}:{first}", {**locator, "problem": problem})
        url, title = record.get("url"), record.get("title")
        return Item(
            external_id=record_id,
            version=_version(line),
            url=url if isinstance(url, str) else None,
            title=title if isinstance(title, str) else None,
            locator=locator,
        )

    def _broken(self, line: bytes, places: str, locator: dict[str, Any]) -> Item:
        """A line in error is known by what it says, not by where: other lines come and go above it.

        Args:
            places: the line numbers that its failure names, and that must not grow old in it.
        """
        digest = _version(line)
        copies = self._copies[digest] = self._copies.get(digest, 0) + 1
        external_id = f"{_NO_RECORD}{digest[:24]}" + (f":{copies}" if copies > 1 else "")
        title = line[:_SHOWN_BYTES].decode("utf-8", "replace").strip() + ("…" if len(line) > _SHOWN_BYTES else "")
        return Item(external_id=external_id, version=f"{digest}:{places}", title=title, locator=locator)


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
    given = record.get("id", record.get("_id"))
    is_id = isinstance(given, str | int) and not isinstance(given, bool)
    record["id"] = storable(str(given)).strip() if is_id else ""
    if not record["id"]:
        return {}, "the record has no id"
    if record["id"].startswith(_NO_RECORD):
        return {}, f"the id begins with {_NO_RECORD!r}, which is kept for lines that hold no record"
    if len(record["id"]) > MAX_EXTERNAL_ID_CHARS:
        return {}, f"the id is longer than {MAX_EXTERNAL_ID_CHARS:,} characters"
    if not isinstance(record.get("text"), str):
        return {}, "the record has no text"
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
        raise Corrupt(f"{name}: published_at {repr(value)[:80]} is not a date such as 2026-01-31T12:00:00Z") from error
