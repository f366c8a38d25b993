"""A small chamber in which a fault strikes one device, and a record of what was seen and stored."""

from __future__ import annotations

import asyncio
import dataclasses
from bisect import bisect_left, bisect_right
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from growd.config import Config, InterlockOptions, Light, Output, Sensor, Store, chambers_of
from growd.device_kinds import SENSOR_KINDS
from growd.store.points import PointMaker
from growd.store.recorder import Recorder
from growd_simulation.truths import TRUTHS
from support.rig import rigged

if TYPE_CHECKING:
    from growd.bus.messages import Quality

ENVIRONMENT = "environment_1"
VALVE, WHITE_PIN, VALVE_PIN = "air_carbon_dioxide_valve_on", 12, 21
FIRST_LUX, THEN_LUX = 8_000.0, 6_000.0
FULL_LUX = 20_000.0
UNHINDERED = InterlockOptions(valve_open_s=86_400, dose_s=3_600, no_rise_open_s=86_400, light_off_degc=85)
"""Limits that a valve does not reach in hours."""

INTERVAL_S = 2.0
STEADY_S = 60.0
"""Time until all devices are ok and the lamp is trimmed, without the warm-up of sensors."""

LAG_S = 20.0
"""Time in which the filter follows a step of the light."""

_VALVE_FLOW_L_MIN = 0.002  # so the air changes by less than 1 ppm/s
_ACCURACIES = {  # of the least accurate sensor (data sheets)
    "air_carbon_dioxide": lambda ppm: 50 + 0.05 * ppm,
    "air_temperature": lambda degc: 0.4 + 0.023 * abs(degc - 25),
    "air_humidity": lambda _: 3.0,
    "light_illuminance": lambda lux: 0.2 * lux + 1,
    "air_pressure": lambda _: 1.0,
    "light_ppfd": lambda ppfd: 0.2 * ppfd + 1,
    "door_open": lambda _: 0.0,
    "water_potential_hydrogen": lambda _: 0.15,
    "water_electrical_conductivity": lambda _: 0.1,
    "water_dissolved_oxygen": lambda _: 0.4,
    "soil_moisture": lambda _: 1.0,
    "water_temperature": lambda _: 0.5,
}


def sensor(kind, name="air", **options):
    """A sensor at its usual place: bus 1, or its serial line."""
    ports = {"mhz19": "/dev/serial0", "mhz16": "/dev/ttyUSB*"}
    chosen = {"interval_s": INTERVAL_S, "port": ports.get(kind), **options}
    return Sensor(name=name, kind=kind, **chosen)


def chamber_of(*sensors, needs_sensor=False, **options):
    """A chamber with these sensors, a lamp and a CO2 valve."""
    return Config(
        sensor=sensors,
        light=Light(needs_sensor=needs_sensor, full_scale_lux=FULL_LUX),
        output=(Output(name="valve", pin=VALVE_PIN, variable=VALVE),),
        interlock=UNHINDERED,
        **options,
    )


@dataclass(frozen=True)
class Moment:
    """The state of each device and the qualities of each variable at one time."""

    at: float
    states: dict[str, str]
    raw: dict[str, Quality | None]
    measured: dict[str, Quality | None]
    truth: dict[str, float]
    is_valve_open: bool
    lamp: float


_at = attrgetter("at")


