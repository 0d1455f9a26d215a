"""What a search costs: cold from the shell, imports, and warm by channel with and without the query's embedding."""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.corpus import head
from benchmarks.home import bench_home
from kb_pipeline.query import OPERATOR, Query, open_query

QUERIES = 300
_ROUNDS = 5
_WORDS = (3, 12)
_MODES: dict[str, tuple[Any, ...]] = {"hybrid": ("dense", "sparse"), "dense": ("dense",), "sparse": ("sparse",)}


def measure(corpus: Path, work: Path, documents: int) -> dict[str, Any]:
    """All figures of one run; `…_s` are seconds, `…_ms` milliseconds. `cpu` counts user and system time of the process.

    Cold figures are of fresh processes, with the files in the system's cache. Warm ones are of distinct queries for
    five passages, after a few that do not count; without `embed`, the query's embedding is left out.
    """
    records = head(corpus, work / "search.jsonl", documents)
    home = work / "search-home"
    with bench_home(home) as bench:
        source = bench.add("search", records)
        listed = bench.sync(source).listed
    queries = list(_queries(records))
    cold = _fresh(["-m", "kb_pipeline.cli", "search", queries[0]], home)
    return {
        "documents": listed,
        "import_query_s": min(wall for wall, _ in _fresh(["-c", "import kb_pipeline.query"], home)),
        "help_s": min(wall for wall, _ in _fresh(["-m", "kb_pipeline.cli", "--help"], home)),
        "cold_search_s_min": min(wall for wall, _ in cold),
        "cold_search_s_median": statistics.median(wall for wall, _ in cold),
        "cold_search_cpu_s_min": min(cpu for _, cpu in cold),
        "queries": len(queries),
        **_warm(home, queries),
    }


def _queries(records: Path) -> Iterator[str]:
    """Distinct queries: titles, and a few words from the middle of a text, in turns, spread over the corpus."""
    lines = records.read_text(encoding="utf-8").splitlines()
    seen: set[str] = set()
    for number, line in enumerate(lines[:: max(1, len(lines) // QUERIES)]):
        row = json.loads(line)
        words = (row.get("title") or row["text"]).split() if number % 2 else row["text"].split()[8:]
        query = " ".join(words[: _WORDS[number % 2]])
        if query and query not in seen and len(seen) < QUERIES:
            seen.add(query)
            yield query


def _fresh(arguments: Sequence[str], home: Path) -> list[tuple[float, float]]:
    """(wall, CPU) seconds of some runs of a new interpreter, after one that fills the system's cache."""
    runs = []
    for _ in range(_ROUNDS + 1):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"KB_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        runs.append((round(wall, 3), round(cpu, 3)))
    return runs[1:]


def _warm(home: Path, queries: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, modes in _MODES.items():
        with open_query(home) as query:  # afresh: a query's vector is remembered
            times, cpu_ms = _times(query, queries, modes)
        for suffix, milliseconds in times.items():
            ordered = sorted(milliseconds)
            found[f"{name}{suffix}_p50_ms"] = round(ordered[len(ordered) // 2], 1)
            found[f"{name}{suffix}_p95_ms"] = round(ordered[int(0.95 * (len(ordered) - 1))], 1)
        found[f"{name}_cpu_ms"] = round(cpu_ms, 1)
    return found


def _times(query: Query, queries: Sequence[str], modes: Sequence[Any]) -> tuple[dict[str, list[float]], float]:
    """Milliseconds of each search without and with the query's embedding, and CPU milliseconds of a search."""
    for text in queries[:_ROUNDS]:
        query.search(f"{text} again", caller=OPERATOR, modes=modes)
    times: dict[str, list[float]] = {"": [], "_with_embed": []}
    worked = time.process_time()
    for text in queries:
        started = time.perf_counter()
        result = query.search(text, caller=OPERATOR, modes=modes)
        whole = (time.perf_counter() - started) * 1e3
        times["_with_embed"].append(whole)
        times[""].append(whole - result.timings.get("embed", 0.0))
    return times, (time.process_time() - worked) * 1e3 / len(queries)
