"""Which steps and expectations there are and which keys each takes. What is not known is named, never passed over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Args = Mapping[str, Any]
REMARKS = frozenset({"level", "note", "notes", "because", "comment"})
"""Keys every expectation may carry; only `level` has a meaning to us."""


class CaseFailure(Exception):
    """Why a case fails: one line for people."""


class Mismatch(CaseFailure):
    """What was expected and what was found."""


class UnknownWord(CaseFailure):
    """A step, an expectation, a key or a value that this adapter does not know."""


class NotSupportedYet(CaseFailure):
    """A step of a feature that the product does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"not supported yet: {name}")


@dataclass(frozen=True)
class Word:
    """A step or an expectation: its keys, the key that a bare value stands for, and what carries it out."""

    name: str
    keys: frozenset[str]
    bare: str | None
    run: Callable[[Any, Args], None]

    def args(self, given: object) -> Args:
        """The arguments as a mapping. Raises: UnknownWord: a key, or a bare value, that is not known."""
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            if self.bare is None:
                raise UnknownWord(f"{self.name} takes keys, not {given!r}")
            return {self.bare: given}
        unknown = sorted(str(key) for key in given if key not in self.keys)
        if unknown:
            raise UnknownWord(f"unknown key in {self.name}: {', '.join(unknown)}")
        return given


STEPS: dict[str, Word] = {}
EXPECTATIONS: dict[str, Word] = {}
LATER_STEPS = frozenset(
    "build_graph graph_query signals signal refresh_prior switch_off_learning ask ask_each drive video_stub suggest "
    "analytics context reingest".split()
)
LATER_EXPECTATIONS = frozenset(
    "graph graph_report prior signals llm_prompt answer each_answer item_report context suggestions".split()
)


def step(
    name: str, *keys: str, bare: str | None = None
) -> Callable[[Callable[[Any, Args], None]], Callable[[Any, Args], None]]:
    """Registers what carries out a step."""

    def register(run: Callable[[Any, Args], None]) -> Callable[[Any, Args], None]:
        STEPS[name] = Word(name, frozenset(keys), bare, run)
        return run

    return register


def expectation(
    name: str, *keys: str, bare: str | None = None
) -> Callable[[Callable[[Any, Args], None]], Callable[[Any, Args], None]]:
    """Registers what checks an expectation; it raises Mismatch."""

    def register(run: Callable[[Any, Args], None]) -> Callable[[Any, Args], None]:
        EXPECTATIONS[name] = Word(name, frozenset(keys) | REMARKS, bare, run)
        return run

    return register


def only(entry: object, what: str) -> tuple[str, Any]:
    """The one (name, arguments) of a list entry. Raises: UnknownWord: it is not a map with one key."""
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise UnknownWord(f"{what} is not a map with one key: {entry!r}")
    name, given = next(iter(entry.items()))
    return str(name), given


def step_word(name: str) -> Word:
    """The step of this name. Raises: NotSupportedYet, UnknownWord."""
    if name in STEPS:
        return STEPS[name]
    if name in LATER_STEPS:
        raise NotSupportedYet(name)
    raise UnknownWord(f"unknown step: {name}")


def expectation_word(name: str) -> Word:
    """The expectation of this name. Raises: NotSupportedYet, UnknownWord."""
    if name in EXPECTATIONS:
        return EXPECTATIONS[name]
    if name in LATER_EXPECTATIONS:
        raise NotSupportedYet(f"expectation {name}")
    raise UnknownWord(f"unknown expectation: {name}")


def is_desirable(args: object) -> bool:
    """True where a miss does not fail. Raises: UnknownWord: a level that is neither must nor desirable."""
    level = str(args.get("level", "must")).lower() if isinstance(args, Mapping) else "must"
    if level.startswith("desirable"):
        return True
    if level.startswith("must"):
        return False
    raise UnknownWord(f"unknown level: {level}")


def check_steps(steps: object) -> Iterator[str]:
    """Everything that is wrong with steps before any is run: words, keys, features to come."""
    for entry in steps if isinstance(steps, list) else [steps]:
        try:
            name, given = only(entry, "step")
            args = step_word(name).args(given)
        except CaseFailure as failure:
            yield str(failure)
            continue
        if name == "repeat":
            yield from check_steps(args.get("steps", []))
        elif name == "for_each_line":
            yield from check_steps(as_entries(args.get("do", [])))
        elif args.get("rerank") not in (None, False):
            yield str(NotSupportedYet("rerank"))


def check_expectations(entries: object) -> Iterator[str]:
    """Everything that is wrong with expectations before any step is run."""
    for entry in entries if isinstance(entries, list) else [entries]:
        try:
            name, given = only(entry, "expectation")
            if name in ("desirable", "one_of"):
                yield from check_expectations(as_entries(given))
                continue
            args = expectation_word(name).args(given)
            is_desirable(args)
        except CaseFailure as failure:
            yield str(failure)


def as_entries(given: object) -> list[Any]:
    """A map of several words, or a list of them, as a list of one-key maps."""
    return [{name: args} for name, args in given.items()] if isinstance(given, Mapping) else list(as_list(given))


def as_list(value: object) -> Sequence[Any]:
    """A value or a list of them as a list; nothing for None."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def expect_number(found: int, wanted: object, what: str) -> None:
    """`wanted` is a number, or a list of numbers of which any is right."""
    allowed = as_list(wanted)
    if not allowed or not all(isinstance(number, int) for number in allowed):
        raise UnknownWord(f"{what}: {wanted!r} is no number")
    if found not in allowed:
        raise Mismatch(f"{what}: expected {' or '.join(map(str, allowed))}, found {found}")
