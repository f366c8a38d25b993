"""The sections on clients: addresses, origins, TLS, and who may use growd."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from growd.config.base import Section


def is_http_address(url: str) -> bool:
    """Whether it is an address with http or https and a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


class Tls(Section, frozen=True):
    """TLS of the front door (1.2 and later). growd reads a changed certificate again."""

    certificate: str = ""
    """File (PEM) with the certificate, followed by the intermediate certificates. Without it growd speaks
    plain HTTP."""

    key: str = ""
    """File (PEM) with the private key of the certificate, without a password, not readable for others. A bare
    name is a systemd credential."""


class Access(Section, frozen=True):
    """Who may use the API with `[http] access = "couchdb"`: users of the CouchDB, by their roles."""

    open_reading: bool = False
    """Allow reading (GET, streams included) without a login."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on `host`, an address or a name."""
    bare = host.strip("[]").partition("%")[0]
    try:
        address = ip_address(bare)
    except ValueError:  # a name; of names only this one is the machine's own for sure (RFC 6761, section 6.3)
        return bare.lower().removesuffix(".") == "localhost"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
