"""Whether search slows down over many commits: a table edited document by document against one freshly built.

    python -m benchmarks.drift [--commits 2000] [--rows 5000] [--queries 600] [--vector-index-rows 20000] [--json]

Each commit is an edit of one document, followed by what a sync does; every 200 commits comes the overhaul that
`index_maintenance` does. Both go through storage, without a Dagster run. An hour's worth of versions is kept in
earnest; here a second's, and that second passes before each overhaul. `next_night_` is an overhaul with nothing to do
but to remove what the one before replaced.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.report import machine, show
from kb_pipeline import ids
from kb_pipeline.query.channels import CHANNELS, Channel, Channels
from kb_pipeline.query.scope import Scope, Table
from kb_pipeline.stages.index_rows import index_rows
from kb_pipeline.stages.terms import query_terms
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.lease import FileLease
from kb_pipeline.testing.embedder import HashingEmbedder

KEEP = timedelta(seconds=1)
OVERHAUL_EVERY = 200
_KB, _SOURCE, _TENANT = "drift", "s", "public"
_CHUNKS = 4  # of a document
_WORDS = 60  # of a chunk
_MODES: dict[str, tuple[Channel, ...]] = {"dense": ("dense",), "sparse": ("sparse",), "hybrid": CHANNELS}


class Corpus:
    """Made documents: words drawn by Zipf's law, always the same ones."""

    def __init__(self) -> None:
        self.embedder = HashingEmbedder("drift", 64)
        self._random = random.Random(7)
        self._words = [f"w{number}" for number in range(20_000)]
        self._weights = [1 / (rank + 10) for rank in range(20_000)]

    def text(self, words: int = _WORDS) -> str:
        """So many words."""
        return " ".join(self._random.choices(self._words, self._weights, k=words))

    def any_of(self, documents: list[str]) -> str:
        """One of them."""
        return self._random.choice(documents)

    def rows(self, document: str, texts: list[str]) -> pa.Table:
        """Rows of the search table, one a text."""
        made = [
            {
                "kb_id": _KB, "source_id": _SOURCE, "document_id": document, "external_id": document,
                "chunk_id": ids.chunk_id(document, number), "chunk_idx": number, "text": text, "header": "",
                "start_char": 0, "end_char": len(text), "page": None, "start_seconds": None, "title": document,
                "url": None, "language": "en", "text_hash": ids.text_hash(text), "indexed_hash": ids.text_hash(text),
            }
            for number, text in enumerate(texts)
        ]  # fmt: skip
        vectors = self.embedder.embed_documents(texts)
        hashes = [str(row["indexed_hash"]) for row in made]
        return index_rows(made, dict(zip(hashes, vectors, strict=True)), self.embedder.space.dims)


