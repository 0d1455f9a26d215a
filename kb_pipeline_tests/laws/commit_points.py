"""Every place that makes something last, found in the code itself; and a way to die there."""

import ast
import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import kb_pipeline

ROOT = Path(kb_pipeline.__file__).parent
_PACKAGES = ("storage", "lifecycle")
_CALLS = frozenset(
    {
        "begin", "replace", "rename", "link", "unlink", "rmtree", "execute", "delete", "compact_files",
        "optimize_indices", "create_index", "create_scalar_index", "drop_index", "cleanup_old_versions",
        "write_dataset",
    }
)  # fmt: skip
_OWNERS = {
    "begin": ("engine", "_engine", "database"),
    "replace": ("os",),
    "execute": ("merge",),
    "delete": ("table",),
    "link": ("os",),
}
"""Where the name alone is too common: what it must be called on."""


def find() -> dict[str, str]:
    """`module:qualified name` of each function that commits -> what it calls."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        for path in sorted((ROOT / package).glob("*.py")):
            module = f"kb_pipeline.{package}.{path.stem}"
            for name, function in _functions(ast.parse(path.read_text()), ""):
                calls = sorted(set(_commits(function)))
                if calls:
                    found[f"{module}:{name}"] = ", ".join(calls)
    return found


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node


def _commits(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS):
            continue
        owner = node.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
        if node.func.attr not in _OWNERS or name in _OWNERS[node.func.attr]:
            yield node.func.attr


def die() -> None:
    """As the machine takes a process: nothing is said, nothing is tidied."""
    os.kill(os.getpid(), signal.SIGKILL)


class Crash(BaseException):
    """Instead of a kill, where the process has to go on: no code of the product catches it."""


def crash() -> None:
    """Leave everything as it is at this moment."""
    raise Crash


class Watch:
    """Counts commits from now on, and ends things around one of them.

    Attributes:
        seen: the commit points passed since `arm`, in order.
    """

    def __init__(self, end: Callable[[], None] = die) -> None:
        self.seen: list[str] = []
        self._end, self._at, self._when = end, -1, "after"
        self._undo: list[Callable[[], None]] = []
        for point in find():
            self._wrap(point)

    def arm(self, at: int | None, when: str = "after") -> None:
        """End before or after the n-th commit from here, counted from 0; None: only count."""
        self.seen, self._at, self._when = [], -1 if at is None else at, when

    def close(self) -> None:
        """Watch no longer."""
        for undo in reversed(self._undo):
            undo()

    def _wrap(self, point: str) -> None:
        module_name, _, name = point.partition(":")
        module = importlib.import_module(module_name)
        owner_name, _, short = name.rpartition(".")
        owner = getattr(module, owner_name) if owner_name else module
        plain = owner.__dict__[short]
        whole = getattr(plain, "__func__", None) or getattr(plain, "func", None) or plain

        @functools.wraps(whole)
        def watched(*args, **kwargs):
            number = len(self.seen)
            self.seen.append(point)
            if number == self._at and self._when == "before":
                self._end()
            result = whole(*args, **kwargs)
            if number == self._at:
                self._end()
            return result

        if owner_name:
            made = watched if plain is whole else type(plain)(watched)
            if isinstance(made, functools.cached_property):
                made.__set_name__(owner, short)
            self._set(owner, short, made)
            return
        for other in list(sys.modules.values()):  # a function may have been imported by name
            if getattr(other, "__name__", "").startswith("kb_pipeline") and other.__dict__.get(short) is whole:
                self._set(other, short, watched)

    def _set(self, owner: object, name: str, value: object) -> None:
        self._undo.append(functools.partial(setattr, owner, name, owner.__dict__[name]))
        setattr(owner, name, value)
