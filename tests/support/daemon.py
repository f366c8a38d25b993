"""A daemon without hardware and database: a real bus behind a real HTTP server."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial

import aiohttp
from aiohttp import web
from yarl import URL

from growd.access.origins import OriginGuard
from growd.api.api import Api
from growd.api.front_door import FrontDoor
from growd.api.operations import operations_of
from growd.bus import Bus
from growd.bus.errors import NotKeptError
from growd.bus.fields import Field, Kind
from growd.bus.messages import BOOL, DIAGNOSTIC_STATUS, FLOAT64, INT64, STRING, VECTOR3
from growd.bus.params import Parameters
from growd.bus.services import SUCCESS
from growd.config import Http
from growd.runtime.clock import RealClock
from growd_analysis.runs.calls import RunCalls
from growd_home.part import add_rosbridge
from growd_web.part import ApiDocument
from support.couch_client import Answer
from support.waiting import PATIENCE_S

CO2 = "environment_1/measured/air_carbon_dioxide"
LIGHT = "environment_1/desired/light_illuminance"
POSITION = "chamber/position"
TOPICS = {
    CO2: FLOAT64.within(0, 40_000, "ppm"),
    LIGHT: FLOAT64.within(0, 200_000, "lux"),
    "environment_1/commanded/air_flush_on": FLOAT64.within(0, 1, "switch"),
    "environment_1/desired/recipe_start": STRING,
    "chamber/door_open": BOOL,
    "chamber/starts": INT64,
    "chamber/pressure": FLOAT64,
    POSITION: VECTOR3,
    "diagnostics": DIAGNOSTIC_STATUS,
}
START = "environment_1/start_recipe"
STOP = "environment_1/stop_recipe"
CALIBRATE = "sensors/scd30/calibrate"
NAMES = ("x", "h", "growd")  # of the reserved segment, used by tests


class MemoryStore:
    """Stores parameters; refuses while `broken`."""

    def __init__(self):
        self.kept = {}
        self.broken = False

    async def save(self, changes, removed):
        if self.broken:
            raise NotKeptError("the parameters can't be kept: the disk is full")
        self.kept.update(changes)
        for name in removed:
            self.kept.pop(name, None)


class Database:
    """Takes the place of the gateway, and records the requests."""

    def __init__(self):
        self.targets = []

    async def handle(self, request):
        self.targets.append(request.raw_path)
        return web.Response(text="database", headers={"X-Database": "1"})


class Runner:
    """The services of the recipe runner, and a calibration with an argument of each type."""

    def __init__(self, bus):
        self.calls = []
        node = bus.node("recipe_runner")
        recipe = Field("recipe_id", Kind.STRING, max_length=200)
        node.serve(START, "growd/StartRecipe", self._start, arguments=(recipe,), doc="Start a recipe")
        node.serve(STOP, "std_srvs/Trigger", self._stop)
        node.serve(
            CALIBRATE,
            "growd/Calibrate",
            self._calibrate,
            arguments=(
                Field("reference", Kind.FLOAT64, 400, 2_000, "ppm"),
                Field("rounds", Kind.INT64, 1, 10, default=3),
                Field("force", Kind.BOOL, default=False),
                Field("notes", Kind.JSON, default=None),
            ),
            reply=(*SUCCESS, Field("offset", Kind.FLOAT64, default=0.0)),
        )

    async def _start(self, recipe_id):
        self.calls.append((START, {"recipe_id": recipe_id}))
        if recipe_id == "unknown":
            return {"success": False, "message": "there is no recipe named unknown"}
        return {"success": True, "message": f"started {recipe_id}"}

    async def _stop(self):
        self.calls.append((STOP, {}))
        return {"success": True, "message": "stopped"}

    async def _calibrate(self, **arguments):
        self.calls.append((CALIBRATE, arguments))
        return {"success": True, "message": "calibrated", "offset": arguments["reference"] - 400}


@dataclass
class Daemon:
    """The parts of the daemon, and an HTTP client."""

    bus: Bus
    api: Api
    server: FrontDoor
    session: aiohttp.ClientSession
    store: MemoryStore = field(default_factory=MemoryStore)
    database: Database = field(default_factory=Database)
    runner: Runner = field(init=False)

    def __post_init__(self):
        self.runner = Runner(self.bus)
        sensor = self.bus.node("scd30")
        for name, kind in TOPICS.items():
            self.bus.topics.declare(name, kind, is_open=name != CO2)
        self.sensor = {name: sensor.publisher(name) for name in TOPICS}
        sensor.declare("sensors/scd30/interval", Field("interval", Kind.FLOAT64, 2, 1_800, "s", default=5.0))
        sensor.declare("environment_1/current_recipe", Field("id", Kind.STRING, default=""), read_only=True)

    @property
    def port(self):
        return self.server.address[1]

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    def url(self, path):
        """The address of a path below the API's prefix, sent unchanged."""
        return URL(f"{self.origin}{self.api.prefix}{path}", encoded=True)

    async def ask(self, method, path, **options):
        """Send a request with aiohttp's `json`, `data` and `headers`."""
        async with self.session.request(method, self.url(path), **options) as response:
            return Answer(response.status, response.headers, await response.read())

    async def post(self, path, body, **headers):
        """Send a body with the content type of JSON."""
        sent = {"Content-Type": "application/json", **headers}
        return await self.ask("POST", path, data=body, headers=sent)

    def state(self):
        """Everything that a request can change."""
        topics = [self.bus.topics.get(name) for name in self.bus.topics.names()]
        return {
            "parameters": {name: self.bus.parameters.get(name) for name in self.bus.parameters.names()},
            "kept": dict(self.store.kept),
            "topics": [(t.name, t.count, t.publishers, t.subscribers) for t in topics],
            "calls": list(self.runner.calls),
            "nodes": self.bus.node_names(),
            "database": list(self.database.targets),
            "streams": len(self.api.streams),
        }


