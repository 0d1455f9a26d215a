"""A cheap, deterministic embedder: texts that share words or letter sequences are near. Knows no language."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kb_pipeline.records import Space

_WORD = re.compile(r"\w+")
_GRAM_WEIGHT = 0.3


class HashingEmbedder:
    """Words and letter trigrams, hashed into `dims` signed buckets.

    Attributes:
        calls: how often `embed_documents` was called with any text.
        texts_embedded: how many texts those calls held.
        queries_embedded: how many queries were embedded.
    """

    languages: frozenset[str] | None = None

    def __init__(self, name: str = "hash", dims: int = 64) -> None:
        self.space = Space(provider="fake", model=name, revision="1", dims=dims, recipe="words+trigrams")
        self.calls = 0
        self.texts_embedded = 0
        self.queries_embedded = 0

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, float32 [len(texts), dims]."""
        self.calls += bool(texts)
        self.texts_embedded += len(texts)
        vectors = [self._vector(text) for text in texts]
        return np.stack(vectors) if vectors else np.zeros((0, self.space.dims), dtype=np.float32)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector, float32 [dims]; equal to that of a document with this text."""
        self.queries_embedded += 1
        return self._vector(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words, of which none is longer than 8 characters: every 8 more count as another."""
        return [sum(-(-len(word) // 8) for word in text.split()) for text in texts]

    def _vector(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.space.dims, dtype=np.float32)
        for feature, weight in _features(text):
            digest = zlib.crc32(f"{self.space.model}\0{feature}".encode("utf-8", "surrogatepass"))
            vector[digest % self.space.dims] += weight if digest & 0x8000_0000 else -weight
        length = float(np.linalg.norm(vector))
        if not length:  # no word at all, or features that cancel out
            vector[0] = length = 1.0
        return vector / np.float32(length)


def _features(text: str) -> Iterator[tuple[str, float]]:
    words = Counter(_WORD.findall(text.casefold()))
    grams = Counter(word[at : at + 3] for word in words for at in range(max(1, len(word) - 2)))
    yield from ((f"w{word}", float(count) ** 0.5) for word, count in words.items())
    yield from ((f"g{gram}", _GRAM_WEIGHT * float(count) ** 0.5) for gram, count in grams.items())
