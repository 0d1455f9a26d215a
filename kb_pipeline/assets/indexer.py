"""Batches of chunks into the search index: vectors where there are none yet, rows, costs, outcomes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb_pipeline.assets.stage import StageRun
from kb_pipeline.errors import UnitFailure
from kb_pipeline.metering import EmbeddingMeter, Text
from kb_pipeline.stages.index_rows import index_rows
from kb_pipeline.stages.rows import indexed_text
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.ledger import Entry

_TEXTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Indexer:
    """Indexes documents of one source.

    Attributes:
        alike: the tenant's tables with vectors of the same model, in which a text may stand already.
    """

    run: StageRun
    index_table: ChunkIndex
    alike: Sequence[ChunkIndex]
    meter: EmbeddingMeter
    dims: int

    def index(self, records: Sequence[dict[str, Any]], inputs: Mapping[str, str]) -> None:
        """Embed what has no vector yet, and index the documents that lack none; the others get their reason.

        Args:
            records: all rows of the chunks table of some documents.
            inputs: document -> hash of them.
        """
        run, source = self.run, self.run.source
        vectors = self._vectors([record["indexed_hash"] for record in records])
        missing = {
            record["indexed_hash"]: Text(indexed_text(record), record["document_id"])
            for record in records
            if record["indexed_hash"] not in vectors
        }
        failures: dict[str, UnitFailure] = {}
        for some in _slices(missing):
            done = self.meter.embed(some)
            vectors.update(done.vectors)
            failures.update(done.failures)
            run.count(embedded=done.calls, remembered=done.remembered, tokens=done.tokens, cost_usd=done.cost_usd)
        failed = {r["document_id"]: failures[r["indexed_hash"]] for r in records if r["indexed_hash"] in failures}
        whole = [record for record in records if record["document_id"] not in failed]
        sizes = Counter(str(record["document_id"]) for record in whole)
        rows = index_rows(whole, vectors, self.dims)
        run.store.ledger.reopen(run.lane, list(sizes))
        self.index_table.replace_documents(source.kb_id, source.source_id, list(sizes), rows)
        embedded = {record["document_id"] for record in whole if record["indexed_hash"] in missing}
        run.count(written=len(whole), documents_embedded=len(embedded))
        self._settle(sizes, failed, inputs)

    def _vectors(self, hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Those that stand in the tables, by hash."""
        found: dict[str, NDArray[np.float32]] = {}
        for table in self.alike:
            found.update(table.vectors_by_hash([digest for digest in hashes if digest not in found]))
        return found

    def _settle(self, sizes: Mapping[str, int], failed: Mapping[str, UnitFailure], inputs: Mapping[str, str]) -> None:
        """Costs into the catalog, outcomes and passages into the ledger, which comes last."""
        run, paid_for = self.run, self.meter.paid_for
        costs = run.store.costs_of(list(paid_for.keys() & {*sizes, *failed}))
        run.store.documents.update({"document_id": d, "cost_usd": cost} for d, cost in costs.items())
        entries = []
        for document in (*sizes, *failed):
            paid, given = paid_for.get(document, ()), inputs[document]
            spent: dict[str, Any] = {"tokens": sum(c.tokens for c in paid), "cost_usd": sum(c.cost_usd for c in paid)}
            failure = failed.get(document)
            if failure:
                entries.append(Entry(unit=document, input_hash=given, failure=run.failed(document, failure), **spent))
            else:
                entries.append(Entry(unit=document, input_hash=given, output_hash=given, rows=sizes[document], **spent))
        run.record(entries)


def _slices(texts: Mapping[str, Text]) -> Iterator[dict[str, Text]]:
    items = list(texts.items())
    for start in range(0, len(items), _TEXTS_AT_ONCE):
        yield dict(items[start : start + _TEXTS_AT_ONCE])
