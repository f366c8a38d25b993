"""From which address a request comes, for what is counted by address."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from growd.http.client_request import ClientRequest

if TYPE_CHECKING:
    from aiohttp import web

_FORWARDED: Final = "X-Forwarded-For"


def peer_of(request: web.BaseRequest) -> str:
    """The address of the client; of one that comes through a proxy that is believed, what the proxy says.

    Proxies on this machine are: what runs here could do worse. Another is not unless it is named as one, for
    anybody can send that header. "" where there is no address.
    """
    known = request.address if isinstance(request, ClientRequest) else ""
    address = known or request.remote or ""
    if not is_own_machine(address):
        return address
    said = request.headers.getall(_FORWARDED, None)
    if said is None:
        return address
    try:
        return str(ip_address(said[-1].rpartition(",")[2].strip()))
    except ValueError:
        return address


def is_own_machine(address: str) -> bool:
    """Whether a peer's address is one of the loopback."""
    return address.startswith("127.") or address in {"::1", "::ffff:127.0.0.1"}


def unmapped(address: str) -> str:
    """An address of IPv4 that a socket for both families shows as one of IPv6 (RFC 4291, section 2.5.5.2)."""
    return address.removeprefix("::ffff:") if "." in address else address


def whole_network(address: str) -> str:
    """What one client can come from: its address, or of IPv6 the /64 in which it may choose any."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((parsed, 64), strict=False))
