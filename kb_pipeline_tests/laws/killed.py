"""A process of its own that does what it is told, counts its commits, and dies at the one it is told to die at."""

import json
import os
import sys
from pathlib import Path

from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline.storage.store import Store
from kb_pipeline_tests.laws.commit_points import Watch


def perform(store: Store, sandbox, action: str) -> None:
    """One action on the home of `test_kills.make_home`."""
    from kb_pipeline.lifecycle.forgetting import forget, unforget
    from kb_pipeline.lifecycle.removal import remove_source
    from kb_pipeline.lifecycle.sharing import set_scope
    from kb_pipeline_tests.laws.driver import Driver

    if action == "sync":
        driver = Driver(store, sandbox)
        for source in store.catalog.sources():
            driver.sync(source)
    elif action == "forget":
        if "1" in {row["external_id"] for row in store.documents.rows("k")}:
            forget(store, "k", "1", by="ada")
    elif action == "unforget":
        unforget(store, "k", "1")
    elif action == "remove":
        (source,) = store.catalog.sources("k") or store.catalog.sources("k", removed=True)
        remove_source(store, "k", source.source_id, lambda _: False, lambda _: None)
    elif action == "edits":
        edit_often(store, sandbox)
    elif action == "maintain":
        from kb_pipeline.lifecycle.maintenance import maintain_tenant

        maintain_tenant(store, "account-default")
    elif action == "share":
        set_scope(store, "k", "user", owner="u1")
    else:
        raise ValueError(action)


def edit_often(store: Store, sandbox) -> None:
    """Many syncs of one changed record each, back to where it began: fragments, segments and versions to clear up."""
    from kb_pipeline_tests.laws.driver import Driver

    (source,) = store.catalog.sources("k")
    records = Path(source.input)
    whole = records.read_text()
    for number in range(24):
        records.write_text(whole.replace("Buoy 5 rings", f"Buoy 5 rings for the {number}. time"))
        Driver(store, sandbox).sync(source)
    records.write_text(whole)
    Driver(store, sandbox).sync(source)


def log_texts(folder: Path) -> None:
    """Write down every text that is sent to the model, before it is."""
    from kb_pipeline.testing.embedder import HashingEmbedder

    whole = HashingEmbedder.embed_documents

    def embed(self, texts):
        with (folder / "sent.jsonl").open("a") as log:
            log.writelines(json.dumps(text) + "\n" for text in texts)
            log.flush()
            os.fsync(log.fileno())
        return whole(self, texts)

    HashingEmbedder.embed_documents = embed


def main() -> None:
    """Read the order from standard input, do it, tell the commits on standard output."""
    order = json.load(sys.stdin)
    log_texts(Path(order["log"]))
    store = Store(Settings(**order["settings"]))
    _ = store.catalog, store.documents, store.ledger, store.forgotten
    import kb_pipeline_tests.laws.driver  # noqa: F401

    watch = Watch()
    watch.arm(order["kill_at"], order["when"])
    with Sandbox(store.settings, workers=1) as sandbox:
        perform(store, sandbox, order["action"])
    json.dump(watch.seen, sys.stdout)


if __name__ == "__main__":
    main()
