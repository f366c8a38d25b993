"""A receiver in front of a real CouchDB, with databases of its own that are deleted afterwards."""

from __future__ import annotations

import os
import secrets
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from growd.runtime.clock import RealClock
from growd.store.couch import Couch  # noqa: TC001  a field
from growd.store.points import PointMaker
from growd_cloud.accounts import Accounts
from growd_cloud.months import CloudNames
from growd_cloud.serving import CloudServer, connected, receiving
from growd_web.served_page import ServedPage
from support.checkout import ROOT
from support.couch_client import COUCHDB_ADDRESS, client_of
from support.database import named_server
from support.http_server import serving_http

ADDRESS = os.environ.get("GROWD_TEST_COUCHDB_CLOUD") or os.environ.get(COUCHDB_ADDRESS)
NO_CLOUD = "the embedded database has no users and no partitions: GROWD_TEST_COUCHDB names one"
needs_cloud = pytest.mark.skipif(ADDRESS is None, reason=NO_CLOUD)


@dataclass
class Cloud:
    """A running receiver at `url`; `couch` is its CouchDB, as administrator."""

    url: str
    server: CloudServer
    couch: Couch
    stack: AsyncExitStack
    devices: list[str] = field(default_factory=list)

    @property
    def names(self):
        return self.server.names

    @property
    def accounts(self):
        return Accounts(self.couch, self.names, RealClock().time)

    async def client(self, login=None):
        """A client of the receiver that ends with the test."""
        return await self.stack.enter_async_context(client_of(self.url, login))

    async def device(self):
        """A new device: its id, which is its account, and its password."""
        device, password = PointMaker.new_device(), secrets.token_hex(8)
        await self.account(device, password, "device")
        return device, password

    async def member(self):
        """A new device: its id, and a client with its account."""
        login = await self.device()
        return login[0], await self.client(login)

    async def account(self, name, password, *roles):
        """A new account of CouchDB that ends with the test."""
        self.devices.append(name)
        account = {"name": name, "password": password, "roles": list(roles), "type": "user"}
        await self.couch.put("_users", {"_id": f"org.couchdb.user:{name}", **account})

    async def databases(self):
        """The names of the databases that this test made."""
        found = await self.couch.request("GET", "/_all_dbs")
        return [each for each in found if each.startswith(self.names.prefix)]

    async def stored(self, database):
        """All documents of a database, by id."""
        return [row["doc"] for row in await self.couch.all_docs(database, include_docs=True)]

    async def clean(self):
        for database in await self.databases():
            await self.couch.delete(database)
        for device in self.devices:
            account = await self.couch.get("_users", f"org.couchdb.user:{device}")
            if account is not None:
                await self.couch.put("_users", account | {"_deleted": True})


class CouchFront:
    """Passes requests on to CouchDB. `status` replaces that of each answer to a write; `is_away` closes."""

    def __init__(self, session, target):
        self.status = None
        self.is_away = False
        self._session = session
        self._target = target

    async def handle(self, request):
        body = await request.read()
        if self.is_away:
            request.transport.abort()
        url = URL(self._target + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, url, headers=request.headers, data=body or None
        ) as answer:
            content = await answer.read()
        is_write = request.path.endswith("/_bulk_docs") or request.method == "PUT"
        status = self.status if self.status is not None and is_write else answer.status
        return web.Response(status=status, body=content, content_type="application/json")


def _couchdb():
    if ADDRESS is None:
        pytest.skip(NO_CLOUD)
    return named_server(ADDRESS)


@asynccontextmanager
async def couch_front():
    """A front of the cloud's CouchDB, and its address."""
    async with aiohttp.ClientSession() as session:
        front = CouchFront(session, _couchdb().url)
        async with serving_http(front.handle) as url:
            yield front, url


@asynccontextmanager
async def running_cloud(clock=None, url=None):
    """A receiver with fresh databases. It reaches CouchDB at `url`."""
    named = _couchdb()
    assert named.auth is not None
    page = ServedPage(ROOT / "page", is_edited=True)
    server = CloudServer(named.url, named.auth, CloudNames(f"t{secrets.token_hex(4)}_"))
    used = replace(server, url=url or server.url)
    async with AsyncExitStack() as stack:
        _, couch = await stack.enter_async_context(connected(server))
        cloud = Cloud("", server, couch, stack)
        try:
            async with receiving(used, "127.0.0.1", 0, clock=clock, page=page) as (host, port):
                cloud.url = f"http://{host}:{port}"
                yield cloud
        finally:
            await cloud.clean()
