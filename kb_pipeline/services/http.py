"""The one HTTP client: guarded, capped, polite, retried. What an address may be is decided in `address`."""

import random
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from urllib.parse import urljoin

import httpcore
import httpx
import tenacity

from kb_pipeline.errors import Blocked, TooLarge, UnitFailure
from kb_pipeline.records import HttpResponse
from kb_pipeline.services.address import AllowList, GuardedBackend, parse_routes
from kb_pipeline.services.http_body import expanded
from kb_pipeline.services.http_failures import REDIRECTS, TryAgain, named_failures, raise_for_status
from kb_pipeline.services.robots import MAX_BYTES as ROBOTS_MAX_BYTES
from kb_pipeline.services.robots import Robots
from kb_pipeline.settings import Settings
from kb_pipeline.urls import ascii_host, shown, split_web_address

MAX_REDIRECTS = 5
ATTEMPTS = 3
_PERMANENT = {301, 308}
_FILE_TYPES = re.compile(
    r"(image|audio|video|font)/|application/(?!(xhtml|xml|json|rss|atom|rdf|javascript)\b|.*\+(xml|json))"
)
_SENT_ONLY_HOME = {"authorization", "cookie", "x-api-key"}


@dataclass(frozen=True, slots=True)
class _Limits:
    max_file_bytes: int
    max_page_bytes: int
    cuts_instead_of_failing: bool = False

    def of(self, content_type: str) -> int:
        """The largest body of this declared type, in bytes: what could be a page counts as one."""
        is_file = _FILE_TYPES.match(content_type.strip().lower())
        return self.max_file_bytes if is_file else min(self.max_page_bytes, self.max_file_bytes)


