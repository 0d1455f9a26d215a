"""What commands open: settings, store and connectors of the home."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb_pipeline.connectors.registry import Registry
    from kb_pipeline.settings import Settings
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
        name = f"Setting {str(first['loc'][0]).upper()}" if first["loc"] else "A setting"
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{name} is wrong: {said}. See docs/settings.md.") from None


def open_store() -> "Store":
    """The store, its home made on first use."""
    from kb_pipeline.storage.store import Store

    store = Store(read_settings())
    store.initialise()
    return store


def open_known_store() -> "Store":
    """The store of a home that is there, for commands on what is in it.

    Raises: UsageError: there is none; making it would hide that KB_HOME is another's.
    """
    from kb_pipeline.storage.layout import require_home

    require_home(read_settings())
    return open_store()


@contextmanager
def open_registry(settings: "Settings") -> "Iterator[Registry]":
    """The connectors."""
    from kb_pipeline.connectors.registry import build_registry
    from kb_pipeline.services.http import HttpClient

    with closing(HttpClient(settings)) as http:
        yield build_registry(http, settings)
