"""Whether a search table can still be read, and setting it aside where not: its rows are made anew from chunks."""

import time
from pathlib import Path

from kb_pipeline.storage.lance_engine import engine
from kb_pipeline.storage.lance_segments import unindexed
from kb_pipeline.storage.lance_table import KEY

DAMAGED = ".damaged-"
_NOT_THE_TABLE = ("permission denied", "too many open files", "no space left", "cannot allocate", "os error 5)")
"""Said where the machine fails: another reading would go well."""


def damage_of(path: Path, whole: bool = False) -> str:
    """What is wrong with a table's files; "" where nothing is, or where it was never written.

    Reads keys, ids and the state of every index; what only shows in texts and vectors, where `whole` asks for all.

    Raises: OSError: the machine cannot read, whatever the table is like.
    """
    if not path.is_dir():
        return ""
    try:
        table = engine().dataset(path)
        table.to_table(columns=None if whole else [KEY, "kb_id", "source_id", "document_id"])
        for kb_id in ("", "nobody"):
            table.count_rows(f"kb_id = '{kb_id}'")
        unindexed(table)
        table.to_table(columns=[KEY, "_score"], full_text_query="nobody", limit=1)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        if any(sign in reason.lower() for sign in _NOT_THE_TABLE):
            raise OSError(f"The search index {path} cannot be read: {reason}") from error
        return reason
    return ""


def set_aside(path: Path) -> Path:
    """Rename a damaged table, so that the next write makes another; returns where it is now."""
    return path.rename(path.with_name(f"{path.name}{DAMAGED}{int(time.time())}"))
