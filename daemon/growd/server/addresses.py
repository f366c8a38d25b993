"""Addresses of clients, for counting."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address


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