def measure(work: Path, commits: int, rows: int, queries: int, vector_index_rows: int) -> dict[str, Any]:
    """All figures; `…_ratio` is drifted / fresh."""
    corpus = Corpus()
    texts = {f"d{number}": [corpus.text() for _ in range(_CHUNKS)] for number in range(rows // _CHUNKS)}
    drifted = ChunkIndex(work / "drifted", _TENANT, corpus.embedder.space, FileLease(work / "locks"))
    _build(drifted, corpus, texts, vector_index_rows)
    seconds: list[float] = []
    for number in range(1, commits + 1):
        if number > 1 and number % OVERHAUL_EVERY == 1:
            time.sleep(KEEP.total_seconds())
            drifted.overhaul(vector_index_rows, KEEP)
        document = corpus.any_of(list(texts))
        texts[document] = [corpus.text() for _ in range(_CHUNKS)]
        started = time.perf_counter()
        drifted.replace_documents(_KB, _SOURCE, [document], corpus.rows(document, texts[document]))
        drifted.maintain(vector_index_rows, KEEP)
        seconds.append(time.perf_counter() - started)
    fresh = ChunkIndex(work / "fresh", _TENANT, corpus.embedder.space, FileLease(work / "locks"))
    _build(fresh, corpus, texts, vector_index_rows)
    fresh.overhaul(vector_index_rows, timedelta(0))
    asked = [corpus.text(6) for _ in range(queries)]
    found: dict[str, Any] = {"commits": commits, "rows": drifted.statistics().rows}
    tenth = max(1, len(seconds) // 10)
    found["edit_ms_first_tenth"] = round(statistics.median(seconds[:tenth]) * 1e3, 1)
    found["edit_ms_last_tenth"] = round(statistics.median(seconds[-tenth:]) * 1e3, 1)
    found |= {f"before_overhaul_{name}": value for name, value in _compare(drifted, fresh, corpus, asked).items()}
    for when in ("after", "next_night"):  # readers' versions outlive the overhaul that replaced them
        time.sleep(KEEP.total_seconds())
        started = time.perf_counter()
        drifted.overhaul(vector_index_rows, KEEP)
        found[f"{when}_overhaul_s"] = round(time.perf_counter() - started, 2)
        found |= {f"{when}_{name}": value for name, value in _sizes(drifted, fresh).items()}
    return found | _compare(drifted, fresh, corpus, asked)


def _build(index: ChunkIndex, corpus: Corpus, texts: dict[str, list[str]], vector_index_rows: int) -> None:
    """One write of everything, then what a first sync does."""
    tables = pa.concat_tables([corpus.rows(document, some) for document, some in texts.items()])
    index.replace_documents(_KB, _SOURCE, list(texts), tables)
    index.maintain(vector_index_rows, KEEP)


def _compare(drifted: ChunkIndex, fresh: ChunkIndex, corpus: Corpus, asked: list[str]) -> dict[str, Any]:
    """Latency by mode in turns, query by query; files and bytes; how many queries gave the same passages."""
    found: dict[str, Any] = {}
    for name, modes in _MODES.items():
        pairs = list(_turns(drifted.root, fresh.root, corpus, asked, modes))
        ours, theirs = (statistics.median(times) for times in zip(*[(a, b) for a, b, _ in pairs], strict=True))
        found[f"{name}_p50_ms"], found[f"{name}_ratio"] = round(ours, 2), round(ours / theirs, 3)
        found[f"{name}_same"] = round(sum(same for _, _, same in pairs) / len(pairs), 3)
    return found | _sizes(drifted, fresh)


def _sizes(drifted: ChunkIndex, fresh: ChunkIndex) -> dict[str, Any]:
    a, b = drifted.statistics(KEEP), fresh.statistics(KEEP)
    found = {name: getattr(a, name) for name in ("fragments", "segments", "versions", "files", "size_bytes")}
    return found | {"files_ratio": round(a.files / b.files, 2), "bytes_ratio": round(a.size_bytes / b.size_bytes, 2)}


def _turns(
    drifted: Path, fresh: Path, corpus: Corpus, asked: list[str], modes: tuple[Channel, ...]
) -> Iterator[tuple[float, float, bool]]:
    """(ms, ms, same ten passages) of each query; which table goes first alternates; the first twenty do not count."""
    table = Table(_TENANT, corpus.embedder.space.space_id, "fake:drift:64")
    scope = Scope(tables={table: (_KB,)}, names={_KB: _KB})
    with ThreadPoolExecutor(4) as pool:
        tables = {root: Channels(root, pool) for root in (drifted, fresh)}
        for number, text in enumerate([*asked[:20], *asked]):
            vector, terms, ms, top = corpus.embedder.embed_query(text), query_terms(text, "en"), {}, {}
            for root in (drifted, fresh) if number % 2 else (fresh, drifted):
                started = time.perf_counter()
                result = tables[root].search(scope, modes, terms, lambda _: corpus.embedder, lambda _, v=vector: v, 50)
                ms[root] = (time.perf_counter() - started) * 1e3
                top[root] = [[each.chunk_id for each in found[:10]] for _, found in sorted(result.channels.items())]
            if number >= 20:
                yield ms[drifted], ms[fresh], top[drifted] == top[fresh]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--vector-index-rows", type=int, default=20_000, help="rows from which vectors are indexed")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-drift-") as folder:
        figures = measure(Path(folder), chosen.commits, chosen.rows, chosen.queries, chosen.vector_index_rows)
    results = {"machine": machine(), "drift": figures}
    if chosen.json:
        json.dump(results, sys.stdout, indent=2)
    else:
        show(results)


if __name__ == "__main__":
    main()
