"""The packaged all-MiniLM-L6-v2, run by onnxruntime. How its graph is made is in `minilm_graph`; why, in ADR 0003."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb_pipeline.records import Space
from kb_pipeline.services.minilm_graph import WEIGHTS_SHA256, graph_file, tokenizer_file

NAME = "all-MiniLM-L6-v2"
DIMS = 384
WINDOW = 512  # tokens with [CLS] and [SEP]: all positions the model has
RECIPE = f"window={WINDOW},pool=mean,long=mean-of-windows-by-tokens,v=1"
_QUERIES_KEPT = 256


class MiniLM:
    """all-MiniLM-L6-v2: English, 384 dimensions, fp32.

    Every text runs alone through the graph, on one core: nothing is spent on padding, the work stays in the cache of
    its core, and a vector does not depend on what else was embedded with it. Texts run on `threads` cores at once.

    Args:
        model_dir: folder for the graph file, made (once, some 20 s) where it is missing.
        threads: texts embedded at once.
    Raises: SystemicError, at the first text: weights missing or not the known ones, or no graph can be made of them.
    """

    languages: frozenset[str] | None = frozenset({"en"})
    space = Space(provider="local", model=NAME, revision=WEIGHTS_SHA256[:16], dims=DIMS, recipe=RECIPE)

    def __init__(self, model_dir: Path, threads: int = 1) -> None:
        self._model_dir = model_dir
        self._threads = threads
        self._loading = Lock()
        self._query = lru_cache(maxsize=_QUERIES_KEPT)(self._embed_query)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, float32 [len(texts), 384]; of long texts, the mean of their windows, weighted by tokens."""
        session = self._loaded()
        windows = [
            (row, window) for row, ids in enumerate(self._token_ids(texts)) for window in _windows(ids, WINDOW - 2)
        ]
        windows.sort(key=lambda window: -len(window[1]))  # the longest first: no core waits at the end

        def run(window: tuple[int, list[int]]) -> NDArray[np.float32]:
            ids = np.array([[self._first_id, *window[1], self._last_id]], dtype=np.int64)
            vector: NDArray[np.float32] = session.run(None, {"input_ids": ids})[0][0]
            return vector

        sums = np.zeros((len(texts), DIMS), dtype=np.float32)
        with ThreadPoolExecutor(self._threads) as pool:
            for (row, ids), vector in zip(windows, pool.map(run, windows), strict=True):
                sums[row] += vector * max(1, len(ids))
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        return sums

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector, float32 [384], read-only; the last 256 queries are remembered."""
        return self._query(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """WordPiece tokens of each text, without [CLS] and [SEP]."""
        return [len(ids) for ids in self._token_ids(texts)]

    def _embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_documents([text])[0]
        vector.setflags(write=False)
        return vector

    def _token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [found.ids for found in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(tokenizer_file()))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _first_id(self) -> int:
        return int(self._tokenizer.token_to_id("[CLS]"))

    @cached_property
    def _last_id(self) -> int:
        return int(self._tokenizer.token_to_id("[SEP]"))

    def _loaded(self) -> Any:
        with self._loading:
            return self._session

    @cached_property
    def _session(self) -> Any:
        return open_session(graph_file(self._model_dir))


def open_session(graph: Path) -> Any:
    """An onnxruntime session for calls from many threads, each of which works on its own core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def _windows(ids: list[int], longest: int) -> Iterator[list[int]]:
    """As few windows as hold all ids, of nearly equal length; one empty window for no ids."""
    count = max(1, -(-len(ids) // longest))
    for at in range(count):
        yield ids[len(ids) * at // count : len(ids) * (at + 1) // count]
