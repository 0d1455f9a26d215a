"""Values that are made once, however many threads ask for them at the same time; the last few are kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Once(Generic[K, V]):
    """A function of one argument that remembers its last results.

    The first who asks makes the value, in its own thread, so that no pool can run full of those who wait. A failure is
    raised to all who wait for it and is not remembered.
    """

    def __init__(self, make: Callable[[K], V], keep: int) -> None:
        self._make, self._keep = make, keep
        self._made: OrderedDict[K, Future[V]] = OrderedDict()
        self._looking = Lock()

    def __call__(self, key: K) -> V:
        with self._looking:
            known = self._made.get(key)
            future = known or self._made.setdefault(key, Future())
            self._made.move_to_end(key)
            while len(self._made) > self._keep:
                self._made.popitem(last=False)
        if known is None:
            try:
                future.set_result(self._make(key))
            except BaseException as error:  # noqa: BLE001 - whoever waits has to hear of it
                with self._looking:
                    self._made.pop(key, None)
                future.set_exception(error)
        return future.result()
