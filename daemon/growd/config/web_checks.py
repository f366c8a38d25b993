"""Whether growd can listen as configured, and who may then use it."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from growd.config.findings import Finding, at
from growd.config.web import is_loopback
from growd.runtime.text import is_host, without_login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.config.findings import Fault
    from growd.config.root import Config
    from growd.config.services import Http

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_HOST: Final = re.compile(_NAME)
_ORIGIN: Final = re.compile(rf"\*|https?://({_NAME}|\[[0-9a-fA-F:.]+\])(:[0-9]{{1,5}})?")


def faults_of_web(config: Config) -> Iterator[Finding]:
    """What is wrong with the addresses on which growd listens, and with who may use it."""
    yield from at(("http",), (*_of_access(config), *_of_http(config.http)))
    tls = config.tls
    if tls.certificate and not tls.key:
        yield Finding(("tls", "key"), "is missing: the private key of the certificate")
    if tls.key and not tls.certificate:
        yield Finding(("tls", "certificate"), "is missing: the certificate of the key")


def _of_http(http: Http) -> Iterator[Fault]:
    if not is_host(http.host):
        yield "host", f"{http.host!r} must be an address or a name"
    name, origin = (
        'a name without a port, such as "farm.example"',
        'such as "https://panel.example:8443", or "*"',
    )
    network = "an address or a network, such as 10.0.0.7 or 10.0.0.0/24"
    checks: dict[str, tuple[Callable[[str], object], str]] = {
        "hosts": (_HOST.fullmatch, name),
        "origins": (_ORIGIN.fullmatch, origin),
        "trusted_proxies": (_is_network, network),
    }
    for option, (is_good, right) in checks.items():
        for value in getattr(http, option):
            if not is_good(value):
                yield option, f"{without_login(value)!r} must be {right}"


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _of_access(config: Config) -> Iterator[Fault]:
    """What is wrong with `[http] access`, given where growd listens and which database it has."""
    http = config.http
    if not http.access and not is_loopback(http.host):
        reason = (
            f"must be set, because other machines can reach {http.host}: "
            '"couchdb" lets in users of the CouchDB at [couchdb] url, by their roles, "open" lets in '
            "everybody; or listen on 127.0.0.1"
        )
        yield "access", reason
    if http.access == "couchdb" and not config.couchdb.url:
        yield "access", '"couchdb" needs a CouchDB in [couchdb] url; the embedded database has no users'


def what_is_open(config: Config) -> str:
    """What `access = "open"` means, in a sentence for the log; empty where only this machine reaches it."""
    if is_loopback(config.http.host):
        return ""
    database = "try to log in to the database, which has its own users"
    if not config.couchdb.url:
        database = (
            "read, write and delete everything in the database, because the embedded database has no users"
        )
        if config.couchdb.client_design_documents:
            database += "; [couchdb] client_design_documents is true, so they may also run programs as growd"
    return (
        f'[http] access is "open": everybody who reaches {config.http.host} may read all values, change set '
        f"points, parameters and recipes, call every service, and {database}"
    )
