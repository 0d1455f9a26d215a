"""Imports the index engine without what it drags in for nothing: pyarrow looks for pandas, which takes a second."""

import importlib
import os
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NOT_NEEDED = "pandas"


class _Hidden(MetaPathFinder):
    """Lets one thread not find pandas; the others do."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _NOT_NEEDED and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is not needed here", name=fullname)
        return None


def engine() -> Any:
    """The module `lance`. pyarrow asks for pandas again when it first needs it, so nothing is taken from others."""
    os.environ.setdefault("LANCE_LOG", "error")  # it warns on stderr of things that are as we want them
    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # megabytes in statistics that nobody reads
    if "lance" in sys.modules or _NOT_NEEDED in sys.modules:
        return importlib.import_module("lance")
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        return importlib.import_module("lance")
    finally:
        sys.meta_path.remove(hidden)
