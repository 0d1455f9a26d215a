"""The records connector: one document a line, and every fault named by its line."""

import json
from datetime import UTC, datetime

import pytest

from kb_pipeline.connectors.records import RecordsConnector
from kb_pipeline.errors import Corrupt, Gone, UnitFailure, UsageError
from kb_pipeline.records import Source
from kb_pipeline.stages.intake import clean_item
from kb_pipeline.stages.normalize import ParseLimits, normalize


@pytest.fixture
def connector(settings):
    return RecordsConnector(settings)


def write(path, *lines):
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def listed(connector, path):
    listing = connector.list_items(Source(kb_id="k", source_id="s", connector="records", input=str(path)), {})
    assert listing.is_complete
    return list(listing.items)


def test_each_line_is_a_document_that_can_be_fetched_in_any_order(connector, tmp_path):
    lines = [{"id": number, "text": f"text {number} é", "title": f"t{number}"} for number in range(50)]
    path = write(tmp_path / "r.jsonl", *lines[:20], b"", b"  ", *lines[20:])
    items = listed(connector, path)
    assert [item.external_id for item in items] == [str(number) for number in range(50)]
    for item in reversed(items):
        assert json.loads(connector.fetch(item).content)["text"] == f"text {item.external_id} é"


def test_all_fields_arrive(connector, tmp_path):
    record = {
        "id": "a", "title": "T", "text": "B", "url": "https://x.example/a", "author": "Ann",
        "published_at": "2026-01-31T12:00:00+02:00", "metadata": {"k": 1},
    }  # fmt: skip
    (item,) = listed(connector, write(tmp_path / "r.jsonl", record))
    assert (item.title, item.url) == ("T", "https://x.example/a")
    found = normalize(connector.fetch(item), ParseLimits())
    assert (found.title, found.text, found.author, found.url) == ("T", "B", "Ann", "https://x.example/a")
    assert found.published_at == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert found.metadata["k"] == 1


def test_a_byte_order_mark_and_crlf_do_no_harm(connector, tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "text": "x"}\r\n{"id": "b", "text": "y"}\r\n')
    assert [json.loads(connector.fetch(item).content)["text"] for item in listed(connector, path)] == ["x", "y"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{broken", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"\xff\xfe", "not UTF-8"),
        ({"text": "x"}, "no id"),
        ({"id": " ", "text": "x"}, "no id"),
        ({"id": True, "text": "x"}, "no id"),
        ({"id": "b" * 1_001, "text": "x"}, "longer than 1,000"),
        ({"id": "b"}, "no text"),
        (b"[" * 100_000, "not a JSON object"),
        ({"id": "b", "text": "x", "published_at": "yesterday"}, "not a date"),
        ({"id": "b", "text": "x", "published_at": "y" * 100_000}, "y' is not a date|yy is not a date"),
        ({"id": "b", "text": "x", "title": 5}, "title is not a text"),
        ({"id": "b", "text": "x", "metadata": []}, None),
        ({"id": "b", "text": "x", "metadata": [1]}, "metadata is not an object"),
    ],
)
def test_a_line_in_error_is_named_and_leaves_the_others_alone(connector, tmp_path, line, reason):
    path = write(tmp_path / "r.jsonl", {"id": "a", "text": "x"}, line, {"id": "c", "text": "z"})
    first, second, third = listed(connector, path)
    assert connector.fetch(first).title == "a"
    assert connector.fetch(third).title == "c"
    if reason is None:
        assert connector.fetch(second).metadata == {}
        return
    with pytest.raises(Corrupt, match=reason) as caught:
        connector.fetch(second)
    assert len(str(caught.value)) < 300
    assert f"r.jsonl {'record b' if second.external_id == 'b' else 'line 2'}: " in str(caught.value)


def test_the_second_use_of_an_id_is_refused_and_names_both_lines(connector, tmp_path):
    path = write(tmp_path / "r.jsonl", {"id": 7, "text": "x"}, {"id": "8", "text": "y"}, {"id": "7", "text": "z"})
    first, _, again = listed(connector, path)
    assert json.loads(connector.fetch(first).content)["text"] == "x"
    with pytest.raises(Corrupt, match=r"line 3.*'7'.*line 1"):
        connector.fetch(again)


