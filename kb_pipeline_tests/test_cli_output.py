"""What commands print: tables that fit, intervals, passages, and bars that end."""

import json

import pytest

from kb_pipeline.cli.demo import _SUFFIX
from kb_pipeline.cli.manage import _interval
from kb_pipeline.cli.output import print_folded, print_json, print_table, reason_line
from kb_pipeline.cli.search import print_result
from kb_pipeline.cli.sync import BarProgress
from kb_pipeline.query.result import Hit, SearchResult
from kb_pipeline.sources import parse_schedule


@pytest.mark.parametrize("columns", [80, 150])
def test_ids_and_times_stay_whole_and_texts_fold(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    row = {"id": "demo--feed-xml-9ca1", "when": "2026-11-30 14:11 UTC", "count": 12, "text": "many words " * 20}
    print_table([row], list(row))
    shown = capsys.readouterr().out
    assert "demo--feed-xml-9ca1  2026-11-30 14:11 UTC     12  many words" in shown
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.split().count("words") == 20


def test_what_has_no_room_folds_and_loses_nothing(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    row = {name: name * 30 for name in "abc"}
    print_table([row], list(row))
    shown = capsys.readouterr().out
    assert all(shown.count(name) == 31 for name in "abc")
    assert max(map(len, shown.splitlines())) <= 60


def test_lines_fold_between_words_and_cannot_move_the_cursor(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    print_folded("see https://example.org/a-long-address-of-a-page \x1b[2J now", "  ", "* ")
    assert capsys.readouterr().out == "* see\n  https://example.org/a-long-address-of-a-page\n  [2J now\n"


def test_a_reason_names_its_document_once():
    assert reason_line("a.pdf", "a.pdf: is damaged", "corrupt") == "a.pdf: is damaged (corrupt)"
    assert reason_line("a.pdf", "is damaged") == "a.pdf: is damaged"


@pytest.mark.parametrize("text", ["1h", "15m", "90s", "1d", "2w"])
def test_intervals_are_shown_as_they_were_given(text):
    seconds, _ = parse_schedule(text)
    assert _interval(seconds) == text


@pytest.mark.parametrize(
    ("title", "asked"), [("truth.txt", "truth"), ("Version 2.0", "Version 2.0"), ("Tides", "Tides")]
)
def test_a_question_made_of_a_title_has_no_file_suffix(title, asked):
    assert _SUFFIX.sub("", title) == asked


@pytest.mark.parametrize(
    ("similarity", "ranks", "said"),
    [(0.0, {}, "(weak)"), (0.0, {"dense": 3}, "similarity 0.00"), (0.56, {}, "similarity 0.56")],
)
def test_passages_that_only_fill_up_are_called_weak(similarity, ranks, said, capsys):
    hit = Hit(
        rank=1, kb_id="kb", document_id="d", document_title="Tides", chunk_id="d-0", chunk_idx=0, chunk_text="Springs.",
        similarity=similarity, url=None, source="tides.txt", source_id="s", external_id="e", start_char=0, end_char=8,
        page=None, start_seconds=None, section="", language="en", scores={}, ranks=ranks,
    )  # fmt: skip
    print_result(SearchResult(query="q", event_id="e", hits=(hit,), sources=(), timings={}, notes=()))
    assert f"tides.txt  {said}\n" in capsys.readouterr().out


def test_bars_of_finished_stages_stand_still_and_are_full():
    with BarProgress() as progress:
        progress.begin("raw_items", "kb--s", None)
        progress.advance(7)
        progress.begin("documents", "kb--s", 3)
        progress.advance(3)
        progress.begin("chunks", "kb--s", 0)
        first, second = progress._bars.tasks
        assert (first.completed, first.total, first.stop_time is None) == (7, 7, False)
        assert second.stop_time is not None
        progress.begin("raw_items", "kb--t", None)
    assert all(task.stop_time is not None for task in progress._bars.tasks)
    assert [task.visible for task in progress._bars.tasks] == [True, True, False]


def test_every_type_of_sql_is_json(capsys):
    columns = (
        "'a'::BLOB, DATE '2020-01-01', TIME '10:00:00', TIMESTAMPTZ '2020-01-01 00:00:00+00', INTERVAL 1 DAY, "
        "'00000000-0000-0000-0000-000000000001'::UUID, 1.5::DECIMAL(5, 2), 'nan'::DOUBLE, '-inf'::FLOAT, "
        "(2::HUGEINT ** 70)::HUGEINT, '101'::BIT, [1, NULL], [1, 2]::INT[2], {'a': ['b'::BLOB]}, MAP {1: 2}, "
        "MAP {'a'::BLOB: 2}, MAP {[1]: 2}, MAP {DATE '2020-01-01': 2}, true, NULL"
    )
    duckdb = pytest.importorskip("duckdb")
    print_json({"row": duckdb.connect().execute(f"SELECT {columns}").fetchone()})
    text = capsys.readouterr().out
    row = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["row"]
    assert row[:3] == ["61", "2020-01-01", "10:00:00"]
    assert row[4:9] == ["1 day, 0:00:00", "00000000-0000-0000-0000-000000000001", 1.5, "nan", "-inf"]
    assert row[11:] == [
        [1, None], [1, 2], {"a": ["62"]}, {"1": 2}, {"61": 2}, {"key": [[1]], "value": [2]}, {"2020-01-01": 2}, True,
        None,
    ]  # fmt: skip
