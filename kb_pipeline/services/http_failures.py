"""What an HTTP exchange failed of: status codes, broken connections and bad bodies as typed failures."""

import email.utils
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import httpcore
import httpx

from kb_pipeline.errors import AuthFailed, Blocked, Gone, Transient
from kb_pipeline.urls import shown

LONGEST_RETRY_AFTER_S = 20.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_RETRIED = {408, 425, 429, 500, 502, 503, 504}


class TryAgain(Exception):
    """Wraps a failure that the retry layer may try again at once."""

    def __init__(self, failure: Transient) -> None:
        super().__init__(str(failure))
        self.failure = failure


@contextmanager
def named_failures(asked: str, here: str) -> Iterator[None]:
    """Gives every failure below the address it belongs to."""
    name = f"the address {shown(asked)}" + ("" if asked == here else f" (redirected to {shown(here)})")
    try:
        yield
    except (httpx.ConnectError, httpcore.ConnectError) as error:
        raise TryAgain(Transient(f"{name} could not be connected to: {error}")) from error
    except (httpx.TimeoutException, httpcore.TimeoutException) as error:
        raise Transient(f"{name} did not answer completely in time; it is tried again at the next sync") from error
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
        raise Blocked(f"{name} is not a valid web address") from error
    except (httpx.TransportError, httpcore.ProtocolError, httpcore.NetworkError) as error:
        raise TryAgain(Transient(f"{name} broke off its answer: {error}")) from error
    except (Blocked, Transient) as error:
        if str(error).startswith("the address"):
            raise
        raise type(error)(f"{name} was not read: {error}") from error


def raise_for_status(status: int, headers: Mapping[str, str], asked: str, here: str, is_conditional: bool) -> None:
    """Raise what a status other than success (or an expected 304) means; `asked` led to `here`."""
    if 200 <= status < 300 or (status == 304 and is_conditional):
        return
    name = f"the address {shown(asked)}" + ("" if asked == here else f" (redirected to {shown(here)})")
    if status in (404, 410):
        raise Gone(f"{name} answered {status}: nothing is there" + (" any more" if status == 410 else ""))
    if status in (401, 407):
        raise AuthFailed(f"{name} answered {status}: it wants a login, which is not configured")
    if status in _RETRIED:
        wait = _retry_after_s(headers.get("retry-after", ""))
        failure = Transient(f"{name} answered {status}: the server cannot serve it now", wait)
        if wait is not None and wait > LONGEST_RETRY_AFTER_S:
            raise failure
        raise TryAgain(failure)
    if status >= 500:
        raise Transient(f"{name} answered {status}: the server failed")
    if status in REDIRECTS:
        raise Blocked(f"{name} answered {status} without saying where to")
    reason = {403: "access is forbidden", 402: "it wants to be paid", 451: "it is withheld for legal reasons"}
    raise Blocked(f"{name} answered {status}: {reason.get(status, 'the server refuses the request')}")


def _retry_after_s(value: str) -> float | None:
    """Seconds asked for by a Retry-After header, in either of its forms."""
    if value.strip().isdigit():
        return float(value)
    try:
        until = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
