"""Another model or splitting is built beside what search reads, swapped in at a word, and can be taken back."""

from datetime import UTC, datetime, timedelta
from functools import partial

import dagster as dg
import pytest
import sqlalchemy as sa

from kb_pipeline.assets import s5_embed
from kb_pipeline.assets.plan import Planner
from kb_pipeline.automation.run import open_syncer
from kb_pipeline.connectors.document import DocumentConnector
from kb_pipeline.errors import AuthFailed, SystemicError, UsageError
from kb_pipeline.lifecycle.forgetting import forget
from kb_pipeline.lifecycle.maintenance import maintain_tenant
from kb_pipeline.lifecycle.sharing import set_scope
from kb_pipeline.lifecycle.spaces import promote, roll_back
from kb_pipeline.query import OPERATOR, Query
from kb_pipeline.records import vector_space_of
from kb_pipeline.schemas import CHUNKS
from kb_pipeline.services.embedders import embedders_of, open_embedder
from kb_pipeline.services.sandbox import Sandbox
from kb_pipeline.settings import Settings
from kb_pipeline.storage.catalog_read import open_reads
from kb_pipeline.storage.kb_spaces import Built
from kb_pipeline.storage.lance import ChunkIndex
from kb_pipeline.storage.ledger import Lane
from kb_pipeline.storage.store import Store
from kb_pipeline.storage.tables import kb_spaces
from kb_pipeline.testing.embedder import HashingEmbedder
from kb_pipeline_tests.assets.conftest import Home, SilentProgress

BOTH = pytest.mark.databases("sqlite", "postgres")
"""For what has SQL of its own; the rest is about files and roles."""
LONG = "\n\n".join(f"Sentence number {n} about the harbour wall and its stones." for n in range(20))
TEXTS = {"long.md": LONG, "rope.md": "Coil a wet rope loosely.", "lamp.md": "The lamp is red."}


