"""A whole chamber whose temperature, humidity, water and nutrients are controlled as configured.

The simulated chamber, sensors that lag and are noisy, the daemon's own filters, controllers and actuators, on
the stepped clock of `closed_loop`. `bench/control.py` measures with it, and tests use it too.
"""

from __future__ import annotations

import math
import random
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from closed_loop import HoldingGuard, Inline, Part, held_clock, tasks_around

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.config import Chamber, Config, Output, Sensor
from growd.control.actuation import OutputActuator, SwitchActuator
from growd.control.filters import Filter
from growd.control.loop_inputs import FreshAir, LampShare
from growd.control.topics import CHANNEL_LEVELS, light_channels
from growd.output_roles import ROLES
from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    HUMIDITY,
    ROOM_HUMIDITY,
    ROOM_TEMPERATURE,
    TEMPERATURE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
)
from growd.wiring.chambers_node import declare_topics
from growd.wiring.interlocks import interlocks_of
from growd.wiring.loops import can_tune, loop_controller, output_controller
from growd.wiring.pumps import pumps_of
from growd_commissioning.autotune import autotuner
from growd_hwsim.chamber import SimulatedChamber

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from growd.control.interlocks.base import Guard
    from growd.control.interlocks.node import Interlocks
    from growd.control.loop import LoopController
    from growd.runtime.worker import Worker
    from growd_hwsim.parameters import ChamberParameters

ENVIRONMENT: Final = "environment_1"
SENSOR_S: Final = 2.0


class Probe(NamedTuple):
    """A sensor: its response time in s, and the standard deviation of its noise."""

    response_s: float
    noise: float


PROBES: Final = {
    CARBON_DIOXIDE: Probe(20.0, 3.0),
    TEMPERATURE: Probe(10.0, 0.02),  # an SCD30: "> 10 s"
    HUMIDITY: Probe(8.0, 0.1),
    WATER_TEMPERATURE: Probe(30.0, 0.02),
    ACIDITY: Probe(20.0, 0.01),  # glass electrodes
    CONDUCTIVITY: Probe(10.0, 0.01),
    WATER_LEVEL: Probe(5.0, 0.2),
    ROOM_TEMPERATURE: Probe(10.0, 0.02),
    ROOM_HUMIDITY: Probe(8.0, 0.1),
}


def measured_by(*variables: str) -> tuple[Sensor, ...]:
    """Sensors of the configuration for these variables."""
    return tuple(
        Sensor(name=f"sensor_{each}", kind="topic", variable=each, interval_s=SENSOR_S) for each in variables
    )


class WhyHeld:
    """Stands in for the interlocks: why the outputs of an autotune are held."""

    reason = ""

    def why_held(self, _outputs: object) -> str:
        return self.reason


class Forgetful:
    """Stands in for the memory of interlocks: nothing was ever saved."""

    async def state(self, _key: str, default: Any = None) -> Any:
        return default

    async def save_state(self, _key: str, _value: Any) -> None:
        """Nothing is restarted here."""


