"""The channels of a search, side by side: tables to read, threads to read them in, and what to do when one fails."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kb_pipeline.errors import KbError, SystemicError
from kb_pipeline.query.fusion import merge_dense, merge_sparse
from kb_pipeline.query.scope import Scope
from kb_pipeline.stages.terms import coverage
from kb_pipeline.storage.lance_read import Candidate, IndexReader, load_passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb_pipeline.services.embedder import Embedder

Channel = Literal["dense", "sparse"]
CHANNELS: tuple[Channel, ...] = ("dense", "sparse")


@dataclass(frozen=True, slots=True)
class DenseFound:
    """What the dense channel found by one model.

    Attributes:
        languages: those the model speaks, None for any.
    """

    model: str
    kb_ids: frozenset[str]
    languages: frozenset[str] | None
    candidates: list[Candidate]


@dataclass(slots=True)
class Found:
    """What the channels came back with.

    Attributes:
        channels: candidates by channel, best first; a channel that failed is missing and named in `failed`.
        dense: the dense channel by model, whose scores compare only within it.
        unread: kb_ids that the dense channel could not search, by the model that would be needed, with the reason.
        versions: table versions read, by `<tenant>/<space>`.
        timings: milliseconds by step.

    """

    channels: dict[str, list[Candidate]] = field(default_factory=dict)
    dense: list[DenseFound] = field(default_factory=list)
    failed: dict[str, KbError] = field(default_factory=dict)
    unread: dict[str, tuple[frozenset[str], str]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)


class Channels:
    """Searches the tables of a scope. One per open home; safe to share between threads."""

    def __init__(self, root: Path, pool: ThreadPoolExecutor) -> None:
        self._root, self._pool = root, pool
        self._reader = lru_cache(maxsize=256)(lambda tenant, space_id: IndexReader(root, tenant, space_id))

    def search(
        self,
        scope: Scope,
        channels: Sequence[Channel],
        terms: str,
        embedder_of: Callable[[str], "Embedder"],
        vector_of: Callable[[str], "NDArray[np.float32]"],
        limit: int,
    ) -> Found:
        """Candidates of each channel, at most `limit` a table. Raises the failure if every channel failed.

        `embedder_of` and `vector_of` give the embedder of a model's name and the query's vector by it. They may take a
        while and may fail, then only the dense channel has no answer from the tables of that model.
        """
        found = Found()
        jobs: dict[str, Future[list[Candidate]]] = {}
        tables = {self._reader(table.tenant, table.space_id): kb_ids for table, kb_ids in scope.tables.items()}
        if "sparse" in channels:
            jobs["sparse"] = self._pool.submit(self._sparse, found, tables, terms, limit)
        if "dense" in channels:
            jobs["dense"] = self._pool.submit(self._dense, found, scope, embedder_of, vector_of, limit)
        for name, job in jobs.items():
            try:
                found.channels[name] = job.result()
            except KbError as error:
                found.failed[name] = error
        if jobs and not found.channels:
            raise next(iter(found.failed.values()))
        found.versions = {f"{reader.tenant}/{reader.space_id}": reader.version for reader in tables}
        return found

    def _sparse(
        self, found: Found, tables: Mapping[IndexReader, tuple[str, ...]], terms: str, limit: int
    ) -> list[Candidate]:
        start = time.perf_counter()
        filled = [some for reader, kb_ids in tables.items() if (some := reader.sparse(terms, kb_ids, limit))]
        merged = filled[0] if len(filled) == 1 else merge_sparse([(_share(terms, some[0]), some) for some in filled])
        found.timings["sparse"] = (time.perf_counter() - start) * 1e3
        return merged

    def _dense(
        self,
        found: Found,
        scope: Scope,
        embedder_of: Callable[[str], "Embedder"],
        vector_of: Callable[[str], "NDArray[np.float32]"],
        limit: int,
    ) -> list[Candidate]:
        failures: list[KbError] = []
        for vector_space, names in scope.models.items():
            mine = {table: kb_ids for table, kb_ids in scope.tables.items() if table.vector_space == vector_space}
            bases = frozenset(kb_id for kb_ids in mine.values() for kb_id in kb_ids)
            start = time.perf_counter()
            try:
                model = _model_of(vector_space, names, embedder_of)
                vector = vector_of(model)
            except KbError as error:
                failures.append(error)
                found.unread[names[0]] = bases, str(error)
                continue
            embedded = time.perf_counter()
            lists = [self._reader(t.tenant, t.space_id).dense(vector, kb_ids, limit) for t, kb_ids in mine.items()]
            found.dense.append(DenseFound(model, bases, embedder_of(model).languages, merge_dense(lists)))
            _add(found.timings, "embed", embedded - start)
            _add(found.timings, "dense", time.perf_counter() - embedded)
        if failures and not found.dense:
            found.unread.clear()
            raise failures[0]
        return [each for rank in zip_longest(*(f.candidates for f in found.dense)) for each in rank if each]


def _model_of(vector_space: str, names: Sequence[str], embedder_of: Callable[[str], "Embedder"]) -> str:
    """That of the names which stands for the model of a vector space.

    Raises: KbError: none does.
    """
    failure: KbError = SystemicError(f"{names[0]} is another version than the one that made the vectors")
    for name in names:
        try:
            if embedder_of(name).space.vector_space_id == vector_space:
                return name
        except KbError as error:
            failure = error
    raise failure


def _add(timings: dict[str, float], name: str, seconds: float) -> None:
    timings[name] = timings.get(name, 0.0) + seconds * 1e3


def _share(terms: str, best: Candidate) -> float:
    return coverage(terms, load_passages([best])[best.chunk_id].terms)