@pytest.fixture
def synced(home, folder):
    """A base of three documents, read from its first space."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    home.add(folder)
    home.sync(source_of(home))
    return home


def source_of(home):
    (source,) = home.store.catalog.sources("k")
    return source


def make(home, **settings):
    """Other settings for the base, and a sync."""
    home.store.catalog.set_settings("k", settings)
    return home.sync(source_of(home))


def roles(home):
    return [space.role for space in home.store.spaces.of("k")]


def texts(home, role="serving"):
    return sorted(text for _, text in home.indexed(role).values())


def search(home, text):
    settings = home.store.settings
    opening = partial(open_embedder, settings, settings.kb_home)
    with Query(settings, lambda: open_reads(settings), opening) as query:
        return query.search(text, caller=OPERATOR, kb_id="k", top_k=3)


@BOTH
def test_another_model_is_built_beside_and_search_changes_at_a_word(synced):
    before, splits = synced.indexed(), synced.rows(source_of(synced))
    report = make(synced, embedding_model="fake:other:16")
    assert (report.new, report.changed, report.failed, report.embedded) == (0, 0, 0, len(before))
    assert roles(synced) == ["serving", "candidate"]
    assert synced.indexed() == synced.indexed("candidate") == before
    assert synced.rows(source_of(synced)) == splits  # split once for both
    assert "fake-other" not in str(search(synced, "wet rope").notes)
    swap = promote(synced.store, "k")
    assert (swap.serving.embedding_model, roles(synced)) == ("fake:other:16", ["serving", "previous"])
    assert search(synced, "wet rope").hits[0].chunk_text == "Coil a wet rope loosely."
    again = synced.sync(source_of(synced))
    assert (again.embedded, again.failed) == (0, 0)


@BOTH
def test_other_sizes_are_built_from_the_stored_documents_and_only_new_texts_are_embedded(synced):
    before = texts(synced)
    report = make(synced, chunk_size=300, chunk_overlap=50)
    fresh = set(texts(synced, "candidate"))
    assert fresh != set(before)
    assert report.embedded == len(fresh - set(before))  # the short documents have their vectors already
    assert texts(synced) == before
    documents = synced.documents()
    promote(synced.store, "k")
    assert set(texts(synced)) == fresh
    assert synced.documents()["long.md"]["chunks"] > documents["long.md"]["chunks"]
    assert {row["status"] for row in synced.documents().values()} == {"ready"}
    assert synced.sync(source_of(synced)).embedded == 0


def test_both_spaces_are_kept_true_while_one_is_a_candidate(synced, folder):
    make(synced, embedding_model="fake:other:16")
    (folder / "rope.md").write_text("Coil a dry rope tightly.")
    (folder / "lamp.md").unlink()
    (folder / "new.md").write_text("The tide turns at noon.")
    synced.sync(source_of(synced))
    assert texts(synced) == texts(synced, "candidate")
    assert {"Coil a dry rope tightly.", "The tide turns at noon."} < set(texts(synced))
    assert not {"The lamp is red.", "Coil a wet rope loosely."} & set(texts(synced))


@BOTH
def test_what_is_kept_for_a_way_back_says_nothing_its_source_does_not_say(synced, folder):
    make(synced, chunk_size=300, chunk_overlap=50)
    promote(synced.store, "k")
    (folder / "rope.md").write_text("Coil a dry rope tightly.")
    (folder / "lamp.md").unlink()
    (folder / "new.md").write_text("The tide turns at noon.")
    synced.sync(source_of(synced))
    kept = texts(synced, "previous")
    assert kept
    assert not {"The lamp is red.", "Coil a wet rope loosely.", "The tide turns at noon."} & set(kept)
    roll_back(synced.store, "k")
    assert roles(synced) == ["serving", "previous"]
    assert texts(synced) == kept
    synced.store.catalog.set_settings("k", {})
    report = synced.sync(source_of(synced))
    assert report.embedded == 0  # the other space has their vectors
    assert roles(synced) == ["serving", "previous"]
    assert {"Coil a dry rope tightly.", "The tide turns at noon."} < set(texts(synced))
    assert {row["status"] for row in synced.documents().values()} == {"ready", "archived"}


def test_after_a_way_back_the_other_space_is_the_candidate_again(synced):
    make(synced, embedding_model="fake:other:16")
    promote(synced.store, "k")
    roll_back(synced.store, "k")
    report = synced.sync(source_of(synced))
    assert (roles(synced), report.embedded) == (["serving", "candidate"], 0)


@BOTH
def test_a_candidate_that_is_not_whole_is_not_promoted_by_accident(synced, tmp_path):
    other = tmp_path / "second"
    other.mkdir()
    (other / "tide.md").write_text("The tide turns at noon.")
    second = synced.add(other)
    synced.sync(second)
    synced.store.catalog.set_settings("k", {"embedding_model": "fake:other:16"})
    first = next(source for source in synced.store.catalog.sources("k") if source.source_id != second.source_id)
    with pytest.raises(UsageError, match="no candidate"):
        promote(synced.store, "k")
    synced.sync(first)
    assert synced.store.spaces.built(synced.store.spaces.of("k")[1]).waiting == 1
    with pytest.raises(UsageError, match="1 documents of k are not in the candidate yet"):
        promote(synced.store, "k")
    promote(synced.store, "k", force=True)
    statuses = {name: row["status"] for name, row in synced.documents().items()}
    assert statuses == {"long.md": "ready", "rope.md": "ready", "lamp.md": "ready", "tide.md": "pending"}
    synced.sync(second)
    assert synced.documents()["tide.md"]["status"] == "ready"


def test_a_candidate_that_the_settings_ask_for_no_more_is_not_promoted_by_accident(synced):
    make(synced, embedding_model="fake:other:16")
    for settings in ({"embedding_model": "fake:third:16"}, {"embedding_model": "fake:other:16", "chunk_size": 300}, {}):
        synced.store.catalog.set_settings("k", settings)
        with pytest.raises(UsageError, match="ask for another space"):
            promote(synced.store, "k")
    promote(synced.store, "k", force=True)
    assert roles(synced) == ["serving", "previous"]


def test_the_ui_shows_how_far_each_space_is(synced):
    def shown():
        event = synced.syncer._instance.get_latest_materialization_event(dg.AssetKey("chunk_index"))
        table = event.asset_materialization.metadata.get("spaces")
        return (
            [(row.data["role"], row.data["documents"], row.data["to come"]) for row in table.records] if table else []
        )

    assert shown() == []  # there is one space
    make(synced, embedding_model="fake:other:16")
    assert shown() == [("serving", 3, 0), ("candidate", 3, 0)]
    promote(synced.store, "k")
    synced.sync(source_of(synced))
    assert shown() == [("serving", 3, 0), ("previous", 3, 0)]


def test_a_long_sync_keeps_its_table_covered_while_it_goes_on(home, folder, monkeypatch):
    kept = []
    maintain = ChunkIndex.maintain
    monkeypatch.setattr(ChunkIndex, "maintain", lambda self, *a, **k: kept.append(maintain(self, *a, **k)) or kept[-1])
    monkeypatch.setattr(s5_embed, "_COMMITS_BETWEEN_UPKEEP", 2)
    home.store.settings = home.store.settings.model_copy(update={"batch_documents": 1})
    for number in range(5):
        (folder / f"{number}.md").write_text(f"Buoy {number} rings.")
    home.add(folder)
    home.sync(source_of(home))
    assert kept == [["indexes extended"]] * 3
    (index,) = home.index()
    assert (index.statistics().unindexed_rows, index.statistics().rows) == (0, 5)


def test_while_a_sync_is_at_work_nothing_is_swapped(synced):
    make(synced, embedding_model="fake:other:16")
    with synced.store.working_on(source_of(synced)), pytest.raises(UsageError, match="A run is at work"):
        promote(synced.store, "k")
    assert roles(synced) == ["serving", "candidate"]


@BOTH
def test_what_fails_on_the_way_into_a_candidate_leaves_its_document_as_it_is(priced, monkeypatch):
    embed, store = HashingEmbedder.embed_documents, priced.store

    def picky(self, some):
        if self.space.model == "other" and any("lamp" in text for text in some):
            raise AuthFailed("the service refuses it")
        return embed(self, some)

    monkeypatch.setattr(HashingEmbedder, "embed_documents", picky)
    report = make(priced, embedding_model="fake:other:16")
    assert (report.status, report.failed) == ("ok", 0)
    assert {row["status"] for row in priced.documents().values()} == {"ready"}
    with pytest.raises(UsageError, match="not in the candidate yet"):  # they will be tried again
        promote(store, "k")
    with store.catalog.engine.begin() as connection:
        connection.execute(sa.text("UPDATE ledger SET next_try_at = NULL"))
    assert store.spaces.built(store.spaces.of("k")[1]).failed > 0
    with pytest.raises(UsageError, match=r"failed in the candidate \(.*the service refuses it"):
        promote(store, "k")
    promote(store, "k", force=True)
    assert priced.documents()["lamp.md"]["status"] == "failed"


@BOTH
def test_a_space_that_search_left_is_removed_after_its_time(synced):
    make(synced, chunk_size=300, chunk_overlap=50)
    promote(synced.store, "k")
    serving, previous = synced.store.spaces.of("k")
    maintain_tenant(synced.store, "account-default")
    assert roles(synced) == ["serving", "previous"]
    with synced.store.catalog.engine.begin() as connection:
        old = kb_spaces.update().where(kb_spaces.c.role == "previous")
        connection.execute(old.values(since=datetime.now(UTC) - timedelta(days=8)))
    before = texts(synced)
    with synced.store.working_on(source_of(synced)):
        upkeep = maintain_tenant(synced.store, "account-default")
        assert any("stays: a sync is at work" in note for note in upkeep.notes)
    maintain_tenant(synced.store, "account-default")
    source = source_of(synced)
    assert synced.store.spaces.of("k") == [serving]
    assert texts(synced) == before
    assert synced.store.index("account-default", previous.space_id).count_rows("k", source.source_id) == 0
    assert synced.store.dataset(CHUNKS, source, previous.split_id).count_rows() == 0
    for lane in (Lane("chunks", "k", source.source_id, previous.split_id),
                 Lane("chunk_index", "k", source.source_id, previous.space_id)):  # fmt: skip
        assert list(synced.store.ledger.units(lane)) == []
    with pytest.raises(UsageError, match="no previous space"):
        roll_back(synced.store, "k")


def test_a_candidate_that_nobody_wants_any_more_is_dropped_and_can_be_wanted_again(synced):
    make(synced, embedding_model="fake:other:16")
    make(synced)
    assert roles(synced) == ["serving", "dropped"]
    report = make(synced, embedding_model="fake:other:16")
    assert (roles(synced), report.embedded) == (["serving", "candidate"], 0)
    make(synced, embedding_model="fake:third:16")
    assert roles(synced) == ["serving", "candidate", "dropped"]
    maintain_tenant(synced.store, "account-default")
    assert roles(synced) == ["serving", "candidate"]
    assert texts(synced) == texts(synced, "candidate")


def test_a_base_in_which_nothing_was_indexed_is_served_from_what_it_asks_for(home, folder):
    home.add(folder)
    home.sync(source_of(home))
    make(home, embedding_model="fake:other:16")
    (folder / "rope.md").write_text("Coil a wet rope loosely.")
    home.sync(source_of(home))
    assert home.store.spaces.of("k")[0].embedding_model == "fake:other:16"
    assert home.documents()["rope.md"]["status"] == "ready"


@BOTH
def test_a_model_that_is_gone_makes_room_for_the_one_that_is_set(synced, folder):
    with synced.store.catalog.engine.begin() as connection:
        connection.execute(kb_spaces.update().values(embedding_model="fake:test:8"))  # another version of it
    (folder / "rope.md").write_text("Coil a dry rope tightly.")
    synced.store.catalog.set_settings("k", {"embedding_model": "fake:other:16"})
    report = synced.sync(source_of(synced))
    assert (report.status, report.failed) == ("ok", 0)
    assert synced.store.spaces.of("k")[0].embedding_model == "fake:other:16"
    assert "Coil a dry rope tightly." in texts(synced)
    assert {row["status"] for row in synced.documents().values()} == {"ready"}


def test_a_model_that_goes_by_another_name_is_the_same_space(synced, folder):
    """A folder that was moved: the space is the same, and it goes on being fed."""
    with synced.store.catalog.engine.begin() as connection:
        connection.execute(kb_spaces.update().values(embedding_model="/moved/away"))
    (folder / "rope.md").write_text("Coil a dry rope tightly.")
    report = synced.sync(source_of(synced))
    assert (report.status, report.embedded, roles(synced)) == ("ok", 1, ["serving"])
    assert synced.store.spaces.of("k")[0].embedding_model == synced.store.settings.embedding_model
    assert "Coil a dry rope tightly." in texts(synced)


@pytest.fixture
def priced(synced):
    """The base in a home where the model `other` has a price."""
    prices = synced.store.layout.home / "prices.csv"
    prices.write_text("service,provider,model,usd_per_million_tokens,valid_from\nembedder,fake,other,1,2020-01-01\n")
    store = Store(Settings(**{**synced.store.settings.model_dump(), "prices_file": prices}))
    with open_syncer(store, SilentProgress()) as syncer:
        yield Home(store, syncer)
    store.catalog.engine.dispose()


def test_what_waits_for_money_promotes_nothing_by_itself(priced):
    with priced.store.catalog.engine.begin() as connection:
        connection.execute(kb_spaces.update().values(embedding_model="fake:test:8"))  # another version of it
    priced.store.catalog.set_budget("k", 0.0)
    before = texts(priced)
    make(priced, embedding_model="fake:other:16")
    assert (roles(priced), texts(priced)) == (["serving", "candidate"], before)
    assert "the budget of k" in priced.store.spaces.built(priced.store.spaces.of("k")[1]).reason
    priced.store.catalog.set_budget("k", None)
    priced.sync(source_of(priced))
    assert (roles(priced), texts(priced)) == (["serving", "previous"], before)


def test_what_stops_the_way_into_a_candidate_leaves_the_served_documents_ready(synced, folder, monkeypatch):
    embed = HashingEmbedder.embed_documents

    def broken(self, some):
        if self.space.model == "other":
            raise SystemicError("the key is wrong")
        return embed(self, some)

    monkeypatch.setattr(HashingEmbedder, "embed_documents", broken)
    (folder / "new.md").write_text("The tide turns at noon.")
    assert make(synced, embedding_model="fake:other:16").status == "failed"
    assert {row["status"] for row in synced.documents().values()} == {"ready"}
    assert "The tide turns at noon." in texts(synced)


def test_a_base_whose_wanted_model_is_missing_says_so_and_what_search_reads_is_fed(synced, folder, tmp_path):
    synced.store.catalog.set_settings("k", {"embedding_model": str(tmp_path / "nowhere")})
    (folder / "rope.md").write_text("Coil a dry rope tightly.")
    report = synced.sync(source_of(synced))
    assert report.status == "failed"
    assert "k cannot be embedded by the model that is set" in report.error
    assert {row["status"] for row in synced.documents().values()} == {"ready"}
    assert "Coil a dry rope tightly." in texts(synced)
    assert "Coil a wet rope loosely." not in texts(synced)


def test_a_way_back_before_the_next_sync_shows_nothing_that_is_known_to_be_old(synced, folder, monkeypatch):
    make(synced, chunk_size=300, chunk_overlap=50)
    promote(synced.store, "k")
    (folder / "rope.md").write_text("Coil a dry rope tightly.")

    def stopped(self, some):
        raise SystemicError("the key is wrong")

    monkeypatch.setattr(HashingEmbedder, "embed_documents", stopped)
    assert synced.sync(source_of(synced)).status == "failed"
    roll_back(synced.store, "k")
    assert "Coil a wet rope loosely." not in texts(synced)
    assert {name: row["status"] for name, row in synced.documents().items()} == {
        "long.md": "ready", "lamp.md": "ready", "rope.md": "pending"
    }  # fmt: skip


def test_a_way_back_leaves_a_candidate_as_it_is(synced):
    make(synced, chunk_size=300, chunk_overlap=50)
    promote(synced.store, "k")
    make(synced, chunk_size=200, chunk_overlap=50)
    roll_back(synced.store, "k")
    assert roles(synced) == ["serving", "candidate", "previous"]
    assert synced.sync(source_of(synced)).embedded == 0
    assert roles(synced) == ["serving", "candidate", "previous"]


def test_damage_and_strays_in_what_is_kept_stop_nothing_and_never_come_back(synced, folder):
    long = [text for text in texts(synced) if text not in TEXTS.values()]
    make(synced, chunk_size=300, chunk_overlap=50)
    promote(synced.store, "k")
    source, previous = source_of(synced), synced.store.spaces.of("k")[1]
    (part,) = (synced.store.layout.dataset("chunks", "k", source.source_id, previous.split_id)).glob("part-*")
    part.write_bytes(b"PAR1")
    lane = Lane("chunk_index", "k", source.source_id, previous.space_id)
    synced.store.ledger.remove(lane, [synced.documents()["lamp.md"]["document_id"]])  # rows of a run that died
    (folder / "rope.md").write_text("Coil a dry rope tightly.")
    report = synced.sync(source)
    assert (report.status, report.failed) == ("ok", 0)
    assert "Coil a dry rope tightly." in texts(synced)
    assert texts(synced, "previous") == []  # nothing vouches for it any more
    roll_back(synced.store, "k")
    synced.store.catalog.set_settings("k", {})
    synced.sync(source)
    assert texts(synced) == sorted([*long, "Coil a dry rope tightly.", TEXTS["lamp.md"]])


def test_a_plan_counts_a_text_once_for_two_spaces_of_a_model(priced, folder):
    make(priced, embedding_model="fake:other:16")
    promote(priced.store, "k")
    make(priced, embedding_model="fake:other:16", chunk_size=300, chunk_overlap=50)
    (folder / "new.md").write_text("The tide turns at noon.")
    embedders = embedders_of(priced.store.settings, priced.store.layout.models)
    with Sandbox(priced.store.settings) as sandbox:
        connector = DocumentConnector(priced.store.settings)
        plan = Planner(priced.store, source_of(priced), embedders, sandbox).plan(connector)
    report = priced.sync(source_of(priced))
    assert plan.embed == report.embedded == 1


def test_what_failed_in_a_candidate_alone_can_be_tried_again_by_a_person(synced):
    make(synced, embedding_model="fake:other:16")
    document = synced.documents()["rope.md"]["document_id"]
    candidate = synced.store.spaces.of("k")[1]
    with synced.store.catalog.engine.begin() as connection:
        given_up = "UPDATE ledger SET status = 'failed', error_kind = 'bug', error = 'x' WHERE unit = :d AND space = :s"
        connection.execute(sa.text(given_up), {"d": document, "s": candidate.space_id})
    assert synced.store.spaces.built(candidate).failed == 1
    assert synced.store.ledger.failed("k") == {document: {"bug"}}
    synced.store.ledger.make_due([document])
    synced.sync(source_of(synced))
    assert synced.store.spaces.built(candidate) == Built(done=3, failed=0, waiting=0)


def test_forgetting_reaches_every_space(synced):
    make(synced, chunk_size=300, chunk_overlap=50)
    promote(synced.store, "k")
    make(synced, embedding_model="fake:other:16")
    assert len(roles(synced)) == 3
    forget(synced.store, "k", "rope.md", by="me")
    for role in ("serving", "candidate", "previous"):
        assert "Coil a wet rope loosely." not in texts(synced, role)
        assert "The lamp is red." in texts(synced, role)


def test_a_base_changes_hands_with_all_its_spaces(synced):
    make(synced, embedding_model="fake:other:16")
    before = texts(synced)
    set_scope(synced.store, "k", "user", owner="u1")
    assert texts(synced) == texts(synced, "candidate") == before
    assert synced.sync(source_of(synced)).embedded == 0


def test_sql_shows_the_chunks_that_search_reads(synced):
    from kb_pipeline.storage.analytics import Analytics

    count = "SELECT count(*) FROM chunks"
    before = Analytics(synced.store).query(count)[1]
    make(synced, chunk_size=300, chunk_overlap=50)
    assert Analytics(synced.store).query(count)[1] == before
    promote(synced.store, "k")
    assert Analytics(synced.store).query(count)[1] == [(len(synced.indexed()),)]


def test_a_home_of_before_there_were_spaces_is_made_anew_with_the_vectors_it_has(synced):
    store, source = synced.store, source_of(synced)
    (space,) = store.spaces.of("k")
    before, index = synced.indexed(), store.index("account-default", space.space_id)
    old = index.path.with_name(f"chunks-{vector_space_of(space.space_id)}.lance")
    index.path.rename(old)
    folder = store.layout.dataset("chunks", "k", source.source_id)
    for part in (folder / f"split_id={space.split_id}").iterdir():
        part.rename(folder / part.name)
    with store.catalog.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM ledger WHERE space <> ''"))
        connection.execute(kb_spaces.delete())
    report = synced.sync(source)
    assert (report.new, report.embedded, synced.indexed()) == (0, 0, before)
    maintain_tenant(store, "account-default")
    assert not list(folder.glob("part-*"))
    assert store.index("account-default", vector_space_of(space.space_id)).count_rows("k", source.source_id) == 0
    assert synced.indexed() == before


def test_the_ledger_tells_failures_of_spaces_apart(synced):
    """A document that failed is listed once, however many spaces it failed in."""
    make(synced, embedding_model="fake:other:16")
    with synced.store.catalog.engine.begin() as connection:
        connection.execute(sa.text("UPDATE ledger SET status = 'failed', error_kind = 'bug', error = 'x'"))
        connection.execute(sa.text("UPDATE kb_documents SET status = 'failed'"))
    rows = synced.store.documents.rows("k", status="failed")
    assert len({row["document_id"] for row in rows}) == 3
