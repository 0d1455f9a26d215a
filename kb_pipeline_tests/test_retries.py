"""When a failed unit is due again, and what a person is told about it."""

from datetime import UTC, datetime, timedelta

import pytest

from kb_pipeline.errors import BY_KIND, Corrupt, OverBudget, Transient
from kb_pipeline.retries import MAX_ATTEMPTS, next_step, next_try

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_waits_grow_to_a_day_and_end_in_quarantine():
    waits = [next_try(Transient("x"), attempts, NOW) for attempts in range(1, MAX_ATTEMPTS + 1)]
    assert [wait and (wait - NOW) / timedelta(minutes=1) for wait in waits] == [0, 5, 10, 20, 40, 80, 160, None]
    assert next_try(Transient("x"), 3, NOW + timedelta(days=9)) == NOW + timedelta(days=9, minutes=10)


def test_a_service_is_not_asked_before_it_wants_to_be():
    assert next_try(Transient("x", 3600), 1, NOW) == NOW + timedelta(hours=1)
    assert next_try(Transient("x", 1), 3, NOW) == NOW + timedelta(minutes=10)


def test_what_waits_for_bytes_is_never_tried_by_itself_and_what_waits_for_money_always():
    assert next_try(Corrupt("x"), 1, NOW) is None
    assert next_try(OverBudget("x"), 99, NOW) == NOW


@pytest.mark.parametrize("kind", sorted(BY_KIND))
def test_every_kind_has_a_next_step(kind):
    assert next_step(kind, 1, None, NOW)
    assert next_step(kind, 1, NOW, NOW)


def test_a_person_is_told_when():
    assert next_step("transient", 2, NOW + timedelta(minutes=5), NOW) == "tried again after 2026-11-30 12:05 UTC"
    assert "given up after 8 attempts" in next_step("transient", 8, None, NOW)
