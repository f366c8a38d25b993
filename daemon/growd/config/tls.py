"""The section `[tls]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from growd.config.base import Section
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


class Tls(Section, frozen=True):
    """TLS at the front door (1.2 and later), with a certificate that is read again when it changes."""

    certificate: str = ""
    """A file (PEM) with the certificate, and after it those that lead to its authority; without one growd
    speaks plain HTTP. A bare name is one of systemd's credentials."""

    key: str = ""
    """The file (PEM) with the certificate's private key, without a password, that others can't read. A bare
    name is one of systemd's credentials."""

    handshake_timeout_s: Annotated[float, Meta(gt=0, le=300)] = 10.0
    """A client must have agreed on keys within this."""

    check_interval_s: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    """How often growd looks whether the files have changed."""


def faults_of_tls(tls: Tls) -> Iterator[Finding]:
    """Both files are given, or none."""
    if tls.certificate and not tls.key:
        yield Finding(("tls", "key"), "is missing: the private key of the certificate")
    if tls.key and not tls.certificate:
        yield Finding(("tls", "certificate"), "is missing: the certificate of the key")
