"""The reading side of the search index: one table, searched by vector or by terms, always at its newest version."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kb_pipeline.errors import SystemicError
from kb_pipeline.storage.lance_table import VECTOR_INDEX, one_of, open_table, systemic, table_path
from kb_pipeline.storage.lance_vectors import fits, held_vectors

if TYPE_CHECKING:
    import lance
    import numpy as np
    from numpy.typing import NDArray

_T = TypeVar("_T")
_REFINE = 10  # exact distances for ten times the rows asked for: the quantised index then loses nothing measurable
_PROBES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row of the index as a channel found it: as much as ranking needs.

    Attributes:
        score: cosine similarity in [-1, 1] (dense) or BM25 (sparse).
        snapshot: the version of the table it was found in, and `row` the row's id in it.

    """

    chunk_id: str
    kb_id: str
    document_id: str
    language: str
    text_hash: str
    score: float
    snapshot: "lance.LanceDataset | None" = field(default=None, repr=False, compare=False)
    row: int = field(default=-1, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A whole row of the index, but for its vector.

    Attributes:
        terms: search terms of header and text, space-separated.

    """

    chunk_id: str
    kb_id: str
    source_id: str
    document_id: str
    external_id: str
    chunk_idx: int
    text: str
    header: str
    terms: str
    start_char: int
    end_char: int
    page: int | None
    start_seconds: float | None
    title: str
    url: str | None
    language: str
    text_hash: str


_RANKED = tuple(f.name for f in fields(Candidate) if f.name not in ("score", "snapshot", "row"))
_WHOLE = [f.name for f in fields(Passage)]


def load_passages(candidates: Iterable[Candidate]) -> dict[str, Passage]:
    """The whole rows of candidates by chunk id, from the very versions they were found in."""
    by_snapshot: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        by_snapshot.setdefault(id(candidate.snapshot), []).append(candidate)
    found: dict[str, Passage] = {}
    for group in by_snapshot.values():
        table = group[0].snapshot
        if table is None:
            continue
        rows_wanted = f"_rowid IN ({', '.join(str(int(c.row)) for c in group)})"  # answered without a scan
        with systemic(Path(table.uri), "read"):
            rows = table.to_table(columns=_WHOLE, filter=rows_wanted)
        found.update((row["chunk_id"], Passage(**row)) for row in rows.to_pylist())
    return found


class IndexReader:
    """Searches one table. Safe to share between threads; keeps the table open and notices new versions by itself."""

    def __init__(self, root: Path, tenant: str, space_id: str) -> None:
        self.tenant, self.space_id = tenant, space_id
        self.path = table_path(root, tenant, space_id)
        self._table: lance.LanceDataset | None = None
        self._has_vector_index = self._is_held = False

    @property
    def version(self) -> int:
        """Version the next search reads; 0 if the table was never written."""
        table = self._current()
        return 0 if table is None else int(table.version)

    def dense(self, vector: "NDArray[np.float32]", kb_ids: Sequence[str], limit: int) -> list[Candidate]:
        """The nearest passages of these knowledge bases by cosine, best first, at most `limit`."""
        nearest: dict[str, Any] = {"column": "vector", "q": vector, "k": limit, "metric": "cosine"}

        def search(table: "lance.LanceDataset") -> list[Candidate]:
            if self._is_held:
                rows = held_vectors(table, _RANKED).nearest(vector, kb_ids, limit)
            else:
                exact = {"refine_factor": _REFINE, "minimum_nprobes": _PROBES} if self._has_vector_index else {}
                rows = table.to_table(
                    columns=[*_RANKED, "_distance"], nearest=nearest | exact, filter=one_of("kb_id", kb_ids),
                    prefilter=True, with_row_id=True,
                ).to_pylist()  # fmt: skip
            return _candidates(table, rows, lambda row: 1.0 - row["_distance"])

        return (self._read(search) if kb_ids else None) or []

    def sparse(self, terms: str, kb_ids: Sequence[str], limit: int) -> list[Candidate]:
        """The passages of these knowledge bases that hold any of the terms, by BM25, best first, at most `limit`.

        `terms` are as `stages.terms.query_terms` makes them; without any, nothing is found.

        """

        def search(table: "lance.LanceDataset") -> list[Candidate]:
            from lance.query import MatchQuery

            query, columns = MatchQuery(terms, "terms"), [*_RANKED, "_score"]
            kbs = one_of("kb_id", kb_ids)
            found = table.to_table(
                columns=columns, full_text_query=query, filter=kbs, prefilter=True, limit=limit, with_row_id=True
            )
            return _candidates(table, found.to_pylist(), lambda row: row["_score"])

        return (self._read(search) if kb_ids and terms else None) or []

    def _read(self, read: Callable[["lance.LanceDataset"], _T]) -> "_T | None":
        """Read the newest version; once more from scratch if the open one was taken away. None without a table."""
        for attempt in ("with the open table", "afresh"):
            try:
                with systemic(self.path, "searched"):
                    table = self._current()
                    return None if table is None else read(table)
            except SystemicError:
                self._table = None
                if attempt == "afresh":
                    raise
        return None

    def _current(self) -> "lance.LanceDataset | None":
        """The newest version; asking costs a look into the table's folder, opening only where it changed."""
        table = self._table
        if table is None or not self.path.is_dir():
            table = open_table(self.path)
        else:
            with systemic(self.path, "read"):
                latest = table.latest_version
                if latest == table.version:
                    return table
                table = table.checkout_version(latest)
        if table is not None:
            self._has_vector_index = any(index.name == VECTOR_INDEX for index in table.describe_indices())
            self._is_held = not self._has_vector_index and fits(table, table.count_rows())
        self._table = table
        return table


def _candidates(
    table: "lance.LanceDataset", rows: Sequence[Mapping[str, Any]], score: Callable[[Mapping[str, Any]], float]
) -> list[Candidate]:
    found = [
        Candidate(**{name: row[name] for name in _RANKED}, score=float(score(row)), snapshot=table, row=row["_rowid"])
        for row in rows
    ]
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.chunk_id))
