"""Which addresses may be connected to, and the connecting: a name is resolved, judged and pinned in one step.

The check sits where the socket is opened, so no later resolution (DNS rebinding), redirect or odd spelling gets around.
"""

import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from threading import local
from typing import Any

import httpcore

from kb_pipeline.errors import Blocked, Transient, UsageError
from kb_pipeline.urls import ascii_host

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_DENIED = tuple(  # public by the books of `ipaddress`, but never a web site
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "100.64.0.0/10", "169.254.0.0/16", "fd00:ec2::/32", "64:ff9b:1::/48", "::/96")
)


def is_public(address: IpAddress) -> bool:
    """True for a unicast address of the open internet, also once mapped, 6to4, Teredo and NAT64 forms are unwrapped."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(found is not None and not is_public(found) for found in inner):
            return False
        if address.ipv4_mapped is not None or address in _NAT64:
            return True
    if any(address.version == net.version and address in net for net in _DENIED):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


@dataclass(frozen=True, slots=True)
class AllowList:
    """Hosts, host:port pairs and networks that may be private (`settings.http_allow`)."""

    hosts: frozenset[str]
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    @classmethod
    def parse(cls, text: str) -> "AllowList":
        """From comma-separated entries."""
        hosts: set[str] = set()
        networks = []
        for entry in filter(None, (part.strip().lower() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry.strip("[]"), strict=False))
            except ValueError:
                hosts.add(entry.replace("[", "").replace("]", ""))
        return cls(frozenset(hosts), tuple(networks))

    def covers(self, host: str, port: int, address: IpAddress) -> bool:
        """True if the operator has let this name or address in."""
        return (
            host in self.hosts
            or f"{host}:{port}" in self.hosts
            or any(address.version == net.version and address in net for net in self.networks)
        )


def parse_routes(text: str) -> dict[str, tuple[str, int]]:
    """`settings.http_route` as {name or "*.suffix": (host, port)}.

    Raises: UsageError: an entry is not name=host:port.
    """
    routes = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, target = entry.partition("=")
        host, _, port = target.rpartition(":")
        if not name or not host or not port.isdecimal() or not 0 < int(port[:9]) < 65_536:
            raise UsageError(
                f"HTTP_ROUTE: {entry!r} is not name=host:port; write for instance intranet.example=10.0.0.5:8080"
            )
        routes[name.strip().lower()] = (host.strip(), int(port))
    return routes


class GuardedBackend(httpcore.NetworkBackend):
    """Opens connections to judged addresses only, under the deadline of the request that asks."""

    def __init__(self, allow: AllowList, routes: dict[str, tuple[str, int]]) -> None:
        self._allow = allow
        self._routes = routes
        self._inner = httpcore.SyncBackend()
        self.deadline = Deadline()

    def route_of(self, host: str) -> tuple[str, int] | None:
        """Where requests to this name are sent instead, if they are."""
        if host in self._routes:
            return self._routes[host]
        suffixes = (host[i:] for i, c in enumerate(host) if c == ".")
        return next((self._routes["*" + suffix] for suffix in suffixes if "*" + suffix in self._routes), None)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first judged address that answers.

        Raises: Blocked: an address of the name is private. Transient: the name does not resolve.
        """
        route = self.route_of(host)
        if route:
            stream = self._inner.connect_tcp(*route, timeout=self.deadline.cut(timeout), socket_options=socket_options)
            return BoundedStream(stream, self.deadline, is_plain=True)
        failure: Exception | None = None
        for address in self.judged(host, port):
            try:
                stream = self._inner.connect_tcp(
                    str(address), port, timeout=self.deadline.cut(timeout), socket_options=socket_options
                )
                return BoundedStream(stream, self.deadline, is_plain=False)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")

    def judged(self, host: str, port: int) -> list[IpAddress]:
        """Every address of the name; all of them must be public or allowed.

        Raises: Blocked, Transient: as `connect_tcp`.
        """
        try:
            found = socket.getaddrinfo(ascii_host(host), port, type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            raise Transient(f"the host name {host} could not be resolved; check its spelling and the network") from None
        addresses = list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))
        for address in addresses:
            if not self._allow.covers(host, port, address) and not is_public(address):
                name = host if host == str(address) else f"{host} ({address})"
                raise Blocked(
                    f"{name} is not on the public internet; add {host}:{port} to HTTP_ALLOW if it may be read"
                )
        return addresses


class Deadline:
    """The point of the monotonic clock at which the request of this thread ends."""

    def __init__(self) -> None:
        self._local = local()

    def start(self, seconds: float) -> None:
        self._local.end = time.monotonic() + seconds

    def cut(self, timeout: float | None) -> float:
        """The timeout, in seconds, shortened to what is left.

        Raises: httpcore.ReadTimeout: nothing is left.
        """
        left = float(getattr(self._local, "end", time.monotonic() + 30.0)) - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("deadline")
        return left if timeout is None else min(left, timeout)


class BoundedStream(httpcore.NetworkStream):
    """A stream whose every step ends by the deadline, so that drip-fed headers and handshakes end as well."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline, is_plain: bool) -> None:
        self._inner = inner
        self._deadline = deadline
        self._is_plain = is_plain

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.cut(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.cut(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """TLS with the name that was asked for; none on a routed connection, whose gateway speaks plain HTTP."""
        if self._is_plain:
            return self
        secured = self._inner.start_tls(ssl_context, server_hostname, self._deadline.cut(timeout))
        return BoundedStream(secured, self._deadline, is_plain=False)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
