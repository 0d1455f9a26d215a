"""When a unit of work is due, when a failed one is tried again, and what a person can do about it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kb_pipeline import ids
from kb_pipeline.errors import RETRIED_KINDS, UnitFailure

MAX_ATTEMPTS = 8
"""After so many failures in a row a unit is in quarantine: only `kb retry`, new bytes or other settings take it out."""
_FIRST_WAIT = timedelta(minutes=5)
_LONGEST_WAIT = timedelta(days=1)

_ADVICE = {
    "blocked": "the source refuses us: see whether it may be read at all",
    "unsupported": "give it text, in a type that is read; it is read again when its bytes change",
    "corrupt": "mend or replace it; it is read again when its bytes change",
    "too_large": "raise the limit that the reason names, then `kb retry`",
    "auth": "give the login or remove the password, then `kb retry`",
    "budget": "raise the budget, or wait for the next month",
    "bug": "the run's log has it whole; please report it",
}
"""Beside the reason, which is the unit's own, what helps by kind."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a stage makes its output; a unit that was done in another way is stale.

    Attributes:
        whole: hash of code version and of the settings that shape the output.
        capped: the same with the caps: under it stands what was refused for one, so that other caps make it due again
            and nothing else.
    """

    whole: str
    capped: str

    @classmethod
    def of(cls, whole: str, *caps: object) -> "Recipe":
        """A recipe with its caps, if it has any."""
        return cls(whole, ids.sha256_hex(whole, *map(str, caps)) if caps else whole)

    def under(self, failure: UnitFailure | None) -> str:
        """Under which of the two an outcome stands."""
        return self.capped if failure and failure.kind == "too_large" else self.whole


def is_due(row: Mapping[str, Any] | None, input_hash: str, recipe: Recipe, now: datetime) -> bool:
    """Whether a stage has to do a unit; `Ledger.needing` is the same as SQL.

    Args:
        row: the unit's row of the ledger, if it was ever done.
    """
    if row is None or row["input_hash"] != input_hash or row["recipe"] not in (recipe.whole, recipe.capped):
        return True
    due_at: datetime | None = row["next_try_at"]
    return due_at is not None and due_at <= now


def next_try(failure: UnitFailure, attempts: int, now: datetime) -> datetime | None:
    """When a unit that failed for the n-th time in a row is due again; None where trying by itself is over.

    The first time at the next sync, whenever that is; then after 5 minutes, doubled up to a day, and never before the
    service itself asked to be asked again. What waits for money is due as soon as there is some.
    """
    if failure.kind == "budget":
        return now
    if failure.kind not in RETRIED_KINDS or attempts >= MAX_ATTEMPTS:
        return None
    wait = timedelta(0) if attempts <= 1 else min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempts - 2))
    asked = timedelta(seconds=getattr(failure, "retry_after_s", None) or 0)
    return now + max(wait, asked)


def next_step(kind: str, attempts: int, next_try_at: datetime | None, now: datetime) -> str:
    """One phrase: when it is tried again by itself, or what a person can do."""
    advice = _ADVICE.get(kind, "")
    if kind not in RETRIED_KINDS or kind == "budget":
        return advice
    if next_try_at is None:
        again = f"given up after {attempts} attempts: `kb retry` tries it again"
    elif next_try_at <= now:
        again = "tried again at the next sync"
    else:
        again = f"tried again after {next_try_at:%Y-%m-%d %H:%M} UTC"
    return f"{advice}; {again}" if advice else again
