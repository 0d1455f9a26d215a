"""Texts of a long stream are told from each other, wherever in the stream they stand."""

import hypothesis
from hypothesis import strategies as st

from kb_pipeline.first_met import FirstMet


@hypothesis.given(st.lists(st.text(max_size=3), max_size=50))
def test_each_text_keeps_the_number_it_came_with_first(texts):
    met, expected = FirstMet(), {}
    for number, text in enumerate(texts):
        assert met.add(text, number) == expected.setdefault(text, number)
    assert all(text in met for text in texts)


def test_what_was_sorted_in_is_found_and_nothing_else_is():
    met = FirstMet()
    met.update(f"d{number:024x}" for number in range(20_000))
    assert all(f"d{number:024x}" in met for number in range(20_000))
    assert not any(f"d{number:024x}" in met for number in range(20_000, 30_000))
    assert met.add("d" + "0" * 24, 7) == 0
    assert 5 not in met
