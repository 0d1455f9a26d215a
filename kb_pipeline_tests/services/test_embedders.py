"""The embedders: the packaged model against sentence-transformers itself, long texts, damage, choice by settings."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_pipeline.errors import SystemicError, UsageError
from kb_pipeline.services import minilm_graph
from kb_pipeline.services.embedders import open_embedder
from kb_pipeline.services.minilm import MiniLM
from kb_pipeline.services.sentence_transformer import SentenceTransformerEmbedder
from kb_pipeline.settings import Settings
from kb_pipeline.testing.embedder import HashingEmbedder

LONG = "The pump stands in the cellar beside the boiler. " * 80 + "Its reset code is the word marmalade."
pytestmark = pytest.mark.timeout(400)  # the first run exports the graph, next to whatever else is running
TEXTS = ["", "pump", "How do I reset the pump?", "数着第四号浮标的铃声", "x " * 300, LONG, "\x00 odd \U0001f9ed"]


@pytest.fixture(scope="module")
def minilm(model_dir: Path) -> MiniLM:
    embedder = MiniLM(model_dir, threads=2)
    embedder.embed_query("made once")
    return embedder


@pytest.fixture(scope="module")
def bare() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(str(minilm_graph.package_folder()), batch=4)


def test_the_packaged_model_gives_the_vectors_of_sentence_transformers(
    minilm: MiniLM, bare: SentenceTransformerEmbedder
) -> None:
    short = [text for text in TEXTS if text and len(text) < 500]
    cosines = (minilm.embed_documents(short) * bare.embed_documents(short)).sum(axis=1)
    assert cosines.min() > 0.9999


def test_a_vector_does_not_depend_on_its_company_nor_on_order(minilm: MiniLM) -> None:
    together = minilm.embed_documents(TEXTS)
    assert together.shape == (len(TEXTS), 384)
    assert together.dtype == np.float32
    for row, text in enumerate(TEXTS):
        assert np.array_equal(minilm.embed_documents([text])[0], together[row])
    assert np.array_equal(minilm.embed_documents(TEXTS[::-1])[::-1], together)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert minilm.embed_documents([]).shape == (0, 384)


@pytest.mark.parametrize("embedder", ["minilm", "bare"])
def test_the_end_of_a_long_text_counts(embedder: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(embedder)
    with_end, without = model.embed_documents([LONG, LONG.replace("marmalade", "cellar")])
    assert with_end @ without < 0.99999


def test_queries_are_remembered_and_cannot_be_changed(minilm: MiniLM) -> None:
    first = minilm.embed_query("where is the pump")
    assert minilm.embed_query("where is the pump") is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


def test_tokens_are_counted_without_special_ones(minilm: MiniLM, bare: SentenceTransformerEmbedder) -> None:
    assert minilm.count_tokens(["", "the pump", "a b c"]) == [0, 2, 3] == bare.count_tokens(["", "the pump", "a b c"])
    assert minilm.count_tokens([LONG])[0] > 500


def test_a_graph_once_made_is_read_without_torch(minilm: MiniLM, model_dir: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kb_pipeline.services.minilm import MiniLM; "
        "m = MiniLM(Path(sys.argv[1])); m.space; assert 'onnxruntime' not in sys.modules; m.embed_query('x'); "
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(model_dir)], check=True)


def test_a_damaged_or_unfinished_graph_is_made_anew(
    minilm: MiniLM, model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(model_dir, tmp_path, dirs_exist_ok=True)
    graph = minilm_graph.graph_file(tmp_path)
    good = graph.read_bytes()
    made: list[Path] = []

    def make(place: Path) -> None:
        made.append(place)
        place.write_bytes(good)

    monkeypatch.setattr(minilm_graph, "_export", lambda folder, place: make(place))
    graph.write_bytes(good[:-1] + b"!")
    assert minilm_graph.graph_file(tmp_path).read_bytes() == good
    graph.with_suffix(".sha256").unlink()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: minilm_graph.graph_file(tmp_path), range(4))) == {graph}
    assert len(made) == 2
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".lock", ".onnx", ".sha256"]


def test_a_graph_is_hashed_again_only_where_its_file_changed(
    minilm: MiniLM, model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(model_dir, tmp_path, dirs_exist_ok=True)
    hashed: list[Path] = []
    whole = minilm_graph._sha256
    monkeypatch.setattr(minilm_graph, "_sha256", lambda file: hashed.append(file) or whole(file))
    graph = minilm_graph.graph_file(tmp_path)
    os.utime(graph, ns=(1, 1))
    assert [minilm_graph.graph_file(tmp_path) for _ in range(3)] == [graph] * 3
    assert hashed[-1:] == [graph]
    assert len(hashed) <= 2


def test_other_weights_than_the_published_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    monkeypatch.setattr(minilm_graph, "package_folder", lambda: tmp_path)
    with pytest.raises(SystemicError, match=r"model.safetensors: not the published file .*pip install"):
        minilm_graph.graph_file(tmp_path / "models")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SystemicError, match=r"file.*could not be prepared"):
        minilm_graph.graph_file(tmp_path / "file")


def test_the_settings_choose_the_embedder(tmp_path: Path) -> None:
    packaged: dict[str, Any] = {"embedding_model": "all-MiniLM-L6-v2"}
    assert isinstance(open_embedder(Settings(**packaged), tmp_path), MiniLM)
    fake = open_embedder(Settings(embedding_model="fake:small:16"), tmp_path)
    assert isinstance(fake, HashingEmbedder)
    assert fake.space.dims == 16
    folder = open_embedder(Settings(embedding_model=str(minilm_graph.package_folder())), tmp_path)
    assert isinstance(folder, SentenceTransformerEmbedder)
    assert folder.space.dims == 384
    assert not list(tmp_path.iterdir()), "nothing is prepared before the first text"


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "not a name!"])
def test_a_model_that_is_not_here_is_refused_with_the_next_step(name: str, tmp_path: Path) -> None:
    with pytest.raises(SystemicError, match="nothing is downloaded"):
        open_embedder(Settings(embedding_model=name), tmp_path)


def test_a_misspelt_stand_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fake:<name>:<dims>"):
        open_embedder(Settings(embedding_model="fake:64"), tmp_path)


def test_a_changed_model_folder_is_another_space(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "Transformer"}]))
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    (tmp_path / "model.safetensors").write_bytes(b"a" * 200_000)
    before = SentenceTransformerEmbedder(str(tmp_path)).space
    assert before == SentenceTransformerEmbedder(str(tmp_path)).space
    assert before.dims == 8
    (tmp_path / "model.safetensors").write_bytes(b"a" * 199_999 + b"b")
    assert SentenceTransformerEmbedder(str(tmp_path)).space.space_id != before.space_id
