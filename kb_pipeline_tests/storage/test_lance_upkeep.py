"""Upkeep of a search table: after many commits it is as one freshly built, and nobody notices while that is done."""

import multiprocessing
import threading
import time
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from kb_pipeline.errors import KbError
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lance_read import IndexReader, load_passages
from kb_pipeline.storage.lance_segments import due_to_merge
from kb_pipeline_tests.storage.index_rows import SPACE, a_vector, lease_in, rows_of

NOW = timedelta(0)
DOCUMENTS = 60


@pytest.fixture
def index(tmp_path: Path) -> ChunkIndex:
    return ChunkIndex(tmp_path, "public", SPACE, lease_in(tmp_path))


@pytest.fixture
def reader(tmp_path: Path) -> IndexReader:
    return IndexReader(tmp_path, "public", SPACE.space_id)


def put(index: ChunkIndex, document: str, *texts: str) -> None:
    index.replace_documents("kb", "s", [document], rows_of(document, texts))


def fill(index: ChunkIndex) -> None:
    names = [f"d{number}" for number in range(DOCUMENTS)]
    rows = pa.concat_tables([rows_of(name, [f"tide {name} {part}" for part in range(10)]) for name in names])
    index.replace_documents("kb", "s", names, rows)
    index.maintain()


def edit(index: ChunkIndex, commits: int, since: int = 0) -> None:
    for number in range(since, since + commits):
        put(index, f"d{number * 7 % DOCUMENTS}", *(f"tide edit{number} part{part}" for part in range(10)))
        index.maintain()


def answers(reader: IndexReader) -> list[list[tuple[str, float]]]:
    words = ["tide", *(f"edit{number}" for number in range(40, 60)), "part3"]
    found = [reader.sparse(word, ["kb"], 10 * DOCUMENTS) for word in words]
    found += [reader.dense(a_vector(word), ["kb"], 30) for word in words]
    return [[(hit.chunk_id, round(hit.score, 4)) for hit in hits] for hits in found]


def test_after_sixty_commits_a_table_is_as_one_freshly_built_and_answers_the_same(
    index: ChunkIndex, reader: IndexReader, tmp_path: Path
) -> None:
    fill(index)
    edit(index, 60)
    drifted, before = index.statistics(NOW), answers(reader)
    assert drifted.fragments <= 16, "what syncs do by themselves keeps files few"
    assert drifted.segments <= 4
    assert drifted.versions > 60
    assert "old versions removed" in index.overhaul(keep_versions=NOW)
    state = index.statistics(NOW)
    assert (state.fragments, state.segments, state.versions, state.old_versions) == (1, 1, 1, 0)
    assert (state.rows, state.unindexed_rows, state.duplicate_keys) == (DOCUMENTS * 10, 0, 0)
    assert [[key for key, _ in hits] for hits in answers(reader)] == [[key for key, _ in hits] for hits in before]
    fresh = ChunkIndex(tmp_path / "fresh", "public", SPACE, lease_in(tmp_path))
    kept = lance.dataset(index.path).to_table().sort_by("chunk_id")
    fresh.replace_documents("kb", "s", [f"d{number}" for number in range(DOCUMENTS)], kept)
    fresh.maintain()
    assert answers(IndexReader(fresh.root, "public", SPACE.space_id)) == answers(reader)
    fresh.overhaul(keep_versions=NOW)
    assert state.files <= 1.5 * fresh.statistics(NOW).files
    assert state.size_bytes <= 1.5 * fresh.statistics(NOW).size_bytes


def test_an_overhaul_with_nothing_due_makes_no_version(index: ChunkIndex, reader: IndexReader) -> None:
    fill(index)
    index.overhaul(keep_versions=NOW)
    before = reader.version
    assert index.overhaul(keep_versions=NOW) == []
    assert reader.version == before


def test_young_versions_stay(index: ChunkIndex) -> None:
    fill(index)
    edit(index, 5)
    index.overhaul()
    assert index.statistics().versions > 5
    assert index.statistics().old_versions == 0


def test_a_sync_rewrites_no_file_of_rows_it_did_not_touch(index: ChunkIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("lance_segments", "lance_upkeep"):
        monkeypatch.setattr(f"kb_pipeline.storage.{module}.FRAGMENT_ROWS", 500)
    monkeypatch.setattr("kb_pipeline.storage.lance_segments._SMALLEST_CLASS", 200)
    fill(index)
    (large,) = (file.name for file in (index.path / "data").iterdir())
    edit(index, 35)
    current = {file.path for fragment in lance.dataset(index.path).get_fragments() for file in fragment.data_files()}
    assert large in current
    assert len(current) < 25


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ([], 0),
        ([1, 1, 1], 0),
        ([1, 1, 1, 1], 4),
        ([50_000, 4, 4, 4], 0),
        ([5_000, 4, 4, 4], 4),
        ([500_000, 20_000, 1, 1, 1, 1], 4),
        ([500_000, 20_000, 30_000, 40_000, 50_000, 3], 5),
        ([100, 100_000, 1, 1], 0),
    ],
)
def test_the_newest_segments_are_merged_where_four_are_of_a_size(rows: list[int], merged: int) -> None:
    assert due_to_merge(rows) == merged


def test_segments_stay_few_and_large_ones_are_seldom_merged() -> None:
    segments, most, moved, written = [1_000_000], 0, 0, 0
    for _ in range(5_000):
        segments.append(100)
        written += 100
        if merged := due_to_merge(segments):
            segments[-merged:] = [sum(segments[-merged:])]
            moved += segments[-1] if segments[-1] > 4 * 16_384 else 0
        most = max(most, len(segments))
    assert most <= 11
    assert moved <= 3 * written


