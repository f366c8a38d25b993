"""Addresses that requests come from, for what is counted by address."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address


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
