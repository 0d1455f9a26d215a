"""Which embedder a name stands for, and those that are open."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock

from kb_pipeline.errors import UsageError
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.services.minilm import NAME, MiniLM
from kb_pipeline.settings import Settings

_PACKAGED = {NAME, f"sentence-transformers/{NAME}"}
_FAKE = re.compile(r"fake:(?P<name>[\w.-]+):(?P<dims>[1-9]\d{0,4})")


class Embedders:
    """Embedders by name, each opened once: knowledge bases may differ in the model they are read with.

    Args:
        open_one: opens the embedder of a name.
    """

    def __init__(self, open_one: Callable[[str], Embedder]) -> None:
        self._open_one, self._open, self._opening = open_one, dict[str, Embedder](), Lock()

    def named(self, model: str) -> Embedder:
        """The embedder that EMBEDDING_MODEL=`model` means.

        Raises: KbError: there is none on this machine.
        """
        with self._opening:
            if model not in self._open:
                self._open[model] = self._open_one(model)
            return self._open[model]


def embedders_of(settings: Settings, model_dir: Path) -> Embedders:
    """The embedders of a home."""
    return Embedders(partial(open_embedder, settings, model_dir))


def open_embedder(settings: Settings, model_dir: Path, model: str | None = None) -> Embedder:
    """An embedder by name. Loads no weights: they come with the first text.

    Args:
        model_dir: folder where prepared model files are kept.
        model: default `settings.embedding_model`.
    Raises: UsageError: a `fake:` name of another form. SystemicError: a model that is not on this machine.
    """
    model = model or settings.embedding_model
    if model in _PACKAGED:
        return MiniLM(model_dir, threads=settings.threads)
    if model.startswith("fake:"):
        found = _FAKE.fullmatch(model)
        if not found:
            raise UsageError(f"EMBEDDING_MODEL={model}: a stand-in is named fake:<name>:<dims>, such as fake:small:64.")
        from kb_pipeline.testing.embedder import HashingEmbedder  # shipped, but no part of a real run

        return HashingEmbedder(found["name"], int(found["dims"]))
    from kb_pipeline.services.sentence_transformer import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(model, batch=settings.embedding_batch, threads=settings.threads)
