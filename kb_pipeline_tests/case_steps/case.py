"""A case as its folder gives it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import yaml

from kb_pipeline_tests.case_steps.vocabulary import (
    UnknownWord,
    check_expectations,
    check_steps,
)

_KEYS = frozenset({"id", "kind", "source_issue", "symptom", "steps", "expect", "notes", "inputs"})
_NEEDS_HISTORY = ("after", "before", "unchanged", "never_lost", "nth", "re_embedded")


@dataclass(frozen=True)
class Case:
    """One folder with a `case.yaml`."""

    folder: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises: UnknownWord: the file is not a case."""
        try:
            content = yaml.safe_load((folder / "case.yaml").read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise UnknownWord(f"case.yaml is not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(content, dict):
            raise UnknownWord("case.yaml is not a map")
        return cls(folder, content)

    @property
    def id(self) -> str:
        return str(self.content.get("id", self.folder.name))

    @property
    def steps(self) -> list[Any]:
        return list(self.content.get("steps") or [])

    @property
    def expect(self) -> list[Any]:
        return list(self.content.get("expect") or [])

    @property
    def compares_without_emphasis(self) -> bool:
        """True where the notes ask to take markdown emphasis marks away first."""
        notes = str(self.content.get("notes") or "").lower()
        return "emphasis" in notes

    @cached_property
    def needs_history(self) -> bool:
        """True where an expectation looks at a state before the last."""
        text = json.dumps(self.content.get("expect"), default=str)
        return any(word in text for word in _NEEDS_HISTORY)

    @cached_property
    def changes_models(self) -> bool:
        """True where steps change the embedder."""
        return "embedder" in json.dumps(self.steps, default=str)

    @property
    def measures_memory(self) -> bool:
        """True where a limit on memory is expected."""
        return "peak_mb" in json.dumps(self.content.get("expect"), default=str)

    def problems(self) -> Iterator[str]:
        """What of it is not known here, found without running it."""
        for key in self.content:
            if key not in _KEYS:
                yield f"unknown key in case.yaml: {key}"
        if not self.steps or not self.expect:
            yield "the case has no steps or expects nothing"
        yield from check_steps(self.steps)
        yield from check_expectations(self.expect)

    def served_urls(self) -> Iterator[str]:
        """Addresses that the stub answers for, anywhere in the steps."""
        yield from _served(self.steps)


def _served(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for name, below in node.items():
            if name == "serve" and isinstance(below, dict) and "url" in below:
                yield str(below["url"])
            else:
                yield from _served(below)
    elif isinstance(node, list):
        for below in node:
            yield from _served(below)
