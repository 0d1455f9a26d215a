"""Vectors held in memory against the engine's own scan."""

from pathlib import Path

import pyarrow as pa
import pytest

from kb_pipeline.storage import lance_vectors
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lance_read import IndexReader, load_passages
from kb_pipeline_tests.storage.index_rows import SPACE, a_vector, lease_in, rows_of


@pytest.fixture
def reader(tmp_path: Path) -> IndexReader:
    index = ChunkIndex(tmp_path, "account-acme", SPACE, lease_in(tmp_path))
    for kb_id in ("kb-a", "kb-b"):
        documents = [f"{kb_id}-{n}" for n in range(6)]
        tables = [rows_of(name, [f"{name} text {i}" for i in range(5)], kb_id=kb_id) for name in documents]
        index.replace_documents(kb_id, "s", documents, pa.concat_tables(tables))
    return IndexReader(tmp_path, "account-acme", SPACE.space_id)


@pytest.mark.parametrize("kb_ids", [("kb-a",), ("kb-b", "kb-a"), ("kb-b", "elsewhere"), ("elsewhere",)])
@pytest.mark.parametrize("limit", [1, 7, 500])
def test_held_vectors_find_what_a_scan_finds(
    reader: IndexReader, kb_ids: tuple[str, ...], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = a_vector("a question") * 3
    held = reader.dense(vector, kb_ids, limit)
    monkeypatch.setattr(lance_vectors, "MOST_BYTES", 0)
    scanned = IndexReader(reader.path.parents[2], "account-acme", SPACE.space_id).dense(vector, kb_ids, limit)
    assert [each.chunk_id for each in held] == [each.chunk_id for each in scanned]
    assert [each.score for each in held] == pytest.approx([each.score for each in scanned], abs=1e-6)
    assert [each.row for each in held] == [each.row for each in scanned]


def test_candidates_of_both_channels_load_their_own_rows(reader: IndexReader) -> None:
    dense = reader.dense(a_vector("kb-a-3 text 2"), ("kb-a",), 5)
    sparse = reader.sparse("kb-b-1", ("kb-b",), 5)
    passages = load_passages([*dense, *sparse])
    assert passages[dense[0].chunk_id].text == "kb-a-3 text 2"
    assert {p.chunk_id: p.text_hash for p in passages.values()} == {c.chunk_id: c.text_hash for c in (*dense, *sparse)}


def test_vectors_of_a_few_tables_are_held_at_most(tmp_path: Path) -> None:
    for n in range(12):
        ChunkIndex(tmp_path, f"account-{n}", SPACE, lease_in(tmp_path)).replace_documents(
            "kb", "s", ["d"], rows_of("d", ["text"])
        )
        assert IndexReader(tmp_path, f"account-{n}", SPACE.space_id).dense(a_vector("text"), ("kb",), 1)
    assert lance_vectors.held_vectors.cache_info().currsize <= 8
