"""What the writing and the reading side of the search index share: names, paths, opening, filters from typed values.

A tenant is a LanceDB database (a folder), a space a table in it (`chunks-<space_id>.lance`). Both sides go through
pylance, the engine under lancedb: the tables are the same, the import takes a third of the time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kb_pipeline.errors import SystemicError
from kb_pipeline.storage.lance_engine import engine

if TYPE_CHECKING:
    import lance
    import pyarrow.compute as pc

KEY = "chunk_id"
VECTOR_INDEX = "vector_idx"
TERMS_INDEX = "terms_idx"
DRAFT_SUFFIX = ".draft"
_PREFIX, _SUFFIX = "chunks-", ".lance"


def database(root: Path, tenant: str) -> Path:
    """Folder of a tenant's database."""
    return root / "lance" / tenant


def table_path(root: Path, tenant: str, space_id: str) -> Path:
    """Folder of one space's table."""
    return database(root, tenant) / f"{_PREFIX}{space_id}{_SUFFIX}"


def spaces(root: Path, tenant: str, suffix: str = _SUFFIX) -> list[str]:
    """Ids of the spaces a tenant has a table for, or with `DRAFT_SUFFIX` a half-made one, sorted."""
    found = database(root, tenant).glob(f"{_PREFIX}*{suffix}")
    return sorted(path.name[len(_PREFIX) : -len(suffix)] for path in found)


def tenants_with_tables(root: Path) -> set[str]:
    """Tenants that have tables, whether the catalog knows them or not."""
    return {path.parent.name for path in (root / "lance").glob(f"*/{_PREFIX}*{_SUFFIX}")}


def open_table(path: Path) -> "lance.LanceDataset | None":
    """The newest version of a table; None if it was never written.

    Raises: SystemicError: it is there and cannot be read.
    """
    if not path.is_dir():
        return None
    with systemic(path, "read"):
        table: lance.LanceDataset = engine().dataset(path)
        return table


@contextmanager
def systemic(path: Path, doing: str) -> Iterator[None]:
    """Name the table in whatever the engine raises (it raises OSError, ValueError and RuntimeError alike)."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise SystemicError(
            f"The search index {path} could not be {doing}: {reason}. "
            f"Check disk space and permissions; if it is damaged, move that folder away and sync again to rebuild it."
        ) from error


def one_of(column: str, values: Sequence[str]) -> "pc.Expression":
    """Filter: the column holds one of the values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.field(column).isin(pa.array(list(values), pa.string()))
