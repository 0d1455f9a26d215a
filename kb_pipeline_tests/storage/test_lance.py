"""The search index: replacing, deleting, upkeep, two writers at once, readers meanwhile."""

import multiprocessing
import subprocess
import sys
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path

import lance
import numpy as np
import pytest

import kb_pipeline
from kb_pipeline.errors import KbError, SystemicError
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lance_read import IndexReader
from kb_pipeline.storage.lance_table import spaces
from kb_pipeline_tests.storage.index_rows import SPACE, a_vector, lease_in, rows_of

PROJECT = Path(kb_pipeline.__file__).parents[1]


@pytest.fixture
def index(tmp_path: Path) -> ChunkIndex:
    return ChunkIndex(tmp_path, "public", SPACE, lease_in(tmp_path))


@pytest.fixture
def reader(tmp_path: Path) -> IndexReader:
    return IndexReader(tmp_path, "public", SPACE.space_id)


def put(index: ChunkIndex, document: str, *texts: str, kb_id: str = "kb", source_id: str = "s") -> int:
    return index.replace_documents(kb_id, source_id, [document], rows_of(document, texts, kb_id, source_id))


def found(reader: IndexReader, terms: str, *kb_ids: str) -> list[str]:
    return [passage.chunk_id for passage in reader.sparse(terms, kb_ids or ("kb",), 10)]


def test_nothing_written_means_nothing_found_and_no_files(
    tmp_path: Path, index: ChunkIndex, reader: IndexReader
) -> None:
    assert (found(reader, "tide"), reader.dense(a_vector("x"), ["kb"], 5), reader.version) == ([], [], 0)
    assert index.existing("kb", ["d1"]) == index.vectors_by_hash(["h"]) == {}
    assert (index.delete_documents("kb", ["d1"]), index.delete_source("kb", "s"), index.count_rows("kb", "s")) == (
        0,
        0,
        0,
    )
    assert (index.maintain(), index.statistics().rows, spaces(tmp_path, "public")) == ([], 0, [])
    assert not list(tmp_path.iterdir())


def test_rows_that_something_else_wrote_twice_are_counted(index: ChunkIndex) -> None:
    put(index, "d1", "high tide", "low tide")
    put(index, "d2", "ebb")
    assert (index.statistics().rows, index.statistics().duplicate_keys) == (3, 0)
    lance.write_dataset(lance.dataset(index.path).to_table(filter="document_id = 'd1'"), index.path, mode="append")
    assert (index.statistics().rows, index.statistics().duplicate_keys) == (5, 2)


def test_replacing_equal_rows_makes_no_version(index: ChunkIndex, reader: IndexReader) -> None:
    assert put(index, "d1", "high tide", "low tide") == 2
    before = reader.version
    assert put(index, "d1", "high tide", "low tide") == 0
    assert reader.version == before


