"""Runs the benchmarks and prints one table each: python -m benchmarks [--data FOLDER] [--documents N] [--only NAME…].

FOLDER holds retrieval sets: `<name>/corpus.jsonl`, `queries.jsonl`, `qrels.tsv`. Without it a corpus is made from the
documentation on this machine, and quality is left out.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import pipeline, quality, search
from benchmarks.corpus import made_corpus
from benchmarks.report import machine, show

SETS = ("scifact", "cranfield", "cisi", "xquad_en", "xquad_es", "xquad_ar", "xquad_zh", "jsquad_ja")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--data", type=Path, help="folder with retrieval sets")
    parser.add_argument("--documents", type=int, default=0, help="documents of the ingest benchmark; 0 for all")
    parser.add_argument(
        "--only", nargs="+", choices=("pipeline", "search", "quality"), default=["pipeline", "search", "quality"]
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    chosen = parser.parse_args()
    results: dict[str, object] = {"machine": machine()}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kb-bench-") as folder:
        work = Path(folder)
        corpus = chosen.data / "scifact" / "corpus.jsonl" if chosen.data else made_corpus(work / "corpus.jsonl")
        if "pipeline" in chosen.only:
            results["pipeline"] = pipeline.measure(corpus, work, chosen.documents)
        if "search" in chosen.only:
            results["search"] = search.measure(corpus, work, chosen.documents)
        if "quality" in chosen.only and chosen.data:
            results["quality"] = quality.measure([chosen.data / name for name in SETS], work)
    results["seconds"] = round(time.monotonic() - started, 1)
    if chosen.json:
        json.dump(results, sys.stdout, indent=2)
    else:
        show(results)


if __name__ == "__main__":
    main()
