"""What indexing some documents in one space would cost. Used by the plan of a whole sync."""

from collections.abc import Mapping, Sequence
from typing import Any

from kb_pipeline.assets import s5_embed
from kb_pipeline.assets.spaces import SpaceWork
from kb_pipeline.metering import call_kind, usd_per_token
from kb_pipeline.stages.rows import indexed_text
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.model_calls import ModelCalls
from kb_pipeline.storage.store import Store


class SpacePlan:
    """What a source's documents would cost in one space.

    Args:
        counted: hashes of the texts that were counted already, for this or another space of the model.
    Raises: UsageError: nobody knows what its embedder costs.
    """

    def __init__(self, store: Store, source: SourceRow, work: SpaceWork, counted: set[str]) -> None:
        self.work, self.rules, embedder = work, work.rules, work.built_with
        tenant = store.catalog.knowledge_base(source.kb_id).tenant
        self.recipe = s5_embed.recipe_of(work.space.space_id, tenant)
        self.chunks = Lane("chunks", source.kb_id, source.source_id, work.space.split_id)
        self.lane = Lane("chunk_index", source.kb_id, source.source_id, work.space.space_id)
        self._price = usd_per_token(store, embedder.space)
        self._tables = s5_embed.tables_alike(store, tenant, work.table_space)
        self._calls = ModelCalls(store.catalog.engine, call_kind(embedder.space), source.kb_id, source.source_id, "")
        self._counted = counted

    def embed(self, rows: Sequence[Mapping[str, Any]]) -> tuple[int, int, float]:
        """(texts that have no vector yet and go to the model, their tokens, what those cost in USD)."""
        texts = {r["indexed_hash"]: indexed_text(r) for r in rows if r["indexed_hash"] not in self._counted}
        known = {digest for table in self._tables for digest in table.vectors_by_hash(list(texts))}
        if self._price:
            known.update(self._calls.results(list(texts)))
        missing = [text for digest, text in texts.items() if digest not in known]
        tokens = sum(self.work.built_with.count_tokens(missing))
        self._counted.update(texts)
        return len(missing), tokens, tokens * self._price
