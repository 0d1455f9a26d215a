"""First ingest against the bare model, and what a re-sync, an edit and a removal cost beyond an empty run."""

import json
import random
import time
from pathlib import Path
from typing import Any

from benchmarks.corpus import head
from benchmarks.home import Bench, bench_home
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.services.embedders import open_embedder
from kb_pipeline.stages.rows import indexed_text
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.parquet import Dataset

SAMPLE = 800
"""Texts on which the bare models are timed."""


def measure(corpus: Path, work: Path, documents: int) -> dict[str, Any]:
    """All figures of one run; seconds are wall clock, `…_ratio` compares with the bare model on the same texts."""
    records = head(corpus, work / "pipeline.jsonl", documents)
    nothing = work / "nothing.jsonl"
    nothing.write_text("")
    with bench_home(work / "pipeline-home") as bench:
        started = time.monotonic()
        open_embedder(bench.store.settings, bench.store.layout.models).embed_query("export the model")
        export_s = time.monotonic() - started
        empty = bench.add("empty", nothing)
        bench.sync(empty)
        source = bench.add("full", records)
        first = bench.sync(source)
        chunks = _chunks(bench, source)
        texts = [indexed_text(row) for table in chunks.scan() for row in table.to_pylist()]
        ours, bare = _bare_rates(bench, texts)
        empty_s = min(bench.sync(empty).seconds for _ in range(3))
        again = _unchanged(bench, source)
        edit = _edited(bench, source, records)
        gone = _removed(bench, source, records)
    return {
        "documents": first.listed,
        "texts_embedded": first.embedded,
        "model_export_s": round(export_s, 1),
        "first_ingest_s": first.seconds,
        "ingest_texts_per_s": round(first.embedded / first.seconds, 2),
        "our_embedder_alone_texts_per_s": round(ours, 2),
        "sentence_transformers_alone_texts_per_s": round(bare, 2),
        "ingest_ratio_to_our_embedder": round(first.embedded / first.seconds / ours, 3),
        "ingest_ratio_to_sentence_transformers": round(first.embedded / first.seconds / bare, 3),
        "empty_run_s": empty_s,
        **again,
        **edit,
        **gone,
    }


def _chunks(bench: Bench, source: SourceRow) -> Dataset:
    return bench.store.dataset(CHUNKS, source, bench.store.spaces.of(source.kb_id)[0].split_id)


def _bare_rates(bench: Bench, texts: list[str]) -> tuple[float, float]:
    """Texts a second of our embedder and of SentenceTransformer.encode, alone, on one sample, in turns."""
    import torch
    from sentence_transformers import SentenceTransformer

    from kb_pipeline.services.minilm_graph import package_folder

    settings = bench.store.settings
    sample = random.Random(7).sample(texts, min(SAMPLE, len(texts)))
    embedder = open_embedder(settings, bench.store.layout.models)
    torch.set_num_threads(settings.threads)
    model = SentenceTransformer(str(package_folder()), device="cpu")

    def bare(some: list[str]) -> None:
        model.encode(some, batch_size=settings.embedding_batch, normalize_embeddings=True, show_progress_bar=False)

    seconds = {embedder.embed_documents: 0.0, bare: 0.0}
    for half in (sample[: len(sample) // 2], sample[len(sample) // 2 :]):
        for embed in seconds:
            embed(half[:4])
            started = time.monotonic()
            embed(half)
            seconds[embed] += time.monotonic() - started
    ours, theirs = (len(sample) / spent for spent in seconds.values())
    return ours, theirs


def _state(bench: Bench, source: SourceRow) -> tuple[int, dict[str, int]]:
    tenant = bench.store.catalog.knowledge_base(source.kb_id).tenant
    versions = sum(index.statistics().versions for index in bench.store.indexes(tenant))
    files = {
        str(p): p.stat().st_mtime_ns for p in bench.store.layout.root.rglob("*") if p.suffix in (".parquet", ".lance")
    }
    return versions, files


def _unchanged(bench: Bench, source: SourceRow) -> dict[str, Any]:
    before = _state(bench, source)
    reports = [bench.sync(source) for _ in range(3)]
    after = _state(bench, source)
    return {
        "resync_s": min(report.seconds for report in reports),
        "resync_embedded": sum(report.embedded for report in reports),
        "resync_new_versions": after[0] - before[0],
        "resync_rewritten_files": sum(after[1].get(name) != stamp for name, stamp in before[1].items()),
    }


def _rewrite(records: Path, change: Any) -> None:
    rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    records.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in change(rows)), encoding="utf-8")


def _edited(bench: Bench, source: SourceRow, records: Path) -> dict[str, Any]:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        rows[0]["text"] += " One more sentence at the end."
        return rows

    _rewrite(records, change)
    report = bench.sync(source)
    return {"edit_s": report.seconds, "edit_embedded": report.embedded, "edit_changed": report.changed}


def _removed(bench: Bench, source: SourceRow, records: Path) -> dict[str, Any]:
    _rewrite(records, lambda rows: rows[1:])
    report = bench.sync(source)
    tenant = bench.store.catalog.knowledge_base(source.kb_id).tenant
    archived = [row["document_id"] for row in bench.store.documents.rows(source.kb_id, status="archived")]
    left = sum(len(index.existing(source.kb_id, archived)) for index in bench.store.indexes(tenant))
    left += sum(table.num_rows for table in _chunks(bench, source).scan(archived))
    return {"remove_s": report.seconds, "removed": report.removed, "rows_left_of_removed": left}
