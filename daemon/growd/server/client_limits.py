"""Per-client limits: connections, streams, request rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from aiohttp import hdrs

from growd.config.web import is_loopback
from growd.server.errors import ApiError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from ipaddress import IPv4Network

    from growd.server.client_request import ClientRequest

BURST_S: Final = 2.0  # a burst may use as many seconds of requests at once
MOST_REMEMBERED: Final = 4_096  # clients whose requests are counted; the least recent is dropped
MOST_CACHED: Final = 1_024  # addresses whose `Peer` is cached


class Peer(NamedTuple):
    """An address, the client it counts for (None for a proxy), and whether it is a trusted proxy."""

    address: str
    client: str | None
    is_proxy: bool


class ClientLimits(msgspec.Struct, frozen=True):
    """What one client may have: open connections and streams, and requests to the API a second.

    `proxies` are networks of trusted proxies, besides this machine's own addresses.
    """

    connections: int = 200
    streams: int = 100
    requests_hz: float = 200.0
    proxies: tuple[str, ...] = ()


class Clients:
    """Counts what clients use. A client is an address, or a /64 network of IPv6.

    The client of a trusted proxy is None and has no limits: it stands for many. Programs on this machine
    (`is_own`) are trusted like proxies, since they could do worse.
    """

    def __init__(
        self,
        limits: ClientLimits | None = None,
        *,
        is_own: Callable[[str], bool] = is_loopback,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_own = is_own
        self._monotonic = monotonic
        self._asked: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # the number of requests, and when it was computed
        self._streams: dict[str, int] = {}
        self.reconfigure(limits or ClientLimits())

    def reconfigure(self, limits: ClientLimits) -> None:
        """Apply other limits from now on. Open connections keep their client."""
        self.limits = limits
        self._proxies: list[IPv4Network | IPv6Network] = [ip_network(proxy) for proxy in limits.proxies]
        # parsing an address takes as long as the rest of a small request
        self._peer = lru_cache(MOST_CACHED)(self._classify)

    def at(self, address: str) -> str | None:
        """The client of a connection from this address."""
        return self._peer(address).client

    def connected(self, transport: asyncio.BaseTransport) -> str | None:
        """The client of a connection."""
        peer = transport.get_extra_info("peername")
        return self.at(str(peer[0])) if isinstance(peer, tuple) else None

    def is_proxy(self, address: str) -> bool:
        """Whether it is the address of a trusted proxy."""
        return self._peer(address).is_proxy

    def recognise(self, request: ClientRequest) -> None:
        """Set the client and the address of a request, and whether a trusted proxy sent it."""
        peer = self._peer(request.remote or "")
        request.is_from_proxy = peer.is_proxy
        if peer.is_proxy and hdrs.X_FORWARDED_FOR in request.headers:
            peer = self._peer(self._behind(request, peer.address))
        request.address = peer.address
        request.client = peer.client

    def count(self, client: str | None) -> None:
        """Count a request. `ApiError` 429 beyond the client's rate."""
        if client is None:
            return
        now = self._monotonic()
        asked, since = self._asked.get(client, (0.0, now))
        asked = max(0.0, asked - (now - since) * self.limits.requests_hz) + 1
        if asked > max(1.0, BURST_S * self.limits.requests_hz):
            sentence = f"{client} sends more than {self.limits.requests_hz:g} requests a second"
            raise ApiError(429, "too_many_requests", sentence, {"Retry-After": "1"})
        self._asked[client] = asked, now
        self._asked.move_to_end(client)
        if len(self._asked) > MOST_REMEMBERED:
            self._asked.popitem(last=False)

    @contextmanager
    def stream(self, client: str | None) -> Iterator[None]:
        """Count a stream during the body. `ApiError` 429 if its client has too many."""
        if client is None:
            yield
            return
        taken = self._streams.get(client, 0)
        if taken >= self.limits.streams:
            sentence = f"{client} has {taken} streams open, the maximum per client"
            raise ApiError(429, "too_many_streams", sentence)
        self._streams[client] = taken + 1
        try:
            yield
        finally:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]

    def _classify(self, address: str) -> Peer:
        address = unmapped(address)
        is_proxy = self._is_own(address) or self._is_named(address)
        return Peer(address, None if is_proxy or not address else whole_network(address), is_proxy)

    def _is_named(self, address: str) -> bool:
        """Whether the configuration names it as a proxy."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(found in network for network in self._proxies)

    def _behind(self, request: ClientRequest, proxy: str) -> str:
        """The address that the outermost trusted proxy saw. Anything further left may be forged."""
        found = proxy
        for member in reversed(",".join(request.headers.getall(hdrs.X_FORWARDED_FOR, ())).split(",")):
            try:
                found = str(ip_address(unmapped(member.strip())))
            except ValueError:
                break
            if not self.is_proxy(found):
                break
        return found


def unmapped(address: str) -> str:
    """An IPv4 address that a dual-stack socket shows as IPv6 (RFC 4291, section 2.5.5.2), as IPv4."""
    return address.removeprefix("::ffff:") if "." in address else address


def whole_network(address: str) -> str:
    """A client's address, or its /64 network of IPv6, within which it may choose any address."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((parsed, 64), strict=False))
