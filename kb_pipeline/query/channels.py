"""The channels of a search, side by side: tables to read, threads to read them in, and what to do when one fails."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kb_pipeline.errors import KbError
from kb_pipeline.query.fusion import merge_dense, merge_sparse
from kb_pipeline.query.scope import Scope
from kb_pipeline.stages.terms import coverage
from kb_pipeline.storage.lance_read import Candidate, IndexReader, load_passages
from kb_pipeline.storage.lance_table import spaces

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Channel = Literal["dense", "sparse"]
CHANNELS: tuple[Channel, ...] = ("dense", "sparse")


@dataclass(slots=True)
class Found:
    """What the channels came back with.

    Attributes:
        channels: candidates by channel, best first; a channel that failed is missing and named in `failed`.
        foreign: kb_ids with passages of another model, by the id of its space.
        versions: table versions read, by `<tenant>/<space>`.
        timings: milliseconds by step.

    """

    channels: dict[str, list[Candidate]] = field(default_factory=dict)
    failed: dict[str, KbError] = field(default_factory=dict)
    foreign: dict[str, set[str]] = field(default_factory=dict)
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
        embed: Callable[[], "NDArray[np.float32]"],
        space_id: Callable[[], str],
        limit: int,
    ) -> Found:
        """Candidates of each channel, at most `limit` a table. Raises the failure if every channel failed.

        `embed` gives the query's vector in the space `space_id` names; both may take a while and may fail, then only
        the dense channel is without an answer. Tables of other spaces are read by the sparse channel alone.
        """
        found = Found()
        jobs: dict[str, Future[list[Candidate]]] = {}
        tables = self._tables(scope)
        if "sparse" in channels:
            jobs["sparse"] = self._pool.submit(self._sparse, found, tables, terms, limit)
        if "dense" in channels:
            jobs["dense"] = self._pool.submit(self._dense, found, tables, embed, space_id, limit)
        for name, job in jobs.items():
            try:
                found.channels[name] = job.result()
            except KbError as error:
                found.failed[name] = error
        if jobs and not found.channels:
            raise next(iter(found.failed.values()))
        found.versions = {f"{reader.tenant}/{reader.space_id}": reader.version for reader in tables}
        return found

    def _tables(self, scope: Scope) -> Mapping[IndexReader, tuple[str, ...]]:
        return {
            self._reader(tenant, space_id): kb_ids
            for tenant, kb_ids in scope.tenants.items()
            for space_id in spaces(self._root, tenant)
        }

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
        tables: Mapping[IndexReader, tuple[str, ...]],
        embed: Callable[[], "NDArray[np.float32]"],
        space_id: Callable[[], str],
        limit: int,
    ) -> list[Candidate]:
        own = space_id()
        for reader, kb_ids in tables.items():
            if reader.space_id != own and (held := reader.holds(kb_ids)):
                found.foreign.setdefault(reader.space_id, set()).update(held)
        start = time.perf_counter()
        vector = embed()
        embedded = time.perf_counter()
        found.timings["embed"] = (embedded - start) * 1e3
        merged = merge_dense(
            [reader.dense(vector, kb_ids, limit) for reader, kb_ids in tables.items() if reader.space_id == own]
        )
        found.timings["dense"] = (time.perf_counter() - embedded) * 1e3
        return merged


def _share(terms: str, best: Candidate) -> float:
    return coverage(terms, load_passages([best])[best.chunk_id].terms)