class HttpClient:
    """Fetches by GET under the rules of `connectors.base.Http`; safe to share between threads.

    Args:
        clock: monotonic seconds, for politeness and caches (a request's deadline is always real time).
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._backend = GuardedBackend(AllowList.parse(settings.http_allow), parse_routes(settings.http_route))
        self._transport = _transport(self._backend)
        self._robots = Robots(self._read_robots, settings.http_user_agent, clock)
        self._next_turn: dict[str, float] = {}
        self._lock = Lock()

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """The finished answer to a GET, after redirects.

        Raises: UnitFailure: typed by cause; the message names the address without its secrets.
        """
        limits = _Limits(self._settings.http_max_bytes, self._settings.http_max_page_bytes)
        return self._retried(lambda: self._follow(url, headers or {}, limits, is_robots=False))

    def close(self) -> None:
        """Closes idle connections; the client can still be used."""
        self._transport.close()

    def _read_robots(self, url: str) -> bytes:
        limits = _Limits(ROBOTS_MAX_BYTES, ROBOTS_MAX_BYTES, cuts_instead_of_failing=True)
        return self._retried(lambda: self._follow(url, {}, limits, is_robots=True)).content

    def _retried(self, request: Callable[[], HttpResponse]) -> HttpResponse:
        """Retry layer: only failures that a moment may cure, honouring the wait that the server asked for."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TryAgain),
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=_wait_s,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(request)
        except TryAgain as error:
            raise error.failure from error.__cause__

    def _follow(self, url: str, headers: Mapping[str, str], limits: _Limits, is_robots: bool) -> HttpResponse:
        self._backend.deadline.start(self._settings.http_timeout_s)
        seen: set[str] = set()
        here, is_permanent, sent = url, True, dict(headers)
        while True:
            origin = _origin(here, url)
            if here in seen:
                raise Blocked(f"the address {shown(url)} redirects in a circle (at {shown(here)})")
            if len(seen) > MAX_REDIRECTS:
                raise Blocked(f"the address {shown(url)} redirects more than {MAX_REDIRECTS} times")
            seen.add(here)
            if not is_robots:
                self._await_turn(origin, self._robots_delay(here, origin))
            answer = self._exchange(here, url, sent, limits)
            if answer.status not in REDIRECTS:
                moved = here if len(seen) > 1 and is_permanent else None
                return replace(answer, moved_to=moved) if moved else answer
            is_permanent = is_permanent and answer.status in _PERMANENT
            target = urljoin(here, answer.headers["location"]).partition("#")[0]
            if _origin(target, url) != origin:
                sent = {name: value for name, value in sent.items() if name.lower() not in _SENT_ONLY_HOME}
            here = target

    def _robots_delay(self, here: str, origin: str) -> float:
        """robots.txt and the waits below take none of the request's own time."""
        delay = self._robots.check(here, origin)
        self._backend.deadline.start(self._settings.http_timeout_s)
        return delay

    def _await_turn(self, origin: str, crawl_delay_s: float) -> None:
        interval = max(self._settings.http_host_interval_s, crawl_delay_s)
        with self._lock:
            now = self._clock()
            turn = max(now, self._next_turn.get(origin, now))
            self._next_turn[origin] = turn + interval
            if len(self._next_turn) > 10_000:
                self._next_turn = {host: at for host, at in self._next_turn.items() if at > now}
        if turn > now:
            self._sleep(turn - now)
            self._backend.deadline.start(self._settings.http_timeout_s)

    def _exchange(self, here: str, asked: str, headers: Mapping[str, str], limits: _Limits) -> HttpResponse:
        """One request and its whole answer; a redirect comes back with its `location` header."""
        with named_failures(asked, here):
            request = httpx.Request("GET", here, headers={**self._own_headers(), **headers})
            timeout = self._settings.http_timeout_s
            request.extensions["timeout"] = {"connect": timeout, "read": timeout, "write": timeout, "pool": timeout}
            response = self._transport.handle_request(request)
            try:
                found = {name.lower(): value for name, value in response.headers.items()}
                if response.status_code in REDIRECTS and found.get("location"):
                    return HttpResponse(
                        status=response.status_code, url=here, moved_to=None, headers=found, content=b""
                    )
                raise_for_status(response.status_code, found, asked, here, is_conditional=_is_conditional(headers))
                content = b"" if response.status_code == 304 else self._body(response, found, asked, limits)
                return HttpResponse(
                    status=response.status_code, url=here, moved_to=None, headers=found, content=content
                )
            finally:
                response.close()

    def _own_headers(self) -> dict[str, str]:
        return {
            "User-Agent": self._settings.http_user_agent,
            "Accept": "*/*",
            "Accept-Encoding": "gzip, deflate",  # only what can be expanded in bounded steps
        }

    def _body(self, response: httpx.Response, headers: Mapping[str, str], asked: str, limits: _Limits) -> bytes:
        cap, declared = limits.of(headers.get("content-type", "")), headers.get("content-length", "")
        if not limits.cuts_instead_of_failing and declared.isdigit() and int(declared) > cap:
            raise _too_large(asked, cap)
        parts, total = [], 0
        for part in expanded(response, headers.get("content-encoding", ""), shown(asked)):
            self._backend.deadline.cut(None)
            total += len(part)
            parts.append(part)
            if total > cap:
                if limits.cuts_instead_of_failing:
                    return b"".join(parts)[:cap]
                raise _too_large(asked, cap)
        return b"".join(parts)


def _transport(backend: GuardedBackend) -> httpx.HTTPTransport:
    transport = httpx.HTTPTransport(trust_env=False)
    # httpx has no public way to hand it a network backend; pinned below 0.29 and covered by tests.
    transport._pool = httpcore.ConnectionPool(
        ssl_context=ssl.create_default_context(), network_backend=backend, max_connections=32, keepalive_expiry=15.0
    )
    return transport


def _origin(url: str, asked: str) -> str:
    try:
        parts = split_web_address(url)
        host = ascii_host(parts.hostname or "")
    except ValueError as error:
        where = "" if url == asked else f" leads to {shown(url)}, which"
        raise Blocked(f"the address {shown(asked)}{where} {error}") from None
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}" + (f":{parts.port}" if parts.port else "")


def _is_conditional(headers: Mapping[str, str]) -> bool:
    return any(name.lower() in ("if-none-match", "if-modified-since") for name in headers)


def _wait_s(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.failure.retry_after_s if isinstance(error, TryAgain) else None
    return asked if asked is not None else 0.5 * 2 ** (state.attempt_number - 1) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, hides nothing


def _too_large(asked: str, cap: int) -> UnitFailure:
    return TooLarge(
        f"the address {shown(asked)} sends more than {cap:,} bytes, the limit of HTTP_MAX_PAGE_BYTES or HTTP_MAX_BYTES"
    )
