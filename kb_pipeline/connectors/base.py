"""What every connector promises, and what it is given. One connector is one file beside this one."""

from collections.abc import Mapping
from typing import ClassVar, Protocol

from kb_pipeline.records import HttpResponse, Item, Json, Listing, RawItem, Source


class Http(Protocol):
    """The one way to the outside: guarded, capped, polite, retried. Raises `UnitFailure`s, typed by status."""

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> HttpResponse: ...


class Connector(Protocol):
    """Lists cheaply, fetches separately, and fails in types (`errors.UnitFailure`).

    Attributes:
        name: the source type, as in `--type`.
        has_global_ids: True where an external id means the same document in every source (a canonical URL);
            False where it is only the source's own (a path, a feed guid).
    """

    name: ClassVar[str]
    has_global_ids: ClassVar[bool]
    understands: ClassVar[str]
    """One phrase for people: what inputs it takes."""

    def detect(self, source_input: str) -> bool:
        """True if this connector handles the input. No network."""
        ...

    def canonical(self, source_input: str) -> str:
        """The input as it is stored (absolute path, normalised URL).

        Raises: UsageError: it cannot be a source of this type (no such file, not an http(s) address).
        """
        ...

    def list_items(self, source: Source, state: Json) -> Listing:
        """What the source holds now, without bodies where that is possible.

        Raises: UnitFailure: the listing failed; nothing may be concluded from it.
        """
        ...

    def fetch(self, item: Item) -> RawItem:
        """The bytes of one listed item.

        Raises: UnitFailure: this item could not be had; the others are not concerned.
        """
        ...