def test_the_vector_index_follows_the_size_of_the_table(index: ChunkIndex, reader: IndexReader) -> None:
    put(index, "d1", *(f"text {number}" for number in range(100)))
    assert "vector index trained" in index.maintain(vector_index_rows=100)
    put(index, "d2", *(f"more {number}" for number in range(500)))
    assert "vector index trained anew" not in index.maintain(vector_index_rows=100), "that costs with the table"
    assert "vector index trained anew" in index.overhaul(vector_index_rows=100)
    assert index.overhaul(vector_index_rows=100) == []
    assert reader.dense(a_vector("more 7"), ["kb"], 1)[0].chunk_id == "d2-0007"
    put(index, "d2")
    put(index, "d1", *(f"text {number}" for number in range(40)))
    index.maintain(vector_index_rows=100)
    assert "vector index dropped" in index.overhaul(vector_index_rows=100)
    assert reader.dense(a_vector("text 7"), ["kb"], 1)[0].chunk_id == "d1-0007"


def test_deleted_documents_leave_the_weights_of_words(index: ChunkIndex, reader: IndexReader) -> None:
    for number in range(3):
        put(index, f"old{number}", *(f"common word {part}" for part in range(20)))
        index.maintain()
    put(index, "kept", "common rare", "other words")
    index.maintain()
    index.delete_documents("kb", [f"old{number}" for number in range(3)])
    index.overhaul(keep_versions=NOW)
    fresh = ChunkIndex(index.root / "fresh", "public", SPACE, lease_in(index.root))
    put(fresh, "kept", "common rare", "other words")
    fresh.maintain()
    expected = IndexReader(fresh.root, "public", SPACE.space_id).sparse("common", ["kb"], 5)
    assert [hit.score for hit in reader.sparse("common", ["kb"], 5)] == pytest.approx([h.score for h in expected])


def test_a_reader_that_never_rests_never_fails_during_maintenance(index: ChunkIndex, reader: IndexReader) -> None:
    fill(index)
    keep, stop, failures, reads = timedelta(seconds=3), threading.Event(), list[Exception](), 0

    def read() -> None:
        nonlocal reads
        while not stop.is_set():
            try:
                hits = [*reader.sparse("tide", ["kb"], 10), *reader.dense(a_vector("tide"), ["kb"], 10)]
                assert load_passages(hits).keys() == {hit.chunk_id for hit in hits}
                reads += 1
            except (KbError, AssertionError, OSError, ValueError, RuntimeError) as error:
                failures.append(error)
                return

    thread = threading.Thread(target=read)
    thread.start()
    started, done, edits = time.monotonic(), set[str](), 0
    while time.monotonic() - started < 8 and not failures:
        edit(index, 2, since=edits)
        edits += 2
        done.update(index.overhaul(keep_versions=keep))
    stop.set()
    thread.join(30)
    assert not failures
    assert reads > 10
    assert done >= {"fragments joined", "index segments merged", "old versions removed"}


def _overhaul(root: Path, start: Barrier) -> None:
    index = ChunkIndex(root, "public", SPACE, lease_in(root))
    start.wait()
    for number in range(4):
        put(index, f"d{number}", *(f"tide at once {part}" for part in range(10)))
        index.overhaul(keep_versions=NOW)


def test_two_maintenances_at_once_do_no_harm(index: ChunkIndex, reader: IndexReader, tmp_path: Path) -> None:
    fill(index)
    edit(index, 10)
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    both = [context.Process(target=_overhaul, args=(tmp_path, start)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    state = index.statistics(NOW)
    assert (state.rows, state.duplicate_keys, state.unindexed_rows) == (DOCUMENTS * 10, 0, 0)
    assert (state.fragments, state.versions) == (1, 1)
    assert len(reader.sparse("once", ["kb"], 100)) == 40


def test_a_sync_removes_old_versions_by_itself_once_there_are_many(index: ChunkIndex) -> None:
    fill(index)
    edit(index, 45)
    assert index.statistics().versions > 100
    put(index, "d0", "one more")
    assert "old versions removed" in index.maintain(keep_versions=NOW)
    assert index.statistics().versions == 1


def _overhaul_for_ever(root: Path) -> None:
    index = ChunkIndex(root, "public", SPACE, lease_in(root))
    for number in range(10_000):
        put(index, "d0", f"tide killed {number}")
        index.overhaul(keep_versions=NOW)


def test_a_maintenance_that_is_killed_leaves_a_table_the_next_one_completes(
    index: ChunkIndex, reader: IndexReader, tmp_path: Path
) -> None:
    fill(index)
    for number in range(3):
        process = multiprocessing.get_context("spawn").Process(target=_overhaul_for_ever, args=(tmp_path,))
        before = reader.version
        process.start()
        while reader.version < before + 3:
            assert process.is_alive()
            time.sleep(0.01)
        time.sleep(0.05 * number)
        process.kill()
        process.join()
        index.overhaul(keep_versions=NOW)
        state = index.statistics(NOW)
        assert (state.fragments, state.versions, state.unindexed_rows, state.duplicate_keys) == (1, 1, 0, 0)
        assert (state.rows, len(reader.sparse("killed", ["kb"], 10))) == ((DOCUMENTS - 1) * 10 + 1, 1)