class ClimateLoop:
    """The chamber of a configuration on a bus, with its sensors, actuators and controllers.

    The interlocks are left out, or (`is_guarded`) those of the configuration.
    """

    def __init__(
        self,
        config: Config,
        parameters: ChamberParameters | None = None,
        *,
        seed: int = 1,
        others: Callable[[ClimateLoop], Sequence[Part]] | None = None,
        probes: Mapping[str, Probe] = PROBES,
        is_guarded: bool = False,
    ) -> None:
        """`others` makes the controllers that take the place of growd's."""
        self.clock = held_clock()
        self.bus = Bus(self.clock)
        self.config = Chamber(config, ENVIRONMENT)
        declare_topics(config, self.bus)
        self.chamber = SimulatedChamber(self.clock.monotonic, parameters, seed=seed)
        self.holds: dict[str, HoldingGuard] = {}
        self.levels: dict[str, float] = {}
        self.starts: dict[str, int] = {}
        self.full_s: dict[str, float] = {}
        self._changed: dict[str, float] = {}
        self._noise = random.Random(seed)
        self._probes = probes
        self._client = self.bus.node("client")
        self._lamp = self.bus.topics.declare(light_channels(ENVIRONMENT), CHANNEL_LEVELS)
        self._lamp_node = self.bus.node("lamp")
        self._raw = {
            name: self.bus.node(f"sensor {name}").publisher(f"{ENVIRONMENT}/raw/{name}")
            for name in self.config.measured
        }
        self.controllers: dict[str, LoopController] = {}
        self.failed: set[str] = set()
        """The variables whose sensors fail."""
        self.interlocks = WhyHeld()
        self.other_experiment = ""
        self._pumps = pumps_of(self.config, self.clock.monotonic)
        self._guards = None
        if is_guarded:
            self._guards = interlocks_of(
                self.config, self.bus, Forgetful(), None, hold=None, pumps=self._pumps
            )
        self.parts: list[Part] = [self._guards] if self._guards is not None else []
        self.parts += [Filter(self.bus, ENVIRONMENT, name) for name in self.config.measured]
        self.parts += [self._actuator(output) for output in self.config.outputs]
        self.parts += self._controllers() if others is None else others(self)

    def true(self, variable: str) -> float:
        """What there really is of a variable."""
        air, water = self.chamber.air(), self.chamber.water()
        return {
            CARBON_DIOXIDE: air.carbon_dioxide_ppm,
            TEMPERATURE: air.temperature_degc,
            HUMIDITY: air.humidity_percent,
            WATER_TEMPERATURE: water.temperature_degc,
            ACIDITY: water.potential_hydrogen,
            CONDUCTIVITY: water.conductivity_ms_cm,
            WATER_LEVEL: water.level_percent,
            ROOM_TEMPERATURE: self.chamber.parameters.ambient_temperature_degc,
            ROOM_HUMIDITY: self.chamber.parameters.ambient_humidity_percent,
        }[variable]

    def measured(self, variable: str) -> float:
        """What the filter says."""
        last = self.bus.topics.get(f"{ENVIRONMENT}/measured/{variable}").last
        return math.nan if last is None or last.value is None else float(last.value)

    def command(self, variable: str) -> float:
        """The last command for a variable, nan for none."""
        last = self.bus.topics.get(f"{ENVIRONMENT}/commanded/{variable}").last
        return math.nan if last is None or last.value is None else float(last.value)

    def want(self, variable: str, value: float | None) -> None:
        """Give a set point, or release it."""
        quality = Quality.STALE if value is None else Quality.OK
        self._client.publisher(f"{ENVIRONMENT}/desired/{variable}").publish(value, quality)

    def light(self, level: float) -> None:
        """Light all channels of the lamp."""
        for channel in ("white", "red", "blue"):
            self.chamber.set_lamp(channel, level)
        self._lamp_node.publisher(light_channels(ENVIRONMENT)).publish({"x": level, "y": level, "z": level})

    def on_s(self, name: str) -> float:
        """How long an output was on, in seconds at full level."""
        level = self.levels.get(name, 0.0)
        return self.full_s.get(name, 0.0) + level * (self.clock.monotonic() - self._changed.get(name, 0.0))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All parts run around the body."""
        runs = [part.run() for part in self.parts]
        async with tasks_around(self.clock, [*runs, self._sense()]):
            yield

    def _controllers(self) -> list[Part]:
        air = FreshAir(self.bus, ENVIRONMENT)
        lamp = LampShare(self.bus, ENVIRONMENT, self.config.lamp_mix)
        made: list[Part] = [
            output_controller(self.config, self.bus, outputs, air, self._pumps)
            for outputs in self.config.by_own_variable.values()
        ]
        for variable in self.config.loops:
            self.controllers[variable] = loop_controller(
                self.config, self.bus, variable, air, lamp, pumps=self._pumps
            )
        held: Interlocks = self.interlocks  # type: ignore[assignment]  # all of it that an autotune needs
        tuners = [
            autotuner(self.config, self.bus, controller, held, lambda: self.other_experiment)
            for variable, controller in self.controllers.items()
            if can_tune(self.config, variable)
        ]
        return [*made, *self.controllers.values(), *tuners]

    def _actuator(self, output: Output) -> OutputActuator:
        worker: Worker = Inline()  # type: ignore[assignment]  # all of it that an actuator needs
        guard: Guard = self.holds.setdefault(output.name, HoldingGuard())
        if self._guards is not None:
            guard = self._guards.guard(output.name, {output.own_variable: 0.0})
        kind = OutputActuator if output.can_dim else SwitchActuator
        return kind(
            self.bus,
            ENVIRONMENT,
            output.name,
            output.own_variable,
            write=partial(self._write, output.name, ROLES[output.own_variable].moves),
            worker=worker,
            guard=guard,
        )

    def _write(self, name: str, moved: str, level: float, _valid_s: float) -> None:
        level, before, now = float(level), self.levels.get(name, 0.0), self.clock.monotonic()
        self.full_s[name] = self.on_s(name)
        self.levels[name], self._changed[name] = level, now
        if level > 0 and before <= 0:
            self.starts[name] = self.starts.get(name, 0) + 1
        self.chamber.set_actuator(moved, level)

    async def _sense(self) -> None:
        """Publish what sensors measure, as their samplers do."""
        lagging = {name: self.true(name) for name in self._raw}
        while True:
            await self.clock.sleep(SENSOR_S)
            for name, publisher in self._raw.items():
                probe = self._probes[name]
                share = -math.expm1(-SENSOR_S / probe.response_s) if probe.response_s > 0 else 1.0
                lagging[name] += (self.true(name) - lagging[name]) * share
                known = VARIABLES[name]
                value = lagging[name] + self._noise.gauss(0.0, probe.noise)
                if name in self.failed:
                    publisher.publish(None, Quality.FAULT)
                else:
                    publisher.publish(max(known.minimum, min(known.maximum, value)))


class Thermostat:
    """Plain on and off: on below the set point by half of `band` up to as far above it, and the other way."""

    def __init__(
        self, loop: ClimateLoop, variable: str, band: float, raises: Sequence[str], lowers: Sequence[str] = ()
    ) -> None:
        self._loop = loop
        self._variable = variable
        self._half = band / 2
        node = loop.bus.node(f"thermostat {variable}")
        self._outputs = {
            name: node.publisher(f"{ENVIRONMENT}/commanded/{name}") for name in (*raises, *lowers)
        }
        self._raises, self._is_alone = raises, not (raises and lowers)
        self._on = dict.fromkeys(self._outputs, 0.0)

    async def run(self) -> None:
        topics = self._loop.bus.topics
        while True:
            await self._loop.clock.sleep(1.0)
            desired = topics.get(f"{ENVIRONMENT}/desired/{self._variable}").last
            value = self._loop.measured(self._variable)
            if desired is None or desired.value is None or math.isnan(value):
                continue
            error = float(desired.value) - value
            for name, output in self._outputs.items():
                way = error if name in self._raises else -error
                if way > self._half:
                    self._on[name] = 1.0
                elif way < (-self._half if self._is_alone else 0.0):
                    self._on[name] = 0.0
                output.publish(self._on[name])


def output(variable: str, *drives: str, lowers: bool = False, **options: Any) -> Output:
    """An output of the configuration on a solid-state relay, named as its own variable."""
    direction: Any = "lowers" if lowers else "raises"
    how: dict[str, Any] = {"kind": "ssr", "pin": 5} | options
    return Output(name=variable, variable=variable, drives=drives, direction=direction, **how)


def climate_config(measured: Sequence[str], outputs: Sequence[Output], **sections: Any) -> Config:
    """A configuration with these sensors and outputs. Their pins are not used."""
    return Config(sensor=measured_by(*measured), output=tuple(outputs), **sections)
