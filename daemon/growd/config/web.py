"""The sections on clients: addresses, origins, TLS, and who may use growd."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from growd.config.base import Section
from growd.config.findings import Finding
from growd.runtime.text import is_host, without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from growd.config.services import Http

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HOST: Final = re.compile(_NAME)
_ORIGIN: Final = re.compile(rf"\*|https?://({_NAME}|\[[0-9a-fA-F:.]+\])(:[0-9]{{1,5}})?")


def faults_of_web(http: Http) -> Iterator[Finding]:
    """Invalid names, origins and addresses."""
    if not is_host(http.host):
        yield Finding(("http", "host"), f"{http.host!r} must be an address or a name")
    yield from _each("hosts", http.hosts, _HOST.fullmatch, 'a name without a port, such as "farm.example"')
    yield from _each(
        "origins", http.origins, _ORIGIN.fullmatch, 'such as "https://panel.example:8443", or "*"'
    )
    network = "an address or a network, such as 10.0.0.7 or 10.0.0.0/24"
    yield from _each("trusted_proxies", http.trusted_proxies, _is_network, network)


def _each(
    option: str, values: Sequence[str], is_good: Callable[[str], object], right: str
) -> Iterator[Finding]:
    for value in values:
        if not is_good(value):
            yield Finding(("http", option), f"{without_login(value)!r} must be {right}")


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


class Tls(Section, frozen=True):
    """TLS of the front door (1.2 and later). growd reads a changed certificate again."""

    certificate: str = ""
    """File (PEM) with the certificate, followed by the intermediate certificates. Without it growd speaks
    plain HTTP."""

    key: str = ""
    """File (PEM) with the private key of the certificate, without a password, not readable for others. A bare
    name is a systemd credential."""


def faults_of_tls(tls: Tls) -> Iterator[Finding]:
    """Both files are given, or none."""
    if tls.certificate and not tls.key:
        yield Finding(("tls", "key"), "is missing: the private key of the certificate")
    if tls.key and not tls.certificate:
        yield Finding(("tls", "certificate"), "is missing: the certificate of the key")


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
