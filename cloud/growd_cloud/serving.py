"""The receiver as a process: its parts, from the options of `growd cloud receive`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import hdrs

from growd.runtime.clock import Clock, RealClock
from growd.runtime.liveness import Liveness
from growd.runtime.supervisor import Supervisor
from growd.server.client_limits import ClientLimits, Clients
from growd.server.connections import ConnectionLimits
from growd.server.listener import Listener
from growd.store.couch import Couch
from growd.store.errors import CouchUnavailableError
from growd_cloud.accounts import Accounts
from growd_cloud.bodies import Bodies
from growd_cloud.checkpoints import Checkpoints
from growd_cloud.databases import CloudDatabases
from growd_cloud.devices import Fleet, FleetList, ReportBatches
from growd_cloud.health import CloudHealth
from growd_cloud.logins import Logins
from growd_cloud.point_target import PointTarget
from growd_cloud.receiver import CloudReceiver
from growd_cloud.recipe_source import RecipeSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from growd_cloud.months import CloudNames
    from growd_web.served_page import ServedPage

CONNECTIONS: Final = 8_000
_TO_COUCHDB: Final = 200  # connections
LEAVE_S: Final = 10.0  # for requests under way when the receiver stops
_NO_LIMIT: Final = 1_000_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CloudServer:
    """A CouchDB of the cloud: its address, an administrator's login, and the prefix of its databases."""

    url: str
    credentials: tuple[str, str] = field(repr=False)
    names: CloudNames


@contextlib.asynccontextmanager
async def connected(
    server: CloudServer, own: OwnLogin | None = None
) -> AsyncIterator[tuple[aiohttp.ClientSession, Couch]]:
    """Connections to the CouchDB around the body; those with the same `own` try a refused login together."""
    connector = aiohttp.TCPConnector(limit=_TO_COUCHDB)
    own = own or OwnLogin(server.credentials, time.monotonic)
    async with aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), middlewares=(own,)
    ) as http:
        yield http, Couch(http, server.url, credentials=server.credentials)


@contextlib.asynccontextmanager
async def receiving(
    server: CloudServer,
    host: str,
    port: int,
    *,
    proxies: tuple[str, ...] = (),
    clock: Clock | None = None,
    page: ServedPage | None = None,
) -> AsyncIterator[tuple[str, int]]:
    """Serve devices around the body; host and port. Raises `AddressError` and `CouchError`."""
    clock = clock or RealClock()
    names = server.names
    own = OwnLogin(server.credentials, time.monotonic)
    async with connected(server, own) as (http, couch), connected(server, own) as (_, watching):
        databases = CloudDatabases(couch, names, clock)
        await databases.prepare()
        accounts = Accounts(couch, names, clock.time)
        await accounts.add_own(server.credentials[0])
        target = PointTarget(couch, databases, clock)
        logins = Logins(http, server.url, target.quorum, clock.monotonic)
        # the proxy limits single clients; many devices of a school have one address
        clients = Clients(ClientLimits(_NO_LIMIT, _NO_LIMIT, float(_NO_LIMIT), proxies))
        fleet = Fleet(couch, names, clock)
        source = RecipeSource(couch, names.recipes, fleet, clock)
        receiver = CloudReceiver(
            health=CloudHealth(watching, names, clock.monotonic),
            checkpoints=Checkpoints(couch, names.checkpoints, clock),
            logins=logins,
            clients=clients,
            bodies=Bodies(),
            target=target,
            reports=ReportBatches(couch, names, clock),
            devices=FleetList(fleet, clock),
            accounts=accounts,
            source=source,
            monotonic=clock.monotonic,
            page=page,
        )
        try:
            async with Supervisor(clock, Liveness()) as parts:
                parts.start("databases of the next month", databases.run)
                parts.start("changes of recipes", source.run)
                async with _listening(receiver, clients, host, port) as address:
                    yield address
        finally:
            await logins.close()


@contextlib.asynccontextmanager
async def _listening(
    receiver: CloudReceiver, clients: Clients, host: str, port: int
) -> AsyncIterator[tuple[str, int]]:
    """Listen around the body; then requests under way may end."""
    listener = Listener(receiver.handle, ConnectionLimits(CONNECTIONS), clients)
    try:
        address = await listener.open(host, port, (), None)
        try:
            yield address
        finally:
            await receiver.leave(LEAVE_S)
    finally:
        await listener.close()


async def receive(
    server: CloudServer,
    host: str,
    port: int,
    proxies: tuple[str, ...],
    ready: Callable[[str], None],
    *,
    page: ServedPage,
) -> None:
    """Serve devices, and readers the page, until SIGTERM or SIGINT. `ready` gets the address."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with receiving(server, host, port, proxies=proxies, page=page) as (bound, its_port):
        ready(f"http://[{bound}]:{its_port}" if ":" in bound else f"http://{bound}:{its_port}")
        await stop.wait()
        _log.info("stopping")


REFUSED_S: Final = 120.0
"""CouchDB locks an account after five wrong passwords in five minutes, also for the right one."""


class OwnLogin:
    """Middleware of an aiohttp session. After a 401 one request each `REFUSED_S` tries the login again.

    The others raise `CouchUnavailableError`. Requests with another login pass.
    """

    def __init__(self, credentials: tuple[str, str], monotonic: Callable[[], float]) -> None:
        self._header = aiohttp.encode_basic_auth(*credentials)
        self._user = credentials[0]
        self._monotonic = monotonic
        self._next = -math.inf
        self._is_refused = False

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        if request.headers.get(hdrs.AUTHORIZATION) != self._header:
            return await handler(request)
        if self._is_refused:
            now = self._monotonic()
            if now < self._next:
                sentence = (
                    f"CouchDB refused the login of {self._user}; it is tried again each {REFUSED_S:g} s"
                )
                raise CouchUnavailableError(sentence, HTTPStatus.UNAUTHORIZED)
            self._next = now + REFUSED_S
        answer = await handler(request)
        was_refused, self._is_refused = self._is_refused, answer.status == HTTPStatus.UNAUTHORIZED
        if self._is_refused and not was_refused:
            self._next = self._monotonic() + REFUSED_S
        return answer
