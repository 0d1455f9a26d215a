"""Which embedder the settings ask for."""

import re
from pathlib import Path

from kb_pipeline.errors import UsageError
from kb_pipeline.services.embedder import Embedder
from kb_pipeline.services.minilm import NAME, MiniLM
from kb_pipeline.settings import Settings

_PACKAGED = {NAME, f"sentence-transformers/{NAME}"}
_FAKE = re.compile(r"fake:(?P<name>[\w.-]+):(?P<dims>[1-9]\d{0,4})")


def open_embedder(settings: Settings, model_dir: Path) -> Embedder:
    """The embedder of `settings.embedding_model`. Loads no weights: they come with the first text.

    Args:
        model_dir: folder where prepared model files are kept.
    Raises: UsageError: a `fake:` name of another form. SystemicError: a model that is not on this machine.
    """
    model = settings.embedding_model
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
