"""Retrieval quality on retrieval sets: nDCG@10 of hybrid, sparse alone and dense alone, from one index each."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.home import bench_home


def measure(folders: list[Path], work: Path) -> list[dict[str, Any]]:
    """One row a set: built through the pipeline, scored by `kb eval` in a process of its own."""
    rows = []
    for folder in folders:
        if not folder.is_dir():
            continue
        home = work / f"quality-{folder.name}"
        with bench_home(home) as bench:
            source = bench.add(folder.name, folder / "corpus.jsonl")
            bench.sync(source)
        command = [
            sys.executable, "-m", "kb_pipeline.cli", "eval", source.kb_id, "--queries", str(folder / "queries.jsonl"),
            "--qrels", str(folder / "qrels.tsv"), "--json",
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={"KB_HOME": str(home), "PATH": ""}
        )
        scored = json.loads(done.stdout)
        channels = {name: round(score["ndcg@10"], 4) for name, score in scored["channels"].items()}
        kept = {name: scored[name] for name in ("queries", "recall@10", "p50_ms", "p95_ms")}
        rows.append({"set": folder.name, "hybrid": round(scored["ndcg@10"], 4), **channels, **kept})
    return rows
