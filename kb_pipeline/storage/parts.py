"""Part files of a Parquet dataset: what is in each, looked up without reading its rows, and written whole at once."""

import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ids = Collection[str] | pa.StringArray
_REMEMBERED = 2_048  # parts; 30 kB each at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a part file holds.

    Attributes:
        documents: the ids in it, each once.
    """

    rows: int
    documents: pa.StringArray


def content_of(part: Path) -> Content:
    """What is in a part file as it is on disk now; read once for each state of the file.

    Raises: ArrowInvalid, OSError: it cannot be read, or is no part file.
    """
    stat = part.stat()
    state, last = (stat.st_mtime_ns, stat.st_ino, stat.st_size), _last_read(part)
    content = last.get(state)
    if content is None:
        content = _read(part)
        last.clear()
        last[state] = content
    return content


@lru_cache(_REMEMBERED)
def _last_read(_part: Path) -> dict[tuple[int, int, int], Content]:
    """State of a part -> what was in it; none but the last that was read."""
    return {}


def _read(part: Path) -> Content:
    with pq.ParquetFile(part) as file:
        ids = file.read(columns=["document_id"])
        if not ids.num_columns:
            raise pa.ArrowInvalid(f"{part} has no column document_id")
        documents = cast("pa.StringArray", ids["document_id"].combine_chunks().unique())
        return Content(rows=file.metadata.num_rows, documents=documents)


def among(documents: pa.StringArray, wanted: pa.StringArray) -> pa.StringArray:
    """Those of the documents that are wanted."""
    return documents.filter(pc.is_in(documents, wanted))


def rows_of(rows: pa.Table, documents: pa.StringArray) -> pa.Table:
    """The rows of these documents."""
    return rows.filter(pc.is_in(rows["document_id"], documents))


def id_array(document_ids: Ids) -> pa.StringArray:
    """Document ids as Arrow takes them."""
    return pa.array(document_ids, pa.string())


def joined_ids(some: Iterable[Sequence[str]]) -> pa.StringArray:
    """Document ids that come in pieces, in a quarter of the memory that a list of them takes."""
    return pa.concat_arrays([id_array(()), *map(id_array, some)])


def write_part(rows: pa.Table, path: Path) -> None:
    """Write beside the target, flush to disk, rename over it.

    The file's time is always another than that of the one it replaces: `content_of` tells them apart by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            pq.write_table(rows, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            later = max(time.time_ns(), path.stat().st_mtime_ns + 1)
            os.utime(temporary, ns=(later, later))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
