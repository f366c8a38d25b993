"""The node that calculates variables of an environment from its measured ones."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import InvalidValueError
from growd.bus.messages import Quality
from growd.config.lamp_light import LampLight
from growd.control.derived.daylight import DaylightProfile
from growd.control.derived.psychrometrics import (
    absolute_humidity_g_m3,
    dew_point_degc,
    vapour_pressure_deficit_kpa,
)
from growd.control.derived.sums import DegreeDays, LightOfDay
from growd.control.topics import LIGHT_CHANNELS, desired, light_channels, measured
from growd.output_roles import ON_FROM
from growd.runtime.clock import until_beat
from growd.variables import (
    ABSOLUTE_HUMIDITY,
    DAILY_LIGHT_INTEGRAL,
    DEGREE_DAYS,
    DEW_POINT,
    EXPECTED_LIGHT_INTEGRAL,
    ILLUMINANCE,
    PHOTOPERIOD,
    PPFD,
    TEMPERATURE,
    VAPOUR_PRESSURE_DEFICIT,
    VARIABLES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.bus.messages import Message
    from growd.bus.topics import Publisher, Subscription
    from growd.control.interlocks.saved_states import Memory

PERIOD_S: Final = 10.0
SAVE_S: Final = 300.0
EXPECT_S: Final = 60.0
OUTLOOK_S: Final = 300.0
"""The step in which the set points of the rest of the day are added up."""

_DAY_S: Final = 86_400.0
_WORST: Final = (Quality.FAULT, Quality.STALE, Quality.WARM_UP)
_OF_AIR: Final[dict[str, Callable[..., float]]] = {
    VAPOUR_PRESSURE_DEFICIT: vapour_pressure_deficit_kpa,
    DEW_POINT: dew_point_degc,
    ABSOLUTE_HUMIDITY: absolute_humidity_g_m3,
}
_SUMS: Final = (DAILY_LIGHT_INTEGRAL, EXPECTED_LIGHT_INTEGRAL, PHOTOPERIOD, DEGREE_DAYS)
_log = logging.getLogger(__name__)


class _Input(msgspec.Struct, frozen=True):
    """The last value of a variable: None with a quality that is not ok. `arrival` is monotonic."""

    value: float | None
    quality: Quality
    time: float
    arrival: float


class Derivations:
    """The node `<environment>/derived`: publishes the `derived` variables on their topics `measured`.

    A value has the quality of its inputs: with one that is not ok, or older than `stale_after_s` of it, there
    is a message of that quality without a value. Sums over a day begin at local midnight in `zone` (None: the
    machine's), sums over a run with its start. They are saved in `memory`.

    `daylight_lux` returns the measured light that is not of the lamp (None: what is more than the expected
    light), `full_lux` that of the lamp at full level. A lamp that `is_switched` is at full light or dark.
    `daylight` has the daylight of the days before.
    """

    def __init__(
        self,
        bus: Bus,
        environment: str,
        derived: Collection[str],
        *,
        memory: Memory,
        stale_after_s: Callable[[str], float] = lambda _: 30.0,
        lamp: LampLight | None = None,
        base_degc: float = 10.0,
        daylight_lux: Callable[[], float] | None = lambda: 0.0,
        full_lux: Callable[[], float] = lambda: 0.0,
        is_switched: bool = False,
        zone: tzinfo | None = None,
    ) -> None:
        self.node = bus.node(f"{environment}/derived")
        self._bus = bus
        self._clock = bus.clock
        self._environment = environment
        self._memory = memory
        self._lamp = lamp or LampLight()
        self._daylight_lux = daylight_lux
        self._full_lux = full_lux
        self._is_switched = is_switched
        self._outputs: dict[str, Publisher] = {
            name: self.node.publisher(measured(environment, name)) for name in derived
        }
        sources = {each for name in derived for each in VARIABLES[name].derived_from} - {*derived}
        self._topics = {measured(environment, name): name for name in sorted(sources)}
        self._stale_after = {name: stale_after_s(name) for name in sources}
        self._inputs: dict[str, _Input] = {}
        self._published: dict[str, Quality] = {}
        self._expected = (-math.inf, 0.0)  # when it was calculated, mol/m2
        self._levels = bus.topics.get(light_channels(environment))
        self._set_point_at: Callable[[str, float], float | None] = self._present_set_point
        self._planned_mol: Callable[[], float | None] = lambda: None
        self.light = LightOfDay(self._clock, zone)
        self.daylight = DaylightProfile(zone)
        self._degree_days = DegreeDays(base_degc)
        self._summed = self._saved = self._clock.monotonic()
        self._is_loaded = False
        self._save_error = ""
        self.node.describe("sums", self._described)

    def outlook_by(self, set_point_at: Callable[[str, float], float | None]) -> None:
        """Use the set points of the rest of the day that this returns, such as those of a recipe."""
        self._set_point_at = set_point_at

    def expect(self, planned_mol: Callable[[], float | None]) -> None:
        """Expect the light of a day that this returns, unless it is None."""
        self._planned_mol = planned_mol

    # what is known of the light, for its plan

    def ppfd(self) -> float | None:
        """The PPFD now, None if it is not known."""
        now = self._clock.monotonic()
        value, known_s = self._during(PPFD, now - 1e-3, now)
        return value if known_s else None

    def daylight_ppfd(self) -> float:
        """The part of the PPFD that is not of the lamp."""
        return self._daylight_in(self.ppfd() or 0.0)

    def _daylight_in(self, ppfd: float) -> float:
        share = self.lamp_share() if ppfd else 0.0
        if not share:
            return ppfd
        if self._daylight_lux is not None:
            return min(ppfd, max(0.0, self._daylight_lux()) / self._lamp.daylight_lux_per_umol)
        return max(0.0, ppfd - share * self._full_ppfd())

    def lamp_share(self) -> float:
        """The photons of the lamp at its present levels, as a share of those at full light."""
        return self._lamp.share(self._lamp_levels())

    async def run(self) -> None:
        """Calculate until cancelled."""
        await self._load()
        with self.node.inbox(*self._topics) as inbox:
            for topic in self._topics:
                last = self._bus.topics.get(topic).last
                if last is not None:
                    self._take(last)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._tick(), name=f"{self.node.name}: sums")
                    tasks.create_task(self._follow(inbox), name=f"{self.node.name}: inputs")
            finally:
                self._add_up()

    async def close(self) -> None:
        """Save the sums at the end."""
        if self._is_loaded:
            await self._save()

    # inputs and what follows from them at once

    async def _follow(self, inbox: Subscription) -> None:
        async for first in inbox:
            message: Message | None = first
            self._add_up()
            changed: set[str] = set()
            while message is not None:  # both of one reading of a sensor
                self.node.attempt(self._take, message)
                changed.add(self._topics[message.topic])
                message = inbox.get_nowait()
            self._calculate(changed)

    def _take(self, message: Message) -> None:
        arrival = self._clock.monotonic() - max(0.0, self._clock.time() - message.time)
        self._inputs[self._topics[message.topic]] = _Input(
            message.known, message.quality, message.time, arrival
        )

    def _calculate(self, changed: set[str]) -> None:
        for variable in (*_OF_AIR, PPFD):
            if variable in self._outputs and not changed.isdisjoint(VARIABLES[variable].derived_from):
                self._derive(variable, _OF_AIR.get(variable, self._ppfd))

    def _derive(self, variable: str, formula: Callable[..., float]) -> None:
        quality, inputs = self._quality(variable)
        if quality is Quality.OK:
            value = formula(*(each.value for each in inputs))
            self._publish(variable, value, max(each.time for each in inputs))
        elif quality is not None:
            self._publish_none(variable, quality)

    def _ppfd(self, lux: float) -> float:
        daylight_lux = 0.0 if self._daylight_lux is None else self._daylight_lux()
        return self._lamp.ppfd(lux, daylight_lux, self._lamp_levels())

    def _lamp_levels(self) -> dict[str, float]:
        levels = self._levels.known or {}
        return {name: levels[axis] for name, axis in LIGHT_CHANNELS.items() if levels}

    def _quality(self, variable: str) -> tuple[Quality | None, list[_Input]]:
        """The worst quality of the inputs of a variable, None while one has had no message yet."""
        inputs = []
        for name in VARIABLES[variable].derived_from:
            if name in self._outputs:  # PPFD, which is derived itself
                return self._quality(name)
            if name not in self._inputs:
                return None, []
            inputs.append(self._fresh(name))
        qualities = {each.quality for each in inputs}
        return next((each for each in _WORST if each in qualities), Quality.OK), inputs

    def _fresh(self, name: str) -> _Input:
        found = self._inputs[name]
        if found.quality is Quality.OK and self._clock.monotonic() - found.arrival > self._stale_after[name]:
            return _Input(None, Quality.STALE, found.time, found.arrival)
        return found

    def _publish(self, variable: str, value: float, time: float | None = None) -> None:
        try:
            self._outputs[variable].publish(value, Quality.OK, time)
        except InvalidValueError:  # beyond the range of the variable
            self._publish_none(variable, Quality.FAULT)
        else:
            self._published[variable] = Quality.OK

    def _publish_none(self, variable: str, quality: Quality) -> None:
        if self._published.get(variable) is not quality:
            self._outputs[variable].publish(None, quality)
            self._published[variable] = quality

    # sums over time

    async def _tick(self) -> None:
        with self._bus.liveness.heartbeat(self.node.name) as heart:
            while True:
                heart.beat()
                self._add_up()
                for variable in self._outputs:
                    quality, _ = self._quality(variable)
                    if quality not in (None, Quality.OK):
                        self._publish_none(variable, quality)
                self._publish_sums()
                if self._clock.monotonic() - self._saved >= SAVE_S:
                    await self._save()
                await self._clock.sleep(until_beat(self._clock, PERIOD_S))

    def _add_up(self) -> None:
        """Add the time since the last call to the sums, at the values of that time."""
        now = self._clock.monotonic()
        began, self._summed = self._summed, now
        self.light.follow()
        self._follow_run()
        if now <= began:
            return
        if DAILY_LIGHT_INTEGRAL in self._outputs:
            ppfd, known_s = self._during(PPFD, began, now)
            self.light.add(ppfd, known_s)
            if known_s and self.daylight.add(self._daylight_in(ppfd), known_s, self.light.wall):
                self._saved = -SAVE_S
            if (unknown_s := now - began - known_s) > 0:
                self.light.add_unknown(unknown_s)
        if DEGREE_DAYS in self._outputs and self._is_counting:
            temperature, known_s = self._during(TEMPERATURE, began, now)
            self._degree_days.add(temperature, known_s)
            self._degree_days.add_unknown(now - began - known_s)

    def _during(self, variable: str, began: float, now: float) -> tuple[float, float]:
        """The value of a variable since `began`, and for how many seconds it is known."""
        source = ILLUMINANCE if variable in self._outputs else variable
        found = self._inputs.get(source)
        if found is None or found.value is None:
            return 0.0, 0.0
        known_s = min(now, found.arrival + self._stale_after[source]) - began
        value = self._ppfd(found.value) if variable in self._outputs else found.value
        return value, min(max(0.0, known_s), now - began)

    def _publish_sums(self) -> None:
        values: dict[str, Callable[[], float]] = {
            DAILY_LIGHT_INTEGRAL: lambda: self.light.integral_mol,
            EXPECTED_LIGHT_INTEGRAL: self._expected_mol,
            PHOTOPERIOD: lambda: min(24.0, self.light.lit_h),
            DEGREE_DAYS: lambda: self._degree_days.total,
        }
        for variable in _SUMS:
            if variable not in self._outputs or self._quality(variable)[0] is not Quality.OK:
                continue
            if variable != DEGREE_DAYS or self._is_counting:
                self._publish(variable, values[variable]())
            elif variable in self._published:
                self._publish_none(variable, Quality.STALE)

    def _expected_mol(self) -> float:
        """The light that the day will have, calculated each `EXPECT_S`."""
        now = self._clock.monotonic()
        if now - self._expected[0] >= EXPECT_S:
            planned = self._planned_mol()
            expected = self.light.integral_mol + self._light_to_come_mol() if planned is None else planned
            self._expected = now, expected
        return self._expected[1]

    def _light_to_come_mol(self) -> float:
        """The light of the rest of the day by the set points, in mol/m2."""
        left = _DAY_S - self.light.time_of_day_s
        steps = max(1, round(left / OUTLOOK_S))
        step = left / steps
        times = (self.light.wall + (number + 0.5) * step for number in range(steps))
        return sum(map(self._ppfd_at, times)) * step * 1e-6

    def _ppfd_at(self, wall: float) -> float:
        """The PPFD at a time of today by the set points then; 0 without one."""
        wanted = self._set_point_at(PPFD, wall)
        if wanted is None:
            lux = self._set_point_at(ILLUMINANCE, wall) or 0.0
            wanted = self._lamp.ppfd(lux, 0.0, self._lamp.usual_levels)
        if not self._is_switched:
            return wanted
        full = self._full_ppfd()
        return full if 0.0 < ON_FROM * full <= wanted else 0.0

    def _full_ppfd(self) -> float:
        return self._full_lux() / self._lamp.lux_per_umol(self._lamp.usual_levels)

    def _present_set_point(self, variable: str, _: float) -> float | None:
        value: float | None = self._bus.topics.get(desired(self._environment, variable)).known
        return value

    # the run

    @property
    def _is_counting(self) -> bool:
        return self._run_began() > 0

    def _run_began(self) -> float:
        """The start of the run of a recipe (UNIX seconds), 0 while none runs."""
        began = self._bus.parameters.declared(f"{self._environment}/current_recipe_start")
        return 0.0 if began is None else float(began.value)

    def _follow_run(self) -> None:
        began = self._run_began()
        if began > 0 and began != self._degree_days.run:
            self._degree_days.begin(began, max(0.0, self.light.wall - began))
            self._saved = -SAVE_S  # at once

    # over restarts

    @property
    def _key(self) -> str:
        return f"{self._environment}/derived"

    async def _load(self) -> None:
        if self._is_loaded:
            return
        try:
            saved = await self._memory.state(self._key)
            if saved is not None:
                self._restore(saved)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
            _log.warning("%s: sums begin anew: could not read the saved ones: %s", self._environment, error)
        self._is_loaded = True
        self._summed = self._clock.monotonic()

    def _restore(self, saved: dict[str, Any]) -> None:
        away = self.light.restore(saved["light"])
        self._degree_days.restore(saved["degree_days"])
        self.daylight.restore(saved.get("daylight", []))
        self._degree_days.add_unknown(away)

    async def _save(self) -> None:
        self._saved = self._clock.monotonic()
        state: dict[str, Any] = {"light": self.light.state(), "degree_days": self._degree_days.state()}
        state["daylight"] = self.daylight.state()
        try:
            await self._memory.save_state(self._key, state)
        except (OSError, RuntimeError) as error:
            if str(error) != self._save_error:
                _log.error("%s: could not save sums of light and warmth: %s", self._environment, error)
            self._save_error = str(error)
        else:
            self._save_error = ""

    def _described(self) -> dict[str, Any]:
        """What is missing in the sums."""
        found: dict[str, Any] = {}
        if DAILY_LIGHT_INTEGRAL in self._outputs:
            found["light_missing_s"] = round(self.light.missing_s)
        if DEGREE_DAYS in self._outputs:
            found["degree_days_missing_s"] = round(self._degree_days.missing_s)
        return found
