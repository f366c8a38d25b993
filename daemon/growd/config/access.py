"""The section `[access]`, and what may be listened on without a decision on who may come in."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from growd.config.base import Section
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def reason_against(host: str, access: str) -> str:
    """Why growd must not listen on `host` with this `[http] access`; empty if it may."""
    if access or is_loopback(host):
        return ""
    return (
        f"must be set, because other machines can reach {host}: "
        '"couchdb" lets in users of the CouchDB at [couchdb] url, by their roles, "open" lets in everybody; '
        "or listen on 127.0.0.1"
    )


def faults_of_access(host: str, access: str, couchdb_url: str) -> Iterator[Finding]:
    """What is wrong with `[http] access`, given where growd listens and which database it has."""
    if reason := reason_against(host, access):
        yield Finding(("http", "access"), reason)
    if access == "couchdb" and not couchdb_url:
        yield Finding(
            ("http", "access"),
            '"couchdb" needs a CouchDB in [couchdb] url; the embedded database has no users',
        )


def what_is_open(host: str, *, is_embedded: bool, client_design_documents: bool = False) -> str:
    """What `access = "open"` means, in a sentence for the log; empty where only this machine reaches it."""
    if is_loopback(host):
        return ""
    database = (
        "read, write and delete everything in the database, because the embedded database has no users"
        if is_embedded
        else "try to log in to the database, which has its own users"
    )
    if is_embedded and client_design_documents:
        database += "; [couchdb] client_design_documents is true, so they may also run programs as growd"
    return (
        f'[http] access is "open": everybody who reaches {host} may read all values, change set points, '
        f"parameters and recipes, call every service, and {database}"
    )
