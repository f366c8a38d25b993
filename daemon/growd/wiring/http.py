"""The front door as configured: API, requests to the database, access, TLS."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.access.origins import OriginGuard
from growd.api.api import Api
from growd.api.front_door import FrontDoor
from growd.api.monitoring import add_monitoring
from growd.api.operations import operations_of
from growd.host.systemd import passed_sockets
from growd.proxy.gateway import FlushBeforeRead, Gateway
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.server.client_limits import ClientLimits, Clients
from growd.wiring.access import access_control
from growd.wiring.database import configured_history

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.config import Config
    from growd.config.web import Tls
    from growd.runtime.liveness import Liveness
    from growd.server.client_request import RequestHandler
    from growd.server.tls import Certificate
    from growd.status.status_node import StatusNode
    from growd.store.history.history import History
    from growd.wiring.reload import Reloader
    from growd.wiring.store import Core


class Served(NamedTuple):
    """The front door, and what stands behind it."""

    door: FrontDoor
    api: Api
    gateway: Gateway
    history: History


RELOADABLE: Final = ("http.hosts", "http.origins", "http.trusted_proxies")
"""Options that can change at run time."""


@contextlib.asynccontextmanager
async def serving(core: Core, status: StatusNode, reloader: Reloader) -> AsyncIterator[Served]:
    """Listen around the body. Raises `AddressError` and `CertificateError`."""
    config, bus, database, http = core.config, core.bus, core.database, core.config.http
    gateway = Gateway(lambda: database.address, closed=database.closed)
    database.on_silent = gateway.give_up
    points = database.names.points, database.names.events
    answering: RequestHandler = FlushBeforeRead(gateway, points, core.storage.shipper.reading)
    root = f"/_{http.name}"
    access = access_control(config, gateway, root)
    if access is not None:
        answering = access.check_logins(answering)
    clients = Clients(ClientLimits(proxies=http.trusted_proxies))
    authorization = None if access is None else access.authorization
    history = configured_history(core)
    api = Api(
        bus,
        bus.node("http"),
        root,
        operations_of(),
        clients=clients,
        access=authorization,
        is_open=http.access == "open",
        history=history,
        journal=core.storage.journal,
    )
    api.is_starting = True  # until all parts and the recipes are there
    guard = OriginGuard(http)
    door = FrontDoor(api, answering, guard=guard)
    add_monitoring(api, door, status)

    offer_reloads(reloader, guard, clients)
    if authorization is not None:
        reloader.offer("access", apply=authorization.reconfigure)
    try:
        async with history, certified(config.tls, bus.liveness) as certificate:
            await door.open(http.host, http.port, passed_sockets(), certificate)
            yield Served(door, api, gateway, history)
    finally:
        gateway.end_feeds()
        await door.close()
        await gateway.close()


def offer_reloads(reloader: Reloader, guard: OriginGuard, clients: Clients) -> None:
    """Apply changed options when the configuration is read again."""

    async def apply(config: Config) -> None:
        guard.reconfigure(config.http)
        clients.reconfigure(ClientLimits(proxies=config.http.trusted_proxies))

    reloader.offer(*RELOADABLE, apply=apply)


@contextlib.asynccontextmanager
async def certified(tls: Tls, liveness: Liveness) -> AsyncIterator[Certificate | None]:
    """The certificate if one is configured, checked at intervals. Raises `CertificateError`."""
    if not tls.certificate:
        yield None
        return
    from growd.server.tls import Certificate  # noqa: PLC0415  most growds speak no TLS

    certificate = Certificate(tls, RealClock())
    await certificate.open()
    async with Supervisor(RealClock(), liveness) as parts:
        parts.start("certificate", certificate.run)
        yield certificate