def describe_zone(bus, name):
    """Let the node `chambers` name the time zone of the chambers, as that of growd does."""
    bus.node("chambers").describe("environments", lambda: [{"time_zone": name}])


def open_connections(door):
    """The connections of a front door."""
    factory = door.listener._factory
    return [] if factory is None else [*factory.admission.connections]


@asynccontextmanager
async def serving(
    limits=None,
    policy=None,
    clients=None,
    certificate=None,
    port=0,
    *,
    clock=None,
    history=None,
    runs=None,
    rig=None,
    reports=None,
):
    """A daemon on a port of the loopback interface; 0 is any free one. `clock` is that of streams.

    The journal of a `rig` sends its entries only if the caller runs `api.journal.delivery.work`.
    """
    store, database = MemoryStore(), Database()
    bus = Bus(RealClock(), Parameters(store=store))
    journal = rig.journal(bus) if rig is not None else None
    if journal is not None:
        await journal.load()
    options = {"clients": clients, "clock": clock, "history": history, "journal": journal}
    api = Api(bus, bus.node("http"), "/_svc", operations_of(limits), limits, **options)
    api.offer(ApiDocument(api).operations)
    if runs is not None and history is not None:
        api.offer(RunCalls(runs, history, partial(asyncio.sleep, 0, reports)).operations)
    add_rosbridge(api)
    server = FrontDoor(api, database, guard=OriginGuard(policy or Http(hosts=NAMES)))
    await server.open("127.0.0.1", port, certificate=certificate)
    try:
        async with aiohttp.ClientSession() as session:
            yield Daemon(bus, api, server, session, store, database)
    finally:
        await server.close()
        await bus.parameters.close()
        if journal is not None:
            await journal.close()


@contextmanager
def serving_in_a_thread(limits=None):
    """The same on an event loop of its own, for clients that block."""
    ready = Future()
    leave = Future()

    async def serve():
        async with serving(limits) as daemon:
            ready.set_result(daemon)
            await asyncio.wrap_future(leave)

    with ThreadPoolExecutor(1, thread_name_prefix="daemon") as thread:
        served = thread.submit(asyncio.run, serve())
        try:
            yield ready.result(PATIENCE_S)
        finally:
            leave.set_result(None)
            served.result(PATIENCE_S)
