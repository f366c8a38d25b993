"""The section `[tls]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.config.base import Section
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


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