class Scene:
    """A rig that is observed each second. All times are seconds of its clock."""

    def __init__(self, rig):
        self.rig = rig
        self.moments = []
        self.points = []
        self.variables = list(chambers_of(rig.config)[0].measured)
        self.steady_at = 0.0
        self._nodes = {sensor.name: f"samplers/{sensor.name}" for sensor in rig.config.sensor}
        self._nodes |= {"light": "actuators/light", "valve": "actuators/valve"}
        self._client = rig.bus.node("client")

    @property
    def now(self):
        return self.rig.clock.monotonic()

    def want(self, variable, value):
        """Publish a set point, as a client does."""
        self._client.publish_arguments(f"{ENVIRONMENT}/desired/{variable}", [value])

    def device(self, name):
        """The state of a device, as its node reports it."""
        return self.rig.device(self._nodes[name])

    def strike(self, fault):
        """Inject a fault."""
        self.rig.machine.faults.inject(fault)

    async def clear(self):
        """End all faults, and let hanging calls return."""
        faults = self.rig.machine.faults
        faults.clear()
        await self.rig.clock.until(lambda: not faults.hanging, within=1.0)

    async def watch(self, seconds):
        """Let time pass, and record each second."""
        end = self.now + seconds
        while self.now < end:
            await self.rig.clock.advance(min(1.0, end - self.now))
            self.moments.append(self._moment())

    async def until(self, condition, *, within):
        """Let time pass until `condition` holds: the seconds it took."""
        began = self.now
        while True:
            await self.watch(1.0)
            if condition(self.moments[-1]):
                return self.now - began
            if self.now - began > within:
                raise AssertionError(f"not within {within:g} s: {self.moments[-1]}")

    def seen(self, begin, end):
        """The moments between two times."""
        first = bisect_left(self.moments, begin, key=_at)
        return self.moments[first : bisect_right(self.moments, end, key=_at)]

    def stored(self, variable, begin, end):
        """The points of a measured variable between two times."""
        return [
            point
            for point in self.points
            if point.variable == variable
            and not (point.is_desired or point.category)
            and begin <= self.time_of(point) <= end
        ]

    def time_of(self, point):
        """The time of the measurement on the scene's clock."""
        return point.timestamp - self.rig.clock.time() + self.now

    def false_points(self, begin=0.0, end=float("inf")):
        """The points since `steady_at` that differ from the truth by more than a sensor's accuracy.

        They are compared with the truth of the last `LAG_S`, since sensor and filter lag; after a gap that
        the filter bridges (`stale_after_s`), from `LAG_S` before the gap.
        """
        bridged_s = self.rig.config.filter.stale_after_s
        false = []
        for variable in self.variables:
            before = self.steady_at
            for point in self.stored(variable, self.steady_at, end):
                at = self.time_of(point)
                if at >= begin and not self._is_true(
                    point, variable, max(before, at - bridged_s) - LAG_S, at + 1
                ):
                    false.append(point)
                before = at
        return false

    def _is_true(self, point, variable, begin, end):
        truths = [moment.truth[variable] for moment in self.seen(begin, end)]
        accuracy = max(_ACCURACIES[variable](truth) for truth in truths)
        assert isinstance(point.value, float)
        return min(truths) - accuracy <= point.value <= max(truths) + accuracy

    def _moment(self):
        chamber = self.rig.machine.chamber
        truth = {variable: float(TRUTHS[variable](chamber)) for variable in self.variables}
        return Moment(
            self.now,
            {name: self.device(name)["state"] for name in self._nodes},
            {variable: self._quality(f"raw/{variable}") for variable in self.variables},
            {variable: self._quality(f"measured/{variable}") for variable in self.variables},
            truth,
            self.rig.machine.pins.high(VALVE_PIN) > 0,
            self.rig.machine.pins.high(WHITE_PIN),
        )

    def _quality(self, topic):
        last = self.rig.last(topic)
        return None if last is None else last.quality


class _Kept:
    """An outbox that collects the points."""

    def __init__(self, points):
        self.add = points.append


@asynccontextmanager
async def steady_scene(config):
    """A scene with all devices ok, the valve open and the lamp at `FIRST_LUX`."""
    async with rigged(config) as rig:
        chamber = rig.machine.chamber
        for chip in rig.machine.chips.values():
            if chip.name == "scd4x":
                chip.follow_at_once()  # its response times are longer than the scene
        chamber.parameters = dataclasses.replace(chamber.parameters, valve_flow_l_min=_VALVE_FLOW_L_MIN)
        scene = Scene(rig)
        outbox = _Kept(scene.points)
        each = Store(minimum_interval_s=0.0, maximum_interval_s=INTERVAL_S / 2)
        recorder = Recorder(rig.bus, outbox, PointMaker("0123456789ab"), [ENVIRONMENT], each)
        records = asyncio.create_task(recorder.run(), name="recorder")
        try:
            scene.want(VALVE, 1)
            scene.want("light_illuminance", FIRST_LUX)
            warm_up_s = max(SENSOR_KINDS[sensor.kind].warm_up_s for sensor in config.sensor)
            await rig.clock.advance(STEADY_S + warm_up_s - LAG_S)
            await scene.watch(LAG_S)
            for name, state in scene.moments[-1].states.items():
                assert state == "ok", scene.device(name)
            assert scene.moments[-1].is_valve_open
            scene.steady_at = scene.now
            yield scene
        finally:
            records.cancel()
            await asyncio.wait([records])
