"""Quality of retrieval against judged queries: hybrid, and each channel alone, in the same run. Leaves no events."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kb_pipeline.errors import UsageError
from kb_pipeline.query.caller import OPERATOR, Caller
from kb_pipeline.query.channels import CHANNELS, Channel
from kb_pipeline.query.result import SearchResult
from kb_pipeline.query.search import MAX_TOP_K, Query

_AT = 10
_PASSAGES_PER_DOCUMENT = 5

Judgements = Mapping[str, Mapping[str, float]]


def evaluate(
    query: Query,
    kb_id: str,
    queries: Mapping[str, str],
    qrels: Judgements,
    top_k: int = _AT,
    caller: Caller = OPERATOR,
) -> dict[str, Any]:
    """Mean nDCG@10, MRR@10 and recall@10 (and @top_k) over the judged queries; documents by `external_id`.

    A document ranks by its best passage. `p50_ms` and `p95_ms` are of an ordinary search for `top_k` passages, without
    the query's embedding.

    Raises: UsageError: no query is judged; and what `Query.search` raises.
    """
    judged = {key: text for key, text in queries.items() if any(score > 0 for score in qrels.get(key, {}).values())}
    if not judged:
        raise UsageError("None of the queries has a relevant document in the qrels file; do the ids match?")
    depth = max(_AT, top_k)
    modes: dict[str, Sequence[Channel]] = {"hybrid": CHANNELS, **{name: (name,) for name in CHANNELS}}
    scores: dict[str, list[dict[str, float]]] = {name: [] for name in modes}
    times: list[dict[str, float]] = []
    for key, text in judged.items():
        times.append(_times(query.rank(text, caller=caller, kb_id=kb_id, top_k=top_k, modes=CHANNELS)))
        for name, channels in modes.items():
            documents = _ranked_documents(query, text, caller, kb_id, depth, channels)
            scores[name].append(_scores(documents, qrels[key], top_k))
    means = {name: _means(rows) for name, rows in scores.items()}
    return {
        "kb_id": kb_id,
        "queries": len(judged),
        **means["hybrid"],
        **_percentiles(times),
        "channels": {name: means[name] for name in CHANNELS},
        "queries_unknown": len(qrels.keys() - queries.keys()),
    }


def read_queries(path: Path) -> dict[str, str]:
    """Texts by id from a .jsonl file with `id` and `text`. Raises: UsageError: not such a file."""
    found = {}
    for number, line in _lines(path):
        try:
            row = json.loads(line)
            found[str(row["id"])] = str(row["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f'{path}, line {number}: not a JSON object with "id" and "text".') from error
    return found


def read_qrels(path: Path) -> dict[str, dict[str, float]]:
    """Scores by query and document from a .tsv file: query-id, corpus-id, score, under a header line.

    Raises: UsageError: not such a file.
    """
    found: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        cells = line.split("\t")
        if number == 1 and cells[-1].strip() == "score":
            continue
        try:
            query_id, document, score = cells
            found.setdefault(query_id, {})[document] = float(score)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: not three cells query-id, corpus-id, score.") from error
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error


def _ranked_documents(
    query: Query, text: str, caller: Caller, kb_id: str, depth: int, channels: Sequence[Channel]
) -> list[str]:
    """The first `depth` distinct documents, asking for more passages until there are so many or no more."""
    passages = min(MAX_TOP_K, depth * _PASSAGES_PER_DOCUMENT)
    while True:
        result = query.rank(text, caller=caller, kb_id=kb_id, top_k=passages, modes=channels)
        found = dict.fromkeys(
            key for hit in result.hits for key in (hit.external_id, *(p.external_id for p in hit.also_in))
        )
        if len(found) >= depth or len(result.hits) < passages or passages == MAX_TOP_K:
            return list(found)[:depth]
        passages = min(MAX_TOP_K, passages * 4)


def _scores(ranked: Sequence[str], judged: Mapping[str, float], top_k: int) -> dict[str, float]:
    gains = [judged.get(document, 0.0) for document in ranked]
    ideal = sorted((score for score in judged.values() if score > 0), reverse=True)
    first = next((rank for rank, gain in enumerate(gains[:_AT], start=1) if gain > 0), 0)
    recall = {k: sum(gain > 0 for gain in gains[:k]) / len(ideal) for k in (_AT, top_k)}
    return {
        f"ndcg@{_AT}": _dcg(gains[:_AT]) / _dcg(ideal[:_AT]),
        **{f"recall@{k}": share for k, share in recall.items()},
        f"mrr@{_AT}": 1 / first if first else 0.0,
    }


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _times(result: SearchResult) -> dict[str, float]:
    total = result.timings["total"]
    return {"ms": total - result.timings.get("embed", 0.0), "with_embedding_ms": total}


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(sum(row[name] for row in rows) / len(rows), 4) for name in rows[0]}


def _percentiles(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    times = {name: sorted(row[name] for row in rows) for name in rows[0]}
    return {f"p{p}_{name}": round(_percentile(ms, p), 2) for name, ms in times.items() for p in (50, 95)}


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(percent / 100 * len(ordered)) - 1)]
