"""The case runner itself: it passes what is so, fails what is not, and never passes a word it does not know."""

from pathlib import Path

import pytest
import yaml

from kb_pipeline_tests.cases import find_cases, main, run_case

CASES = Path(__file__).parent / "data" / "cases"


def changed(tmp_path, name, **content):
    """A copy of one of our cases with other steps or expectations."""
    folder = tmp_path / name
    folder.mkdir()
    for path in (CASES / name).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    case = yaml.safe_load((folder / "case.yaml").read_text())
    (folder / "case.yaml").write_text(yaml.safe_dump({**case, **content}))
    return folder


@pytest.mark.parametrize("folder", find_cases(CASES), ids=lambda folder: folder.name)
def test_our_own_cases_pass(folder):
    failures, _ = run_case(folder)
    assert failures == []


def test_every_wrong_expectation_is_named_and_what_is_only_desirable_does_not_fail(tmp_path):
    wrong = [
        {"documents": {"kb": "q", "live": [1, 5]}},
        {"text": {"document": "Lamp log", "contains": ["no such words"]}},
        {"text": {"document": "Lamp log", "not_contains": ["ticket"]}},
        {"text": {"document": "Lamp log", "count": {"ticket": 2}}},
        {"text": {"document": "Lamp log", "in_order": ["ticket", "lamp broke"]}},
        {"text": {"document": "missing.md", "not_contains": ["x"]}},
        {"title": {"document": "a.md", "equals": "Other"}},
        {"status": {"file": "a.md", "state": "failed"}},
        {"status": {"file": "a.md", "state": "ready", "error_mentions": ["x"]}},
        {"chunks": {"document": "*", "max_chars": 10}},
        {"sync_report": {"sync": 1, "new": 7}},
        {"query": {"q": "LMP-2041", "top1": "b.md"}},
        {"each_query_with_want": {"mode": ["vector"], "want_top1": True}},
        {"search": {"label": "never made", "hits": 0}},
        {"document_state": {"document": "a.md", "is": "absent"}},
        {"document_field": {"document": "a.md", "field": "title", "is": "Other"}},
        {"citation_field": {"query": "ticket LMP-2041", "field": "title", "is": "Other"}},
        {"requests": {"canary_hits": 0}},
        {"limits": {"seconds": 0}},
        {"one_of": [{"documents": {"kb": "q", "live": 1}}, {"title": {"document": "a.md", "equals": "Other"}}]},
        {"clear_error": {"at": "first use", "mentions": ["xylophone"]}},
    ]
    unknown_values = [
        {"document_state": {"document": "a.md", "is": "drowsy"}},
        {"document_field": {"document": "a.md", "field": "mood", "is": 1}},
        {"query": {"q": "", "one_of": ["a song"]}},
        {"status": {"file": "a.md", "state": "drowsy"}},
        {"desirable": {"document_state": {"document": "a.md", "is": "drowsy"}}},
    ]
    only_desirable = [
        {"desirable": {"documents": {"kb": "q", "live": 5}}},
        {"title": {"document": "a.md", "equals": "x", "level": "desirable"}},
    ]
    expect = [*wrong, *unknown_values, *only_desirable]
    failures, missed = run_case(changed(tmp_path, "04-search-lines", expect=expect))
    assert len(failures) == len(wrong) + len(unknown_values)
    assert "expected 1 or 5, found 2" in failures[0]
    assert all("unknown" in failure for failure in failures[len(wrong) :])
    assert len(missed) == len(only_desirable)


def test_a_caller_who_does_see_a_base_fails_what_is_expected_of_one_who_does_not(tmp_path):
    case = yaml.safe_load((CASES / "05-access-of-others" / "case.yaml").read_text())
    case["steps"][-1]["as"] = {"user": "u1@acct-a", "calls": [{"search": {"kb": "mine", "query": "cellar"}}]}
    failures, _ = run_case(changed(tmp_path, "05-access-of-others", steps=case["steps"]))
    said = " ".join(failures)
    assert "expected nothing of 'HIDDEN-9'" in said
    assert "expected not found, found an answer" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"steps": [{"polish": {}}]}, "unknown step: polish"),
        ({"steps": [{"sync": {"kb": "q", "gently": True}}]}, "unknown key in sync: gently"),
        ({"steps": [{"repeat": {"times": 2, "steps": [{"sync": {"often": 1}}]}}]}, "unknown key in sync: often"),
        ({"steps": [{"build_graph": {"kb": "q"}}]}, "not supported yet: build_graph"),
        ({"steps": [{"search": {"query": "x", "rerank": "scripted"}}]}, "not supported yet: rerank"),
        ({"expect": [{"mood": {}}]}, "unknown expectation: mood"),
        ({"expect": [{"text": {"document": "*", "rhymes": ["x"]}}]}, "unknown key in text: rhymes"),
        (
            {"expect": [{"one_of": [{"documents": {"kb": "q", "live": 2}}, {"text": {"rhymes": 1}}]}]},
            "unknown key in text: rhymes",
        ),
        ({"expect": [{"desirable": {"mood": {}}}]}, "unknown expectation: mood"),
        ({"expect": [{"no_crash": True, "level": "desirable"}]}, "not a map with one key"),
        ({"expect": [{"documents": {"live": 2, "level": "perhaps"}}]}, "unknown level: perhaps"),
        ({"expect": [{"graph": {"has_entity": ["x"]}}]}, "not supported yet: expectation graph"),
        ({"expect": []}, "expects nothing"),
        ({"mood": "good"}, "unknown key in case.yaml: mood"),
    ],
)
def test_a_word_that_is_not_known_fails_before_anything_runs(tmp_path, content, said):
    failures, _ = run_case(changed(tmp_path, "04-search-lines", **content))
    assert any(said in failure for failure in failures)


def test_the_command_prints_a_line_a_case_and_a_sum_and_fails_if_one_did(tmp_path, capsys):
    changed(tmp_path, "04-search-lines", expect=[{"mood": {}}])
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "04-search-lines  FAIL  unknown expectation: mood\n0 passed, 1 failed\n"
    assert main([str(tmp_path / "nowhere")]) == 2
