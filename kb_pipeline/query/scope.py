"""Which knowledge bases a search reaches: those the caller sees, narrowed to those asked for. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kb_pipeline.errors import NotVisible


class VisibleBase(Protocol):
    """A knowledge base as the catalog shows it to a caller."""

    @property
    def kb_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def tenant(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be searched.

    Attributes:
        tenants: kb_ids by tenant; nothing else is opened.
        names: name by kb_id.

    """

    tenants: Mapping[str, tuple[str, ...]]
    names: Mapping[str, str]

    @property
    def kb_ids(self) -> list[str]:
        """All of them, sorted."""
        return sorted(self.names)


def scope_of(visible: Sequence[VisibleBase], wanted: str | Sequence[str] | None) -> Scope:
    """The visible knowledge bases, or those of them that `wanted` gives by id or name; "" and None mean all.

    Raises: NotVisible: one is unknown or not the caller's; the two look the same.
    """
    names = [wanted] if isinstance(wanted, str) else [str(name) for name in wanted or ()]
    bases = list(visible) if not any(names) else [base for name in names if name for base in _named(visible, name)]
    tenants: dict[str, list[str]] = {}
    for base in {base.kb_id: base for base in bases}.values():
        tenants.setdefault(base.tenant, []).append(base.kb_id)
    return Scope({tenant: tuple(sorted(ids)) for tenant, ids in tenants.items()}, {b.kb_id: b.name for b in bases})


def _named(visible: Sequence[VisibleBase], name: str) -> list[VisibleBase]:
    found = [base for base in visible if base.kb_id == name] or [base for base in visible if base.name == name]
    if not found:
        raise NotVisible(f"There is no knowledge base {name!r} that you may search.")
    return found
