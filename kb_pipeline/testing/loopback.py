"""A loopback web server with scripted answers per absolute URL: the outside world of tests, cases and the demo.

with Loopback() as stub:
    stub.serve("https://harbour.example/feed.xml", body=b"<rss…", content_type="application/rss+xml")
    settings = Settings(http_route=stub.route, http_host_interval_s=0)
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_ENDLESS_PIECE = b"<p>x</p>\n" * 1_000


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked; the scheme is not seen, header names are in lower case."""

    method: str
    host: str
    target: str
    headers: Mapping[str, str]

    @property
    def address(self) -> str:
        """`host/path?query`."""
        return self.host + self.target


@dataclass(slots=True)
class Answer:
    """What is answered; `drip_s` is the wait between single bytes of the body."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None
    is_endless: bool = False
    delay_s: float = 0.0
    drip_s: float = 0.0
    etag: str | None = None
    last_modified: str | None = None


class Loopback:
    """Serves until closed; addresses not served answer 404. Every request is kept in `requests`."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        self._any_query: dict[tuple[str, str], list[Answer]] = {}
        self._lock = Lock()
        self._requests: list[Request] = []
        self._bytes_sent: dict[str, int] = {}
        self.is_closing = False
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.stub = self
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._server.server_address[1])

    @property
    def route(self) -> str:
        """For `settings.http_route`: every `.example` and `.test` name, and whatever else is served by now."""
        with self._lock:
            served = {host for host, _ in (*self._answers, *self._any_query)}
        names = [
            "*.example",
            "*.test",
            *sorted(h for h in served if ":" not in h and not h.endswith((".example", ".test"))),
        ]
        return ",".join(f"{name}=127.0.0.1:{self.port}" for name in names)

    @property
    def requests(self) -> Sequence[Request]:
        """All requests so far, in order."""
        with self._lock:
            return tuple(self._requests)

    def hits(self, url: str) -> int:
        """How often exactly this address was asked for."""
        host, target = _key(url)
        return sum(1 for r in self.requests if (r.host, r.target) == (host, target))

    def bytes_sent(self, url: str) -> int:
        """Body bytes handed to the network for this address, over all requests."""
        with self._lock:
            return self._bytes_sent.get("".join(_key(url)), 0)

    def serve(
        self,
        url: str,
        body: bytes | str = b"",
        *,
        file: Path | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str | None = None,
        ignore_query: bool = False,
        endless: bool = False,
        delay_s: float = 0.0,
        drip_s: float = 0.0,
        etag: str | None = None,
        last_modified: str | None = None,
    ) -> None:
        """Answers this address so from now on; replaces what it answered before."""
        content = file.read_bytes() if file else body.encode() if isinstance(body, str) else body
        answer = Answer(
            content, status, dict(headers or {}), content_type, endless, delay_s, drip_s, etag, last_modified
        )
        self._put(url, [answer], ignore_query)

    def serve_in_turn(self, url: str, answers: Sequence[Answer]) -> None:
        """Answers one after the other; the last one stays."""
        self._put(url, list(answers), ignore_query=False)

    def forget(self, url: str) -> None:
        """Answers 404 at this address from now on."""
        with self._lock:
            self._answers.pop(_key(url), None)
            self._any_query.pop(_without_query(_key(url)), None)

    def close(self) -> None:
        """Stops serving and frees the port."""
        self.is_closing = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer_for(self, request: Request) -> Answer:
        """Records a request and picks its answer."""
        key = (request.host, request.target)
        with self._lock:
            self._requests.append(request)
            answers = self._answers.get(key) or self._any_query.get(_without_query(key))
            if not answers:
                return Answer(b"nothing here", 404, {}, "text/plain")
            return answers.pop(0) if len(answers) > 1 else answers[0]

    def count_sent(self, address: str, size: int) -> None:
        """Adds to the bytes sent for an address."""
        with self._lock:
            self._bytes_sent[address] = self._bytes_sent.get(address, 0) + size

    def _put(self, url: str, answers: list[Answer], ignore_query: bool) -> None:
        with self._lock:
            if ignore_query:
                self._any_query[_without_query(_key(url))] = answers
            else:
                self._answers[_key(url)] = answers


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    stub: Loopback

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up on an endless answer is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 30

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").lower()
        host = host.removesuffix(":80").removesuffix(":443")
        request = Request(self.command, host, self.path, {name.lower(): value for name, value in self.headers.items()})
        answer = self.server.stub.answer_for(request)
        time.sleep(answer.delay_s)
        if self._is_known(request, answer):
            self._head(304, answer, 0)
            return
        self._head(answer.status, answer, None if answer.is_endless else len(answer.body))
        if self.command != "HEAD" and answer.status not in (204, 304):
            self._send(request.address, answer)

    do_HEAD = do_GET

    def _is_known(self, request: Request, answer: Answer) -> bool:
        if answer.etag and "if-none-match" in request.headers:
            return request.headers["if-none-match"] == answer.etag
        return bool(answer.last_modified) and request.headers.get("if-modified-since") == answer.last_modified

    def _head(self, status: int, answer: Answer, length: int | None) -> None:
        self.send_response(status)
        if answer.content_type:
            self.send_header("Content-Type", answer.content_type)
        for name, value in (("ETag", answer.etag), ("Last-Modified", answer.last_modified), *answer.headers.items()):
            if value:
                self.send_header(name, value)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        elif status not in (204, 304):
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, address: str, answer: Answer) -> None:
        stub = self.server.stub
        if answer.drip_s:
            for i in range(len(answer.body)):
                if stub.is_closing:
                    return
                self.wfile.write(answer.body[i : i + 1])
                time.sleep(answer.drip_s)
            return
        piece = (answer.body or _ENDLESS_PIECE) if answer.is_endless else answer.body
        while True:
            self.wfile.write(piece)
            stub.count_sent(address, len(piece))
            if not answer.is_endless or stub.is_closing:
                return

    def log_message(self, format: str, *args: object) -> None:
        """Requests are recorded, not printed."""


def _key(url: str) -> tuple[str, str]:
    """(host with port, path with query) as they come over the wire."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(":80").removesuffix(":443")
    return host, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _without_query(key: tuple[str, str]) -> tuple[str, str]:
    return key[0], key[1].partition("?")[0]
