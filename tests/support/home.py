"""A bus with one environment, and the bridge of it against a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from growd.status.model import Status

ENVIRONMENT = "environment_1"
DEVICE = "0123456789ab"
TOPICS = TopicNames("growd", DEVICE)
SOON = Pauses(0.05, 0.1)
AVAILABILITY = f"growd/{DEVICE}/availability"
CONFIG = f"homeassistant/device/growd_{DEVICE}_{ENVIRONMENT}/config"


(_CHAMBER,) = chambers_of(load(profile_path("climate")))
CLIMATE = HomePlace.of(_CHAMBER)
"""The environment of the profile climate."""


def reading(variable: str, value: float | None, quality: str = "ok", unit: str = "degC") -> VariableStatus:
    measured = Reading(value, quality, 1.0, "filter")
    return VariableStatus(ENVIRONMENT, variable, unit, measured, None, None, 0.0, is_sensed=True)


IDLE = RecipeStatus(ENVIRONMENT, "idle", "", "", 0.0, 0.0)


class Watcher:
    """A client of the broker, and what it has seen."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seen: dict[str, Any] = {}
        self.history: list[tuple[str, Any]] = []

    @asynccontextmanager
    async def watched(self, login: tuple[str, str] = ("", "")) -> AsyncIterator[None]:
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

    async def _watch(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):
            async for message in self.client.messages:
                body = bytes(message.payload).decode()  # type: ignore[arg-type]
                value = json.loads(body) if body.startswith("{") else body
                self.seen[str(message.topic)] = value
                self.history.append((str(message.topic), value))

    def state(self, *names: str) -> Any:
        """The last message on a topic of growd, None without one."""
        return self.seen.get(TOPICS(*names))


class Home(Watcher):
    """A bridge on a bus, what its status is, and what a client of the broker sees of it."""

    def __init__(
        self,
        port: int,
        *,
        commands: bool = True,
        places: list[HomePlace] | None = None,
        login: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(port)
        self.bus = Bus(RealClock())
        declare_environment(self.bus, ENVIRONMENT, ("air_temperature", "air_carbon_dioxide"))
        self.status: Status = replace(EMPTY, variables=[reading("air_temperature", 21.5)], recipes=[IDLE])
        self.recipe_ids: list[str] = ["lettuce"]
        self.called: list[tuple[str, dict[str, Any], str]] = []
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

    def _serve(self, name: str, *arguments: Field) -> None:
        async def answer(who: str, **given: Any) -> dict[str, Any]:
            self.called.append((name, given, who))
            return {"success": given.get("recipe_id") != "broken", "message": "as it says"}

        node = self.bus.node(f"service of {name}".replace(" ", "_").replace("/", "_"))
        node.serve(name, "growd/Test", answer, arguments=arguments, names_caller=True)

    async def _nothing(self) -> None: ...

    async def _recipes(self) -> list[str]:
        return self.recipe_ids

    @property
    def is_up(self) -> bool:
        return self.seen.get(AVAILABILITY) == "online"

    @property
    def problem(self) -> str:
        return "".join(each["text"] for each in self.bus.find_node("mqtt").information()["problems"])

    async def say(self, topic: str, body: str, *, retain: bool = False) -> None:
        """Publish a command below the topics of this growd."""
        await self.client.publish(TOPICS(*topic.split("/")), body, qos=1, retain=retain)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with Supervisor(RealClock(), self.bus.liveness) as supervisor:
            supervisor.start("mqtt", self.link.run)
            supervisor.start("bridge", self.bridge.run)
            yield


@asynccontextmanager
async def at_home(port: int, **options: Any) -> AsyncIterator[Home]:
    """A watched bridge that has published everything once."""
    home = Home(port, **options)
    async with home.watched(), home.running():
        await until(lambda: home.is_up)
        yield home
