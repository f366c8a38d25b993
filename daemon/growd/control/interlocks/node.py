"""The interlocks of an environment: they judge each level before an actuator writes it."""

from __future__ import annotations

import asyncio
import functools
import math
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.bus.messages import Quality
from growd.control.interlocks.base import Interlock, PersistentInterlock
from growd.control.interlocks.remarks import RAISED_BY_VALVE, Remarks, driven_by
from growd.control.interlocks.reports import INTERLOCK, Reports
from growd.control.interlocks.saved_states import SavedStates
from growd.control.topics import desired, measured, raw
from growd.runtime.clock import ROUNDING_S, until_beat
from growd.runtime.sentence import Sentence, code_of, document, problem, reworded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher, Subscription
    from growd.control.hold import OutputHold
    from growd.control.interlocks.base import Guard, SensorReadings
    from growd.control.interlocks.carbon_dioxide import SensorCalibrations
    from growd.control.interlocks.on_times import OnTimes
    from growd.control.interlocks.saved_states import Memory
    from growd.control.pumps import Pumps
    from growd.runtime.clock import Cancellable


PERIOD_S: Final = 1.0
PATIENCE_S: Final = 5.0
_RESET_EACH: Final = (
    "Check that each output works, then reset its interlock. The others release by themselves."
)
FRESH_S: Final = 0.01  # one update serves an actuator that asks for several outputs in a row
_Place = tuple[str, str]
HOLD: Final = "the hold"
"""What holds an output while all outputs are held, for `growd status`."""


