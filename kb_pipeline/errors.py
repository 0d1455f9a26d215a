"""Every failure the product can name, as one hierarchy; mapping from HTTP or libraries happens where they are called.

KbError
├── UsageError      the person asked for something that cannot be: exit code 2
├── NotVisible      unknown, or not the caller's: the two are never told apart
├── SystemicError   goes on failing whatever the unit (full disk, schema, catalog): the run stops at once
└── UnitFailure     one item, document or listing could not be done; the rest goes on
    ├── Transient       time-out, 408, 429, 5xx: tried again at the next sync
    │   ├── Gone        404, 410: not there now; heard twice, a page's document is archived
    │   └── Lost        our own stored copy is missing or damaged; fetched again at the next sync
    ├── Blocked         robots.txt, 403, bot wall, private address
    ├── Unsupported     a type we do not read, or nothing in it to read
    ├── Corrupt         damaged bytes
    ├── TooLarge        over a cap on size, pages, time or memory
    ├── AuthFailed      credentials missing or refused; also a password-protected file
    ├── OverBudget      money cap reached
    └── Bug             our own fault: an unexpected exception while working on this unit
"""

from typing import ClassVar, Literal

ErrorKind = Literal["transient", "blocked", "unsupported", "corrupt", "too_large", "auth", "budget", "bug"]
RETRIED_KINDS: frozenset[str] = frozenset({"transient", "blocked", "auth", "budget", "bug"})
"""Kinds tried again at the next sync; the others wait until their bytes or settings change."""


class KbError(Exception):
    """Base of all named failures. The message is one clear sentence for a person."""


class UsageError(KbError):
    """A command or call that cannot be carried out as asked."""


class NotVisible(KbError):
    """The thing named does not exist for this caller."""


class SystemicError(KbError):
    """A failure that every further unit would meet as well."""


class UnitFailure(KbError):
    """One unit could not be done: `kind` for machines, the message for people."""

    kind: ClassVar[ErrorKind]


class Transient(UnitFailure):
    """Likely to pass by itself.

    Args:
        retry_after_s: the wait the service itself asked for, in seconds, if it did.
    """

    kind = "transient"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Gone(Transient):
    """The address answered that nothing is there."""


class Lost(Transient):
    """What we had stored is missing or damaged."""


class Blocked(UnitFailure):
    kind = "blocked"


class Unsupported(UnitFailure):
    kind = "unsupported"


class Corrupt(UnitFailure):
    kind = "corrupt"


class TooLarge(UnitFailure):
    kind = "too_large"


class AuthFailed(UnitFailure):
    kind = "auth"


class OverBudget(UnitFailure):
    kind = "budget"


class Bug(UnitFailure):
    kind = "bug"


BY_KIND: dict[str, type[UnitFailure]] = {
    failure.kind: failure
    for failure in (Transient, Blocked, Unsupported, Corrupt, TooLarge, AuthFailed, OverBudget, Bug)
}
