"""Delimited text (CSV, TSV and their relatives) as a table."""

import csv
from collections import Counter

from kb_pipeline.stages.normalize.blocks import Blocks
from kb_pipeline.stages.normalize.limits import ParseLimits
from kb_pipeline.stages.normalize.text import clean, decode

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 50


def read_csv(content: bytes, name: str, limits: ParseLimits, depth: int) -> Blocks:
    """The rows in order; the delimiter is the one that cuts the first rows most evenly."""
    lines = clean(decode(content)).split("\n")
    if lines and lines[0].lower().startswith("sep=") and len(lines[0]) == 5:  # a hint that spreadsheets leave
        lines = lines[1:]
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_bytes))
    blocks = Blocks()
    blocks.table(list(csv.reader(iter([line + "\n" for line in lines]), delimiter=delimiter_of(lines))))
    return blocks


def delimiter_of(lines: list[str]) -> str:
    """The likeliest delimiter of these lines; a comma where none of the four occurs."""
    sample = [line + "\n" for line in lines[: 4 * _SAMPLE_ROWS]]

    def evenness(delimiter: str) -> tuple[float, int]:
        rows = [row for row in csv.reader(iter(sample), delimiter=delimiter) if row][:_SAMPLE_ROWS]
        counts = Counter(len(row) for row in rows if len(row) > 1)
        if not counts:
            return 0.0, 0
        columns, times = max(counts.items(), key=lambda pair: (pair[1], pair[0]))
        return times / len(rows), columns

    return max(_DELIMITERS, key=evenness)
