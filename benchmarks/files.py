"""Reads every file of a manifest through the sandbox and holds the outcome against what the manifest expects.

    python -m benchmarks.files FOLDER

FOLDER holds `manifest.json`: a list of {"file", "kind", "expect", "gold", "gold_substrings"}. `expect` is parse,
reject, partial, password or ocr, or several joined by `|`. `gold` is a Markdown text: the share of its word trigrams
found is reported and must reach MIN_RECALL. Exit code 1 if a file misses.
"""

import html
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kb_pipeline.errors import AuthFailed, Bug, Transient, UnitFailure
from kb_pipeline.records import NormalizedContent, RawItem
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline.stages.normalize import ParseLimits, normalize

MIN_RECALL = 0.5
"""Of word trigrams; formulas, notes on pictures and table layout in the gold texts keep sound parses from 1.0."""
_MARKDOWN_NOISE = re.compile(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|<[^>]+>", re.DOTALL)

_FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL)
"""Formulas are LaTeX in the gold texts and one line of plain signs in ours."""


@dataclass(frozen=True)
class Outcome:
    """What became of one file."""

    name: str
    expect: str
    found: str
    recall: float | None
    seconds: float
    detail: str
    is_miss: bool


def main(folder: Path) -> int:
    """Print the table and the summary; 0 if every file ended as expected."""
    cases = json.loads((folder / "manifest.json").read_text())
    settings = Settings()
    limits = ParseLimits.of(settings)
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    with Sandbox(settings, workers=1) as sandbox:
        for case in cases:
            name = Path(case["file"]).name
            raw = RawItem(content=(folder / case["file"]).read_bytes(), kind="file", file_name=name)
            begun = time.perf_counter()
            result = next(sandbox.map(normalize, [(raw, limits)]))
            outcomes.append(judge(case, name, result, folder, time.perf_counter() - begun))
    for line in report(outcomes, time.perf_counter() - started):
        print(line)
    return int(any(outcome.is_miss for outcome in outcomes))


def judge(
    case: dict[str, Any], name: str, result: NormalizedContent | UnitFailure, folder: Path, seconds: float
) -> Outcome:
    """The outcome of a file, with the reason where it misses."""
    wanted = set(case["expect"].split("|"))
    if isinstance(result, UnitFailure):
        found = _refusal(result)
        is_scan = "scan" in case["kind"] and found == "ocr"  # a picture of text is refused until pictures are read
        is_miss = not (found in wanted or is_scan or ("reject" in wanted and not isinstance(result, Bug | Transient)))
        is_miss |= name not in str(result)
        return Outcome(name, case["expect"], found, None, seconds, str(result), is_miss)
    found = "partial" if result.is_partial else "parse"
    recall = trigram_recall(folder / case["gold"], result.text) if case.get("gold") else None
    missing = [piece for piece in _substrings(case, folder) if piece not in result.text]
    is_low = recall is not None and recall < MIN_RECALL
    is_miss = not ({found, "parse"} & wanted) or is_low or bool(missing)
    detail = f"missing {missing[0]!r}" if missing else "; ".join(result.warnings)
    return Outcome(name, case["expect"], found, recall, seconds, detail, is_miss)


def _refusal(failure: UnitFailure) -> str:
    if isinstance(failure, AuthFailed) and "password" in str(failure):
        return "password"
    return "ocr" if "OCR" in str(failure) else failure.kind


def _substrings(case: dict[str, Any], folder: Path) -> list[str]:
    """Pieces of text that must be there: `path.json#key` in the manifest; none where that file is not supplied."""
    path, _, key = (case.get("gold_substrings") or "").partition("#")
    if not path or not (folder / path).exists():
        return []
    return [str(piece) for piece in json.loads((folder / path).read_text()).get(key, [])]


def trigram_recall(gold: Path, text: str) -> float:
    """Share of the gold text's word trigrams that occur in `text`, 0 to 1."""
    wanted = trigrams(_FORMULA.sub(" ", _MARKDOWN_NOISE.sub(" ", html.unescape(gold.read_text(encoding="utf-8")))))
    return len(wanted & trigrams(text)) / max(1, len(wanted))


def trigrams(text: str) -> set[tuple[str, ...]]:
    """Word trigrams, case folded; Markdown's escapes and marks do not count as words."""
    words = re.findall(r"[^\W_]+", html.unescape(text).replace("\\", "").casefold())
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def report(outcomes: list[Outcome], seconds: float) -> Iterator[str]:
    """Lines of the table and its summary."""
    for one in outcomes:
        recall = "" if one.recall is None else f"{one.recall:.3f}"
        mark = "MISS" if one.is_miss else "ok"
        outcome = f"{mark:4} {one.expect:14} {one.found:12} {recall:6} {one.seconds:6.2f}s"
        yield f"{outcome} {one.name[:48]:48} {one.detail[:90]}"
    recalls = sorted(one.recall for one in outcomes if one.recall is not None)
    misses = sum(one.is_miss for one in outcomes)
    figures = "none"
    if recalls:
        mean, median = sum(recalls) / len(recalls), recalls[len(recalls) // 2]
        figures = f"mean {mean:.3f}, median {median:.3f}, least {recalls[0]:.3f}"
    yield f"{len(outcomes)} files, {misses} misses, {seconds:.1f} s; recall of {len(recalls)} gold texts: {figures}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.files FOLDER")
    sys.exit(main(Path(sys.argv[1])))
