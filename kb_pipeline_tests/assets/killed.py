"""A process of its own that syncs a home through Dagster, and dies at the commit it is told to die at."""

import json
import sys

from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.laws.commit_points import Watch


def main() -> None:
    """Read the order from standard input, sync, die; or tell on standard output how many commits it took."""
    order = json.load(sys.stdin)
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline_tests.assets.conftest import SilentProgress

    store = Store(Settings(**order["settings"]))
    _ = store.catalog, store.documents, store.ledger
    with open_syncer(store, SilentProgress()) as syncer:
        watch = Watch()
        watch.arm(order["at"], order["when"])
        for source in store.catalog.sources():
            syncer.sync(source)
    json.dump(len(watch.seen), sys.stdout)


if __name__ == "__main__":
    main()
