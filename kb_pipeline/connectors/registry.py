"""Which connector takes an input: an explicit type wins (other than `url`), else the first that detects it."""

from collections.abc import Iterable, Iterator

from kb_pipeline.connectors.base import Connector, Http
from kb_pipeline.errors import UsageError
from kb_pipeline.settings import Settings
from kb_pipeline.urls import shown


class Registry:
    """The connectors in the order in which they are asked.

    `url` as an explicit type only says "an address": a more special connector that detects it still wins.
    """

    def __init__(self, connectors: Iterable[Connector]) -> None:
        self._connectors = tuple(connectors)
        self._by_name = {connector.name: connector for connector in self._connectors}

    def __iter__(self) -> Iterator[Connector]:
        return iter(self._connectors)

    def named(self, name: str) -> Connector:
        """The connector of this type.

        Raises: UsageError: there is none.
        """
        found = self._by_name.get(name)
        if found is None:
            raise UsageError(f"unknown source type {name!r}; the types are {', '.join(self._by_name)}")
        return found

    def pick(self, source_input: str, explicit_type: str | None = None) -> Connector:
        """The connector for an input.

        Raises: UsageError: unknown type, or nothing understands the input.
        """
        if explicit_type and explicit_type != "url":
            return self.named(explicit_type)
        for connector in self._connectors:
            if connector.detect(source_input):
                return connector
        what = "; ".join(f"{connector.understands} ({connector.name})" for connector in self._connectors)
        raise UsageError(
            f"unknown source: the address or path {shown(source_input.strip())!r} is nothing understood here: {what}"
        )


def build_registry(http: Http, settings: Settings) -> Registry:
    """All connectors; `url` is last, as it takes every address."""
    from kb_pipeline.connectors.document import DocumentConnector
    from kb_pipeline.connectors.records import RecordsConnector
    from kb_pipeline.connectors.rss import RssConnector
    from kb_pipeline.connectors.url import UrlConnector

    return Registry([RecordsConnector(settings), DocumentConnector(settings), RssConnector(http), UrlConnector(http)])
