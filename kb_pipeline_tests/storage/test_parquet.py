"""Parquet datasets: replaced by document, atomic, bounded rewriting."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_pipeline.schemas import Table
from kb_pipeline.storage import parquet
from kb_pipeline.storage import parts as parts_module
from kb_pipeline.storage.layout import Layout
from kb_pipeline.storage.parquet import Dataset

SCHEMA = pa.schema([pa.field("document_id", pa.string(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
TABLE = Table("things", "Test rows.", SCHEMA, ("document_id", "n"))


@pytest.fixture
def layout(tmp_path):
    return Layout(home=tmp_path, root=tmp_path)


def rows(**documents):
    return pa.Table.from_pylist([{"document_id": d, "n": n} for d, ns in documents.items() for n in ns], schema=SCHEMA)


def content(layout):
    found = {}
    for table in Dataset(layout, TABLE, "kb", "s").scan():
        for row in table.to_pylist():
            found.setdefault(row["document_id"], []).append(row["n"])
    return {document: sorted(ns) for document, ns in found.items()}


def parts(layout):
    return {p.name: p.stat().st_mtime_ns for p in layout.dataset("things", "kb", "s").glob("*")}


def test_replacing_a_document_removes_its_old_rows_and_keeps_the_others(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1, 2], b=[3]), ["a", "b"])
    dataset.replace(rows(a=[9]), ["a"])
    assert content(layout) == {"a": [9], "b": [3]}


def test_a_document_without_rows_is_removed_and_an_empty_part_disappears(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1]), ["a"])
    dataset.replace(rows(), ["a"])
    assert content(layout) == {}
    assert parts(layout) == {}


def test_an_edit_rewrites_only_the_part_the_document_lives_in(layout, monkeypatch):
    monkeypatch.setattr(parquet, "PART_DOCUMENTS", 2)
    dataset = Dataset(layout, TABLE, "kb", "s")
    for name in "abcdef":
        dataset.replace(rows(**{name: [1]}), [name])
    before = parts(layout)
    assert len(before) == 3
    Dataset(layout, TABLE, "kb", "s").replace(rows(c=[5]), ["c"])
    after = parts(layout)
    assert before.keys() == after.keys()
    assert sum(before[name] != after[name] for name in before) == 1


def test_replacing_nothing_writes_nothing(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1]), ["a"])
    before = parts(layout)
    dataset.replace(rows(), [])
    dataset.delete(["unknown"])
    assert parts(layout) == before


def test_no_temporary_file_stays_behind_when_the_disk_is_full(layout, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1]), ["a"])
    before = parts(layout)
    monkeypatch.setattr(parts_module.pq, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        dataset.replace(rows(a=[2]), ["a"])
    assert parts(layout) == before
    assert content(layout) == {"a": [1]}


def test_what_is_in_a_part_follows_the_file_however_fast_it_changes(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(z=[0]), ["z"])
    for turn in range(50):
        here, gone = ("a", "b") if turn % 2 else ("b", "a")
        Dataset(layout, TABLE, "kb", "s").replace(rows(**{here: [1]}), [here, gone])
        assert sorted(dataset.document_ids()) == [here, "z"]


def test_a_document_that_stands_in_two_parts_stands_in_one_once_it_is_replaced(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1], b=[2]), ["a", "b"])
    (part,) = layout.dataset("things", "kb", "s").glob("part-*")
    shutil.copy(part, part.with_name("part-copy.parquet"))
    dataset.replace(rows(a=[3]), ["a"])
    assert content(layout)["a"] == [3]
    assert dataset.settle_copies() == ["b"]
    assert content(layout) == {"a": [3], "b": [2]}


def test_a_part_of_something_else_is_set_aside(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1]), ["a"])
    pq.write_table(pa.table({"n": [1]}), layout.dataset("things", "kb", "s") / "part-other.parquet")
    assert [path.name for path in dataset.set_aside_damaged()] == ["part-other.damaged"]
    assert content(layout) == {"a": [1]}


def test_inspection_counts_what_is_on_disk(layout):
    dataset = Dataset(layout, TABLE, "kb", "s")
    dataset.replace(rows(a=[1, 1], b=[2]), ["a", "b"])
    found = dataset.inspect()
    assert (found.rows, found.keys, found.foreign_parts) == (3, 2, [])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.integers(0, 9), max_size=3), max_size=4), max_size=8
    )
)
def test_any_sequence_of_replacements_equals_a_dict(tmp_path_factory, steps):
    root = tmp_path_factory.mktemp("lake")
    layout = Layout(home=root, root=root)
    expected: dict[str, list[int]] = {}
    for step in steps:
        Dataset(layout, TABLE, "kb", "s").replace(rows(**step), list(step))
        expected.update(step)
        assert content(layout) == {d: sorted(ns) for d, ns in expected.items() if ns}