class Interlocks:
    """The interlocks of an environment. Actuators ask them through `guard`.

    Each interlock publishes its state on `<environment>/interlocks/<name>` when it changes, with an event and
    a log line when it trips and when it releases. Its limits are read-only parameters below that name, and so
    is the service `reset` of one that needs it. The inputs are raw readings and set points.

    `outputs` names all outputs, also those without an interlock. All of them are safe while there is a
    `hold`, while this task has not run for `PATIENCE_S`, and until it has read the saved state (`memory`).
    Dosing pumps are off while `pumps` holds them.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        interlocks: Sequence[Interlock],
        readings: SensorReadings,
        *,
        sensors: Mapping[str, Sequence[str]],
        derived: Iterable[str] = (),
        memory: Memory,
        outputs: Iterable[str] = (),
        drives: Mapping[str, Iterable[str]] = RAISED_BY_VALVE,
        hold: OutputHold | None = None,
        pumps: Pumps | None = None,
    ) -> None:
        self.node = bus.node(f"{environment}/interlocks")
        self._bus = bus
        self._clock = bus.clock
        self.calibrations: SensorCalibrations | None = None
        """Asked before a CO2 sensor is calibrated; None without a ceiling."""
        self._interlocks = tuple(interlocks)
        self._with_ends = tuple(each for each in self._interlocks if _overrides(each, "due_s"))
        self._with_problems = tuple(each for each in self._interlocks if _overrides(each, "problem"))
        persistent = [each for each in self._interlocks if isinstance(each, PersistentInterlock)]
        self.saved = SavedStates(self.node.name, bus.clock, persistent, memory, self._update)
        limited = {output for each in self._interlocks for output in each.holds}
        self._holding = {
            output: tuple(each for each in self._interlocks if output in each.holds) for output in limited
        }
        self._hold = hold
        self._pumps = pumps
        self._environment = environment
        self._moved = {variable for several in drives.values() for variable in several}
        self._driven = driven_by(limited.union(outputs), drives)
        self._safe: dict[str, float] = {}
        self._held: dict[_Place, str] = {}  # the interlock that holds an output of a device now
        self._levels: dict[_Place, float | None] = {}  # as written
        self._readings = readings
        self._alive_at: float | None = None
        self._updated_at = -math.inf
        self._trackers: dict[str, list[tuple[str, OnTimes, bool]]] = {}  # by output: device, of the tank only
        self._nudges: list[Callable[[], None]] = []
        self._next_update: Cancellable | None = None
        followed = {variable for each in self._interlocks for variable in each.follows}
        self._set_points = {desired(environment, variable): variable for variable in sorted(followed)}
        self._heard = frozenset(topic for each in self._interlocks for topic in each.listens)
        self._topics = _topics_of(environment, sensors, derived)
        self._show()

    def track(
        self, times: OnTimes, outputs: Iterable[str], device: str = "", *, of_tank: bool = False
    ) -> None:
        """Record in `times` what is written to these outputs, with `device` of this one only.

        Those `of_tank` do not get doses into a measuring cylinder.
        """
        for output in outputs:
            self._trackers.setdefault(output, []).append((device, times, of_tank))

    def guard(self, device: str, safe: Mapping[str, float]) -> Guard:
        """The guard for the actuator of a device. `safe` has the safe level of each output."""
        self._safe |= safe
        return _Guard(self, device, safe)

    @property
    def hold_reason(self) -> str:
        """Why all outputs are held, "" while they are not."""
        return self._hold.reason if self._hold is not None else ""

    def why_held(self, outputs: Iterable[str], *, beside_tank: bool = False) -> str:
        """Why one of these outputs, or an output of these variables, is held; "" if none is.

        What is given `beside_tank` is not held by the interlocks of the tank.
        """
        if self.hold_reason:
            return Sentence(self.hold_reason, "hold")
        held = {output for name in outputs for output in self._driven.get(name, [name])}
        judging = (each for each in self._interlocks if not (beside_tank and each.is_of_tank))
        holding = next((each for each in judging if each.has_tripped and each.holds & held), None)
        if holding is None:
            return ""
        return Sentence(holding.reason, "interlock", interlock=f"{self.node.name}/{holding.name}")

    def holder(self, device: str, output: str, level: float) -> Interlock | None:
        """The interlock that changes this level of an output of a device now, one of a failure first."""
        concerned = [each for each in self._holding.get(output, ()) if device in (each.devices or {device})]
        safe = self._safe.get(output, 0.0)
        holding = [
            each for each in concerned if each.reason and each.held_level(output, level, safe) != level
        ]
        return next((each for each in holding if each.is_failure), next(iter(holding), None))

    async def run(self) -> None:
        """Run until cancelled. The outputs are safe while this is not running."""
        if not self._interlocks:
            return
        try:
            with (
                self.node.subscribe(*self._topics, *self._set_points, *self._heard, depth=256) as messages,
                self._bus.liveness.heartbeat(self.node.name) as heart,
            ):
                self._catch_up()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.saved.run(), name=f"{self.node.name}: memory")
                    tasks.create_task(self._listen(messages), name=f"{self.node.name}: sensors")
                    while True:
                        heart.beat()
                        self._alive_at = self._clock.monotonic()
                        self.saved.wall.follow()
                        self._update()
                        await self._clock.sleep(until_beat(self._clock, PERIOD_S))
        finally:
            self._alive_at = None
            self._update_in_time(self._clock.monotonic())
            self._nudge()

    async def close(self) -> None:
        """Save the state at a clean end, when the outputs are safe."""
        self._update()
        await self.saved.close()

    def permitted(self, device: str, output: str, level: float, safe: float) -> float:
        """See `Guard.permit`. `safe` is the safe level of the output."""
        place = device, output
        if self.hold_reason:
            self._held[place] = HOLD
            return safe
        holding = self._holding.get(output)
        if holding is None:
            self._held.pop(place, None)
            return level
        now = self._clock.monotonic()
        if self._alive_at is None or now - self._alive_at > PATIENCE_S:
            self._held[place] = "interlocks that are not running"
            return safe
        if now - self._updated_at > FRESH_S:
            self._update()
        self._held.pop(place, None)
        concerned = [each for each in holding if not each.devices or device in each.devices]
        if self._pumps is not None and (holder := self._pumps.held_by(device)):
            self._held[place] = holder
            level = safe
        else:
            level = self._judged(place, concerned, level, safe)
        for each in concerned:
            each.on_permitted(device, output, level, now)
        return level

    def _judged(self, place: _Place, concerned: Iterable[Interlock], level: float, safe: float) -> float:
        """The level that these interlocks permit, one after the other."""
        device, output = place
        for each in concerned:
            is_held = each.reason and not (each.is_of_tank and self._is_beside_tank(device))
            permitted = each.held_level(output, level, safe) if is_held else level
            if permitted != level:
                self._held.setdefault(place, each.name)
                level = permitted
        return level

    def wrote(
        self, device: str, output: str, level: float | None, lasted_s: float, was_on_s: float | None
    ) -> None:
        """See `Guard.wrote`."""
        self._levels[device, output] = level
        trackers = self._trackers.get(output, ())
        now = self._clock.monotonic()
        if trackers and now - self._updated_at > ROUNDING_S:
            self._update()  # count the time with the previous level first, once for all outputs of a device
        is_beside_tank = level != 0 and self._is_beside_tank(device)
        for only, times, of_tank in trackers:
            if only in ("", device) and not (of_tank and is_beside_tank):
                times.wrote(f"{device}/{output}", level, now, lasted_s, was_on_s)
        self._update_in_time(now)

    def held_by(self, device: str, output: str) -> str:
        """What holds an output of a device now, by its name; "" for nothing."""
        return self._held.get((device, output), "")

    def watch(self, nudge: Callable[[], None]) -> None:
        """See `Guard.watch`."""
        self._nudges.append(nudge)
        if self._hold is not None:
            self._hold.watch(nudge)

    def _is_beside_tank(self, device: str) -> bool:
        return self._pumps is not None and self._pumps.is_beside_tank(device)

    def _show(self) -> None:
        """Make the topics, parameters, services and details of the interlocks."""
        publishers = {each.name: self._publisher(self._environment, each) for each in self._interlocks}
        self._reports = Reports(self.node, self._environment, self._clock, publishers)
        remarks = Remarks(self._interlocks, self._driven, self._safe, self._hold)
        remarks.answer_on(self._bus.topics, self._environment)
        self.node.describe("interlocks", self._information)
        self.node.describe("held", self._held_variables)
        self.node.describe("problems", self._problems)

    # --- Inputs

    def _catch_up(self) -> None:
        """Take the messages published while this task was down, after a failure."""
        for topic in (*self._topics, *self._set_points, *self._heard):
            last = self._bus.topics.get(topic).last
            if last is not None and (topic not in self._topics or last.quality is not Quality.OK):
                self._take(last)

    async def _listen(self, messages: Subscription) -> None:
        concerned: dict[Interlock, None] = {}
        async for message in messages:
            concerned |= dict.fromkeys(self._take(message))
            if not len(messages):  # a reading has several variables
                self._judge(concerned)
                concerned.clear()

    def _take(self, message: Message) -> list[Interlock]:
        """Take a message. Returns the interlocks that it concerns."""
        value, now = message.known, self._clock.monotonic()
        concerned = []
        if message.topic in self._heard:
            for each in self._interlocks:
                if message.topic in each.listens:
                    each.on_message(message.topic, value, now)
                    concerned.append(each)
        if (followed := self._set_points.get(message.topic)) is not None:
            for each in self._interlocks:
                if followed in each.follows:
                    each.on_set_point(followed, value)
                    concerned.append(each)
        if message.topic not in self._topics:
            return concerned
        variable, device = self._topics[message.topic]
        self._readings.take(variable, device, value, now)
        for each in self._interlocks:
            if variable in each.reads:
                each.on_reading(variable, device, value, now)
                concerned.append(each)
        return concerned

    def _update(self) -> None:
        self._updated_at = self._clock.monotonic()
        self._judge(self._interlocks)

    def _judge(self, interlocks: Iterable[Interlock]) -> None:
        now, is_changed = self._clock.monotonic(), False
        wall = self.saved.wall.time(now)
        for each in interlocks:
            each.update(now, wall)
            is_changed |= self._reports.follow(each)
            if isinstance(each, PersistentInterlock):
                self.saved.check(each)
        for each in self._with_problems:
            self._reports.follow_problem(each)
        self._update_in_time(now)
        if is_changed:
            self._nudge()

    def _update_in_time(self, now: float) -> None:
        """Update between two periods where an interlock has to end an output."""
        if self._next_update is not None:
            self._next_update.cancel()
            self._next_update = None
        due_s = min((each.due_s(now) for each in self._with_ends), default=math.inf)
        if self._alive_at is not None and due_s < PERIOD_S:
            self._next_update = self._clock.call_later(max(0.0, due_s), self._update)

    def _information(self) -> list[dict[str, Any]]:
        """Each interlock, as on its topic, with its limits."""
        return [
            {
                "name": f"{self.node.name}/{each.name}",
                **self._reports.state(each),
                **code_of(each.reason),
                "is_expected": each.is_expected,
                "is_failure": each.is_failure,
                "stays_on": each.stays_on,
                "is_quiet": each.is_quiet,
                "remedy": document(each.remedy),
                "holds": sorted(each.devices or each.holds),
                "reads": sorted(each.reads),
                "limits": [
                    {"name": name, "value": value, "unit": unit}
                    for name, (value, unit) in each.limits.items()
                ],
            }
            for each in self._interlocks
            if self._reports.has(each)
        ]

    def _held_variables(self) -> list[dict[str, Any]]:
        """For `growd status`: the held variables, by which interlock, and the level that was written."""
        return [
            {"environment": self._environment, "variable": variable, "by": by, "level": self._level(outputs)}
            for variable, outputs in self._driven.items()
            if variable not in self._moved
            and (by := next((held for (_, output), held in self._held.items() if output in outputs), ""))
        ]

    def _level(self, outputs: Iterable[str]) -> float | None:
        """The highest level written to these outputs, None if one is unknown."""
        levels = [level for (_, output), level in self._levels.items() if output in outputs]
        known = [level for level in levels if level is not None]
        return max(known) if known and len(known) == len(levels) else None

    def _problems(self) -> list[dict[str, Any]]:
        """Problems that need attention."""
        where = self._environment
        found = [
            problem(reworded(f"{where}: {why}", why, environment=where), name=f"{where}/{each.name}")
            for each in self._with_problems
            if (why := each.problem)
        ]
        lost = {
            code_of(each.reason)["fields"].get("reason", "") for each in self._interlocks if each.is_assumed
        }
        if why := "; ".join(sorted(lost)):
            said = Sentence(
                f"{where}: interlocks count as tripped: {why}", "interlocks_lost", environment=where
            )
            found.append(problem(said, remedy=_RESET_EACH))
        if why := str(self.saved.error):
            text = f"{where}: the state of the interlocks can't be saved and is lost if growd ends: {why}"
            found.append(problem(Sentence(text, "interlocks_not_saved", environment=where, reason=why)))
        return found

    def _nudge(self) -> None:
        for nudge in self._nudges:
            nudge()

    def _publisher(self, environment: str, interlock: Interlock) -> Publisher:
        """Declare the topic, parameters and service of an interlock."""
        base = f"{environment}/interlocks/{interlock.name}"
        for name, (value, unit) in interlock.limits.items():
            field = Field(name, Kind.FLOAT64, unit=unit, default=value)
            parameter = self.node.declare(f"{base}/{name}", field, read_only=True)
            parameter.show(value)  # replaces the value of an earlier configuration
        if interlock.reset_hint:
            self.node.serve(
                f"{base}/reset",
                "growd/Reset",
                functools.partial(self.saved.reset, interlock),
                doc=f"Reset a tripped interlock: {interlock.reset_hint}. Refused while its cause remains.",
                is_administrative=True,
            )
        return self.node.advertise(base, INTERLOCK)


def _topics_of(
    environment: str, sensors: Mapping[str, Sequence[str]], derived: Iterable[str]
) -> dict[str, _Place]:
    """The variable and the device behind each topic of a reading; "" for the combined value."""
    of_sensors = {
        raw(environment, variable, device): (variable, device)
        for variable, devices in sensors.items()
        for device in ("", *devices)
    }
    return of_sensors | {measured(environment, variable): (variable, "") for variable in derived}


def _overrides(interlock: Interlock, name: str) -> bool:
    """Whether the class of an interlock has its own method, or property, of this name."""
    return getattr(type(interlock), name) is not getattr(Interlock, name)


class _Guard:
    """The guard of one actuator."""

    def __init__(self, interlocks: Interlocks, device: str, safe: Mapping[str, float]) -> None:
        self._interlocks = interlocks
        self._device = device
        self._safe = dict(safe)
        self.watch = interlocks.watch

    @property
    def is_on_hold(self) -> bool:
        return bool(self._interlocks.hold_reason)

    def permit(self, output: str, level: float) -> float:
        return self._interlocks.permitted(self._device, output, level, self._safe.get(output, 0.0))

    def wrote(
        self, output: str, level: float | None, lasted_s: float = 0.0, was_on_s: float | None = None
    ) -> None:
        self._interlocks.wrote(self._device, output, level, lasted_s, was_on_s)
