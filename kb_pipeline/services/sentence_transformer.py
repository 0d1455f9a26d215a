"""Any model in the layout of sentence-transformers, by folder or name in the Hugging Face cache; no download."""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kb_pipeline.errors import SystemicError
from kb_pipeline.records import Space

_RECIPE = "own-prompts,long=mean-of-windows-by-tokens,v=1"
_ENGLISH = re.compile(r"(^|[-_/.])en(glish)?([-_/.]|$)", re.IGNORECASE)
_SAMPLE_BYTES = 65_536  # of each weights file, at both ends, for the revision
_QUERIES_KEPT = 256


class SentenceTransformerEmbedder:
    """A local sentence-transformers model; code that comes with a model is never run.

    Args:
        model: folder, or name of a model already in the Hugging Face cache.
        batch: texts per forward pass.
        threads: cores that torch may use, in the whole process.
    Raises: SystemicError: not on this machine, or not a sentence-transformers model.
    """

    def __init__(self, model: str, batch: int = 8, threads: int = 1) -> None:
        self._model = model
        self._batch = batch
        self._threads = threads
        self._folder = _folder_of(model)
        self.space = Space(
            provider="sentence-transformers",
            model=Path(model).name if Path(model).is_dir() else model,
            revision=_revision(self._folder),
            dims=_dims(self._folder),
            recipe=_RECIPE,
        )
        self.languages: frozenset[str] | None = frozenset({"en"}) if _ENGLISH.search(self.space.model) else None
        self._working = Lock()
        self._query = lru_cache(maxsize=_QUERIES_KEPT)(self._embed_query)

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, float32 [len(texts), dims]; of long texts, the mean of their windows, weighted by tokens."""
        return self._embed(texts, self._loaded.encode_document)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Unit vector, float32 [dims], read-only; the last 256 queries are remembered."""
        return self._query(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens."""
        if not texts:
            return []
        with self._working:
            found = self._loaded.tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]

    def _embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embed([text], self._loaded.encode_query)[0]
        vector.setflags(write=False)
        return vector

    def _embed(self, texts: Sequence[str], encode: Any) -> NDArray[np.float32]:
        windows = [(row, *window) for row, text in enumerate(texts) for window in self._windows(text)]
        sums = np.zeros((len(texts), self.space.dims), dtype=np.float32)
        if windows:
            pieces = [piece for _, piece, _ in windows]
            with self._working:
                found = encode(pieces, batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False)
            for (row, _, weight), vector in zip(windows, found, strict=True):
                sums[row] += vector * weight
        lengths: NDArray[np.float32] = np.linalg.norm(sums, axis=1, keepdims=True)
        sums /= np.maximum(lengths, np.float32(1e-12))
        return sums

    def _windows(self, text: str) -> list[tuple[str, int]]:
        """(piece, its tokens): the text cut, between tokens, into as few nearly equal pieces as the model can read."""
        longest = self._loaded.max_seq_length
        if not longest or len(text) <= longest // 2:  # a token is at least one byte; most are far longer
            return [(text, 1)]
        with self._working:
            found = self._loaded.tokenizer(
                text, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
            )
        offsets, room = found["offset_mapping"], max(1, longest - 16)  # 16: special tokens and the model's prompt
        count = -(-len(offsets) // room)
        if count <= 1:
            return [(text, 1)]
        firsts = [len(offsets) * at // count for at in range(count + 1)]
        starts = [0, *(offsets[first][0] for first in firsts[1:-1]), len(text)]
        return [(text[starts[at] : starts[at + 1]], firsts[at + 1] - firsts[at]) for at in range(count)]

    @cached_property
    def _loaded(self) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(self._threads)
        try:
            return SentenceTransformer(str(self._folder), device="cpu", local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise SystemicError(f"EMBEDDING_MODEL={self._model}: the model does not load: {error}") from error


def _folder_of(model: str) -> Path:
    """Where the model's files are. Raises: SystemicError: nowhere."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        folder = _cached(model) or folder
    if not (folder / "modules.json").is_file():
        raise SystemicError(
            f"EMBEDDING_MODEL={model}: no sentence-transformers model of this name is on this machine, and nothing is "
            f"downloaded by itself; run `hf download {model}`, or name a folder that holds modules.json."
        )
    return folder


def _cached(model: str) -> Path | None:
    """The snapshot folder of a model in the Hugging Face cache; bare names also under sentence-transformers/."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    for name in (model, f"sentence-transformers/{model}"):
        try:
            found = try_to_load_from_cache(name, "modules.json")
        except HFValidationError:  # not a name at all
            continue
        if isinstance(found, str):
            return Path(found).parent
    return None


def _revision(folder: Path) -> str:
    """16 hex of every file's path, size and content; of files over 128 KiB, both ends of the content."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".md", ".lock")):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()}\0{size}\0".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_SAMPLE_BYTES))
            if size > _SAMPLE_BYTES:
                stream.seek(max(_SAMPLE_BYTES, size - _SAMPLE_BYTES))
                digest.update(stream.read())
    return digest.hexdigest()[:16]


def _dims(folder: Path) -> int:
    """Length of the vectors, from the last module that states one."""
    dims = 0
    for module in json.loads((folder / "modules.json").read_text(encoding="utf-8")):
        config = folder / module["path"] / "config.json"
        if config.is_file():
            stated = json.loads(config.read_text(encoding="utf-8"))
            for key in ("out_features", "embedding_dimension", "word_embedding_dimension", "hidden_size"):
                if key in stated:
                    dims = int(stated[key])
                    break
    if not dims:
        raise SystemicError(f"{folder}: modules.json names no module that states the length of its vectors.")
    return dims