def test_replacing_drops_the_chunks_a_shorter_document_no_longer_has(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d1", "high tide", "low tide", "neap tide")
    put(index, "d2", "spring tide")
    before = reader.version
    assert put(index, "d1", "high tide", "ebb tide") == 2
    assert reader.version == before + 1, "one atomic commit"
    assert sorted(found(reader, "tide")) == ["d1-0000", "d1-0001", "d2-0000"]
    assert found(reader, "low") == found(reader, "neap") == []
    put(index, "d1")
    assert found(reader, "tide") == ["d2-0000"]


def test_rows_of_other_documents_are_refused(index: ChunkIndex) -> None:
    for rows in (rows_of("d2", ["x"]), rows_of("d1", ["x"], kb_id="other"), rows_of("d1", ["x"], source_id="other")):
        with pytest.raises(ValueError, match="belong to other documents"):
            index.replace_documents("kb", "s", ["d1"], rows)


def test_deleting_removes_exactly_what_is_named_and_asks_first(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d1", "tide one", "tide two")
    put(index, "d2", "tide three", source_id="s2")
    put(index, "d3", "tide four", kb_id="kb2")
    before = reader.version
    assert index.delete_documents("kb", ["d9", "x' OR '1'='1"]) == index.delete_source("kb", "s9") == 0
    assert reader.version == before
    assert index.delete_documents("kb", ["d1"]) == 2
    assert index.delete_source("kb", "s2") == 1
    assert found(reader, "tide", "kb", "kb2") == ["d3-0000"]


def test_awkward_ids_stay_data(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d'1", "tide one", "tide two")
    assert put(index, "d'1", "tide one") == 1
    assert found(reader, "tide") == ["d'1-0000"]


def test_vectors_are_reused_by_hash_across_documents(index: ChunkIndex) -> None:
    put(index, "d1", "high tide", "low tide")
    rows = rows_of("d2", ["low tide", "new"])
    vectors = index.vectors_by_hash(rows["indexed_hash"].to_pylist())
    assert list(vectors) == [rows["indexed_hash"][0].as_py()]
    assert np.array_equal(vectors[rows["indexed_hash"][0].as_py()], a_vector("low tide"))


def test_search_sees_only_the_knowledge_bases_named(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d1", "high tide", kb_id="mine")
    put(index, "d2", "high tide", kb_id="theirs")
    assert found(reader, "tide", "mine") == ["d1-0000"]
    hits = reader.dense(a_vector("high tide"), ["mine"], 5)
    assert [(hit.chunk_id, round(hit.score, 5)) for hit in hits] == [("d1-0000", 1.0)]
    assert found(reader, "tide", "x') OR ('1'='1") == []


def test_new_rows_are_found_at_once_and_covered_after_upkeep(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d1", "high tide")
    assert index.statistics().unindexed_rows == 1
    assert found(reader, "tide") == ["d1-0000"]
    assert index.maintain() == ["indexes extended"]
    put(index, "d2", "ebb tide")
    assert sorted(found(reader, "tide")) == ["d1-0000", "d2-0000"]
    assert index.maintain() == ["indexes extended"]
    state = index.statistics()
    assert (state.rows, state.unindexed_rows, state.duplicate_keys, state.schema_matches) == (2, 0, 0, True)


def test_upkeep_with_nothing_due_makes_no_version(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d1", "high tide")
    index.maintain()
    before = reader.version
    assert index.maintain() == []
    assert reader.version == before


def test_upkeep_keeps_files_and_segments_few(index: ChunkIndex, reader: IndexReader) -> None:
    for i in range(40):
        put(index, f"d{i}", f"tide number{i}")
        index.maintain()
    assert index.statistics().fragments < 40
    assert max(len(described.segments) for described in lance.dataset(index.path).describe_indices()) <= 17
    assert found(reader, "number7") == ["d7-0000"]


def test_a_vector_index_is_trained_past_the_threshold_and_finds_the_same(
    index: ChunkIndex, reader: IndexReader
) -> None:
    texts = [f"text {i}" for i in range(400)]
    put(index, "d1", *texts)
    exact = [hit.chunk_id for hit in reader.dense(a_vector("text 7"), ["kb"], 10)]
    assert "vector index trained" in index.maintain(vector_index_rows=300)
    assert [hit.chunk_id for hit in reader.dense(a_vector("text 7"), ["kb"], 10)] == exact
    assert index.maintain(vector_index_rows=300) == []
    put(index, "d2", "fresh text")
    assert reader.dense(a_vector("fresh text"), ["kb"], 1)[0].chunk_id == "d2-0000"


def test_lancedb_opens_the_table(index: ChunkIndex) -> None:
    lancedb = pytest.importorskip("lancedb")
    put(index, "d1", "written in C++", "written in C")
    index.maintain()
    table = lancedb.connect(index.path.parent).open_table(index.path.stem)
    assert table.search("c++", query_type="fts").limit(5).to_arrow()["chunk_id"].to_pylist() == ["d1-0000"]


def test_a_damaged_table_is_named_in_one_sentence(index: ChunkIndex, tmp_path: Path) -> None:
    put(index, "d1", "high tide")
    for manifest in (index.path / "_versions").iterdir():
        manifest.write_bytes(b"garbage")
    with pytest.raises(SystemicError, match=r"could not be .*sync again to rebuild"):
        found(IndexReader(tmp_path, "public", SPACE.space_id), "tide")


def test_a_table_moved_away_and_rebuilt_is_read_afresh(index: ChunkIndex, reader: IndexReader, tmp_path: Path) -> None:
    put(index, "d1", "high tide")
    assert found(reader, "tide") == ["d1-0000"]
    index.path.rename(tmp_path / "away")
    assert found(reader, "tide") == []
    put(index, "d2", "ebb tide")
    assert found(reader, "tide") == ["d2-0000"]


def _write_same_keys(root: Path, start: Barrier, writer: str, leased: bool) -> None:
    index = ChunkIndex(root, "public", SPACE, lease_in(root))
    start.wait()
    for i in range(15):
        rows = rows_of(f"d{i}", [f"{writer} writes {i} {j}" for j in range(8)])
        if leased:
            index.replace_documents("kb", "s", [f"d{i}"], rows)
        else:
            index._merge(rows, [])


@pytest.mark.parametrize("leased", [True, False])
def test_two_processes_writing_the_same_keys_make_no_duplicates(tmp_path: Path, leased: bool) -> None:
    index = ChunkIndex(tmp_path, "public", SPACE, lease_in(tmp_path))
    put(index, "first", "so that the table is there")
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    writers = [context.Process(target=_write_same_keys, args=(tmp_path, start, name, leased)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    state = index.statistics()
    assert (state.rows, state.duplicate_keys) == (15 * 8 + 1, 0)


def test_readers_never_fail_while_a_writer_works(index: ChunkIndex, reader: IndexReader) -> None:
    stop, failures, reads = threading.Event(), list[Exception](), 0

    def read() -> None:
        nonlocal reads
        while not stop.is_set():
            try:
                assert all(hit.kb_id == "kb" for hit in reader.sparse("tide", ["kb"], 10))
                reader.dense(a_vector("tide"), ["kb"], 10)
                reads += 1
            except (KbError, AssertionError, OSError, ValueError, RuntimeError) as error:
                failures.append(error)
                return

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(30):
        put(index, f"d{i % 5}", *(f"tide {i} {j}" for j in range(i % 4)))
        index.maintain()
    stop.set()
    thread.join(30)
    assert not failures
    assert reads > 5


def test_opening_and_reading_a_table_imports_no_pandas(index: ChunkIndex) -> None:
    put(index, "d1", "high tide")
    code = (
        "import sys\nfrom pathlib import Path\nfrom kb_pipeline.storage.lance_table import open_table\n"
        f"table = open_table(Path({str(index.path)!r})).to_table(columns=['chunk_id'])\n"
        "print('pandas' in sys.modules, table['chunk_id'].to_pylist())"
    )
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    assert shown.stdout.startswith("False ['d1-0000']")
