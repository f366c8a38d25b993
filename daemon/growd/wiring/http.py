"""The front door as configured: API, requests to the database, access, TLS."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.access.origins import OriginGuard
from growd.api.front_door import FrontDoor
from growd.api.monitoring import add_monitoring
from growd.api.operations import Api
from growd.api.page_files import PageFiles
from growd.host.systemd import passed_sockets
from growd.proxy.csv_export import Exports
from growd.proxy.gateway import FlushBeforeRead, Gateway
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.server.client_limits import ClientLimits, Clients
from growd.wiring.access import access_control
from growd.wiring.database import configured_history
from growd.wiring.files import page_folder, shipped_folder
from growd.wiring.runs import run_archive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.config import Config
    from growd.config.web import Tls
    from growd.runs.archive import RunArchive
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
    history: History
    archive: RunArchive


RELOADABLE: Final = ("http.hosts", "http.origins", "http.trusted_proxies")
"""Options that can change at run time."""


@contextlib.asynccontextmanager
async def serving(core: Core, status: StatusNode, reloader: Reloader) -> AsyncIterator[Served]:
    """Listen around the body. Raises `AddressError` and `CertificateError`."""
    config, bus, database, http = core.config, core.bus, core.database, core.config.http
    gateway = Gateway(lambda: database.address, closed=database.closed)
    answering = _database_requests(core, gateway)
    root = f"/_{http.name}"
    access = access_control(config, gateway, root)
    if access is not None:
        answering = access.check_logins(answering)
    clients = Clients(ClientLimits(proxies=http.trusted_proxies))
    authorization = None if access is None else access.authorization
    history, archive = configured_history(core), run_archive(core)
    api = Api(
        bus,
        bus.node("http"),
        root,
        clients=clients,
        access=authorization,
        is_open=http.access == "open",
        history=history,
        journal=core.storage.journal,
        runs=archive,
    )
    guard = OriginGuard(http)
    door = FrontDoor(api, answering, guard=guard)
    add_monitoring(api, door, status)
    folder, is_edited = await asyncio.to_thread(page_folder)
    docs, _ = await asyncio.to_thread(shipped_folder, "docs")
    PageFiles(api, folder, docs, is_edited=is_edited)

    offer_reloads(reloader, guard, clients)
    if authorization is not None:
        reloader.offer("access", apply=authorization.reconfigure)
    try:
        async with history, certified(config.tls, bus.liveness) as certificate:
            await door.open(http.host, http.port, passed_sockets(), certificate)
            yield Served(door, api, history, archive)
    finally:
        gateway.end_feeds()
        await door.close()
        await gateway.close()


def _database_requests(core: Core, gateway: Gateway) -> RequestHandler:
    """What answers requests to the database: exports as CSV here, all else through the gateway."""
    database = core.database
    points = database.names.points, database.names.events
    building = None if database.is_embedded else database.index_build
    exports = Exports(gateway, points, core.config.http.name, building)
    return FlushBeforeRead(exports, points, core.storage.shipper.reading)


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
