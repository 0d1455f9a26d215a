"""Which documents leave when a complete listing no longer names them, and which wait for a second word. Pure."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

SUSPICIOUS_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The verdict on a listing.

    Attributes:
        retired: leave now.
        waiting: stay until another listing misses them too, or a person says so.
        returned: were waiting and are named again.
    """

    retired: list[str]
    waiting: list[str]
    returned: list[str]


def retirement(known: Sequence[str], seen: Set[str], waiting: Set[str], is_accepted: bool = False) -> Retirement:
    """Compare what is known of a source with what a complete listing names.

    What an earlier listing missed as well leaves. What is missed for the first time leaves too, unless the listing is
    suspicious: it misses everything that is left, or several documents at once that are more than a fifth of it.

    Args:
        known: documents of the source.
        waiting: those of them that an earlier listing missed.
        is_accepted: a person vouches for the listing.
    """
    missed = [unit for unit in known if unit not in seen]
    confirmed = [unit for unit in missed if unit in waiting]
    fresh = [unit for unit in missed if unit not in waiting]
    left = len(known) - len(confirmed)
    is_suspicious = len(fresh) == left or (len(fresh) > 1 and len(fresh) > SUSPICIOUS_SHARE * left)
    returned = [unit for unit in known if unit in seen and unit in waiting]
    if is_accepted or not is_suspicious:
        return Retirement(retired=[*confirmed, *fresh], waiting=[], returned=returned)
    return Retirement(retired=confirmed, waiting=fresh, returned=returned)
