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
    """One action on the home of `test_kills.prepared`; done already, it is nothing."""
    ACTIONS[action](store, sandbox)


def sync(store: Store, sandbox) -> None:
    from kb_pipeline_tests.laws.driver import Driver

    driver = Driver(store, sandbox)
    for source in store.catalog.sources():
        driver.sync(source)


def forget(store: Store, sandbox) -> None:
    from kb_pipeline.lifecycle import forgetting

    if "1" in {row["external_id"] for row in store.documents.rows("k")}:
        forgetting.forget(store, "k", "1", by="ada")


def unforget(store: Store, sandbox) -> None:
    from kb_pipeline.lifecycle import forgetting

    forgetting.unforget(store, "k", "1")


def remove(store: Store, sandbox) -> None:
    from kb_pipeline.lifecycle.removal import remove_source

    (source,) = store.catalog.sources("k") or store.catalog.sources("k", removed=True)
    remove_source(store, "k", source.source_id, lambda _: False, lambda _: None)


def maintain(store: Store, sandbox) -> None:
    from kb_pipeline.lifecycle.maintenance import maintain_tenant

    maintain_tenant(store, "account-default")


def expire(store: Store, sandbox) -> None:
    """Maintenance when nothing that search left is kept any longer."""
    store.settings = store.settings.model_copy(update={"index_keep_spaces_s": 0})
    maintain(store, sandbox)


def resize(store: Store, sandbox) -> None:
    """A sync by other settings: it builds a candidate."""
    own = {"chunk_size": 60, "chunk_overlap": 10, "embedding_model": "fake:paid:24"}
    store.catalog.set_settings("k", own)
    sync(store, sandbox)


def promote(store: Store, sandbox) -> None:
    from kb_pipeline.lifecycle import spaces

    if "candidate" in [space.role for space in store.spaces.of("k")]:
        spaces.promote(store, "k")


def share(store: Store, sandbox) -> None:
    from kb_pipeline.lifecycle.sharing import set_scope

    set_scope(store, "k", "user", owner="u1")


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


ACTIONS = {
    action.__name__: action
    for action in (sync, forget, unforget, remove, maintain, expire, resize, promote, share, edit_often)
}


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
