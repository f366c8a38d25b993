"""The node `status`: gathers a `Status` from all nodes of the bus."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from growd.bus.errors import UnknownNameError
from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType, Quality
from growd.control.topics import commanded, desired, measured
from growd.host.hold import Hold
from growd.host.machine import MachineStatus
from growd.runtime.clock import RealClock, until_beat
from growd.runtime.sentence import plain
from growd.status.model import (
    AttainmentStatus,
    BridgeStatus,
    CalibrationDue,
    ChannelStatus,
    CloudStatus,
    ComponentStatus,
    DeviceStatus,
    ExperimentStatus,
    HandStatus,
    HttpStatus,
    InterlockStatus,
    LineStatus,
    OpenAlert,
    OutputStatus,
    Problem,
    Reading,
    RecipeEnd,
    RecipeStatus,
    SensorsApart,
    Status,
    VariableState,
    VariableStatus,
)
from growd.status.notices import notices_of
from growd.status.summary import verdict_of
from growd.store.database_node import DatabaseStatus
from growd.store.replication_status import ReplicationStatus
from growd.store.retention.budget import RetentionStatus
from growd.store.store_node import StoreStatus
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Topic
    from growd.status.model import Stage
    from growd.variables import Variable

T = TypeVar("T")
_log = logging.getLogger(__name__)

CLIENTS: Final = ("http", "mqtt/bridge")
"""The nodes that publish for clients."""

MOST_RECIPE_ENDS: Final = 64
"""How many of the last recipe ends a status lists."""


STATUS_TOPIC: Final = "status"
STATUS: Final = MessageType("growd/Status", (Field("status", Kind.JSON),))
PUBLISHED_S: Final = 5.0
"""The status is published this often, in real seconds, while somebody subscribes to it."""

STEADY_S: Final = 60.0
"""Ages and counters of a published status change this often only: each change is sent to each client."""

_LOOK_S: Final = 1.0
# fmt: off
_TICKING: Final = frozenset((
    "age_s", "successes", "last_error_time", "elapsed_s", "remaining_s", "hand_left_s", "updates", "on_s",
    "energy_kwh", "volume_l", "days_left", "machine_time", "growd_uptime_s", "uptime_s", "load_1min",
    "load_5min", "load_15min", "disk_free_bytes", "temperatures_degc", "speed", "shipped", "waiting",
    "unsaved", "oldest_at", "lost_ago_s", "answered", "published", "changes_left",
))
# fmt: on


_NAMES: Final = ("environment", "variable", "name", "id")
"""Members by which an element of a list is told from others."""


class StatusNode:
    """Gathers a `Status` on demand; it does no work in between."""

    def __init__(
        self, bus: Bus, environments: Collection[str], speed: Callable[[], float] = lambda: 1.0
    ) -> None:
        self._speed = speed
        self._stage: Stage = "starting"
        self._bus = bus
        self._environments = tuple(environments)
        self.node = bus.node("status")
        self.node.describe("status", self._described, prepare=self.look_up)
        self.node.advertise(STATUS_TOPIC, STATUS)
        ends = (desired(environment, "recipe_end") for environment in self._environments)
        known = set(bus.topics.names())
        self._new_ends = self.node.subscribe(*filter(known.__contains__, ends), depth=MOST_RECIPE_ENDS)
        self._ends: deque[RecipeEnd] = deque(maxlen=MOST_RECIPE_ENDS)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Set the stage to "running" for the body, then to "stopping"."""
        self._stage = "running"
        try:
            yield
        finally:
            self._stage = "stopping"

    async def run(self) -> None:
        """Publish the status on the topic `status` while somebody subscribes to it, until cancelled."""
        topic, publisher = self._bus.topics.get(STATUS_TOPIC), self.node.publisher(STATUS_TOPIC)
        clock, due, steady_until = RealClock(), -math.inf, -math.inf
        while True:
            now = clock.monotonic()
            if not topic.subscribers:
                if topic.last is not None and topic.last.value is not None:
                    publisher.publish(None, Quality.STALE)  # the next client must not take it for news
                due = steady_until = -math.inf
            elif now >= due:
                due = now + PUBLISHED_S
                await self.look_up()
                found = self._described()
                if now < steady_until and topic.last is not None and topic.last.value is not None:
                    found = _steady(topic.last.value, found)
                else:
                    steady_until = now + STEADY_S
                publisher.publish(found)
            await clock.sleep(until_beat(clock, _LOOK_S))

    async def look_up(self) -> None:
        """Let all other nodes look up what they do not know at once: the machine, the database, files."""
        nodes = [self._bus.find_node(name) for name in self._bus.node_names() if name != self.node.name]
        await asyncio.gather(*(node.prepare() for node in nodes))

    async def look_up_machine(self) -> None:
        """Let the node `machine` alone do so."""
        if "machine" in self._bus.node_names():
            await self._bus.find_node("machine").prepare()

    def _described(self) -> dict[str, Any]:
        """The status as JSON, with `verdict` and `notices`."""
        status = self.snapshot()
        notices = notices_of(status)
        verdict = verdict_of(status, notices)
        return {**plain(status), "verdict": plain(verdict), "notices": plain(notices)}

    def snapshot(self) -> Status:
        """The status now; what is looked up is as the last `look_up` found it."""
        found = _Details(self._bus, self.node.name)
        components = self._components()
        attainment = found.several("attainment", AttainmentStatus)
        return Status(
            time=self._bus.clock.time(),
            machine_time=time.time(),
            machine=found.one("machine", MachineStatus),
            database=found.one("database", DatabaseStatus),
            variables=[*self._variables(found.several("held", _Held), attainment)],
            recipes=[*self._recipes(found.each("recipe", dict[str, Any]))],
            devices=found.devices(),
            interlocks=found.several("interlocks", InterlockStatus),
            store=found.one("store", StoreStatus),
            replications=found.several("replications", ReplicationStatus),
            retention=found.one("retention", RetentionStatus),
            set_points=found.several("set_points", HandStatus),
            channels=found.several("channels", ChannelStatus),
            problems=[*found.several("problems", Problem), *_failing(components)],
            components=components,
            hardware="simulated" if found.one("hardware", str) == "simulated" else "real",
            stage=self._stage,
            stuck=[each.name for each in self._bus.liveness.stuck()],
            attainment=attainment,
            recipe_ends=self._recipe_ends(),
            http=found.one("http", HttpStatus),
            holds=found.several("holds", Hold),
            experiments=found.several("experiments", ExperimentStatus),
            lines=[*{line.name: line for line in found.each("line", LineStatus)}.values()],
            alerts=found.several("alerts", OpenAlert),
            unsafe=found.several("unsafe", str),
            speed=self._speed(),
            outputs=found.several("outputs", OutputStatus),
            calibrations_due=found.several("calibrations_due", CalibrationDue),
            sensors_apart=found.each("apart", SensorsApart),
            cloud=found.one("cloud", CloudStatus),
            bridge=found.one("bridge", BridgeStatus),
        )

    def _components(self) -> list[ComponentStatus]:
        failing = {each.name for each in self._bus.liveness.failing()}
        return [
            ComponentStatus(each.name, each.failures, each.last_error, each.name in failing)
            for each in self._bus.liveness.components()
        ]

    def _variables(
        self, held: Iterable[_Held], attainment: Iterable[AttainmentStatus]
    ) -> Iterator[VariableStatus]:
        """Those that are measured, have a set point or a command, or are held by an interlock."""
        judged = {(each.environment, each.variable): each for each in attainment}
        held_ones = {(each.environment, each.variable): each for each in held}
        for environment in self._environments:
            for variable in VARIABLES.values():
                key = (environment, variable.name)
                found = self._variable(environment, variable, held_ones.get(key))
                if found.is_sensed or found.is_known:
                    yield _judged(found, judged.get(key))

    def _variable(self, environment: str, variable: Variable, held: _Held | None) -> VariableStatus:
        now, left = self._bus.clock.time(), self._hand_left_s(environment, variable.name)
        topic = self._topic(measured(environment, variable.name))
        value = None if topic is None else topic.last
        set_point = self._last(desired(environment, variable.name))
        command = self._last(commanded(environment, variable.name))
        level = command.value if command is not None and command.value is not None else 0.0
        if held is not None and held.level == level:
            held = None  # the output does what is commanded, or rests
        return VariableStatus(
            environment,
            variable.name,
            variable.unit,
            None if value is None else _reading(value, now, _author(value, environment)),
            None if set_point is None else _reading(set_point, now, _author(set_point, environment)),
            None if command is None else _reading(command, now, _commander(command, left)),
            left,
            held.by if held is not None else "",
            held.level if held is not None else None,
            is_sensed=topic is not None and not topic.is_open,
        )

    def _hand_left_s(self, environment: str, variable: str) -> float:
        parameter = self._bus.parameters.declared(f"{environment}/controllers/{variable}/override_left")
        return 0.0 if parameter is None else float(parameter.value)

    def _recipes(self, described: Iterable[dict[str, Any]]) -> Iterator[RecipeStatus]:
        """Those that have published a state; `described` has the revision of each, see `RecipeStatus`."""
        by_environment = {each["environment"]: each for each in described}
        for environment in self._environments:
            last = self._last(f"{environment}/recipe_state")
            if last is not None:
                state = dict(last.value)
                times = {f"{name}_s": state.pop(name) for name in ("elapsed", "remaining")}
                about = by_environment.get(environment, {"environment": environment})
                yield RecipeStatus(**about, **state, **times, updates=last.number)

    def _recipe_ends(self) -> list[RecipeEnd]:
        while (message := self._new_ends.get_nowait()) is not None:
            environment = message.topic.partition("/")[0]
            self._ends.append(RecipeEnd(environment, message.value, message.time, message.number))
        return [*self._ends]

    def _topic(self, name: str) -> Topic | None:
        try:
            return self._bus.topics.get(name)
        except UnknownNameError:
            return None

    def _last(self, name: str) -> Message | None:
        topic = self._topic(name)
        return None if topic is None else topic.last


