"""Who leaves with a listing that no longer names them: one at once, many only when it is said twice."""

import pytest

from kb_pipeline.stages.retirement import retirement

TEN = list("abcdefghij")


@pytest.mark.parametrize(
    ("known", "seen", "waiting", "retired", "waits", "returned"),
    [
        (TEN, TEN, "", "", "", ""),
        (TEN, "abcdefghi", "", "j", "", ""),
        (TEN, "abcdefgh", "", "ij", "", ""),  # a fifth, not more
        (TEN, "abcdefg", "", "", "hij", ""),
        (TEN, "", "", "", TEN, ""),
        (TEN, "abcdefg", "hij", "hij", "", ""),
        (TEN, "abcdefgh", "hij", "ij", "", "h"),
        (TEN, "abc", "hij", "hij", "defg", ""),  # the second listing misses more: that is news again
        (TEN, "", "abcdefghij", TEN, "", ""),
        (TEN, TEN, "hij", "", "", "hij"),
        ("ab", "a", "", "b", "", ""),
        ("abc", "a", "", "", "bc", ""),
        ("a", "", "", "", "a", ""),  # an empty listing is always suspicious
        ("", "", "", "", "", ""),
        ("", "a", "", "", "", ""),
    ],
)
def test_verdicts(known, seen, waiting, retired, waits, returned):
    verdict = retirement(list(known), set(seen), set(waiting))
    assert (verdict.retired, verdict.waiting, verdict.returned) == (list(retired), list(waits), list(returned))


def test_a_person_can_vouch_for_a_listing():
    verdict = retirement(TEN, set("a"), set("j"), is_accepted=True)
    assert sorted(verdict.retired) == TEN[1:]
    assert not verdict.waiting
