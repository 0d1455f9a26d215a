"""Exports the packaged MiniLM by torch to ONNX and proves the two equal; runs as a process of its own, once a home."""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

_LEAST_COSINE = 0.9999
_SAMPLES = (
    "pump",
    "How do I reset the pump after the alarm?",
    "Zürich lies on the Limmat; its trams are blue and white. " * 6,
    "def area(r):\n    return 3.14159 * r ** 2  # C++ & co, 100 %\n" * 4,
)


def export(folder: Path, made: Path) -> str:
    """Write the graph and compare it with sentence-transformers on sample texts; what differs, or ""."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = SentenceTransformer(
        str(folder), device="cpu", local_files_only=True, model_kwargs={"attn_implementation": "eager"}
    )

    class OneText(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert: Any = model[0].auto_model.eval()  # type: ignore[union-attr]

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            kinds, mask = torch.zeros_like(input_ids), torch.ones_like(input_ids)
            states = self.bert(input_ids=input_ids, attention_mask=mask, token_type_ids=kinds).last_hidden_state
            return torch.nn.functional.normalize(states.mean(1), dim=1)

    example = torch.tensor([[101, *range(2000, 2014), 102]])
    with torch.no_grad():
        torch.onnx.export(
            OneText(), (example,), str(made), dynamo=False, opset_version=17,
            input_names=["input_ids"], output_names=["vector"], dynamic_axes={"input_ids": {1: "tokens"}},
        )  # fmt: skip
    return _difference(made, model)


def _difference(made: Path, model: Any) -> str:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"])
    for text, expected in zip(_SAMPLES, model.encode(list(_SAMPLES), show_progress_bar=False), strict=True):
        ids = model.tokenizer(text, truncation=True, max_length=model.max_seq_length)["input_ids"]
        vector = session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0][0]
        cosine = float(vector @ expected / np.linalg.norm(expected))
        if cosine < _LEAST_COSINE:
            return f"it gives other vectors than sentence-transformers (cosine {cosine:.5f})"
    return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch's exporter warns of its own age, and of constants that are meant
    found = export(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write(found)
    sys.exit(1 if found else 0)
