"""The writing side of the search index: one table of a tenant and space. Reading for search is in lance_read.py.

Rules (measured): a commit that changes nothing still makes a version, so every write asks first; a merge is one
atomic commit; one writer per table at a time (a lease), and the key is declared so that a merge which slipped past the
lease is retried by the engine rather than doubled.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kb_pipeline.errors import SystemicError
from kb_pipeline.records import Space
from kb_pipeline.schemas import chunk_index
from kb_pipeline.storage.lance_damage import damage_of, set_aside
from kb_pipeline.storage.lance_engine import engine
from kb_pipeline.storage.lance_overhaul import rewrite, steps
from kb_pipeline.storage.lance_rows import check_rows, literal, of_documents, of_source, row_hashes
from kb_pipeline.storage.lance_segments import is_unwritten
from kb_pipeline.storage.lance_statistics import IndexStatistics, statistics
from kb_pipeline.storage.lance_table import DRAFT_SUFFIX, KEY, one_of, open_table, spaces, systemic, table_path
from kb_pipeline.storage.lance_upkeep import (
    KEEP_VERSIONS,
    VECTOR_INDEX_ROWS,
    create_scalar_indexes,
    maintain,
)
from kb_pipeline.storage.lease import Lease, Taken

if TYPE_CHECKING:
    import lance

_LEASE_WAIT_S = 600.0
_KEY_METADATA: dict[bytes | str, bytes | str] = {b"lance-schema:unenforced-primary-key": b"true"}


class ChunkIndex:
    """The table of one tenant and space, for writing. Cheap to make; the table appears with the first rows.

    Args:
        root: storage root.
        space: the space, or the id of one whose table exists.
        lease: the home's, so that one process at a time writes to a table.

    """

    def __init__(self, root: Path, tenant: str, space: Space | str, lease: Lease) -> None:
        self.root, self.tenant, self._lease = root, tenant, lease
        self.space_id = space if isinstance(space, str) else space.space_id
        self.path = table_path(root, tenant, self.space_id)
        self._dims = None if isinstance(space, str) else space.dims

    def others(self) -> list["ChunkIndex"]:
        """The tenant's tables of other spaces."""
        found = [space_id for space_id in spaces(self.root, self.tenant) if space_id != self.space_id]
        return [ChunkIndex(self.root, self.tenant, space_id, self._lease) for space_id in found]

    def existing(self, kb_id: str, document_ids: Sequence[str]) -> dict[str, str]:
        """`row_hash` by chunk id of the rows that stand now for these documents."""
        table = open_table(self.path)
        if table is None or not document_ids:
            return {}
        columns = [name for name in table.schema.names if name != "vector"]
        found = table.to_table(columns=columns, filter=of_documents(kb_id, document_ids))
        return row_hashes(found)

    def vectors_by_hash(self, indexed_hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors the table holds for texts of these hashes, in whatever document: equal text, equal vector."""
        table = open_table(self.path)
        if table is None or not indexed_hashes:
            return {}
        wanted = one_of("indexed_hash", sorted(set(indexed_hashes)))
        found = table.to_table(columns=["indexed_hash", "vector"], filter=wanted)
        hashes: list[Any] = found["indexed_hash"].to_pylist()
        vectors: Any = found["vector"].combine_chunks()
        matrix = vectors.flatten().to_numpy().reshape(len(hashes), vectors.type.list_size)
        return dict(zip(hashes, matrix, strict=True))

    def replace_documents(self, kb_id: str, source_id: str, document_ids: Sequence[str], rows: pa.Table) -> int:
        """Make `rows` all there is of these documents, in one commit; none if that is so already.

        `rows` has the schema of `schemas.chunk_index`; each is of this knowledge base, source and one of the documents.

        Returns: rows written or removed.
        Raises: SystemicError: the table cannot be written, or keys turn out not to be unique afterwards.

        """
        wanted = row_hashes(rows)
        check_rows(kb_id, source_id, document_ids, rows, wanted)
        with self._writing():
            standing = self.existing(kb_id, document_ids)
            changed = [key for key, digest in wanted.items() if standing.get(key) != digest]
            stale = [key for key in standing if key not in wanted]
            if not changed and not stale:
                return 0
            self._merge(rows.filter(pc.is_in(rows[KEY], pa.array(changed, pa.string()))), stale)
            self._verify(kb_id, document_ids, len(wanted))
        return len(changed) + len(stale)

    def delete_documents(self, kb_id: str, document_ids: Sequence[str]) -> int:
        """Remove these documents' rows; returns how many."""
        return self._delete(of_documents(kb_id, document_ids)) if document_ids else 0

    def delete_source(self, kb_id: str, source_id: str) -> int:
        """Remove a source's rows; returns how many."""
        return self._delete(of_source(kb_id, source_id))

    def set_aside_if_damaged(self) -> Path | None:
        """Rename the table if its files cannot be read, so that syncs make its rows anew; where it is now, or None."""
        if not damage_of(self.path):
            return None
        with self._writing():
            return set_aside(self.path) if damage_of(self.path) else None  # another may have done it meanwhile

    def copy_source(self, kb_id: str, source_id: str, tenant: str) -> int:
        """Put a source's rows, vectors and all, into another tenant's table of this space; returns how many."""
        table, copied = open_table(self.path), 0
        if table is None:
            return 0
        target = ChunkIndex(self.root, tenant, self.space_id, self._lease)
        target._dims = table.schema.field("vector").type.list_size
        for batch in table.to_batches(filter=of_source(kb_id, source_id)):
            with target._writing():
                target._merge(pa.Table.from_batches([batch]), ())
            copied += batch.num_rows
        target.maintain()
        return copied

    def count_rows(self, kb_id: str, source_id: str) -> int:
        """Rows of a source."""
        table = open_table(self.path)
        return 0 if table is None else int(table.count_rows(of_source(kb_id, source_id)))

    def count_of(self, kb_id: str, source_id: str, document_ids: Sequence[str] | None) -> int:
        """Rows of some documents of a source, or of all of it."""
        table = open_table(self.path)
        if table is None:
            return 0
        some = of_source(kb_id, source_id)
        return int(table.count_rows(some if document_ids is None else some & one_of("document_id", document_ids)))

    def documents(self) -> dict[tuple[str, str], set[str]]:
        """Ids of the documents that have rows, by (kb_id, source_id)."""
        table, found = open_table(self.path), dict[tuple[str, str], set[str]]()
        for batch in () if table is None else table.to_batches(columns=["kb_id", "source_id", "document_id"]):
            for row in pa.Table.from_batches([batch]).group_by(batch.schema.names).aggregate([]).to_pylist():
                found.setdefault((row["kb_id"], row["source_id"]), set()).add(row["document_id"])
        return found

    def document_ids(self, kb_id: str, source_id: str) -> set[str]:
        """Documents of a source that have rows."""
        table = open_table(self.path)
        if table is None:
            return set()
        found = table.to_table(columns=["document_id"], filter=of_source(kb_id, source_id))
        return set(map(str, found["document_id"].to_pylist()))

    def maintain(
        self, vector_index_rows: int = VECTOR_INDEX_ROWS, keep_versions: timedelta = KEEP_VERSIONS
    ) -> list[str]:
        """Let the indexes cover every row, at a cost that goes with what was written; returns what was done."""
        if open_table(self.path) is None:
            return []
        with self._writing(), systemic(self.path, "maintained"):
            return maintain(self.path, vector_index_rows, keep_versions)

    def overhaul(
        self, vector_index_rows: int = VECTOR_INDEX_ROWS, keep_versions: timedelta = KEEP_VERSIONS
    ) -> list[str]:
        """Bring the table to the shape of one freshly built; returns what was done.

        Costs with the size of the table. Writers get their turn between steps; searches go on as long as they finish
        within `keep_versions`.
        """
        done: list[str] = []
        for step in steps(vector_index_rows, keep_versions):
            if open_table(self.path) is None:
                break
            with self._writing(), systemic(self.path, "maintained"):
                done += step(self.path)
        return done

    def remove_if_empty(self, unwritten_for: timedelta) -> bool:
        """Remove the table if it holds no row and nobody wrote to it for so long; returns whether it did."""
        with self._writing():
            table = open_table(self.path)
            if table is None or table.count_rows() or not is_unwritten(self.path, unwritten_for):
                return False
            self.path.rename(self._draft)
            shutil.rmtree(self._draft, ignore_errors=True)
            return True

    def remove_draft(self) -> bool:
        """Remove what a writer left that died while it made the table; returns whether there was such a thing."""
        if not self._draft.is_dir():
            return False
        with self._writing():
            shutil.rmtree(self._draft, ignore_errors=True)
        return True

    def purge(self, kb_id: str, document_ids: Sequence[str], vector_index_rows: int = VECTOR_INDEX_ROWS) -> int:
        """Remove documents' rows from the table, its indexes and every old version; returns how many rows stood.

        Costs a rewrite of the table. Searches that read an old version at this moment start over.
        """
        if open_table(self.path) is None:
            return 0
        removed = self.delete_documents(kb_id, document_ids)
        with self._writing(), systemic(self.path, "purged"):
            rewrite(self.path, vector_index_rows)
        return removed

    def statistics(self, keep_versions: timedelta = KEEP_VERSIONS) -> IndexStatistics:
        """State of the table; zeros if it was never written."""
        return statistics(self.path, keep_versions)

    @property
    def _draft(self) -> Path:
        return self.path.with_suffix(DRAFT_SUFFIX)

    def _merge(self, rows: pa.Table, stale: Sequence[str]) -> None:
        with systemic(self.path, "written"):
            table = open_table(self.path)
            if table is None:
                table = self._create()
            merge = table.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all().use_index(False)
            if stale:
                merge = merge.when_not_matched_by_source_delete(f"{KEY} IN ({', '.join(map(literal, stale))})")
            merge.execute(pa.Table.from_arrays(rows.select(table.schema.names).columns, schema=table.schema))

    def _create(self) -> "lance.LanceDataset":
        """An empty table with its key declared and its indexes in place; appears at once, never half-made."""
        if self._dims is None:
            raise SystemicError(f"The search index {self.path} vanished while it was written; sync again.")
        fields = [
            field.with_metadata(_KEY_METADATA) if field.name == KEY else field
            for field in chunk_index(self._dims).schema
        ]
        schema = pa.schema(fields)
        shutil.rmtree(self._draft, ignore_errors=True)  # of a run that died here
        create_scalar_indexes(engine().write_dataset(schema.empty_table(), self._draft, schema=schema))
        self._draft.rename(self.path)
        table: lance.LanceDataset = engine().dataset(self.path)
        return table

    def _delete(self, rows: pc.Expression) -> int:
        if open_table(self.path) is None:
            return 0
        with self._writing(), systemic(self.path, "written"):
            table = open_table(self.path)
            if table is None or table.count_rows(rows) == 0:
                return 0
            return int(table.delete(rows)["num_deleted_rows"])

    def _verify(self, kb_id: str, document_ids: Sequence[str], expected: int) -> None:
        table = open_table(self.path)
        found = 0 if table is None else table.count_rows(of_documents(kb_id, document_ids))
        if found != expected:
            raise SystemicError(
                f"The search index {self.path} holds {found} rows where {expected} were written: something else writes "
                "to it. Stop that, move the folder away and sync again to rebuild it."
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time over all processes of the home; freed when its holder dies."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._lease.hold(f"index-{self.tenant}-{self.space_id}", wait_s=_LEASE_WAIT_S):
                yield
        except Taken:
            raise SystemicError(
                f"The search index {self.path} has been written to by another run for {_LEASE_WAIT_S / 60:.0f} "
                "minutes; stop that run, then sync again."
            ) from None