@pytest.mark.parametrize(
    ("one", "other"), [(r"a\ud800", r"a\ud801"), (r"a\u0000", "a"), (r"a\u0000b", "ab"), (r"\ud9d9", "?"), (" a ", "a")]
)
def test_ids_that_are_stored_alike_are_one_id_twice(connector, tmp_path, one, other):
    lines = [f'{{"id": "{key}", "text": "text {n}"}}'.encode() for n, key in enumerate((one, other))]
    first, again = listed(connector, write(tmp_path / "r.jsonl", *lines))
    assert clean_item(first).external_id == first.external_id != clean_item(again).external_id
    assert json.loads(connector.fetch(first).content)["text"] == "text 0"
    with pytest.raises(Corrupt, match=r"line 2.*line 1"):
        connector.fetch(again)


def test_an_id_of_characters_that_nothing_stores_is_none(connector, tmp_path):
    (item,) = listed(connector, write(tmp_path / "r.jsonl", {"id": "\0", "text": "x"}))
    with pytest.raises(Corrupt, match="no id"):
        connector.fetch(item)


def test_no_record_can_have_the_id_of_a_line_in_error(connector, tmp_path):
    (broken,) = listed(connector, write(tmp_path / "r.jsonl", b"{broken"))
    path = write(
        tmp_path / "r.jsonl", b"{broken", {"id": broken.external_id, "text": "x"}, {"id": "line:4", "text": "y"}
    )
    items = listed(connector, path)
    assert len({item.external_id for item in items}) == 3
    assert (items[0].external_id, items[0].title) == (broken.external_id, "{broken")
    assert json.loads(connector.fetch(items[2]).content)["text"] == "y"
    for item in items[:2]:
        with pytest.raises(Corrupt):
            connector.fetch(item)


def test_lines_in_error_that_say_the_same_are_told_one_by_one(connector, tmp_path):
    items = listed(connector, write(tmp_path / "r.jsonl", b"{broken", b"{broken", {"id": "a", "text": "x"}, b"{broken"))
    assert len({item.external_id for item in items}) == 4
    for item, line in zip([*items[:2], items[3]], (1, 2, 4), strict=True):
        with pytest.raises(Corrupt, match=f"line {line}"):
            connector.fetch(item)


def test_what_is_said_of_a_record_does_not_depend_on_other_lines_unless_its_version_does(connector, tmp_path):
    lines = [
        {"id": "a", "text": "x"},
        {"id": "b", "text": "y", "published_at": "soon"},
        b"{bad",
        {"id": "a", "text": "z"},
    ]
    told = {}
    for above in ([], [{"id": "c", "text": "new"}] * 1, [b"", b""], [{"id": "a", "text": "first"}]):
        for item in listed(connector, write(tmp_path / "r.jsonl", *above, *lines)):
            try:
                found = connector.fetch(item)
            except Corrupt as error:
                found = str(error)
            assert told.setdefault((item.external_id, item.version), found) == found


def test_a_version_depends_on_its_line_alone(connector, tmp_path):
    path = write(tmp_path / "r.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "y"})
    before = {item.external_id: item.version for item in listed(connector, path)}
    write(path, {"id": "new", "text": "first"}, {"id": "b", "text": "y"}, {"id": "a", "text": "changed"})
    after = {item.external_id: item.version for item in listed(connector, path)}
    assert after["b"] == before["b"]
    assert after["a"] != before["a"]


def test_a_file_changed_after_the_listing_is_not_misread(connector, tmp_path):
    path = write(tmp_path / "r.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "y"})
    _, second = listed(connector, path)
    write(path, {"id": "a", "text": "much longer than it was"}, {"id": "b", "text": "y"})
    with pytest.raises(Gone, match="changed after it was listed"):
        connector.fetch(second)


def test_a_missing_file_fails_the_listing(connector, tmp_path):
    with pytest.raises(UnitFailure, match="not there"):
        listed(connector, tmp_path / "gone.jsonl")


def test_only_jsonl_files_are_detected_and_a_folder_is_refused(connector, tmp_path):
    assert connector.detect("a/b/Corpus.JSONL")
    assert not connector.detect("https://x.example/a.jsonl")
    assert not connector.detect("a.json")
    (tmp_path / "d.jsonl").mkdir()
    with pytest.raises(UsageError, match="folder"):
        connector.canonical(str(tmp_path / "d.jsonl"))
