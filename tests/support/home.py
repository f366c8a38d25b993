"""A bus with one environment, and the bridge of it against a real broker."""

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager

import aiomqtt
from msgspec.structs import replace

from growd.bus import Bus
from growd.bus.fields import Field, Kind
from growd.config import chambers_of, load
from growd.config.profiles import profile_path
from growd.control.topics import declare_environment
from growd.host.mqtt import Broker, MqttLink
from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.runtime.supervisor import Supervisor
from growd.status.model import Reading, RecipeStatus, VariableStatus
from growd_home.bridge import Bridge
from growd_home.discovery import Discovery
from growd_home.layout import HomePlace, TopicNames
from support.status import EMPTY
from support.waiting import PATIENCE_S, until

ENVIRONMENT = "environment_1"
DEVICE = "0123456789ab"
TOPICS = TopicNames("growd", DEVICE)
SOON = Pauses(0.05, 0.1)
AVAILABILITY = f"growd/{DEVICE}/availability"
CONFIG = f"homeassistant/device/growd_{DEVICE}_{ENVIRONMENT}/config"


(_CHAMBER,) = chambers_of(load(profile_path("climate")))
CLIMATE = HomePlace.of(_CHAMBER)
"""The environment of the profile climate."""


def reading(variable, value, quality="ok", unit="degC"):
    measured = Reading(value, quality, 1.0, "filter")
    return VariableStatus(ENVIRONMENT, variable, unit, measured, None, None, 0.0, is_sensed=True)


IDLE = RecipeStatus(ENVIRONMENT, "idle", "", "", 0.0, 0.0)


class Watcher:
    """A client of the broker, and what it has seen."""

    def __init__(self, port):
        self.port = port
        self.seen = {}
        self.history = []

    @asynccontextmanager
    async def watched(self, login=("", "")):
        """See all messages of the broker in the body."""
        user, password = login
        options = {"username": user, "password": password} if user else {}
        async with aiomqtt.Client("localhost", self.port, **options) as self.client:
            await self.client.subscribe("#", qos=1)
            task = asyncio.create_task(self._watch(), name="watcher")
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _watch(self):
        with contextlib.suppress(aiomqtt.MqttError):
            async for message in self.client.messages:
                body = bytes(message.payload).decode()
                value = json.loads(body) if body.startswith("{") else body
                self.seen[str(message.topic)] = value
                self.history.append((str(message.topic), value))

    def state(self, *names):
        """The last message on a topic of growd, None without one."""
        return self.seen.get(TOPICS(*names))


class Home(Watcher):
    """A bridge on a bus, what its status is, and what a client of the broker sees of it."""

    def __init__(self, port, *, commands=True, places=None, login=("", "")):
        super().__init__(port)
        self.bus = Bus(RealClock())
        declare_environment(self.bus, ENVIRONMENT, ("air_temperature", "air_carbon_dioxide"))
        self.status = replace(EMPTY, variables=[reading("air_temperature", 21.5)], recipes=[IDLE])
        self.recipe_ids = ["lettuce"]
        self.called = []
        self._serve("hold/set")
        held = (Field("since", Kind.FLOAT64, default=0.0), Field("reason", Kind.JSON, default=None))
        self._serve("hold/release", *held)
        for name in ("stop", "pause", "resume"):
            self._serve(f"{ENVIRONMENT}/{name}_recipe")
        self._serve(f"{ENVIRONMENT}/start_recipe", Field("recipe_id", Kind.STRING))
        will = aiomqtt.Will(AVAILABILITY, b"offline", qos=1, retain=True)
        where = Broker("localhost", port, None, PATIENCE_S, *login)
        self.link = MqttLink(self.bus, where, f"growd-{DEVICE}", pauses=SOON, will=will, is_vital=False)
        self.bridge = Bridge(
            self.bus,
            self.link,
            TOPICS,
            [CLIMATE] if places is None else places,
            look_up=self._nothing,
            snapshot=lambda: self.status,
            recipes=self._recipes,
            interval_s=0.05,
            discovery=Discovery("homeassistant", TOPICS, "chamber", "1.0", commands=commands),
            commands=commands,
        )

    def _serve(self, name, *arguments):
        async def answer(who, **given):
            self.called.append((name, given, who))
            return {"success": given.get("recipe_id") != "broken", "message": "as it says"}

        node = self.bus.node(f"service of {name}".replace(" ", "_").replace("/", "_"))
        node.serve(name, "growd/Test", answer, arguments=arguments, names_caller=True)

    async def _nothing(self): ...

    async def _recipes(self):
        return self.recipe_ids

    @property
    def is_up(self):
        return self.seen.get(AVAILABILITY) == "online"

    @property
    def problem(self):
        return "".join(each["text"] for each in self.bus.find_node("mqtt").information()["problems"])

    async def say(self, topic, body, *, retain=False):
        """Publish a command below the topics of this growd."""
        await self.client.publish(TOPICS(*topic.split("/")), body, qos=1, retain=retain)

    @asynccontextmanager
    async def running(self):
        async with Supervisor(RealClock(), self.bus.liveness) as supervisor:
            supervisor.start("mqtt", self.link.run)
            supervisor.start("bridge", self.bridge.run)
            yield


@asynccontextmanager
async def at_home(port, **options):
    """A watched bridge that has published everything once."""
    home = Home(port, **options)
    async with home.watched(), home.running():
        await until(lambda: home.is_up)
        yield home
