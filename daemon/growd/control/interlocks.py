"""Interlocks: what no recipe, client or controller passes, for it stands between commands and outputs."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.bus.fields import Field, Kind
from growd.bus.messages import MessageType, Quality
from growd.control.actuation import ON_FROM
from growd.control.interlock_conditions import (
    CARBON_DIOXIDE,
    TEMPERATURE,
    UNREAD,
    VALVE,
    Ceiling,
    DosePerHour,
    KeptInterlock,
    NoRise,
    TooWarm,
)
from growd.control.open_times import SteadyWall
from growd.control.topics import EVENT, LIGHT_CHANNELS, commanded, desired, events, raw
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher, Subscription
    from growd.control.calibration import Calibration
    from growd.control.interlock_conditions import Interlock, Readings
    from growd.control.open_times import OpenTimes

logger = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
PATIENCE_S: Final = 5.0
RETRY_S: Final = 10.0
FRESH_S: Final = 0.01  # an actuator that asks for one output after another asks of one moment
_UNKEPT: Final = (OSError, RuntimeError)
_MALFORMED: Final = object()

INTERLOCK: Final = MessageType(
    "growd/Interlock",
    (
        Field("tripped", Kind.BOOL),
        Field("reason", Kind.STRING),
        Field("needs_reset", Kind.BOOL),
        Field("since", Kind.FLOAT64, 0, unit="s"),
    ),
)
"""The state of an interlock: whether it has tripped, why, whether it stays so until someone resets it, and
since when (UNIX seconds)."""


class Guard(Protocol):
    """What an actuator asks for each level, and tells what it wrote. Both answer at once."""

    def permit(self, output: str, level: float) -> float:
        """The level that an output may have now, where `level` is wanted."""

    def wrote(self, output: str, level: float | None) -> None:
        """An output has this level from now on; None if nobody knows, for the write failed."""

    def watch(self, nudge: Callable[[], None]) -> None:
        """Have `nudge()` called whenever what is permitted may have changed."""


class Memory(Protocol):
    """Where it is kept what must outlast a restart.

    Both raise OSError if they can't, or RuntimeError where what does their work has ended or is overloaded.
    """

    async def state(self, key: str, default: Any = None) -> Any:
        """What was kept, or `default` where nothing ever was. Raises ValueError with the reason where it is
        lost.
        """

    async def save_state(self, key: str, value: Any) -> None:
        """Keep it; it is on the disk when this returns."""


class Interlocks:
    """The interlocks of an environment, as its actuators ask them through `guard`.

    Each tells its state on `<environment>/interlocks/<name>` when it changes, its limits in read-only
    parameters beneath that name, and an event and a line in the log when it trips and when it lets go. One
    that latches has a service `<environment>/interlocks/<name>/reset`. They go by what the sensors say
    (`<environment>/raw`, from samplers and combiners alone: a client who publishes there deceives nobody).

    Where this task has not run for `patience_s` seconds, the outputs that it watches are safe, and so they
    are until it has read what was kept (`memory`). That is written when an interlock latches, when the dose
    or the hours of light grew by a tenth of their limit, at the start and at a clean end (`close`).
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        interlocks: Sequence[Interlock],
        readings: Readings,
        *,
        sensors: Mapping[str, Sequence[str]],
        memory: Memory,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.node = bus.node(f"{environment}/interlocks")
        self._bus = bus
        self._clock = bus.clock
        self._interlocks = tuple(interlocks)
        self._kept_ones = tuple(each for each in self._interlocks if isinstance(each, KeptInterlock))
        outputs = {output for each in self._interlocks for output in each.holds}
        self._holding = {
            output: tuple(each for each in self._interlocks if output in each.holds) for output in outputs
        }
        self._environment = environment
        self._driven = _driven(outputs)
        self._safe: dict[str, float] = {}
        self._held: dict[str, str] = {}  # by output: the interlock that changes its level now
        self._levels: dict[str, float | None] = {}  # as written
        self._ceiling = next((each for each in self._interlocks if isinstance(each, Ceiling)), None)
        self._readings = readings
        self._memory = memory
        self._memory_key = f"{environment}/interlocks"
        self._patience = patience_s
        self._alive_at: float | None = None
        self._updated_at = -math.inf
        self._trackers: dict[str, OpenTimes] = {}
        self._nudges: list[Callable[[], None]] = []
        self._told: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._quiet: set[str] = set()
        self._is_loaded = False
        self._is_save_failing = False
        self._changed = asyncio.Event()  # of what is to be kept
        self._saving = asyncio.Lock()
        self._wall = SteadyWall(bus.clock)
        self._set_point_topic = desired(environment, CARBON_DIOXIDE)
        self._topics = {
            raw(environment, variable, device): (variable, device)
            for variable, devices in sensors.items()
            for device in ("", *devices)
        }
        self._events = self.node.advertise(events(environment), EVENT)
        self._outputs = {each.name: self._publisher(environment, each) for each in self._interlocks}
        self.node.describe("interlocks", self._information)
        self.node.describe("held", self._held_variables)
        self._answer_clients()
        self.node.describe("problems", self._problems)

    def track(self, times: OpenTimes, outputs: Iterable[str]) -> None:
        """Have `times` told of what is written to these outputs."""
        self._trackers |= dict.fromkeys(outputs, times)

    def guard(self, device: str, safe: Mapping[str, float]) -> Guard:
        """What the actuator of a device asks, whose outputs have these safe levels."""
        self._safe |= safe
        return _Guard(self, device, safe)

    def why_held(self, outputs: Iterable[str]) -> str:
        """Why one of these outputs, or of those behind these variables, is held; "" if none is."""
        held = {output for name in outputs for output in self._driven.get(name, [name])}
        return next((each.reason for each in self._interlocks if each.reason and each.holds & held), "")

    async def run(self) -> None:
        """Watch until cancelled; with nothing to hold there is nothing to do.

        While it is down the outputs are safe. Readings of that time are old, and are not read later.
        """
        if not self._interlocks:
            return
        try:
            with (
                self.node.subscribe(*self._topics, self._set_point_topic, depth=256) as messages,
                self._bus.liveness.heartbeat(self.node.name) as heart,
            ):
                self._catch_up()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._remember(), name=f"{self.node.name}: memory")
                    tasks.create_task(self._listen(messages), name=f"{self.node.name}: sensors")
                    while True:
                        heart.beat()
                        self._alive_at = self._clock.monotonic()
                        self._wall.follow()
                        self._update()
                        await self._clock.sleep(PERIOD_S)
        finally:
            self._alive_at = None
            self._nudge()

    async def close(self) -> None:
        """Keep what has to outlast a restart, at a clean end, when the outputs are safe."""
        self._update()
        if not self._is_loaded or not self._kept_ones:
            return
        try:
            async with self._saving:
                await self._save(is_clean=True)
        except _UNKEPT as error:
            logger.error("%s: their state can't be kept: %s", self.node.name, error)  # noqa: TRY400  no mistake

    def permitted(self, output: str, level: float, safe: float) -> float:
        """See `Guard.permit`. `safe` is the safe level of the output."""
        holding = self._holding.get(output)
        if holding is None:
            return level
        now = self._clock.monotonic()
        if self._alive_at is None or now - self._alive_at > self._patience:
            self._held[output] = "interlocks that do not run"
            return safe
        if now - self._updated_at > FRESH_S:
            self._update()
        self._held.pop(output, None)
        for each in holding:
            permitted = each.hold(output, level, safe) if each.reason else level
            if permitted != level:
                self._held.setdefault(output, each.name)
                level = permitted
        return level

    def wrote(self, device: str, output: str, level: float | None) -> None:
        """See `Guard.wrote`."""
        self._levels[output] = level
        times = self._trackers.get(output)
        if times is not None:
            now = self._clock.monotonic()
            if now > self._updated_at:
                self._update()  # up to now it had the level before
            times.wrote(f"{device}/{output}", level, now)

    def watch(self, nudge: Callable[[], None]) -> None:
        """See `Guard.watch`."""
        self._nudges.append(nudge)

    def judges(self, device: str) -> bool:
        """Whether an interlock goes by the CO2 that this sensor says."""
        return self._ceiling is not None and self._ceiling.judges(device)

    async def begin_calibration(self, device: str, calibration: Calibration) -> str:
        """See `Calibrations`. What lowers the readings is on the disk before it is done."""
        if self._ceiling is None or not self._is_loaded:
            return UNREAD
        refusal = self._ceiling.why_no_calibration(device, calibration) or self._why_not_shut()
        if refusal or not calibration.lowers:
            return refusal
        async with self._saving:
            before = self._ceiling.corrections
            self._ceiling.calibrated(device, calibration)
            try:
                await self._save()
            except _UNKEPT as error:
                refusal = f"{device} is not calibrated, for that can't be kept: {error}"
            else:
                refusal = self._why_not_shut()  # a disk may take its time
            if refusal:
                self._ceiling.forget(before)
        return refusal

    def end_calibration(self, device: str, calibration: Calibration) -> None:
        """See `Calibrations`. What raises the readings is kept with the next look."""
        if self._ceiling is not None and not calibration.lowers:
            self._ceiling.calibrated(device, calibration)

    def _why_not_shut(self) -> str:
        """Why the air may not be steady enough for a calibration, "" where the valve has been shut."""
        now = self._clock.monotonic()
        doses = (each for each in self._interlocks if isinstance(each, DosePerHour))
        return next((each.why_not_shut(now) for each in doses), "")

    # what they go by

    def _catch_up(self) -> None:
        """Hear what was said while nobody listened: this run may follow one that failed."""
        for topic in (*self._topics, self._set_point_topic):
            last = self._bus.topics.get(topic).last
            if last is not None and (topic == self._set_point_topic or last.quality is not Quality.OK):
                self._take(last)

    async def _listen(self, messages: Subscription) -> None:
        async for message in messages:
            self._take(message)
            self._update()

    def _take(self, message: Message) -> None:
        value = message.value if message.quality is Quality.OK else None
        if message.topic == self._set_point_topic:
            for each in self._interlocks:
                if isinstance(each, NoRise):
                    each.want(value)
        else:
            variable, device = self._topics[message.topic]
            now = self._clock.monotonic()
            self._readings.take(variable, device, value, now)
            if value is not None and not device:
                self._show(variable, value, now)

    def _show(self, variable: str, value: float, now: float) -> None:
        for each in self._interlocks:
            if isinstance(each, NoRise) and variable == CARBON_DIOXIDE:
                each.saw(value, now)
            elif isinstance(each, TooWarm) and variable == TEMPERATURE:
                each.saw(value)

    # what they say

    def _update(self) -> None:
        now = self._updated_at = self._clock.monotonic()
        wall = self._wall.time(now)
        is_news = False
        for each in self._interlocks:
            each.update(now, wall)
            if self._told.get(each.name) != each.reason:
                self._tell(each)
                is_news = True
        for kept in self._kept_ones:
            if kept.is_restored and kept.is_worth_keeping():
                self._changed.set()
        if is_news:
            self._nudge()

    def _tell(self, interlock: Interlock) -> None:
        """On its topic, and, but for what is so at each start, as an event and in the log."""
        name, reason = interlock.name, interlock.reason
        before = self._told.get(name)
        self._told[name] = reason
        self._since[name] = self._clock.time()
        self._outputs[name].publish(self._state(interlock))
        if reason and interlock.is_quiet:
            self._quiet.add(name)
        elif name in self._quiet and not reason:
            self._quiet.discard(name)
        elif reason or before:
            self._quiet.discard(name)
            hint = f"; {interlock.reset_hint}" if interlock.needs_reset else ""
            self._events.publish(
                {"kind": "interlock", "source": name, "message": f"{reason}{hint}" if reason else "released"}
            )
            level = logging.WARNING if reason else logging.INFO
            logger.log(level, "%s/%s: %s%s", self.node.name, name, reason or "released", hint)

    def _state(self, interlock: Interlock) -> dict[str, Any]:
        return {
            "tripped": bool(interlock.reason),
            "reason": interlock.reason,
            "needs_reset": interlock.needs_reset,
            "since": self._since[interlock.name],
        }

    def _information(self) -> list[dict[str, Any]]:
        """For people: each interlock, as on its topic."""
        told = [each for each in self._interlocks if each.name in self._told]
        return [{"name": f"{self.node.name}/{each.name}", **self._state(each)} for each in told]

    def _held_variables(self) -> list[dict[str, Any]]:
        """For `growd status`: what is held now, by which interlock, and the level that was written."""
        return [
            {"environment": self._environment, "variable": variable, "by": by, "level": self._level(outputs)}
            for variable, outputs in self._driven.items()
            if variable != CARBON_DIOXIDE
            and (by := next((self._held[each] for each in outputs if each in self._held), ""))
        ]

    def _level(self, outputs: Iterable[str]) -> float | None:
        """The highest level that was written to one of them, None where one is not known."""
        levels = [self._levels[output] for output in outputs if output in self._levels]
        known = [level for level in levels if level is not None]
        return max(known) if known and len(known) == len(levels) else None

    def _answer_clients(self) -> None:
        """Have clients told when what they ask for is held."""
        for variable, outputs in self._driven.items():
            for topic in (commanded(self._environment, variable), desired(self._environment, variable)):
                if topic in self._bus.topics:
                    remark = functools.partial(self._remark, variable, outputs)
                    self._bus.topics.get(topic).remarks.append(remark)

    def _remark(self, variable: str, outputs: Sequence[str], message: Message) -> str:
        """What a client should know who asks for this, "" where no interlock stands against it."""
        value = message.value
        if value is None:
            return ""
        if isinstance(value, dict):
            value = max(value.values())
        is_switch = variable in VARIABLES and VARIABLES[variable].unit == "switch"
        level = float(value >= ON_FROM if is_switch else value > 0)
        for output in outputs:
            for each in self._holding[output]:
                if each.reason and each.hold(output, level, self._safe.get(output, 0.0)) != level:
                    return f"{_named(output)} is held by {each.name}: {each.reason}"
        return ""

    def _problems(self) -> list[dict[str, Any]]:
        """For people: what they should see to."""
        problems = [each.problem for each in self._interlocks if each.problem]
        return [{"text": f"{self.node.name}: {text}", "is_failure": False} for text in problems]

    def _nudge(self) -> None:
        for nudge in self._nudges:
            nudge()

    def _publisher(self, environment: str, interlock: Interlock) -> Publisher:
        """Its topic, and with it its parameters and its service."""
        base = f"{environment}/interlocks/{interlock.name}"
        for name, (value, unit) in interlock.limits.items():
            field = Field(name, Kind.FLOAT64, unit=unit, default=value)
            self.node.declare(f"{base}/{name}", field, read_only=True).tell(
                value
            )  # whatever stood there before
        if interlock.reset_hint:
            self.node.serve(
                f"{base}/reset",
                "growd/Reset",
                functools.partial(self._reset, interlock),
                doc=f"Reset a tripped interlock: {interlock.reset_hint}. Refused while its cause remains.",
                is_administrative=True,
            )
        return self.node.advertise(base, INTERLOCK)

    async def _reset(self, interlock: Interlock) -> dict[str, Any]:
        """The service: answers when it is kept that it was reset, and holds what it holds until then."""
        refusal = interlock.why_no_reset(self._clock.monotonic())
        if refusal:
            return {"success": False, "message": refusal}
        return await self._to_the_end(self._reset_now(interlock))

    async def _reset_now(self, interlock: Interlock) -> dict[str, Any]:
        async with self._saving:
            try:
                await self._save(reset=interlock)
            except _UNKEPT as error:
                sentence = f"{interlock.name} is not reset, for that can't be kept: {error}"
                return {"success": False, "message": sentence}
            interlock.reset()
        self._update()
        logger.info("%s/%s was reset", self.node.name, interlock.name)
        return {"success": True, "message": f"{interlock.name} has been reset"}

    async def _to_the_end(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Finish `work` even if the caller is cancelled: what is kept and what is in memory stay one."""
        task = asyncio.create_task(work, name=f"{self.node.name}: reset")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise

    # what outlasts a restart

    async def _remember(self) -> None:
        if not self._kept_ones:
            return
        await self._load()
        self._changed.set()  # from now on it is a run that has not ended well
        while True:
            await self._changed.wait()
            if await self._saved():
                self._changed.clear()  # what has happened meanwhile is found by the next look
            else:
                await self._clock.sleep(RETRY_S)

    async def _load(self) -> None:
        while not self._is_loaded:
            try:
                kept = await self._memory.state(self._memory_key)
            except _UNKEPT as error:
                for each in self._kept_ones:
                    each.unreadable(str(error))
                self._update()
                await self._clock.sleep(RETRY_S)
            except ValueError as error:
                self._restore(_MALFORMED, str(error))
            else:
                self._restore(kept)

    def _restore(self, kept: Any, lost: str = "what was kept can't be understood") -> None:
        """`lost` says why the worst is assumed where `kept` is no state."""
        now = self._clock.monotonic()
        if kept is None:
            kept = {**self._wall.kept(), "clean": True, "interlocks": {}}
        try:
            away = self._wall.restore(kept)
            was_clean = kept["clean"] is True
            states = kept["interlocks"]
            found = {each.name: states.get(each.name) for each in self._kept_ones}
        except (TypeError, ValueError, KeyError, AttributeError):
            away, was_clean, found = 0.0, False, {}
        for each in self._kept_ones:
            if not each.restore(found.get(each.name, _MALFORMED), now, away, was_clean=was_clean, lost=lost):
                logger.error("%s/%s: %s; the worst is assumed", self.node.name, each.name, lost)
        self._is_loaded = True
        self._update()

    async def _saved(self) -> bool:
        try:
            async with self._saving:
                await self._save()
        except _UNKEPT as error:
            if not self._is_save_failing:
                logger.error("%s: their state can't be kept: %s", self.node.name, error)  # noqa: TRY400  no mistake of the program
            self._is_save_failing = True
            return False
        self._is_save_failing = False
        return True

    async def _save(self, *, is_clean: bool = False, reset: Interlock | None = None) -> None:
        """One at a time (`_saving`). `reset` is kept as it will be after its reset."""
        now = self._clock.monotonic()
        states = {each.name: each.kept(now, as_reset=each is reset) for each in self._kept_ones}
        kept = {**self._wall.kept(), "clean": is_clean, "interlocks": states}
        await self._memory.save_state(self._memory_key, kept)
        for each in self._kept_ones:
            each.note_kept()


def _named(output: str) -> str:
    """The variable that commands an output: a channel of the lamp has a shorter name."""
    return f"light_intensity_{output}" if output in LIGHT_CHANNELS else output


def _driven(outputs: Iterable[str]) -> dict[str, list[str]]:
    """The outputs behind each variable that clients set or command."""
    driven: dict[str, list[str]] = {}
    for output in sorted(outputs):
        others = {"light_illuminance", "light_channels"} if output in LIGHT_CHANNELS else set()
        for variable in {_named(output), *others} | ({CARBON_DIOXIDE} if output == VALVE else set()):
            driven.setdefault(variable, []).append(output)
    return driven


class _Guard:
    """What one actuator asks."""

    def __init__(self, interlocks: Interlocks, device: str, safe: Mapping[str, float]) -> None:
        self._interlocks = interlocks
        self._device = device
        self._safe = dict(safe)
        self.watch = interlocks.watch

    def permit(self, output: str, level: float) -> float:
        return self._interlocks.permitted(output, level, self._safe.get(output, 0.0))

    def wrote(self, output: str, level: float | None) -> None:
        self._interlocks.wrote(self._device, output, level)
