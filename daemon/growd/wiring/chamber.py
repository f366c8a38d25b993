"""The plant, as control engineers say: all between the hardware and the bus, as the configuration has it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.bus import Bus
from growd.bus.errors import BusError, NameTakenError
from growd.bus.messages import MESSAGE_TYPES
from growd.config import Finding
from growd.control.actuation import Actuator, LightActuator, SwitchActuator
from growd.control.attainment import AttainmentWatch, Loop, carbon_dioxide_loop, light_loop
from growd.control.autotune import Autotuner
from growd.control.carbon_dioxide import (
    COMMAND_STALE_S,
    DIRECTIONS,
    CarbonDioxideController,
    DosedSwitchController,
)
from growd.control.combining import ENOUGH_TO_VOTE, Combiner
from growd.control.controllers import DirectController, LightController
from growd.control.filters import Filter
from growd.control.light_calibration import PATIENCE_S, LightCalibration
from growd.control.pid import Gains
from growd.control.sampling import NOT_READY_LIMIT_S, Sampler
from growd.control.topics import RESERVED, declare_environment
from growd.runtime.clock import RealClock
from growd.runtime.supervisor import Supervisor
from growd.runtime.worker import WorkerError, Workers
from growd.variables import CARBON_DIOXIDE, FAN, ILLUMINANCE, VALVE, VARIABLES, similar_variable
from growd.wiring.interlocks import Safeguards
from growd.wiring.outputs import light_device, relay_device
from growd.wiring.sensors import SENSOR_KINDS, SensorDevice, least_interval_s, line_of
from growd_drivers.errors import DriverError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from datetime import tzinfo

    from growd import config
    from growd.bus.nodes import Node
    from growd.config import ChamberOptions, Config, Source
    from growd.control.calibration import Calibrations
    from growd.control.interlocks.node import Interlocks, Memory
    from growd.runtime.worker import Worker
    from growd.wiring.outputs import OutputDevice
    from growd_drivers.hardware import Hardware
    from growd_drivers.relay import Relay

DEVICE_TIMEOUT_S: Final = 2.0
DEVICE_CLOSE_S: Final = 5.0  # an output that hangs holds up the way down for no longer; one may be late
LAST_READ_S: Final = 2.0  # nor a reading: a BH1750 in the dark takes two thirds of a second


class Part(Protocol):
    """What runs, beneath the name of its node, until it is cancelled."""

    node: Node

    async def run(self) -> None:
        """Until cancelled."""


def declare_topics(config: Config, bus: Bus) -> None:
    """Declare the topics of each environment, which clients may know before any device is there."""
    for environment, chamber in config.chambers().items():
        declare_environment(bus, environment, sensed(chamber))


def unfit_topics(config: Config) -> Iterator[Finding]:
    """Further topics with a name that none can have, or that belongs to growd."""
    bus = Bus(RealClock())
    declare_topics(config, bus)
    for name, message_type in config.topics.items():
        environment, _, rest = name.removeprefix("/").partition("/")
        try:
            is_reserved = environment in config.chambers() and rest.partition("/")[0] in RESERVED
            if is_reserved or environment == "alerts":
                raise NameTakenError("topic", name)
            bus.topics.declare(name, MESSAGE_TYPES[message_type], is_open=True)
        except BusError as error:
            yield Finding(("topics", name), str(error))


def unmeasured_variables(config: Config) -> Iterator[Finding]:
    """What the configuration says of variables and does not fit its sensors."""
    for environment in config.chambers():
        yield from _unmeasured_in(config, environment)
    known = {*VARIABLES, *(name.rpartition("/")[2] for name in config.topics)}
    for name in config.store.variable:
        if name not in known:
            yield Finding(("store", "variable", name), _no_variable(name))


def _unmeasured_in(config: Config, environment: str) -> Iterator[Finding]:
    chamber, path = config.chambers()[environment], functools.partial(config.path, environment)
    measured = sensed(chamber)
    for variable in chamber.combine:
        if variable not in VARIABLES:
            yield Finding((*path("combine"), variable), _no_variable(variable))
        elif len(sensors_of(chamber, variable)) < 2:  # noqa: PLR2004  several
            reason = "only a variable of two sensors or more can be combined"
            yield Finding((*path("combine"), variable), reason)
    for number, relay in enumerate(chamber.relay):
        if relay.needs and relay.needs not in measured:
            needed = f"{relay.name} needs {relay.needs}, which no sensor measures"
            yield Finding((*path("relay"), number, "needs"), needed)
        if relay.variable == VALVE and relay.needs is None and CARBON_DIOXIDE not in measured:
            needed = (
                f"{relay.name} is a valve for CO2, which no sensor measures; add a [[sensor]] for it, or set "
                'needs = "" where the valve may open without one'
            )
            yield Finding((*path("relay"), number, "needs"), needed)
    if chamber.light.needs_sensor and ILLUMINANCE not in measured:
        yield Finding((*path("light"), "needs_sensor"), "no sensor measures light_illuminance")


def median_of_two(config: Config, _: Source) -> Iterator[Finding]:
    """A median of two sensors, of which neither can outvote the other: the first one counts."""
    for environment, chamber in config.chambers().items():
        for variable, method in chamber.combine.items():
            if method == "median" and len(sensors_of(chamber, variable)) < ENOUGH_TO_VOTE:
                path = (*config.path(environment, "combine"), variable)
                reason = 'of two sensors the first one counts; add a third for a median, or write "first"'
                yield Finding(path, reason)


def _no_variable(name: str) -> str:
    meant = similar_variable(name)
    return "there is no variable of this name" + (f"; did you mean {meant}?" if meant else "")


def unguarded_valves(config: Config, _: Source) -> Iterator[Finding]:
    """Valves for CO2 that may be open while nobody can say how much CO2 there is."""
    for environment, chamber in config.chambers().items():
        is_measured = CARBON_DIOXIDE in sensed(chamber)
        for number, relay in enumerate(chamber.relay):
            if relay.variable != VALVE or relay.needs in (None, CARBON_DIOXIDE):
                continue
            if is_measured:
                reason = f"{relay.name} may be open while {CARBON_DIOXIDE} is not known; leave needs out"
            else:
                reason = (
                    f"no sensor measures {CARBON_DIOXIDE}, so no ceiling shuts {relay.name}; add a "
                    "[[sensor]] for it, and leave needs out"
                )
            yield Finding((*config.path(environment, "relay"), number, "needs"), reason)


def sensors_of(chamber: ChamberOptions, variable: str) -> list[str]:
    """The names of the sensors that measure a variable, in their order."""
    return [
        sensor.name for sensor in chamber.sensor if variable in SENSOR_KINDS[sensor.kind].variables.values()
    ]


def sensed(chamber: ChamberOptions) -> list[str]:
    """The variables that some sensor measures."""
    kinds = [SENSOR_KINDS[sensor.kind] for sensor in chamber.sensor]
    return sorted({variable for kind in kinds for variable in kind.variables.values()})


class Plants:
    """The plant of each environment on `hardware`; whoever opened that closes it.

    `memory` keeps what has to outlast a restart, and days are those of `zone` (None: the machine's).
    `complain` is told, in a sentence for a person, of an output that may not be safe in the end.
    """

    def __init__(
        self,
        config: Config,
        bus: Bus,
        hardware: Hardware,
        *,
        memory: Memory,
        complain: Callable[[str], None],
        zone: tzinfo | None = None,
    ) -> None:
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._complain = complain
        self.workers = Workers(bus.clock.monotonic)
        """One thread for each bus, each serial line and each output, whatever environments are on it."""
        self.by_environment = {
            environment: Plant(
                config, environment, bus, hardware, self.workers, memory=memory, complain=complain, zone=zone
            )
            for environment in config.chambers()
        }

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all parts of all plants around the body. At the end the outputs are safe, and closed."""
        plants = self.by_environment.values()
        try:
            async with Supervisor(self._clock, self._liveness) as parts:
                for plant in plants:
                    for part in plant.parts():
                        parts.start(part.node.name, part.run)
                yield
            await _all_of(self._complain, (plant.make_safe() for plant in plants))
        finally:
            await _all_of(self._complain, (plant.close() for plant in plants))
            await self.workers.close(LAST_READ_S)


class Plant:
    """Samplers, filters, controllers and actuators of one environment, on `hardware` and in `workers`."""

    def __init__(
        self,
        config: Config,
        environment: str,
        bus: Bus,
        hardware: Hardware,
        workers: Workers,
        *,
        memory: Memory,
        complain: Callable[[str], None],
        zone: tzinfo | None,
    ) -> None:
        self.environment = environment
        self.chamber = config.chambers()[environment]
        self._speed = config.simulator.speed
        self._is_simulated = config.simulator.enabled
        self._is_one_of_several = bool(config.chamber)
        self._bus = bus
        self._hardware = hardware
        self._workers = workers
        self._memory = memory
        self._zone = zone
        self._complain = complain
        self._interlocks: Interlocks | None = None
        self._actuators: list[Actuator] = []
        self._outputs: list[tuple[Worker, OutputDevice[Any]]] = []

    def parts(self) -> list[Part]:
        """All that runs, new; the actuators, which make their outputs safe, come first after their guards."""
        guards = self._interlocks = self._safeguards().interlocks(self._bus, self.environment, self._memory)
        self._actuators = [*self._lamps(guards), *self._relays(guards)]
        controllers = [*self.controllers(), *self._carbon_dioxide(guards)]
        calibrations = [
            self._light_calibration(part, guards)
            for part in controllers
            if isinstance(part, LightController) and self._can_measure_its_lamp()
        ]
        return [
            guards,
            *self._actuators,
            *controllers,
            *calibrations,
            AttainmentWatch(self._bus, self.environment, self._loops(), guards.why_held),
            *self.combiners(),
            *self.samplers(),
        ]

    def _loops(self) -> Iterator[Loop]:
        """What is measured and controlled."""
        light = self.chamber.light
        if light.enabled and ILLUMINANCE in sensed(self.chamber):
            channels = [channel.name for channel in light.channel]
            yield light_loop(light.full_scale_lux, channels, is_switched=light.switched)
        if self._is_carbon_dioxide_controlled():
            devices = (*self._relays_of(VALVE), *self._relays_of(FAN))
            yield carbon_dioxide_loop(devices, has_fan=bool(self._relays_of(FAN)))

    def _can_measure_its_lamp(self) -> bool:
        """Step by step, which takes a lamp that can be dimmed."""
        return ILLUMINANCE in sensed(self.chamber) and not self.chamber.light.switched

    async def make_safe(self) -> None:
        """Make all outputs safe. Those that run have ended."""
        await _all_of(self._tell, (actuator.make_safe() for actuator in self._actuators))
        if self._interlocks is not None:
            await self._interlocks.close()

    async def close(self) -> None:
        """Close all outputs, which leaves them safe; those that don't answer are told."""
        await _all_of(self._tell, (self._close(worker, device) for worker, device in self._outputs))

    def _safeguards(self) -> Safeguards:
        sensors = {variable: sensors_of(self.chamber, variable) for variable in sensed(self.chamber)}
        return Safeguards(self.chamber, sensors, self._stale_after, self._patient, self._zone)

    def _lamps(self, guards: Interlocks) -> Iterator[Actuator]:
        light = self.chamber.light
        if not light.enabled:
            return
        lamp = light_device(self._hardware, light)
        yield LightActuator(
            self._bus,
            self.environment,
            write=lambda channel, level: lamp.use().set(channel, level),
            worker=self._output_worker("light", lamp),
            mix={channel.name: channel.mix for channel in light.channel},
            ramp_s=light.ramp_s,
            is_switched=light.switched,
            stale_after_s=self._patient(light.stale_after_s),
            write_timeout_s=self._patient(DEVICE_TIMEOUT_S),
            guard=guards.guard("light", {}),
        )

    def _relays(self, guards: Interlocks) -> Iterator[Actuator]:
        for settings in self.chamber.relay:
            relay = relay_device(self._hardware, settings)
            is_on = settings.safe == "on"
            yield SwitchActuator(
                self._bus,
                self.environment,
                settings.name,
                settings.variable,
                write=functools.partial(_switch, relay),
                worker=self._output_worker(settings.name, relay),
                safe_on=is_on,
                stale_after_s=self._patient(settings.stale_after_s),
                write_timeout_s=self._patient(DEVICE_TIMEOUT_S),
                guard=guards.guard(settings.name, {settings.variable: float(is_on)}),
            )

    def _output_worker(self, name: str, device: OutputDevice[Any]) -> Worker:
        """The thread of one output: one that hangs keeps no other. No bus and no line has such a name."""
        worker = self._workers.named(f"{self.environment}/{name}")
        self._outputs.append((worker, device))
        return worker

    async def _close(self, worker: Worker, device: OutputDevice[Any]) -> None:
        try:
            async with asyncio.timeout(DEVICE_CLOSE_S):
                await worker.run(device.close)
        except TimeoutError:
            self._tell(f"{device.name} does not answer: its outputs may not be safe")
        except (DriverError, WorkerError) as error:
            self._tell(f"{device.name}'s outputs may not be safe: {error}")

    def _tell(self, sentence: str) -> None:
        self._complain(f"in {self.environment} {sentence}" if self._is_one_of_several else sentence)

    def controllers(self) -> Iterator[LightController | DirectController | DosedSwitchController | Filter]:
        """Filters and controllers: all that needs no hardware."""
        environment, light = self.environment, self.chamber.light
        for variable in sensed(self.chamber):
            yield Filter(
                self._bus,
                environment,
                variable,
                weight=self.chamber.filter.weight,
                stale_after_s=self._stale_after(variable),
            )
        if light.enabled:
            yield LightController(
                self._bus,
                environment,
                full_scale_lux=light.full_scale_lux,
                gamma=light.gamma,
                minimum_duty=light.minimum_duty,
                is_switched=light.switched,
                measured_stale_after_s=self._stale_after(ILLUMINANCE),
                override_s=light.override_s,
                mix={channel.name: channel.mix for channel in light.channel},
            )
            for channel in light.channel:
                variable = f"light_intensity_{channel.name}"
                yield DirectController(self._bus, environment, variable, override_s=light.override_s)
        doses = self._is_carbon_dioxide_controlled()
        for relay in {relay.variable: relay for relay in self.chamber.relay}.values():
            if doses and relay.variable in DIRECTIONS:
                yield self._dosed(relay)
            else:
                yield DirectController(self._bus, environment, relay.variable, override_s=relay.override_s)

    def _is_carbon_dioxide_controlled(self) -> bool:
        """Whether there are a sensor and a valve for it."""
        return CARBON_DIOXIDE in sensed(self.chamber) and bool(self._relays_of(VALVE))

    def _relays_of(self, variable: str) -> tuple[str, ...]:
        return tuple(relay.name for relay in self.chamber.relay if relay.variable == variable)

    def _carbon_dioxide(self, guards: Interlocks) -> Iterator[CarbonDioxideController | Autotuner]:
        if not self._is_carbon_dioxide_controlled():
            return
        settings, valves = self.chamber.carbon_dioxide, self._relays_of(VALVE)
        controller = CarbonDioxideController(
            self._bus,
            self.environment,
            gains=Gains(settings.kp_per_ppm, settings.ti_s, settings.td_s, settings.set_point_weight),
            on_off=settings.method == "on_off",
            band_ppm=settings.band_ppm,
            fan_band_ppm=settings.fan_band_ppm,
            valves=valves,
            fans=self._relays_of(FAN),
            measured_stale_after_s=self._stale_after(CARBON_DIOXIDE),
            override_s=settings.override_s,
            is_simulated=self._is_simulated,
        )
        yield controller
        yield Autotuner(
            self._bus,
            self.environment,
            controller,
            valves,
            fans=self._relays_of(FAN),
            why_held=functools.partial(guards.why_held, [VALVE]),
            most_open_s=settings.autotune_open_s,
        )

    def _dosed(self, relay: config.RelayOptions) -> DosedSwitchController:
        settings, is_valve = self.chamber.carbon_dioxide, relay.variable == VALVE
        return DosedSwitchController(
            self._bus,
            self.environment,
            relay.variable,
            minimum_on_s=settings.minimum_on_s if is_valve else settings.fan_minimum_on_s,
            minimum_off_s=settings.minimum_off_s if is_valve else settings.fan_minimum_off_s,
            command_stale_after_s=self._patient(COMMAND_STALE_S),
            override_s=relay.override_s,
        )

    def _light_calibration(self, controller: LightController, guards: Interlocks) -> LightCalibration:
        light = self.chamber.light
        names = sensors_of(self.chamber, ILLUMINANCE)
        channels = [channel.name for channel in light.channel]
        return LightCalibration(
            self._bus,
            self.environment,
            controller,
            channels=channels,
            interval_s=max(sensor.interval_s for sensor in self.chamber.sensor if sensor.name in names),
            ramp_s=light.ramp_s,
            stale_after_s=self._stale_after(ILLUMINANCE),
            why_held=functools.partial(guards.why_held, (ILLUMINANCE, *channels)),
            patience_s=self._patient(PATIENCE_S),
        )

    def combiners(self) -> Iterator[Combiner]:
        """One for each variable that several sensors measure."""
        for variable in self._shared():
            yield Combiner(
                self._bus,
                self.environment,
                variable,
                sensors_of(self.chamber, variable),
                method=self.chamber.combine.get(variable, "first"),
                stale_after_s=self._stale_after(variable),
            )

    def samplers(self) -> Iterator[Sampler]:
        """One sampler for each sensor."""
        for sensor in self.chamber.sensor:
            device = SensorDevice(self._hardware, sensor)
            line = line_of(sensor)
            sampler = Sampler(
                self._bus,
                self.environment,
                device.name,
                read=device.read,
                variables=device.variables,
                worker=self._workers.named(line, functools.partial(self._hardware.take_over, line)),
                interval_s=sensor.interval_s,
                intervals_s=self._intervals(sensor, device.variables),
                read_timeout_s=self._patient(DEVICE_TIMEOUT_S),
                not_ready=NotReadyError,
                not_ready_limit_s=max(
                    NOT_READY_LIMIT_S + SENSOR_KINDS[sensor.kind].warm_up_s, sensor.interval_s
                ),
                services=device.services,
                calibrations=self._calibrations(device),
                shared=self._shared(),
            )
            sampler.node.describe("line", functools.partial(self._told_of_line, line))
            yield sampler

    def _intervals(self, sensor: config.Sensor, variables: Iterable[str]) -> tuple[float, float]:
        """Within these a client may set the interval: nothing that goes by the sensor takes it for silent."""
        most = min(self._stale_after(variable) for variable in variables) / 2
        return min(least_interval_s(sensor), sensor.interval_s), most

    def _calibrations(self, device: SensorDevice) -> Calibrations | None:
        """Who is asked before the device is calibrated: the interlocks, where they go by it."""
        if self._interlocks is None or not self._interlocks.judges(device.name):
            return None
        return self._interlocks

    def _told_of_line(self, name: str) -> dict[str, Any]:
        """For people: the bus or serial line of a sensor, and what had to be done to it."""
        return {
            "name": name,
            "recoveries": self._hardware.recoveries(name),
            "threads_left_behind": self._workers[name].replaced,
        }

    def _shared(self) -> list[str]:
        """The variables that several sensors measure."""
        return [variable for variable in sensed(self.chamber) if len(sensors_of(self.chamber, variable)) > 1]

    def _stale_after(self, variable: str) -> float:
        """Seconds of the clock after which a variable is stale: never before two readings are missed."""
        missed = [
            2 * sensor.interval_s
            for sensor in self.chamber.sensor
            if variable in SENSOR_KINDS[sensor.kind].variables.values()
        ]
        return max([self._patient(self.chamber.filter.stale_after_s), *missed])

    def _patient(self, seconds: float) -> float:
        """A time limit on this machine's work, in seconds of the clock: simulated time runs faster."""
        return seconds * max(1.0, self._speed)


def _switch(relay: OutputDevice[Relay], on: bool) -> None:  # noqa: FBT001  what an actuator writes
    relay.use().set(on)


async def _all_of(complain: Callable[[str], None], steps: Iterable[Awaitable[object]]) -> None:
    """Take steps that make outputs safe, all at a time and each to its end, also where another one fails."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException):
            complain(f"outputs may not be safe: {result!r}")
