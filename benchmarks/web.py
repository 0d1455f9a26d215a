"""How much of a page's article is extracted, and how little else; beside trafilatura alone on the same bytes.

    python -m benchmarks.web FOLDER

FOLDER holds `trafilatura/` (evaldata_subset.json: segments that must and must not be in the text, html/) and
`readability/` (one folder a page: source.html, expected.html). Segments give precision, recall and F over all pages;
expected pages give the mean F over words.
"""

import json
import re
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import lxml.html
import trafilatura

from kb_pipeline.errors import UnitFailure
from kb_pipeline.records import RawItem
from kb_pipeline.stages.normalize.html import normalize_html

ADDRESS = "https://pages.example/page.html"
Extractor = Callable[[bytes, str], str]


def ours(page: bytes, url: str) -> str:
    """The text that would be indexed; empty where the page is refused."""
    try:
        return normalize_html(RawItem(content=page, kind="html", url=url)).text
    except UnitFailure:
        return ""


def trafilatura_alone(page: bytes, _url: str) -> str:
    """Its own defaults, without comments."""
    return trafilatura.extract(page, include_comments=False, include_tables=True) or ""


def segments(folder: Path, extract: Extractor) -> dict[str, float]:
    """precision, recall and F over the segments of all pages."""
    found = wrong = missed = 0
    for url, page in json.loads((folder / "evaldata_subset.json").read_text(encoding="utf-8")).items():
        path = folder / "html" / page["file"]
        if not path.exists():
            continue
        text = _plain(extract(path.read_bytes(), url if url.startswith("http") else ADDRESS))
        inside = [_plain(segment) in text for segment in page["with"]]
        found, missed = found + sum(inside), missed + len(inside) - sum(inside)
        wrong += sum(_plain(segment) in text for segment in page["without"])
    return _scores(found / max(1, found + wrong), found / max(1, found + missed))


def words(folder: Path, extract: Extractor) -> dict[str, float]:
    """Mean precision, recall and F over the words of the expected pages."""
    totals: Counter[str] = Counter()
    pages = sorted(folder.glob("*/source.html"))
    for page in pages:
        gold = _words(_visible(page.with_name("expected.html").read_text(encoding="utf-8")))
        text = _words(extract(page.read_bytes(), ADDRESS))
        shared = (text & gold).total()
        totals.update(_scores(shared / max(1, text.total()), shared / max(1, gold.total())))
    return {name: total / len(pages) for name, total in totals.items()}


def _scores(precision: float, recall: float) -> dict[str, float]:
    return {"precision": precision, "recall": recall, "F": 2 * precision * recall / max(1e-9, precision + recall)}


def _visible(html: str) -> str:
    root = lxml.html.fromstring(html or "<p/>")
    for element in root.xpath("//script|//style"):
        element.drop_tree()
    return " ".join(root.itertext())


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text))


def main(folder: Path) -> None:
    """Print a line per set and extractor."""
    for name, measure in (("trafilatura", segments), ("readability", words)):
        for extract in (ours, trafilatura_alone):
            begun = time.perf_counter()
            scores = " ".join(f"{score} {value:.4f}" for score, value in measure(folder / name, extract).items())
            print(f"{name:12} {extract.__name__:18} {scores}  {time.perf_counter() - begun:5.1f} s")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.web FOLDER")
    main(Path(sys.argv[1]))
