"""Embedding with the meter running: memo first, budget before every paid call, a record of each."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from kb_pipeline import ids
from kb_pipeline.errors import OverBudget, UnitFailure
from kb_pipeline.prices import Prices
from kb_pipeline.records import Space
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.storage.model_calls import Call, CallKind, ModelCalls
from kb_pipeline.storage.store import Store

PAID_BATCH = 100
"""Texts of one paid request, at most; what every provider takes."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text to embed, and the document it is embedded for."""

    text: str
    document_id: str


@dataclass(slots=True)
class Embedded:
    """What came of it.

    Attributes:
        vectors: float32 [dims] by hash of the text.
        failures: why there is none, by hash.
        calls: texts that were sent to the model.
        remembered: texts that were paid for before.
    """

    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    failures: dict[str, UnitFailure] = field(default_factory=dict)
    calls: int = 0
    remembered: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def charge(self, calls: Sequence[Call]) -> None:
        """Add finished calls."""
        self.calls += sum(call.inputs for call in calls)
        self.tokens += sum(call.tokens for call in calls)
        self.cost_usd += sum(call.cost_usd for call in calls)


def call_kind(space: Space) -> CallKind:
    """Under what the calls of an embedder are remembered."""
    model = f"{space.provider}/{space.model}@{space.revision}"
    return CallKind(service="embedder", model=model, recipe=f"{space.dims}:{space.recipe}")


def usd_per_token(store: Store, space: Space) -> float:
    """Today's price of an embedder. Raises: UsageError: nobody knows it."""
    prices = Prices(store.settings.prices_file)
    return prices.usd_per_token("embedder", space.provider, space.model, datetime.now(UTC).date())


class EmbeddingMeter:
    """Embeds texts of one source in one run.

    Attributes:
        paid_for: calls paid for so far, by document.
    Raises: UsageError: the price of the model is unknown.
    """

    def __init__(self, store: Store, embedder: Embedder, kb_id: str, source_id: str, run_id: str) -> None:
        self._embedder = embedder
        self._price = usd_per_token(store, embedder.space)
        self._budget = store.catalog.knowledge_base(kb_id).budget_usd
        self._calls = ModelCalls(store.catalog.engine, call_kind(embedder.space), kb_id, source_id, run_id)
        self._kb_id = kb_id
        self.paid_for: dict[str, list[Call]] = {}

    def embed(self, texts: Mapping[str, Text]) -> Embedded:
        """Vectors of texts by their hash; those the budget does not cover, and those the service refused, failed.

        Raises: SystemicError: the model cannot be used at all.
        """
        result = Embedded()
        if not texts:
            return result
        if not self._price:
            self._embed_free(texts, result)
            return result
        for digest, vector in self._calls.results(list(texts)).items():
            result.vectors[digest] = np.frombuffer(vector, dtype=np.float32)
        result.remembered = len(result.vectors)
        left = [digest for digest in texts if digest not in result.vectors]
        for some in _slices(left, PAID_BATCH):
            self._embed_paid(some, texts, result)
        return result

    def _embed_free(self, texts: Mapping[str, Text], result: Embedded) -> None:
        words = [text.text for text in texts.values()]
        tokens = sum(self._embedder.count_tokens(words))
        begun = time.perf_counter()
        vectors = self._embedder.embed_documents(words)
        call = Call(input_sha256=ids.sha256_hex(*texts), tokens=tokens, cost_usd=0.0, inputs=len(words))
        self._calls.finish([call], [None], (time.perf_counter() - begun) * 1e3)
        result.vectors.update(zip(texts, vectors, strict=True))
        result.charge([call])

    def _embed_paid(self, digests: Sequence[str], texts: Mapping[str, Text], result: Embedded) -> None:
        words = [texts[digest].text for digest in digests]
        calls = [
            Call(input_sha256=d, tokens=count, cost_usd=count * self._price, document_id=texts[d].document_id)
            for d, count in zip(digests, self._embedder.count_tokens(words), strict=True)
        ]
        covered = self._calls.reserve(calls, self._budget)
        for digest in digests[covered:]:
            result.failures[digest] = self._over_budget()
        if covered:
            self._send(calls[:covered], words[:covered], result)

    def _send(self, calls: Sequence[Call], words: Sequence[str], result: Embedded) -> None:
        begun = time.perf_counter()
        try:
            vectors = self._embedder.embed_documents(words)
        except UnitFailure as failure:
            self._calls.fail(calls, str(failure), (time.perf_counter() - begun) * 1e3)
            result.failures.update((call.input_sha256, failure) for call in calls)
            return
        for call in calls:
            self.paid_for.setdefault(str(call.document_id), []).append(call)
        packed = [vector.astype(np.float32).tobytes() for vector in vectors]
        self._calls.finish(calls, packed, (time.perf_counter() - begun) * 1e3)
        result.vectors.update((call.input_sha256, vector) for call, vector in zip(calls, vectors, strict=True))
        result.charge(calls)

    def _over_budget(self) -> OverBudget:
        return OverBudget(
            f"the budget of {self._kb_id} for this month, {self._budget:.2f} USD, does not cover embedding it; "
            f"it waits (`kb budget {self._kb_id}` shows and raises it)"
        )


def _slices(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
