"""A chamber whose CO2 or light is controlled, on a clock that stands still until all is done that falls due.

The simulated chamber and SCD30, the daemon's own filter, controllers and actuators on the bus: an hour takes
seconds, and the same seed gives the same hour. `bench/control.py` measures with it, and tests use it too.
"""

from __future__ import annotations

import asyncio
import math
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.actuation import SwitchActuator
from growd.control.controllers import LightController
from growd.control.filters import Filter
from growd.control.lamp import DEFAULT_MIX, LightActuator
from growd.control.loop import LoopController, usual_settings
from growd.control.output_control import Demand, OutputController
from growd.control.topics import declare_environment
from growd_commissioning.autotune import Autotuner, TunedOutput
from growd_hwsim.chamber import SimulatedChamber
from growd_hwsim.chips import scd30
from growd_hwsim.parameters import ChamberParameters
from growd_hwsim.sensirion import with_crcs
from growd_simulation.simulated_clock import SimulatedClock, moving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from growd.runtime.worker import Worker

ENVIRONMENT = "e"
CO2 = "air_carbon_dioxide"
LUX = "light_illuminance"
VALVE, FAN = "air_carbon_dioxide_valve_on", "air_flush_on"
SENSOR_S = 2.0  # the interval of an SCD30
ANSWERS_S = 0.01  # after a command, from when on it can be read


def held_clock(time: float = 1_700_000_000.0) -> SimulatedClock:
    """A clock whose time passes only in `advance`."""
    return SimulatedClock(start=time, ends=0.0)


