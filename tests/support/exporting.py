"""The daemon's front door before a database, and points to export through it."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from growd.access.origins import OriginGuard
from growd.api.api import Api
from growd.api.front_door import FrontDoor
from growd.api.operations import operations_of
from growd.bus import Bus
from growd.bus.params import Parameters
from growd.config import Config, Http
from growd.proxy.gateway import Gateway
from growd.runtime.clock import RealClock
from growd_analysis.points.part import opened
from support.daemon import NAMES, MemoryStore

POINTS = "points"  # the name of the database if the test plays it
LIST = "_design/svc/_list/csv"
TEXTS = ["", "plain", "=1+1", "+1", "@SUM(A1)", '"', "a,b", "a\r\nb", "\tx", "-3", "0", "\N{DELETE}", "\\"]
TEXTS += ["grüße \N{SEEDLING}", '=HYPERLINK("x","y")', " a b "]
NUMBERS = [0, 1, -1, 12.5, 1e21, 1.5e-7, 0.1, 123456789012345680000, 5e-324, 2**53 + 2, -0.0, 1e300]
TIMES = [0, 1, 1.5, 2, 1000.0004, 1732233600.123, 1732233600.1235, -1, -62167219200, 253402300800, 1e13]

EXTRAS = [{"b": [1.0, -0.0, "x\u2028\n"], "10": 1e21, "2": {}}, [], {}, [None]]


class Noting(Gateway):
    """A gateway that records which requests and pages it passed to the database.

    `answered` is set when an answer was sent completely, or cut.
    """

    def __init__(self, upstream, stall_limit):
        super().__init__(lambda: upstream, stall_limit=stall_limit)
        self.handed_on = []
        self.pages = []
        self.answered = asyncio.Event()

    async def handle(self, request, instead=None):
        try:
            return await super().handle(request, instead)
        finally:
            self.answered.set()

    async def _hand_on(self, request, instead):
        self.handed_on.append(request.raw_path)
        return await super()._hand_on(request, instead)

    async def ask(self, request, target, **how):
        self.pages.append(target)
        return await super().ask(request, target, **how)


@dataclass(frozen=True)
class Door:
    port: int
    noted: Noting

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def front_door(upstream, database=POINTS, *, stall_limit=300, building=None, policy=None):
    """The daemon's server in front of `upstream`, whose points are in `database`."""
    bus = Bus(RealClock(), Parameters(store=MemoryStore()))
    gateway = Noting(upstream, stall_limit)
    guard = OriginGuard(policy or Http(hosts=NAMES))
    names = SimpleNamespace(points=database, events="events")
    stored = SimpleNamespace(is_embedded=building is None, index_build=building, names=names)
    around = SimpleNamespace(gateway=gateway, database=stored, present=Config)
    server = FrontDoor(Api(bus, bus.node("http"), "/_svc", operations_of()), gateway, guard=guard)
    await server.open("127.0.0.1", 0)
    assert server.address is not None
    try:
        async with opened(around):
            yield Door(server.address[1], gateway)
    finally:
        await server.close()
        await gateway.close()
        await bus.parameters.close()


def random_points(seed, number=60):
    """Points of all kinds, some with equal keys."""
    chance = random.Random(seed)
    return [_random_point(chance, n) for n in range(number)]


def _random_point(chance, number):
    document = {
        "_id": f"growd-{chance.choice('ab')}:{chance.choice(['', 'ä', '+', ' '])}{number:03}",
        "environment": chance.choice(["chamber", "chamber 2", "Kühlraum"]),
        "variable": chance.choice(["air_temperature", "light_illuminance", "=x", "toString"]),
        "is_desired": chance.random() < 0.3,
        "is_manual": False,
        "value": chance.choice([*TEXTS, *NUMBERS, None, True, False]),
        "timestamp": chance.choice(TIMES),
    }
    if chance.random() < 0.3:
        document["category"] = chance.choice(["measured", "desired"])
    if chance.random() < 0.3:
        document["unit"] = chance.choice([None, "K", "%"])
    if chance.random() < 0.2:
        document["quality"] = chance.choice([None, "suspect", 0])
    if chance.random() < 0.3:
        document["extra"] = chance.choice(EXTRAS)
    return document


@dataclass
class MadeUpView:
    """Plays the database: a view with rows, page by page.

    `heads` are those of the requests so far.
    """

    rows: list[dict[str, Any]]
    heads: list[bytes] = field(default_factory=list)

    async def __call__(self, peer):
        try:
            while True:
                self.heads.append(await peer.head())
                await self.answer(peer, len(self.heads))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    async def answer(self, peer, number):
        """Answer request `number`, counted from 1."""
        await peer.send(page_answer(self.page(self.heads[-1])))

    def page(self, head):
        """The requested rows."""
        query = parse_qs(urlsplit(head.split(b" ")[1].decode()).query)
        start = 0
        if "startkey" in query:
            place = [json.loads(query["startkey"][0]), query["startkey_docid"][0]]
            start = sum([row["key"], row["id"]] < place for row in self.rows)
        return self.rows[start : start + int(query["limit"][0])]


def row(number, key=None, **fields):
    """A row of a view; the point has this number as its timestamp and value."""
    value = {"_id": f"p{number:06}", "timestamp": number, "variable": "x", "value": number, **fields}
    return {"id": value["_id"], "key": ["e", number] if key is None else key, "value": value}


def page_answer(rows):
    body = json.dumps({"total_rows": 1_000_000, "offset": 0, "rows": rows}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body
