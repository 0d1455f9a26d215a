"""A search from end to end over a home filled by hand: who sees what, what any string does, notes, events."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kb_pipeline.errors import NotVisible, SystemicError, UsageError
from kb_pipeline.query import OPERATOR, Caller, Query
from kb_pipeline.settings import Settings
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_read import open_reads
from kb_pipeline.storage.tables import kb_spaces, retrieval_events
from kb_pipeline.testing.embedder import HashingEmbedder
from kb_pipeline_tests.query.homes import Home, titles

U1, U9 = Caller(user_id="u1", client_id="acme"), Caller(user_id="u9", client_id="other")
FACTS = {
    "tides": "The tide at the harbour turns twice a day, and the pilots wait for slack water.",
    "lamps": "Lamp trimmers are paid an overtime rate of 19.75 for work after ten at night.",
    "parts": "Replacement hinge QX-77B/Rv2 fits every locker; written in C++ by the night desk.",
}


@pytest.fixture
def home(settings: Settings) -> Home:
    return Home(settings)


@pytest.fixture
def query(home: Home) -> Iterator[Query]:
    home.put(home.knowledge_base("facts"), FACTS)
    with home.open() as opened:
        yield opened


def events(home: Home) -> list[dict]:
    with home.catalog.engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.select(retrieval_events)).mappings()]


def test_a_hit_carries_its_citation(query: Query) -> None:
    result = query.search("overtime rate for lamp trimmers", top_k=2)
    first, source = result.hits[0], result.sources[0]
    assert (first.document_title, first.rank, source.number, source.kbName) == ("lamps", 1, 1, "facts")
    assert first.chunk_text == source.text == FACTS["lamps"][first.start_char : first.end_char]
    assert [hit.rank for hit in result.hits] == [source.number for source in result.sources] == [1, 2]
    assert first.similarity == source.relevanceScore > 0.5 > result.hits[1].similarity


def test_the_json_has_every_promised_key(query: Query) -> None:
    shape = json.loads(json.dumps(query.search("tide").to_json()))
    assert shape.keys() >= {"query", "event_id", "hits", "sources", "notes"}
    assert shape["hits"][0].keys() >= {
        "rank", "kb_id", "document_id", "document_title", "chunk_idx", "chunk_text", "similarity", "url", "source",
        "start_char", "end_char", "page", "start_seconds",
    }  # fmt: skip
    assert shape["sources"][0].keys() >= {"number", "kbName", "source", "relevanceScore", "text"}


@pytest.mark.parametrize("modes", [("sparse",), ("dense", "sparse")])
@pytest.mark.parametrize("identifier", ["QX-77B/Rv2", "C++", '"QX-77B"', "hinge^2"])
def test_identifiers_are_found_and_pass_a_gate(query: Query, identifier: str, modes: tuple) -> None:
    result = query.search(identifier, modes=modes)
    assert titles(result)[0] == "parts"
    if "^" not in identifier:
        assert result.hits[0].similarity >= 0.8


ODD = [
    "AND OR NOT", '"', "((a)", "*", "~", "%", "\\", "'; DROP TABLE documents; --", "🔔", "a" * 10_000, "word " * 2_000,
    "nul\x00inside", "lone \ud800 surrogate", "NEAR(a b)", "{0}", "-",
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_any_string_is_a_query(query: Query, odd: str) -> None:
    for modes in (("dense",), ("sparse",), ("dense", "sparse")):
        query.search(odd, modes=modes)


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(), min_size=1, max_size=80))
def test_no_text_breaks_a_search_or_its_json(query: Query, text: str) -> None:
    json.dumps(query.search(text).to_json(), ensure_ascii=False).encode()


def test_an_empty_query_is_refused_and_a_blank_one_finds_nothing(query: Query) -> None:
    with pytest.raises(UsageError, match="query '' is empty"):
        query.search("")
    for blank in ("   ", "\u200b"):
        result = query.search(blank)
        assert (result.hits, len(result.notes)) == ((), 1)


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"top_k": 10_000}, {"modes": ()}, {"modes": ("words",)}])
def test_a_wrong_call_is_refused(query: Query, wrong: dict) -> None:
    with pytest.raises(UsageError):
        query.search("tide", **wrong)


def test_a_caller_sees_own_account_and_public_only(home: Home) -> None:
    home.put(home.knowledge_base("own", "user", owner="u1"), {"own": "marker of the user"})
    home.put(home.knowledge_base("team", "account", client="acme"), {"team": "marker of the account"})
    home.put(home.knowledge_base("all"), {"all": "marker of everyone"})
    home.put(home.knowledge_base("foreign", "user", owner="u9"), {"foreign": "marker of another user"})
    home.put(home.knowledge_base("rival", "account", client="other"), {"rival": "marker of another account"})
    with home.open() as query:
        for modes in (("dense",), ("sparse",), ("dense", "sparse")):
            seen = {
                who: set(titles(query.search("marker", caller=who, top_k=50, modes=modes)))
                for who in (U1, U9, Caller(), OPERATOR)
            }
            assert seen[U1] == {"own", "team", "all"}
            assert seen[U9] == {"foreign", "rival", "all"}
            assert seen[Caller()] == {"all"}
            assert seen[OPERATOR] == {"own", "team", "all", "foreign", "rival"}


def test_foreign_and_unknown_bases_get_the_same_answer(home: Home) -> None:
    home.put(home.knowledge_base("secret", "user", owner="u1"), {"secret": "marker"})
    home.put(home.knowledge_base("open", "account", client="other"), {"open": "marker"})
    with home.open() as query:
        for name in ("secret", "no-such-kb", "a' OR '1'='1", ["open", "secret"], "%", "*"):
            with pytest.raises(NotVisible) as caught:
                query.search("marker", caller=U9, kb_id=name)
            asked = name[1] if isinstance(name, list) else name
            assert str(caught.value) == f"There is no knowledge base {asked!r} that you may search."
        assert titles(query.search("marker", caller=U9, kb_id="")) == ["open"]


def test_answers_do_not_depend_on_what_others_hold(home: Home) -> None:
    home.put(home.knowledge_base("mine", "user", owner="u1"), FACTS)
    with home.open() as query:
        before = query.search("tide at night", caller=U1)
        crowd = {f"t{i}": f"tide and night, number {i}" for i in range(30)}
        home.put(home.knowledge_base("theirs", "user", owner="u9"), crowd)
        after = query.search("tide at night", caller=U1)
    assert (before.hits, before.sources) == (after.hits, after.sources)


def test_a_base_is_given_by_name_or_id_or_several(home: Home) -> None:
    one, two = home.knowledge_base("Kb One"), home.knowledge_base("Kb Two")
    home.put(one, {"first": "the marker"})
    home.put(two, {"second": "the marker, again"})
    with home.open() as query:
        assert (
            titles(query.search("marker", kb_id="Kb One"))
            == titles(query.search("marker", kb_id=one.kb_id))
            == ["first"]
        )
        assert set(titles(query.search("marker", kb_id=["Kb One", two.kb_id]))) == {"first", "second"}


def test_equal_passages_are_shown_once_with_all_their_places(home: Home) -> None:
    home.put(
        home.knowledge_base("facts"), {"a": "the same marker text", "b": "the same marker text", "c": "another marker"}
    )
    with home.open() as query:
        result = query.search("same marker text")
    assert len(result.hits) == 2
    first = result.hits[0]
    assert {first.document_title, *(place.document_title for place in first.also_in)} == {"a", "b"}


def test_an_archived_document_is_gone_at_once(home: Home, query: Query) -> None:
    hit = query.search("overtime rate for lamp trimmers").hits[0]
    home.documents.archive([hit.document_id], run_id="")
    for modes in (("dense",), ("sparse",), ("dense", "sparse")):
        assert "lamps" not in titles(query.search("overtime rate for lamp trimmers", top_k=50, modes=modes))


def test_new_rows_are_seen_by_an_open_query(home: Home, query: Query) -> None:
    assert "fresh" not in titles(query.search("marlinspike"))
    home.put(home.catalog.knowledge_base("facts"), {"fresh": "a marlinspike splices rope"})
    assert titles(query.search("marlinspike"))[0] == "fresh"


def test_bases_of_several_models_are_each_searched_by_their_own_and_only_ranks_meet(home: Home) -> None:
    home.put(home.knowledge_base("old"), {"old": "a marlinspike splices rope"}, HashingEmbedder("fake-old", 64))
    home.put(home.knowledge_base("new"), {"new": "the marlinspike is new", "far": "the tide turns"})
    with home.open() as query:
        result = query.search("marlinspike splices", modes=("dense",))
        assert result.notes == ()
        assert {hit.document_title: hit.ranks for hit in result.hits} == {
            "old": {"dense": 1}, "new": {"dense": 1}, "far": {"dense": 2}
        }  # fmt: skip
        assert titles(result)[-1] == "far"
        assert titles(query.search("splices rope"))[0] == "old"


def known(home: Home, model: str) -> HashingEmbedder:
    """The embedder of a name. Raises: SystemicError: there is none."""
    found = home.embedders.get(model)
    if found is None:
        raise SystemicError("It is not on this machine.")
    return found


def test_bases_that_know_a_model_by_two_names_are_searched_together(home: Home) -> None:
    home.put(home.knowledge_base("one"), {"old": "a marlinspike splices rope"})
    home.put(home.knowledge_base("two"), {"new": "the marlinspike is new"})
    with home.catalog.engine.begin() as connection:
        connection.execute(kb_spaces.update().where(kb_spaces.c.kb_id == "one").values(embedding_model="a-moved-name"))
    with Query(home.settings, lambda: open_reads(home.settings), partial(known, home)) as query:
        for modes in (("sparse",), ("dense",), None):
            assert set(titles(query.search("marlinspike", modes=modes))) == {"old", "new"}


def test_a_base_in_which_nothing_was_indexed_is_named(home: Home) -> None:
    home.knowledge_base("empty")
    home.put(home.knowledge_base("facts"), {"new": "the marlinspike is new"})
    with home.open() as query:
        assert query.search("marlinspike").notes == ("Nothing is indexed yet in empty; `kb sync` does it.",)


def test_many_at_once_who_first_meet_a_model_wait_for_it_once(home: Home) -> None:
    home.put(home.knowledge_base("old"), {"old": "a marlinspike splices rope"}, HashingEmbedder("fake-old", 64))
    opened = []

    def slowly(model: str) -> HashingEmbedder:
        opened.append(model)
        time.sleep(0.3)
        return known(home, model)

    with Query(home.settings, lambda: open_reads(home.settings), slowly) as query, ThreadPoolExecutor(32) as pool:
        found = list(pool.map(lambda _: query.search("marlinspike splices", kb_id="old"), range(64)))
    assert all(titles(result) == ["old"] for result in found)
    assert opened.count("fake:fake-old:64") == 1
    assert home.embedders["fake:fake-old:64"].queries_embedded == 1


def test_passages_whose_model_is_not_here_are_searched_by_words_and_said_so(home: Home) -> None:
    home.put(home.knowledge_base("facts"), {"old": "a marlinspike splices rope"}, HashingEmbedder("fake-old", 32))
    home.put(home.knowledge_base("others"), {"new": "the marlinspike is new"})
    for gone in (HashingEmbedder("fake-old", 16), None):  # another version of it; none at all
        home.embedders["fake:fake-old:32"] = gone

        with Query(home.settings, lambda: open_reads(home.settings), partial(known, home)) as query:
            result = query.search("splices")
            (old,) = (hit for hit in result.hits if hit.document_title == "old")
            assert old.scores.keys() == {"bm25", "rrf"}
            (note,) = result.notes
            assert all(word in note for word in ("fake-old", "cannot be used here", "kb sync", "facts"))
            assert {hit.document_title for hit in query.search("splices", modes=("dense",)).hits} == {"new"}


GERMAN = {
    "schlau": "Die Schläuche der Feuerwehr werden nach jedem Einsatz gewaschen und im Turm zum Trocknen aufgehängt.",
    "leiter": "Die Leiter wird jedes Jahr geprüft, und die Prüfung wird mit Datum in das Buch der Wache eingetragen.",
}


@pytest.mark.parametrize(
    ("question", "spoken", "noted"),
    [
        ("wann werden die Schläuche der Feuerwehr gewaschen", {"en"}, True),
        ("how often are the hoses of the fire brigade washed", {"en"}, True),
        ("wann werden die Schläuche der Feuerwehr gewaschen", {"en", "de"}, False),
        ("wann werden die Schläuche der Feuerwehr gewaschen", None, False),
    ],
)
def test_a_language_the_model_does_not_speak_is_said(
    home: Home, question: str, spoken: set[str] | None, noted: bool
) -> None:
    home.put(home.knowledge_base("wache"), GERMAN)
    home.embedder.languages = None if spoken is None else frozenset(spoken)
    with home.open() as query:
        notes = query.search(question).notes
        assert len(notes) == noted
        assert all(
            "fake:test:32 does not speak German: passages in it were searched by their words" in n for n in notes
        )
        assert query.search(question, modes=("sparse",)).notes == ()
        assert ["ranked by a model" in n for n in query.search(question, modes=("dense",)).notes] == [True] * noted


def test_an_english_answer_is_not_bothered_with_other_languages(home: Home) -> None:
    home.put(home.knowledge_base("facts"), {**FACTS, **GERMAN})
    home.embedder.languages = frozenset({"en"})
    with home.open() as query:
        assert query.search("overtime rate for lamp trimmers", top_k=5).notes == ()


def test_a_caller_who_sees_nothing_is_told_so(home: Home) -> None:
    home.put(home.knowledge_base("mine", "user", owner="u1"), FACTS)
    with home.open() as query:
        result = query.search("tide", caller=U9)
        assert (result.hits, result.notes) == ((), ("No knowledge base is visible to this caller.",))


def test_a_failing_channel_is_skipped_and_noted(home: Home, settings: Settings) -> None:
    home.put(home.knowledge_base("facts"), FACTS)

    def no_model(model: str) -> HashingEmbedder:
        raise SystemicError("The model is not on this machine.")

    with Query(settings, lambda: Catalog.open(settings), no_model) as query:
        result = query.search("tide")
        assert titles(result)[0] == "tides"
        assert result.notes == ("The dense channel was skipped: The model is not on this machine.",)
        with pytest.raises(SystemicError, match="not on this machine"):
            query.search("tide", modes=("dense",))


def test_an_event_explains_the_search_and_holds_no_names(home: Home, settings: Settings) -> None:
    home.put(home.knowledge_base("facts"), FACTS)
    with home.open() as query:
        result = query.search("tide", caller=U1)
    (event,) = events(home)
    assert (event["event_id"], event["query"], event["top_k"], event["kb_ids"]) == (
        result.event_id,
        "tide",
        5,
        ["facts"],
    )
    assert [each["chunk_id"] for each in event["detail"]["injected"]] == [hit.chunk_id for hit in result.hits]
    assert event["detail"]["versions"]
    assert "u1" not in json.dumps(event["detail"])
    assert event["caller_hash"] == U1.hash != U9.hash


def test_an_event_that_cannot_be_written_harms_no_search(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.put(home.knowledge_base("facts"), FACTS)
    with home.open() as query:
        with home.catalog.engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE retrieval_events"))
        assert titles(query.search("tide"))[0] == "tides"
    assert "was not recorded" in caplog.text


def test_a_query_is_embedded_once(home: Home, query: Query) -> None:
    for _ in range(3):
        query.search("the same question")
    assert home.embedder.queries_embedded == 1


def test_explain_tells_channels_and_ranks(query: Query) -> None:
    explanation = query.search("tide", explain=True).explanation
    assert explanation is not None
    assert explanation["channels"].keys() == {"dense", "sparse"}
    assert query.search("tide").explanation is None


def test_hybrid_can_be_switched_off(home: Home) -> None:
    home.settings = home.settings.model_copy(update={"hybrid_search_enabled": False})
    home.put(home.knowledge_base("facts"), FACTS)
    with home.open() as query:
        assert all("sparse" not in hit.ranks for hit in query.search("tide").hits)


def test_the_agent_tool_answers_with_a_json_list(home: Home) -> None:
    home.put(home.knowledge_base("mine", "user", owner="u1"), FACTS)
    with home.open() as query:
        found = json.loads(query.tool(U1)("overtime rate", top_k=1))
        assert found[0].keys() >= {"document_title", "chunk_text", "similarity", "document_id", "chunk_idx"}
        assert found[0]["document_title"] == "lamps"
        assert json.loads(query.tool(U9)("overtime rate")) == []


def test_importing_the_read_side_is_light() -> None:
    heavy = (
        "('numpy', 'pyarrow', 'torch', 'pandas', 'lance', 'lancedb', 'dagster', 'sqlalchemy', 'pydantic', 'fasttext')"
    )
    code = f"import sys, kb_pipeline.query; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
