"""Which knowledge bases a search reaches: those the caller sees, narrowed to those asked for. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kb_pipeline.errors import NotVisible
from kb_pipeline.records import vector_space_of


class VisibleBase(Protocol):
    """A knowledge base as the catalog shows it to a caller."""

    @property
    def kb_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    @property
    def space_id(self) -> str | None: ...
    @property
    def embedding_model(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Table:
    """A table to read: whose, and of which space."""

    tenant: str
    space_id: str

    @property
    def vector_space(self) -> str:
        """What its vectors may be compared in."""
        return vector_space_of(self.space_id)


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be searched.

    Attributes:
        tables: kb_ids by the table that serves them; nothing else is opened.
        names: name by kb_id, also of those in which nothing was indexed yet.
        models: by what their vectors may be compared in, the names that the bases know the model by.

    """

    tables: Mapping[Table, tuple[str, ...]]
    names: Mapping[str, str]
    models: Mapping[str, tuple[str, ...]]

    @property
    def kb_ids(self) -> list[str]:
        """All of them, sorted."""
        return sorted(self.names)

    @property
    def unindexed(self) -> list[str]:
        """Names of those in which nothing was indexed yet, sorted."""
        indexed = {kb_id for kb_ids in self.tables.values() for kb_id in kb_ids}
        return sorted(name for kb_id, name in self.names.items() if kb_id not in indexed)


def scope_of(visible: Sequence[VisibleBase], wanted: str | Sequence[str] | None) -> Scope:
    """The visible knowledge bases, or those of them that `wanted` gives by id or name; "" and None mean all.

    Raises: NotVisible: one is unknown or not the caller's; the two look the same.
    """
    names = [wanted] if isinstance(wanted, str) else [str(name) for name in wanted or ()]
    bases = list(visible) if not any(names) else [base for name in names if name for base in _named(visible, name)]
    tables: dict[Table, list[str]] = {}
    models: dict[str, set[str]] = {}
    for base in {base.kb_id: base for base in bases}.values():
        if base.space_id and base.embedding_model:
            tables.setdefault(Table(base.tenant, base.space_id), []).append(base.kb_id)
            models.setdefault(vector_space_of(base.space_id), set()).add(base.embedding_model)
    return Scope(
        tables={table: tuple(sorted(ids)) for table, ids in tables.items()},
        names={base.kb_id: base.name for base in bases},
        models={space: tuple(sorted(names)) for space, names in models.items()},
    )


def _named(visible: Sequence[VisibleBase], name: str) -> list[VisibleBase]:
    found = [base for base in visible if base.kb_id == name] or [base for base in visible if base.name == name]
    if not found:
        raise NotVisible(f"There is no knowledge base {name!r} that you may search.")
    return found
