"""A daemon that asks a database who its clients are, and users of that database."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote
from uuid import uuid4

import aiohttp
from yarl import URL

from growd.api.api import Api
from growd.api.front_door import FrontDoor
from growd.api.operations import operations_of
from growd.bus import Bus
from growd.bus.params import Parameters
from growd.config import Access, Config, Couchdb, Http
from growd.proxy.gateway import Gateway
from growd.runtime.clock import RealClock
from growd.wiring.access import access_control
from growd_web.part import ApiDocument
from support.clock import Time
from support.couch_client import Answer
from support.daemon import Daemon, MemoryStore
from support.session_server import session_cookie
from support.waiting import PATIENCE_S

PARAM = "/_svc/api/0.0.1/param"
PLAN = "environment_1/recipe_plan"
RESET = "environment_1/interlocks/ceiling/reset"
ROLES = {"reader": ["growd_reader"], "operator": ["growd_operator"], "administrator": ["growd_admin"]}


@dataclass
class GuardedDaemon(Daemon):
    """The daemon, and requests from wherever and whomever."""

    time: Time = field(default_factory=Time)

    async def request(self, method, path, login=None, *, address="", cookie="", body=None, **headers):
        """A request for `path` as it stands; `address` is where it comes from, through a proxy here."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if login is not None:
            sent["Authorization"] = aiohttp.encode_basic_auth(*login)
        if address:
            sent["X-Forwarded-For"] = address
        if cookie:
            sent["Cookie"] = f"other=1; AuthSession={cookie}; last=2"
        url = URL(self.origin + path, encoded=True)
        async with self.session.request(
            method, url, headers=sent, json=body, allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def read(self, login=None, **options):
        return await self.request("GET", PARAM, login, **options)

    async def write(self, login=None, **options):
        return await self.request("POST", f"{PARAM}/owner", login, body={"value": "me"}, **options)

    async def call(self, service, login=None, **options):
        return await self.request("POST", f"/_svc/api/0.0.1/service/{service}", login, **options)


@asynccontextmanager
async def guarded_daemon(url, **access):
    """A daemon on a free port, whose users are those of the database at `url`; `access` as in [access]."""
    config = Config(http=Http(access="couchdb"), couchdb=Couchdb(url=url), access=Access(**access))
    moved, store = Time(1_000.0), MemoryStore()
    bus = Bus(RealClock(), Parameters(store=store))
    gateway = Gateway(lambda: url)
    control = access_control(config, gateway, "/_svc", moved)
    api = Api(bus, bus.node("http"), "/_svc", operations_of(), access=control.authorization)
    api.offer(ApiDocument(api).operations)
    server = FrontDoor(api, control.check_logins(gateway))
    await server.open("127.0.0.1", 0)
    try:
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            daemon = GuardedDaemon(bus, api, server, session, store, time=moved)
            bus.node("interlocks").serve(RESET, "growd/Reset", _reset, is_administrative=True)
            bus.node("library").serve(PLAN, "growd/Plan", _reset, only_reads=True)
            yield daemon
    finally:
        await server.close()
        await gateway.close()
        await bus.parameters.close()


async def _reset():
    return {"success": True, "message": "reset"}


class Users:
    """Users of a database, made for one test and deleted after it."""

    def __init__(self, url, admin, session):
        self.url = url
        self.admin = admin
        self._session = session
        self._passwords = {}

    async def add(self, *roles, name="", password=""):
        """A new user, of a name that nobody had: CouchDB remembers who failed."""
        name = (name or "growd-test") + uuid4().hex
        login = (name, password or uuid4().hex)
        self._passwords[name] = login[1]
        await self._put({"name": name, "roles": roles, "password": login[1]})
        await self._until_known(name, {*roles})
        return login

    async def change(self, name, **fields):
        """Change the document of a user: `roles`, `password`."""
        changed = (await self.document(name)) | fields
        await self._put(changed)
        self._passwords[name] = fields.get("password", self._passwords[name])
        await self._until_known(name, {*changed["roles"]})

    async def delete(self, name):
        revision = (await self.document(name))["_rev"]
        await self._ask("DELETE", f"{_document(name)}?rev={revision}")
        await self._until_known(name, None)
        del self._passwords[name]

    async def delete_all(self):
        for name in [*self._passwords]:
            await self.delete(name)

    async def document(self, name):
        return await self._ask("GET", _document(name))

    async def cookie(self, name, age_s=0.0):
        """The cookie that the database gave to this user that long ago."""
        secret = await self._ask("GET", "/_node/_local/_config/chttpd_auth/secret")
        salt = (await self.document(name))["salt"]
        return session_cookie(name, secret, salt, int(time.time() - age_s))

    async def status(self, login, address):
        """What the database itself says to a login from that address."""
        headers = {"X-Forwarded-For": address, "Authorization": aiohttp.encode_basic_auth(*login)}
        async with self._session.get(f"{self.url}/_session", headers=headers) as response:
            return response.status

    async def _until_known(self, name, roles):
        """Wait until the database goes by it (None: the user is unknown), for its cache comes after."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                headers = {
                    "X-Forwarded-For": uuid4().hex,  # from where nobody has failed
                    "Authorization": aiohttp.encode_basic_auth(name, self._passwords[name]),
                }
                async with self._session.get(f"{self.url}/_session", headers=headers) as response:
                    told = await response.json(content_type=None)
                    if response.status == 401 and roles is None:
                        return
                    if response.status == 200 and {*told["userCtx"]["roles"]} == roles:
                        return

    async def _put(self, document):
        name = document["name"]
        body = {"_id": f"org.couchdb.user:{name}", "type": "user", **document}
        await self._ask("PUT", _document(name), body)

    async def _ask(self, method, path, body=None):
        headers = {"Authorization": aiohttp.encode_basic_auth(*self.admin)}
        url = URL(self.url + path, encoded=True)
        async with self._session.request(method, url, json=body, headers=headers) as response:
            assert response.status in {200, 201}, await response.text()
            return await response.json(content_type=None)


def _document(name):
    return f"/_users/org.couchdb.user:{quote(name, safe='')}"


@asynccontextmanager
async def users_of(url, admin):
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        users = Users(url, admin, session)
        try:
            yield users
        finally:
            await users.delete_all()
