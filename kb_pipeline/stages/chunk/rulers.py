"""How far a chunk may reach: the same question in characters and in tokens of a model."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Protocol

CountTokens = Callable[[Sequence[str]], list[int]]
_PIECE = re.compile(r"\S{1,16}|\s+")
_LOT = 4096  # pieces counted in one call


class Ruler(Protocol):
    """Places in one text, measured in some unit."""

    def forward(self, start: int, units: float) -> int:
        """The last position whose distance from `start` is at most `units`."""
        ...

    def back(self, end: int, units: float) -> int:
        """The first position whose distance to `end` is at most `units`."""
        ...


class Characters:
    """One unit a code point."""

    def __init__(self, text: str) -> None:
        self._length = len(text)

    def forward(self, start: int, units: float) -> int:
        return min(self._length, start + int(units))

    def back(self, end: int, units: float) -> int:
        return max(0, end - int(units))


class Tokens:
    """Tokens, counted once per short piece of the text and summed: never fewer than a tokenizer finds in the whole,
    but for the cut pieces at a span's ends; `split_document` counts the finished chunks again.
    """

    def __init__(self, text: str, count_tokens: CountTokens) -> None:
        pieces = list(_PIECE.finditer(text))
        self._ends = [piece.end() for piece in pieces]
        counts = chain.from_iterable(
            count_tokens([piece.group() for piece in pieces[at : at + _LOT]]) for at in range(0, len(pieces), _LOT)
        )
        self._sums = list(accumulate(counts, initial=0))

    def forward(self, start: int, units: float) -> int:
        before = self._sums[bisect_right(self._ends, start)]
        reached = bisect_right(self._sums, before + units) - 1
        return self._ends[reached - 1] if reached else 0

    def back(self, end: int, units: float) -> int:
        after = self._sums[min(bisect_left(self._ends, end) + 1, len(self._sums) - 1)]
        reached = bisect_left(self._sums, after - units)
        return self._ends[reached - 1] if reached else 0
