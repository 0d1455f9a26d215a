"""How cost grows with the corpus: cold, warm, edit and reshape at several sizes, in work done, seconds and memory.

    python -m benchmarks.scale [--sizes 1000 10000 100000]

Documents are small and made; the embedder is the deterministic `fake:scale:64`, so that what is timed is ours. Every
measurement is a process of its own (its peak memory is its own), and `beyond_empty_s` is what it takes more than a run
of the same assets on an empty source of the same home, measured in that process; `beyond_warm_s` what an edit takes
more than a re-sync without one. A new chunk size builds a second space beside the first.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.home import Bench, bench_home
from benchmarks.report import machine, show
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.tables import ledger, model_calls

STEPS = ("empty", "cold", "warm", "edit", "reshape")
_REPEATS = {"warm": 3, "edit": 3}


def write_corpus(path: Path, size: int, edits: int = 0) -> None:
    """`size` records of some 40 words; the first `edits` of them in another wording each time."""
    with path.open("w") as file:
        for number in range(size):
            change = f" Amended in revision {edits}." if number < 1 and edits else ""
            text = f"Report {number} of station {number % 97}: " + f"buoy {number} drifts at {number % 11} knots. " * 6
            file.write(json.dumps({"id": str(number), "title": f"Report {number}", "text": text + change}) + "\n")


def measured(folder: Path, size: int, step: str) -> dict[str, Any]:
    """One step in this process; the home is in `folder`."""
    records, nothing = folder / "r.jsonl", folder / "nothing.jsonl"
    with bench_home(folder / "home") as bench:
        sources = {source.input: source for source in bench.store.catalog.sources()}
        empty = sources.get(str(nothing)) or bench.add("empty", nothing)
        full = sources.get(str(records)) or bench.add("full", records)
        empty_s = min(bench.sync(empty).seconds for _ in range(3))
        if step == "empty":
            return {"peak_mb": _peak_mb()}
        found: list[dict[str, Any]] = []
        for number in range(_REPEATS.get(step, 1)):
            if step == "edit":
                write_corpus(records, size, edits=number + 1)
            found.append(_worked(bench, full, lambda: bench.sync(full)))
        best = min(found, key=lambda one: one["seconds"])
        beyond_s = round(best["seconds"] - empty_s, 3)
        return {**best, "beyond_empty_s": beyond_s, "empty_s": empty_s, "peak_mb": _peak_mb()}


def _worked(bench: Bench, source: SourceRow, sync: Callable[[], Any]) -> dict[str, Any]:
    """What a sync did, counted from outside: files by their times, commits by versions, calls by their rows."""
    files, versions, calls = _files(bench), _versions(bench), _calls(bench)
    report = sync()
    after = _files(bench)
    return {
        "seconds": report.seconds,
        "fetched": report.new + report.changed,
        "parsed": _done(bench, "documents", report.run_id),
        "split": _done(bench, "chunks", report.run_id),
        "embedded": report.embedded,
        "model_calls": _calls(bench) - calls,
        "lance_commits": _versions(bench) - versions,
        "files_written": sum(files.get(path) != stamp for path, stamp in after.items()),
    }


def _files(bench: Bench) -> dict[str, int]:
    parquet = bench.store.layout.parquet
    return {str(path): path.stat().st_mtime_ns for path in parquet.rglob("*.parquet")}


def _versions(bench: Bench) -> int:
    """Newest version of every table, summed: old versions may have been removed."""
    from kb_pipeline.storage.lance_table import open_table

    indexes = [index for base in bench.store.catalog.knowledge_bases() for index in bench.store.indexes(base.tenant)]
    tables = [open_table(path) for path in {index.path for index in indexes}]
    return sum(int(table.version) for table in tables if table)


def _calls(bench: Bench) -> int:
    with bench.store.catalog.engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(model_calls)).scalar_one())


def _done(bench: Bench, stage: str, run_id: str) -> int:
    """Documents that a stage did in a run."""
    mine = sa.select(sa.func.count()).where(ledger.c.stage == stage, ledger.c.run_id == run_id)
    with bench.store.catalog.engine.connect() as connection:
        return int(connection.execute(mine).scalar_one())


def _peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def measure(size: int, work: Path) -> list[dict[str, Any]]:
    """All steps at one size, each in a process of its own."""
    folder = work / str(size)
    folder.mkdir()
    (folder / "nothing.jsonl").write_text("")
    write_corpus(folder / "r.jsonl", size)
    rows = []
    for step in STEPS:
        environment = {**os.environ, "EMBEDDING_MODEL": "fake:scale:64"}
        if step == "reshape":
            environment |= {"CHUNK_SIZE": "150", "CHUNK_OVERLAP": "20"}
        command = [
            sys.executable,
            "-m",
            "benchmarks.scale",
            "--step",
            step,
            "--folder",
            str(folder),
            "--sizes",
            str(size),
        ]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        rows.append({"documents": size, "step": step, **json.loads(done.stdout.splitlines()[-1])})
    beyond = {row["step"]: row.get("beyond_empty_s", 0.0) for row in rows}
    base = rows[0]["peak_mb"]
    for row in rows:
        row["peak_beyond_base_mb"] = round(row["peak_mb"] - base, 1)
        if row["step"] == "edit":
            row["beyond_warm_s"] = round(beyond["edit"] - beyond["warm"], 3)
    return rows


def main() -> None:
    """Measure and print; with --step, be one of the measured processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        sys.stdout.write(json.dumps(measured(chosen.folder, chosen.sizes[0], chosen.step)) + "\n")
        return
    with tempfile.TemporaryDirectory(prefix="kb-scale-") as work:
        rows = [row for size in chosen.sizes for row in measure(size, Path(work))]
    show({"machine": machine(), "scale": rows})


if __name__ == "__main__":
    main()
