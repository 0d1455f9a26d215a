"""What the assets are given. Each resource vends a plain object; settings come from settings.py alone."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import cache

import dagster as dg

from kb_pipeline.connectors.registry import Registry, build_registry
from kb_pipeline.services.embedders import Embedders, embedders_of
from kb_pipeline.services.http import HttpClient
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline.storage.layout import Layout
from kb_pipeline.storage.store import Store


class LogProgress:
    """Progress as log lines of the run, one a batch."""

    def __init__(self) -> None:
        self._stage, self._done = "", 0
        self._total: int | None = None

    def begin(self, stage: str, source: str, total: int | None) -> None:
        self._stage, self._done, self._total = f"{stage} {source}", 0, total

    def advance(self, units: int) -> None:
        self._done += units
        of = f" of {self._total}" if self._total else ""
        dg.get_dagster_logger().info(f"{self._stage}: {self._done}{of}")


@cache
def settings() -> Settings:
    """Settings of this process, read when the first resource is opened."""
    return Settings()


class StoreResource(dg.ConfigurableResource[Store]):
    """Catalog, ledger, blobs, Parquet and LanceDB of KB_HOME."""

    def create_resource(self, context: dg.InitResourceContext) -> Store:
        store = Store(settings())
        store.initialise()
        return store


class ConnectorsResource(dg.ConfigurableResource[Registry]):
    """The connectors, on one polite HTTP client."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Registry, None, None]:
        with closing(HttpClient(settings())) as http:
            yield build_registry(http, settings())


class EmbeddersResource(dg.ConfigurableResource[Embedders]):
    """The embedders, by name; their weights are loaded at the first text."""

    def create_resource(self, context: dg.InitResourceContext) -> Embedders:
        return embedders_of(settings(), Layout.of(settings()).models)


class SandboxResource(dg.ConfigurableResource[Sandbox]):
    """Child processes for parsers."""

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Sandbox, None, None]:
        with Sandbox(settings()) as sandbox:
            yield sandbox


class ProgressResource(dg.ConfigurableResource[LogProgress]):
    """Progress in the run's log."""

    def create_resource(self, context: dg.InitResourceContext) -> LogProgress:
        return LogProgress()


def resources() -> dict[str, object]:
    """The resources of a deployed code location."""
    return {
        "store": StoreResource(),
        "connectors": ConnectorsResource(),
        "embedders": EmbeddersResource(),
        "sandbox": SandboxResource(),
        "progress": ProgressResource(),
    }