class _Held(msgspec.Struct, frozen=True):
    """An output that an interlock holds, as the node of the interlocks describes it."""

    environment: str
    variable: str
    by: str
    level: float | None


_ATTAINED: Final[dict[str, VariableState]] = {
    "settling": "approaching",
    "missed": "approaching",
    "reached": "at_set_point",
}
"""The state of a variable whose set point is judged, unless it is off."""


class _Details:
    """The details of all nodes but one, converted to the types of the status."""

    def __init__(self, bus: Bus, without: str) -> None:
        self._bus = bus
        self._details: dict[str, dict[str, Any]] = {}
        for name in bus.node_names():
            if name != without:
                with self._reporting(name):
                    self._details[name] = bus.find_node(name).details()

    @contextlib.contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        """A node that fails must not hide the state of all others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._bus.liveness.failed(name, error)
            _log.exception("%s could not report its state", name)

    def devices(self) -> list[DeviceStatus]:
        """All devices, each with its line."""
        lines: dict[str, str] = {}
        for node, one in self._details.items():
            if {"device", "line"} <= {*one}:
                with self._reporting(node):
                    lines[one["device"]["name"]] = one["line"]["name"]
        return [replace(each, line=lines.get(each.name, "")) for each in self.each("device", DeviceStatus)]

    def each(self, name: str, kind: type[T]) -> list[T]:
        """The detail of each node that has it."""
        return self._converted(
            kind, ((node, [one[name]]) for node, one in self._details.items() if name in one)
        )

    def several(self, name: str, kind: type[T]) -> list[T]:
        """The same of details that are lists, in one list."""
        return self._converted(kind, ((node, one.get(name, ())) for node, one in self._details.items()))

    def one(self, name: str, kind: type[T]) -> T | None:
        """The first."""
        return next(iter(self.each(name, kind | None)), None)  # type: ignore[arg-type]

    def _converted(self, kind: type[T], given: Iterable[tuple[str, Iterable[Any]]]) -> list[T]:
        """What nodes gave, but for what is not of this type."""
        found: list[T] = []
        for node, several in given:
            with self._reporting(node):
                for each in several:
                    with self._reporting(node):
                        found.append(msgspec.convert(each, kind))
        return found


def _judged(found: VariableStatus, attainment: AttainmentStatus | None) -> VariableStatus:
    """A variable with its state and its band."""
    measured_ok = found.measured is not None and found.measured.quality == Quality.OK
    low, high = (attainment.band or (None, None)) if attainment is not None else (None, None)
    state: VariableState = "free"
    if found.is_sensed and not measured_ok:
        state = "unknown"
    elif attainment is not None and attainment.is_lasting:
        state = "off"
    elif attainment is not None and attainment.state in _ATTAINED:
        state = _ATTAINED[attainment.state]
    return replace(found, state=state, low=low, high=high)


def _steady(old: Any, new: Any) -> Any:
    """The new JSON value with the old ages and counters. Those of another thing in its place stay new."""
    if isinstance(old, dict) and isinstance(new, dict):
        if any(old.get(name) != new.get(name) for name in _NAMES):
            return new
        return {
            name: old[name] if name in _TICKING and name in old else _steady(old.get(name), value)
            for name, value in new.items()
        }
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_steady(*pair) for pair in zip(old, new, strict=True)]
    return new


def _failing(components: Iterable[ComponentStatus]) -> Iterator[Problem]:
    for each in components:
        if each.is_failing:
            yield Problem(
                f"{each.name} keeps failing, see the log: {each.last_error}",
                is_failure=True,
                code="component_failing",
                fields={"component": each.name, "reason": each.last_error},
                name=each.name,
            )


def _reading(message: Message, now: float, by: str) -> Reading:
    return Reading(message.value, str(message.quality), max(0.0, now - message.time), by)


def _commander(message: Message, hand_left_s: float) -> str:
    """Who gave a command: a controller repeats what a client commands by hand."""
    return "hand" if hand_left_s or message.node in CLIENTS else "control"


def _author(message: Message, environment: str) -> str:
    """Who gave a set point or a measured value."""
    by_hand = dict.fromkeys((*CLIENTS, f"{environment}/set_points"), "hand")
    known = {**by_hand, f"{environment}/recipe_runner": "recipe"}
    return known.get(message.node, message.node)
