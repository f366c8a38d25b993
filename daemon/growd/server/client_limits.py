"""Whom a connection or a request counts for, and how much one client may have of what all clients share."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import hdrs

from growd.config.access import is_loopback
from growd.server.addresses import unmapped, whole_network
from growd.server.errors import ApiError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from ipaddress import IPv4Network, IPv6Network

    from growd.config import Http
    from growd.server.client_request import ClientRequest

BURST_S: Final = 2.0  # a client that was silent may ask for as long ahead
MOST_REMEMBERED: Final = 4_096  # clients whose requests are counted; who asked longest ago is forgotten
MOST_JUDGED: Final = 1_024  # addresses whose `Peer` is kept


class Peer(NamedTuple):
    """An address, the client it counts for (None for a proxy), and whether it is a trusted proxy."""

    address: str
    client: str | None
    is_proxy: bool


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one client may have: open connections and streams, and requests to the API a second.

    `proxies` are networks of those who are believed for whom they ask, besides this machine's own.
    """

    connections: int = 200
    streams: int = 100
    requests_hz: float = 200.0
    proxies: tuple[str, ...] = ()

    @classmethod
    def of(cls, http: Http) -> ClientLimits:
        """As the configuration says."""
        return cls(
            http.max_connections_per_client,
            http.max_streams_per_client,
            http.max_requests_per_client_hz,
            http.trusted_proxies,
        )


class Clients:
    """Tells clients apart by address (IPv6 by network, as each may choose any address of its own).

    A client that is None has no limits of its own: a proxy asks for many. Programs of this machine count as
    proxies, and are believed like those that are named: they could do worse. `is_own` tells whose addresses
    are this machine's.
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
        self._asked: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how often, at a time
        self._streams: dict[str, int] = {}
        self.reconfigure(limits or ClientLimits())

    def reconfigure(self, limits: ClientLimits) -> None:
        """Go by other limits from now on; whom a connection counts for stays."""
        self.limits = limits
        self._proxies: list[IPv4Network | IPv6Network] = [ip_network(proxy) for proxy in limits.proxies]
        # parsing an address takes as long as the rest of a small request
        self._peer = lru_cache(MOST_JUDGED)(self._judged)

    def at(self, address: str) -> str | None:
        """Whom a connection from this address counts for."""
        return self._peer(address).client

    def connected(self, transport: asyncio.BaseTransport) -> str | None:
        """Whom a connection counts for."""
        peer = transport.get_extra_info("peername")
        return self.at(str(peer[0])) if isinstance(peer, tuple) else None

    def is_proxy(self, address: str) -> bool:
        """Whether it is that of a proxy that is believed."""
        return self._peer(address).is_proxy

    def recognise(self, request: ClientRequest) -> None:
        """Note at a request whom it counts for, and from which address it comes."""
        peer = self._peer(request.remote or "")
        if peer.is_proxy and hdrs.X_FORWARDED_FOR in request.headers:
            peer = self._peer(self._behind(request, peer.address))
        request.address = peer.address
        request.client = peer.client

    def count(self, client: str | None) -> None:
        """Count a request. `ApiError` 429 if there are more than its client may send."""
        if client is None:
            return
        now = self._monotonic()
        asked, since = self._asked.get(client, (0.0, now))
        asked = max(0.0, asked - (now - since) * self.limits.requests_hz) + 1
        if asked > max(1.0, BURST_S * self.limits.requests_hz):
            sentence = f"{client} asks more than {self.limits.requests_hz:g} times a second"
            raise ApiError(429, "too_many_requests", sentence, {"Retry-After": "1"})
        self._asked[client] = asked, now
        self._asked.move_to_end(client)
        if len(self._asked) > MOST_REMEMBERED:
            self._asked.popitem(last=False)

    @contextmanager
    def stream(self, client: str | None) -> Iterator[None]:
        """A stream is open meanwhile. `ApiError` 429 if its client has as many as it may."""
        if client is None:
            yield
            return
        taken = self._streams.get(client, 0)
        if taken >= self.limits.streams:
            sentence = f"{client} waits for messages {taken} times, which is the most for one client"
            raise ApiError(429, "too_many_streams", sentence)
        self._streams[client] = taken + 1
        try:
            yield
        finally:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]

    def _judged(self, address: str) -> Peer:
        address = unmapped(address)
        is_proxy = self._is_own(address) or self._is_named(address)
        return Peer(address, None if is_proxy or not address else whole_network(address), is_proxy)

    def _is_named(self, address: str) -> bool:
        """Whether the configuration names it as that of a proxy."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(found in network for network in self._proxies)

    def _behind(self, request: ClientRequest, proxy: str) -> str:
        """The address that the outermost of the proxies saw; what is further left anybody can have sent."""
        found = proxy
        for said in reversed(",".join(request.headers.getall(hdrs.X_FORWARDED_FOR, ())).split(",")):
            try:
                found = str(ip_address(unmapped(said.strip())))
            except ValueError:
                break
            if not self.is_proxy(found):
                break
        return found
