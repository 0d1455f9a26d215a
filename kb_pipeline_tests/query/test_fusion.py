"""Fusion, merging, trust and similarity as pure functions of lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_pipeline.query.fusion import fuse, merge_dense, merge_equal, merge_sparse
from kb_pipeline.query.trust import split_by_trust
from kb_pipeline.storage.lance_read import Candidate

EN = frozenset({"en"})


def a_candidate(name: str, score: float = 1.0, language: str = "en", text: str = "") -> Candidate:
    return Candidate(
        chunk_id=name, kb_id="kb", document_id=f"d{name}", language=language, text_hash=text or name, score=score
    )


def ids(found: list) -> list[str]:
    return [getattr(each, "candidate", each).chunk_id for each in found]


def falling(names: str) -> list[Candidate]:
    return [a_candidate(name, 1 / rank) for rank, name in enumerate(names, start=1)]


def test_what_both_channels_find_goes_before_what_one_finds() -> None:
    fused = fuse({"dense": falling("abx"), "sparse": falling("ayc")}.items())
    assert ids(fused)[0] == "a"
    assert fused[0].ranks == {"dense": 1, "sparse": 1}


def test_a_channel_that_prefers_its_first_by_far_has_more_say() -> None:
    clear = [a_candidate("a", 30.0), a_candidate("b", 5.0), a_candidate("z", 1.0)]
    close = [a_candidate("b", 0.51), a_candidate("a", 0.50), a_candidate("y", 0.1)]
    assert ids(fuse({"sparse": clear, "dense": close}.items()))[:2] == ["a", "b"]


def test_one_channel_alone_keeps_its_order_and_what_fills_up_comes_last() -> None:
    fused = fuse({"sparse": falling("cab")}.items(), behind=falling("xby"))
    assert ids(fused) == ["c", "a", "b", "x", "y"]
    assert [each.score > 0 for each in fused] == [True, True, True, False, False]


@given(st.permutations("abcdef"), st.permutations("defghi"))
def test_every_candidate_comes_once_and_the_order_of_channels_is_no_matter(first: list, second: list) -> None:
    one, two = falling("".join(first)), falling("".join(second))
    fused = fuse({"dense": one, "sparse": two}.items())
    assert sorted(ids(fused)) == list("abcdefghi")
    assert ids(fused) == ids(fuse({"sparse": two, "dense": one}.items()))


def test_rankings_of_one_channel_meet_by_rank_whatever_their_scores() -> None:
    small, large = [a_candidate("a", 0.2), a_candidate("b", 0.1)], [a_candidate("c", 90), a_candidate("d", 80)]
    fused = fuse([("dense", small), ("dense", large), ("sparse", [a_candidate("c", 3)])])
    assert ids(fused) == ["c", "a", "b", "d"]
    assert [each.ranks for each in fused] == [{"dense": 1, "sparse": 1}, {"dense": 1}, {"dense": 2}, {"dense": 2}]


def test_tables_of_one_space_merge_by_cosine() -> None:
    assert ids(merge_dense([[a_candidate("a", 0.9), a_candidate("b", 0.2)], [a_candidate("c", 0.5)]])) == [
        "a",
        "c",
        "b",
    ]


def test_an_exact_match_in_a_tiny_table_is_not_drowned_by_a_big_one() -> None:
    tiny, big = [a_candidate("exact", 0.3)], [a_candidate("vague", 12.0), a_candidate("vaguer", 6.0)]
    assert ids(merge_sparse([(0.4, big), (1.0, tiny)])) == ["exact", "vague", "vaguer"]


def test_equal_texts_become_one_at_the_better_place() -> None:
    ranked = fuse([("sparse", [a_candidate("a", 3, text="t"), a_candidate("b", 2), a_candidate("c", 1, text="t")])])
    merged = merge_equal(ranked)
    assert ids(merged) == ["a", "b"]
    assert ids(list(merged[0].also_in)) == ["c"]


@pytest.mark.parametrize(
    ("text", "language", "witness", "spoken", "trusted"),
    [
        ("what is the tide", "en", "en", EN, True),
        ("¿qué es la marea?", "es", "es", EN, False),
        ("geese OR ducks", "nl", "en", EN, True),  # a short query taken for another language
        ("梅雨とは", "ja", "ja", EN, False),
        ("梅", "", "ja", EN, False),
        ("308", "", "en", EN, True),
        ("梅雨とは", "ja", "ja", None, True),
    ],
)
def test_dense_is_trusted_where_the_model_speaks_the_language(
    text: str, language: str, witness: str, spoken: frozenset[str] | None, trusted: bool
) -> None:
    dense, sparse = [a_candidate("a", language=""), a_candidate("b", language="")], [a_candidate("c", language=witness)]
    kept, behind = split_by_trust(text, language, dense, sparse, spoken)
    assert (ids(kept), ids(behind)) == ((["a", "b"], []) if trusted else ([], ["a", "b"]))


def test_passages_in_an_unspoken_language_only_fill_up() -> None:
    dense = [a_candidate("a", language="es"), a_candidate("b", language="en"), a_candidate("c", language="")]
    kept, behind = split_by_trust("the tide", "en", dense, [], EN)
    assert (ids(kept), ids(behind)) == (["b", "c"], ["a"])


def test_a_passage_that_only_one_channel_can_judge_is_not_held_back_by_the_other():
    channels = {"dense": falling("xyz"), "sparse": falling("axyz")}
    assert ids(fuse(channels.items()))[0] == "x"
    assert ids(fuse(channels.items(), unjudged={"a"}))[0] == "a"
