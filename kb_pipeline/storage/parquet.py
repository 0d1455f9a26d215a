"""Parquet datasets: one folder per source, a few part files in it, each replaced whole and at once."""

import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kb_pipeline.schemas import Table
from kb_pipeline.storage.layout import SPLIT_FOLDER, Layout
from kb_pipeline.storage.parts import Ids, among, content_of, id_array, rows_of, write_part

PART_DOCUMENTS = 1024
"""A part file is filled up to this many documents, so an edit rewrites a bounded amount."""
PART_BYTES = 64_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is really in a dataset: rows, distinct keys, parts whose schema is not the table's."""

    rows: int
    keys: int
    foreign_parts: list[str]


class Dataset:
    """The rows of one table for one source. All rows of a document live in one part file.

    An edit rewrites the part the document lives in, by temp file and rename: readers see the old rows or the new.
    The files are the truth about what lives where; nothing beside them has to be kept in step.
    """

    def __init__(self, layout: Layout, table: Table, kb_id: str, source_id: str, split_id: str = "") -> None:
        self.table, self.split_id = table, split_id
        self._folder = layout.dataset(table.name, kb_id, source_id, split_id)

    def replace(self, rows: pa.Table, document_ids: Collection[str]) -> int:
        """Make `rows` all there is of the given documents; documents without rows are removed.

        Args:
            rows: of the table's schema, only of documents in `document_ids`.
        Returns: how many of the documents had rows before.
        """
        for leftover in self._folder.glob(".*.tmp"):  # of a writer that died; the source's lock is ours now
            leftover.unlink()
        fresh, wanted, known = rows.cast(self.table.schema), id_array(document_ids), 0
        for part in self._parts():
            here = among(content_of(part).documents, wanted)
            if len(here):
                self._rewrite(part, fresh, here)
                fresh = fresh.filter(pc.invert(pc.is_in(fresh["document_id"], here)))
                known += len(here)
        if fresh.num_rows:
            self._append(fresh)
        return known

    def delete(self, document_ids: Collection[str]) -> int:
        """Remove documents; returns how many were there."""
        return self.replace(self.table.schema.empty_table(), document_ids) if document_ids else 0

    def remove(self) -> None:
        """Remove everything, files that were set aside too."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def discard_damaged(self) -> None:
        """Remove the files that were set aside: nobody can say what is in them."""
        for aside in self._folder.glob("*.damaged"):
            aside.unlink()

    def scan(
        self, document_ids: Ids | None = None, columns: list[str] | None = None, batch: int = 256
    ) -> Iterator[pa.Table]:
        """Rows of the given documents (None: all), in tables of at most `batch` documents; one pass over the parts."""
        wanted = None if document_ids is None else id_array(document_ids)
        for part in self._parts():
            here = content_of(part).documents if wanted is None else among(content_of(part).documents, wanted)
            if not len(here):
                continue
            rows = pq.ParquetFile(part).read(columns=columns and sorted({"document_id", *columns}))
            for start in range(0, len(here), batch):
                yield rows_of(rows, here.slice(start, batch))

    def document_ids(self) -> list[str]:
        """Documents with rows here."""
        return [str(document) for part in self._parts() for document in content_of(part).documents.to_pylist()]

    def set_aside_damaged(self) -> list[Path]:
        """Rename part files that are no Parquet (a disk fault, a hand) so that their documents are made anew."""
        aside = []
        for part in self._parts():
            try:
                content_of(part)
            except (pa.ArrowInvalid, OSError):
                aside.append(part.rename(part.with_suffix(".damaged")))
        return aside

    def settle_copies(self) -> list[str]:
        """Leave each document in one part: of equal copies the first, of unequal ones none, so that it is made anew.

        Returns: the documents that stood in several parts.
        """
        found: dict[str, list[Path]] = {}
        for part in self._parts():
            for document in content_of(part).documents.to_pylist():
                found.setdefault(str(document), []).append(part)
        copied = {document: parts for document, parts in found.items() if len(parts) > 1}
        for part, documents in (self._surplus(copied) if copied else {}).items():
            self._rewrite(part, self.table.schema.empty_table(), id_array(documents))
        return list(copied)

    def _surplus(self, copied: Mapping[str, Sequence[Path]]) -> dict[Path, list[str]]:
        """What has to leave which part."""
        hashes: dict[str, list[str]] = {}
        for part in self._parts():
            here = [document for document, parts in copied.items() if part in parts]
            rows = rows_of(pq.ParquetFile(part).read(), id_array(here))
            said: dict[str, list[str]] = {document: [] for document in here}
            for row in rows.to_pylist():
                said[row["document_id"]].append(repr(row))
            for document, texts in said.items():
                hashes.setdefault(document, []).append("\n".join(sorted(texts)))
        surplus: dict[Path, list[str]] = {}
        for document, parts in copied.items():
            is_same = len(set(hashes[document])) == 1
            for part in parts[1:] if is_same else parts:
                surplus.setdefault(part, []).append(document)
        return surplus

    def count_rows(self) -> int:
        """Rows over all parts."""
        return sum(content_of(part).rows for part in self._parts())

    def inspect(self) -> "Inspection":
        """Read keys and footers of every part as they are on disk now."""
        rows, foreign, keys = 0, [], []
        for part in self._parts():
            try:
                file = pq.ParquetFile(part)
            except (pa.ArrowInvalid, OSError):
                foreign.append(part.name)
                continue
            rows += file.metadata.num_rows
            if not file.schema_arrow.equals(self.table.schema):
                foreign.append(part.name)
            keys.append(file.read(columns=list(self.table.key)))
        distinct = pa.concat_tables(keys).group_by(list(self.table.key)).aggregate([]).num_rows if keys else 0
        return Inspection(rows=rows, keys=distinct, foreign_parts=foreign)

    def size_bytes(self) -> int:
        """Bytes on disk."""
        return sum(part.stat().st_size for part in self._parts())

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("part-*.parquet")) if self._folder.is_dir() else []

    def _rewrite(self, part: Path, rows: pa.Table, documents: pa.StringArray) -> None:
        """Let `rows` be all that a part has of the documents."""
        old = pq.ParquetFile(part).read()
        kept = old.filter(pc.invert(pc.is_in(old["document_id"], documents)))
        merged = pa.concat_tables([kept, rows_of(rows, documents)])
        if merged.num_rows:
            write_part(merged, part)
        else:
            part.unlink()

    def _append(self, rows: pa.Table) -> None:
        """Add rows of new documents to the emptiest part, or begin another."""
        fill = {part: len(content_of(part).documents) for part in self._parts()}
        emptiest = min(fill, key=lambda part: fill[part], default=None)
        more = pc.count_distinct(rows["document_id"]).as_py()
        part = self._folder / f"part-{uuid.uuid4().hex[:12]}.parquet"
        if emptiest and fill[emptiest] + more <= PART_DOCUMENTS and emptiest.stat().st_size < PART_BYTES:
            part = emptiest
            rows = pa.concat_tables([pq.ParquetFile(part).read(), rows])
        write_part(rows, part)


def column_values(layout: Layout, table: Table, column: str) -> set[str]:
    """Distinct values of a text column over every source's rows."""
    found: set[str] = set()
    for part in (layout.parquet / table.name).rglob("part-*.parquet"):
        values = pq.ParquetFile(part).read(columns=[column])[column]
        found.update(map(str, pc.unique(values).to_pylist()))
    return found


def parts_of(layout: Layout, table: Table) -> set[tuple[str, str]]:
    """(kb_id, source_id) of the sources that have part files."""
    found = (layout.parquet / table.name).glob("kb_id=*/source_id=*")
    filled = [folder for folder in found if next(folder.rglob("part-*.parquet"), None)]
    return {(f.parent.name.removeprefix("kb_id="), f.name.removeprefix("source_id=")) for f in filled}


def splits_of(layout: Layout, table: Table, kb_id: str, source_id: str) -> list[str]:
    """Ways of splitting that a source has rows of; "" for rows of before there were several."""
    folder = layout.dataset(table.name, kb_id, source_id)
    found = sorted(each.name.removeprefix(SPLIT_FOLDER) for each in folder.glob(f"{SPLIT_FOLDER}*"))
    return [*found, ""] if next(folder.glob("part-*.parquet"), None) else found


def write_empty(layout: Layout, table: Table) -> None:
    """A zero-row file of the right schema: SQL over a dataset that has no rows yet must not fail."""
    path = layout.parquet / table.name / "empty.parquet"
    if not path.exists() or not pq.read_schema(path).equals(table.schema):
        write_part(table.schema.empty_table(), path)