class Inline:
    """Stands in for a worker: what it is given is done at once, for nothing here blocks."""

    replaced = returned = 0

    def submit(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(function(*args))
        return done

    def is_abandoned(self) -> bool:
        return False


class HoldingGuard:
    """Stands in for the interlocks: an output that is held is 0, and nobody is asked."""

    is_on_hold = False

    def __init__(self) -> None:
        self.is_held = False
        self._nudge: Callable[[], None] = lambda: None

    def permit(self, _output: str, level: float) -> float:
        return 0.0 if self.is_held else level

    def wrote(
        self,
        _output: str,
        _level: float | None,
        _lasted_s: float = 0.0,
        _was_on_s: float | None = None,
    ) -> None:
        """It goes by nothing that is written."""

    def watch(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge

    def set(self, is_held: bool) -> None:  # noqa: FBT001  its name says it
        self.is_held = is_held
        self._nudge()


class Part(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True)
class Setting:
    """What is controlled: the chamber, and how far its sensor lags. `fan` says if there is one."""

    parameters: ChamberParameters = field(default_factory=ChamberParameters)
    response_s: float = scd30.RESPONSE_S.carbon_dioxide_ppm
    fan: bool = True
    time_of_day_s: float = 8 * 3600.0
    seed: int = 1


def co2_controller(
    bus: Bus, *, fans: Sequence[str] = (), environment: str = ENVIRONMENT, **settings: Any
) -> LoopController:
    """The controller of CO2 with the usual settings but these."""
    usual = msgspec.structs.replace(usual_settings(CO2), **settings)
    return LoopController(bus, environment, CO2, usual, raises=("valve",), lowers=fans)


def valve_controller(bus: Bus, *, environment: str = ENVIRONMENT, **options: Any) -> OutputController:
    """The doses of the valve."""
    return OutputController(bus, environment, VALVE, [Demand(CO2)], **options)


def fan_controller(bus: Bus, *, environment: str = ENVIRONMENT, **options: Any) -> OutputController:
    """The doses of the exhaust fan."""
    return OutputController(bus, environment, FAN, [Demand(CO2, raises=False)], **options)


def co2_tuner(
    bus: Bus,
    controller: LoopController,
    valves: Sequence[str] = ("valve",),
    *,
    fans: Sequence[str] = (),
    **options: Any,
) -> Autotuner:
    """The autotune of CO2."""
    outputs = (
        TunedOutput(VALVE, "valve", tuple(valves)),
        TunedOutput(FAN, "fan", tuple(fans), is_tested=False),
    )
    return Autotuner(bus, ENVIRONMENT, controller, outputs, **options)


class Loop:
    """The chamber with its sensor, filter and switches on a bus. Controllers are up to whoever uses it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.clock = held_clock()
        self.bus = Bus(self.clock)
        declare_environment(self.bus, ENVIRONMENT, [CO2])
        self.chamber = SimulatedChamber(
            self.clock.monotonic, setting.parameters, seed=setting.seed, time_of_day_s=setting.time_of_day_s
        )
        self.valve_open = self.fan_on = False
        self.valve_hold = HoldingGuard()
        self.openings = 0
        self.open_s = 0.0
        self._opened = 0.0
        self._late = 0.0
        self._chip = scd30.SimulatedScd30(
            self.chamber.air,
            lambda: self.clock.monotonic() + self._late,
            seed=setting.seed,
            response_s=scd30.RESPONSE_S._replace(carbon_dioxide_ppm=setting.response_s),
        )
        self._raw = self.bus.node("sensor").publisher(f"{ENVIRONMENT}/raw/{CO2}")
        self._client = self.bus.node("client")
        self.parts: list[Part] = [Filter(self.bus, ENVIRONMENT, CO2), self._switch("valve", VALVE)]
        if setting.fan:
            self.parts.append(self._switch("fan", FAN))

    @property
    def ppm(self) -> float:
        """What CO2 there really is."""
        return self.chamber.air().carbon_dioxide_ppm

    @property
    def measured(self) -> float:
        """What the filter says."""
        last = self.bus.topics.get(f"{ENVIRONMENT}/measured/{CO2}").last
        return math.nan if last is None or last.value is None else float(last.value)

    @property
    def fans(self) -> tuple[str, ...]:
        """The names of the fans, for a controller."""
        return ("fan",) if self.setting.fan else ()

    @property
    def litres(self) -> float:
        """The CO2 that went through the valve."""
        open_s = self.open_s + (self.clock.monotonic() - self._opened if self.valve_open else 0.0)
        return open_s / 60 * self.chamber.parameters.valve_flow_l_min

    def want(self, variable: str, value: float) -> None:
        """Give a set point, as a recipe does."""
        self._client.publisher(f"{ENVIRONMENT}/desired/{variable}").publish(value)

    @asynccontextmanager
    async def running(self, controllers: Sequence[Part]) -> AsyncIterator[None]:
        """All parts run around the body."""
        runs = [part.run() for part in (*self.parts, *controllers)]
        async with tasks_around(self.clock, [*runs, self._sense()]):
            yield

    async def _sense(self) -> None:
        """Publish what the chip measures, as its sampler does."""
        self._chip.on_write(struct.pack(">H", scd30.START_CONTINUOUS) + with_crcs(bytes(2)))
        while True:
            await self.clock.sleep(SENSOR_S)
            self._chip.on_write(struct.pack(">H", scd30.READ_MEASUREMENT))
            self._late = ANSWERS_S
            answer = self._chip.on_read(18)
            self._late = 0.0
            self._raw.publish(struct.unpack(">f", answer[0:2] + answer[3:5])[0])

    def _switch(self, name: str, variable: str) -> SwitchActuator:
        worker: Worker = Inline()  # type: ignore[assignment]  # all of it that an actuator needs
        move = self._move_valve if name == "valve" else self._move_fan
        guard = self.valve_hold if name == "valve" else None
        return SwitchActuator(self.bus, ENVIRONMENT, name, variable, write=move, worker=worker, guard=guard)

    def _move_valve(self, level: float, _valid_s: float) -> None:
        is_open = level > 0
        if is_open and not self.valve_open:
            self.openings += 1
            self._opened = self.clock.monotonic()
        elif self.valve_open and not is_open:
            self.open_s += self.clock.monotonic() - self._opened
        self.valve_open = is_open
        self.chamber.set_actuator("valve", float(is_open))

    def _move_fan(self, level: float, _valid_s: float) -> None:
        self.fan_on = is_on = level > 0
        self.chamber.set_actuator("fan", float(is_on))


@dataclass(frozen=True)
class Lamp:
    """How the lamp is configured, and what it is: `strength` is its real light over what growd believes."""

    gamma: float = 2.2
    ramp_s: float = 5.0
    minimum_duty: float = 0.0
    is_switched: bool = False
    full_scale_lux: float = 20_000.0
    strength: float = 1.0


class LightLoop:
    """The chamber with its lamp, a light sensor that is read each second, and daylight as it is told."""

    def __init__(self, lamp: Lamp) -> None:
        self.clock = held_clock()
        self.bus = Bus(self.clock)
        declare_environment(self.bus, ENVIRONMENT, [LUX])
        dark = replace(ChamberParameters(), daylight_lux=0.0)
        self.chamber = SimulatedChamber(self.clock.monotonic, dark)
        self.daylight = 0.0
        self.quality = Quality.OK  # of what the sensor says
        self.hold = HoldingGuard()
        self._lamp = lamp
        self._raw = self.bus.node("sensor").publisher(f"{ENVIRONMENT}/raw/{LUX}")
        self._client = self.bus.node("client")
        worker: Worker = Inline()  # type: ignore[assignment]  # all of it that an actuator needs
        self.parts: list[Part] = [
            Filter(self.bus, ENVIRONMENT, LUX),
            LightActuator(
                self.bus,
                ENVIRONMENT,
                write=self._write,
                worker=worker,
                ramp_s=lamp.ramp_s,
                switched=DEFAULT_MIX if lamp.is_switched else (),
                guard=self.hold,
            ),
            LightController(
                self.bus,
                ENVIRONMENT,
                full_scale_lux=lamp.full_scale_lux,
                gamma=lamp.gamma,
                minimum_duty=lamp.minimum_duty,
                is_switched=lamp.is_switched,
                mix=DEFAULT_MIX,
            ),
        ]

    @property
    def lux(self) -> float:
        """What light there really is."""
        return self.chamber.illuminance_lux() * self._lamp.strength + self.daylight

    @property
    def level(self) -> float:
        """What the controller commands."""
        last = self.bus.topics.get(f"{ENVIRONMENT}/commanded/{LUX}").last
        return math.nan if last is None or last.value is None else float(last.value)

    def want(self, lux: float | None) -> None:
        """Give a set point, or release it."""
        quality = Quality.STALE if lux is None else Quality.OK
        self._client.publisher(f"{ENVIRONMENT}/desired/{LUX}").publish(lux, quality)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All parts run around the body."""
        async with tasks_around(self.clock, [*(part.run() for part in self.parts), self._sense()]):
            yield

    async def _sense(self) -> None:
        """Publish what the sensor measures, as its sampler does."""
        while True:
            await self.clock.sleep(1.0)
            is_ok = self.quality is Quality.OK
            self._raw.publish(self.lux if is_ok else None, self.quality)

    def _write(self, channel: str, level: float, _valid_s: float) -> None:
        """As `growd_drivers.pin_output` has it."""
        least = self._lamp.minimum_duty
        duty = least + (1 - least) * level**self._lamp.gamma if level > 0 else 0.0
        self.chamber.set_lamp(channel, duty)


@asynccontextmanager
async def tasks_around(
    clock: SimulatedClock, runs: Sequence[Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """Run all of them around the body. Raises what one of them raised."""
    tasks = [asyncio.create_task(run, name="closed loop") for run in runs]
    with moving(clock, asyncio.get_running_loop()):
        try:
            await clock.settle()
            yield
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if not isinstance(result, asyncio.CancelledError) and isinstance(result, BaseException):
            raise result
