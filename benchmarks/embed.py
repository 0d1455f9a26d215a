"""Throughput of the packaged embedder against bare sentence-transformers: same texts, batch and cores, in turns.

    python benchmarks/embed.py CORPUS.jsonl [--texts 300] [--batch 8] [--rounds 2] [--model-dir DIR]

CORPUS: one JSON object a line with `title` and `text`. Prints one JSON object.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kb_pipeline.services.minilm import MiniLM
from kb_pipeline.services.minilm_graph import package_folder
from kb_pipeline.settings import usable_cores

Encode = Callable[[list[str]], Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--characters", type=int, default=800, help="of each text, so that all fit the model's own window"
    )
    parser.add_argument("--model-dir", type=Path, default=Path("kb_home/models"))
    asked = parser.parse_args()
    texts = _texts(asked.corpus, asked.texts, asked.characters)
    cores = usable_cores()
    routes = {"ours": MiniLM(asked.model_dir, threads=cores).embed_documents, "bare": _bare(cores, asked.batch)}
    print(
        json.dumps({"texts": len(texts), "batch": asked.batch, "cores": cores} | _compare(routes, texts, asked.rounds))
    )


def _texts(corpus: Path, count: int, characters: int) -> list[str]:
    texts: list[str] = []
    with corpus.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            texts.append(f"{row.get('title', '')}\n\n{row['text']}"[:characters])
            if len(texts) == count:
                break
    return texts


def _bare(cores: int, batch: int) -> Encode:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(cores)
    model = SentenceTransformer(str(package_folder()), device="cpu", local_files_only=True)
    return lambda texts: model.encode(texts, batch_size=batch, show_progress_bar=False)


def _compare(routes: dict[str, Encode], texts: list[str], rounds: int) -> dict[str, Any]:
    """Texts per second of each route, wall and CPU, over all rounds; the order turns every round."""
    wall, cpu, vectors = dict.fromkeys(routes, 0.0), dict.fromkeys(routes, 0.0), {}
    for encode in routes.values():
        encode(texts[:4])
    for turn in range(rounds):
        for name in sorted(routes, reverse=bool(turn % 2)):
            started, worked = time.perf_counter(), time.process_time()
            vectors[name] = np.asarray(routes[name](texts))
            wall[name] += time.perf_counter() - started
            cpu[name] += time.process_time() - worked
    done = len(texts) * rounds
    return {
        "texts_per_s": {name: round(done / spent, 1) for name, spent in wall.items()},
        "texts_per_cpu_s": {name: round(done / spent, 1) for name, spent in cpu.items()},
        "ours_over_bare": round(wall["bare"] / wall["ours"], 3),
        "ours_over_bare_cpu": round(cpu["bare"] / cpu["ours"], 3),
        "least_cosine": round(float((vectors["ours"] * vectors["bare"]).sum(axis=1).min()), 6),
    }


if __name__ == "__main__":
    main()
