"""What commands open: settings, store and connectors of the home."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb_pipeline.connectors.registry import Registry
    from kb_pipeline.settings import Settings
    from kb_pipeline.storage.catalog import Catalog
    from kb_pipeline.storage.store import Store


def read_settings() -> "Settings":
    """Settings of this process.

    Raises: UsageError: a setting in the environment is malformed.
    """
    from pydantic import ValidationError

    from kb_pipeline.errors import UsageError
    from kb_pipeline.settings import Settings

    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).upper() if first["loc"] else "?"
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"Setting {name} is wrong: {reason}. See docs/settings.md.") from None


def open_store() -> "Store":
    """The store, its home made on first use."""
    from kb_pipeline.storage.store import Store

    store = Store(read_settings())
    store.initialise()
    return store


def open_catalog() -> "Catalog":
    """Only the catalog: for commands that read no data."""
    from kb_pipeline.storage.catalog import Catalog

    return Catalog.open(read_settings())


@contextmanager
def open_registry(settings: "Settings") -> "Iterator[Registry]":
    """The connectors."""
    from kb_pipeline.connectors.registry import build_registry
    from kb_pipeline.services.http import HttpClient

    with closing(HttpClient(settings)) as http:
        yield build_registry(http, settings)
