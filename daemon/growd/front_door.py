"""What of the front door is looked after while growd runs: its certificate, and options that may change."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from growd.clock import RealClock
from growd.http.client_limits import ClientLimits, Clients
from growd.http.origins import Guard, WebPolicy
from growd.http.tls import Certificate
from growd.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.config import Config
    from growd.config.tls import Tls
    from growd.reloading import Reloader

RELOADABLE: Final = (
    "http.hosts",
    "http.origins",
    "http.trusted_proxies",
    "http.max_connections_per_client",
    "http.max_streams_per_client",
    "http.max_requests_per_client_hz",
)


def keep_up(reloader: Reloader, guard: Guard, clients: Clients) -> None:
    """Have both go by what the configuration says when it is read again."""

    async def take(config: Config) -> None:
        guard.reconfigure(WebPolicy.of(config.http))
        clients.reconfigure(ClientLimits.of(config.http))

    reloader.offer(*RELOADABLE, apply=take)


@asynccontextmanager
async def certified(tls: Tls) -> AsyncIterator[Certificate | None]:
    """The certificate, if there is to be one, looked after meanwhile. Raises `CertificateError`."""
    if not tls.certificate:
        yield None
        return
    certificate = Certificate(tls, RealClock())
    await certificate.open()
    async with Supervisor(RealClock()) as parts:
        parts.start("certificate", certificate.run)
        yield certificate
