"""Scores against judgements worked out by hand."""

import math
from pathlib import Path

import pytest

from kb_pipeline.errors import UsageError
from kb_pipeline.query.evaluate import evaluate, read_qrels, read_queries
from kb_pipeline.settings import Settings
from kb_pipeline_tests.query.homes import Home
from kb_pipeline_tests.query.test_search import events


@pytest.fixture
def home(settings: Settings) -> Home:
    home = Home(settings)
    home.put(
        home.knowledge_base("facts"),
        {
            "a": ["anchor chain", "anchor buoy"],
            "b": "anchor chain and cable",
            "c": "ropes",
            **{f"z{i}": f"filler {i}" for i in range(15)},
        },
    )
    return home


def test_a_perfect_and_a_hopeless_query_average_to_half(home: Home) -> None:
    with home.open() as query:
        found = evaluate(
            query, "facts", {"1": "ropes", "2": "anchor", "3": "unjudged"}, {"1": {"c": 1}, "2": {"nowhere": 1}}
        )
    assert (found["kb_id"], found["queries"], found["ndcg@10"], found["mrr@10"], found["recall@10"]) == (
        "facts",
        2,
        0.5,
        0.5,
        0.5,
    )
    assert found["channels"]["sparse"]["ndcg@10"] == 0.5
    assert 0 < found["p50_ms"] <= found["p95_ms"]
    assert events(home) == []


def test_a_document_ranks_once_by_its_best_passage(home: Home) -> None:
    with home.open() as query:
        found = evaluate(query, "facts", {"1": "anchor buoy"}, {"1": {"b": 1}})
    assert found["channels"]["sparse"]["mrr@10"] == 0.5
    assert found["channels"]["sparse"]["ndcg@10"] == round(1 / math.log2(3), 4)


def test_files_are_read_and_their_faults_named(tmp_path: Path) -> None:
    queries, qrels = tmp_path / "q.jsonl", tmp_path / "q.tsv"
    queries.write_text('{"id": 1, "text": "tide"}\n\n{"id": "2", "text": "ebb"}\n')
    qrels.write_text("query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n")
    assert read_queries(queries) == {"1": "tide", "2": "ebb"}
    assert read_qrels(qrels) == {"1": {"a": 2.0, "b": 0.0}}
    queries.write_text('{"id": 1}\n')
    with pytest.raises(UsageError, match="line 1"):
        read_queries(queries)
    qrels.write_text("query-id\tcorpus-id\tscore\n1\ta\n")
    with pytest.raises(UsageError, match="line 2"):
        read_qrels(qrels)
    with pytest.raises(UsageError, match="cannot be read"):
        read_qrels(tmp_path / "none")


def test_without_a_judged_query_there_is_nothing_to_score(home: Home) -> None:
    with home.open() as query, pytest.raises(UsageError, match="ids match"):
        evaluate(query, "facts", {"1": "tide"}, {"2": {"a": 1}})
