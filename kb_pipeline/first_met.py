"""Which texts of a long stream were met before, and where first; 24 bytes a text, where a dict takes 150."""

import hashlib
from collections.abc import Iterable

import numpy as np

_FEWEST_TO_SORT_IN = 4_096
_KEY = "S16"


class FirstMet:
    """The number that each text came with first. Texts are known by 120 bits of their SHA-256."""

    def __init__(self) -> None:
        self._keys = np.empty(0, _KEY)
        self._numbers = np.empty(0, np.int64)
        self._fresh: dict[bytes, int] = {}

    def add(self, text: str, number: int = 0) -> int:
        """Note a text; returns the number of the first one like it, which is this one's if there was none."""
        key = _key(text)
        known = self._number(key)
        if known is not None:
            return known
        self._fresh[key] = number
        if len(self._fresh) > max(_FEWEST_TO_SORT_IN, len(self._keys) // 8):
            self._sort_in()
        return number

    def update(self, texts: Iterable[str]) -> None:
        """Note texts."""
        for text in texts:
            self.add(text)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self._number(_key(text)) is not None

    def _number(self, key: bytes) -> int | None:
        if key in self._fresh:
            return self._fresh[key]
        at = int(self._keys.searchsorted(np.bytes_(key)))
        is_there = at < len(self._keys) and self._keys[at] == key
        return int(self._numbers[at]) if is_there else None

    def _sort_in(self) -> None:
        keys = np.concatenate([self._keys, np.array(list(self._fresh), _KEY)])
        numbers = np.concatenate([self._numbers, np.fromiter(self._fresh.values(), np.int64, len(self._fresh))])
        order = keys.argsort(kind="stable")
        self._keys, self._numbers, self._fresh = keys[order], numbers[order], {}


def _key(text: str) -> bytes:
    """The hash's beginning, and a byte that is no NUL: numpy would take one at the end away."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:15] + b"."
