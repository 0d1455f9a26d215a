"""What is wrong with an SQLite file and what to do, in a sentence. Without SQLAlchemy: searches use it too."""

import sqlite3

_DISK = "Free the disk or mend access, then run it again."
_DAMAGED = "`kb doctor` says how to get it back."
_ADVICE = {
    sqlite3.SQLITE_FULL: _DISK,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_READONLY: _DISK,
    sqlite3.SQLITE_CANTOPEN: _DISK,
    sqlite3.SQLITE_PERM: _DISK,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_ERROR: _DAMAGED,  # a table or column that is not there
}


def code_of(error: BaseException | None) -> int | None:
    """The primary result code; None where it is no error of SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None) if isinstance(error, sqlite3.Error) else None
    return None if code is None else int(code) & 0xFF


def is_lasting(error: BaseException | None) -> bool:
    """Whether it is the file's or the disk's trouble, which every further statement would meet as well."""
    return code_of(error) in _ADVICE


def damaged(file: object, reason: object) -> str:
    """That a catalog cannot be read any more."""
    return f"The catalog at {file} is damaged: {reason}. {_DAMAGED}"


def sentence(what: str, error: BaseException) -> str:
    """What cannot be used, why, and what to do."""
    return f"{what} cannot be used: {error}. {_ADVICE.get(code_of(error) or -1, 'Run it again.')}"
