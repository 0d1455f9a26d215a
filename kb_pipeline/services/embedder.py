"""What an embedder promises; one file per provider beside this one."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kb_pipeline.records import Space


class Embedder(Protocol):
    """Texts to unit vectors of one space.

    Attributes:
        space: which space the vectors belong to; known without loading weights.
        languages: ISO 639-1 codes the model understands well; None for any.
    """

    @property
    def space(self) -> Space: ...

    @property
    def languages(self) -> frozenset[str] | None: ...

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, float32 [len(texts), dims], in the order given. The whole of each text counts."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector of a query, float32 [dims]."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens."""
        ...
