"""Checks of the names, origins and proxies of `[http]`."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from growd.config.findings import Finding
from growd.runtime.addresses import is_host, without_login

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
