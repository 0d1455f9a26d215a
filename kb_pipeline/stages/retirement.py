"""Which documents leave when a complete listing no longer names them, and which wait for a second word. Pure."""

from collections.abc import Container, Iterable, Set
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


def retirement(known: Iterable[str], seen: Container[str], waiting: Set[str], is_accepted: bool = False) -> Retirement:
    """Compare what is known of a source with what a complete listing names.

    What an earlier listing missed as well leaves. What is missed for the first time leaves too, unless the listing is
    suspicious: it misses everything that is left, or several documents at once that are more than a fifth of it.

    Args:
        known: documents of the source.
        waiting: those of them that an earlier listing missed.
        is_accepted: a person vouches for the listing.
    """
    confirmed: list[str] = []
    fresh: list[str] = []
    returned: list[str] = []
    left = 0  # of those that are known, but for the confirmed
    for unit in known:
        is_seen, is_waiting = unit in seen, unit in waiting
        if is_waiting:
            (returned if is_seen else confirmed).append(unit)
        elif not is_seen:
            fresh.append(unit)
        left += is_seen or not is_waiting
    is_suspicious = len(fresh) == left or (len(fresh) > 1 and len(fresh) > SUSPICIOUS_SHARE * left)
    if is_accepted or not is_suspicious:
        return Retirement(retired=[*confirmed, *fresh], waiting=[], returned=returned)
    return Retirement(retired=confirmed, waiting=fresh, returned=returned)
