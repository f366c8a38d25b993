"""Samplers, filters, controllers, interlocks and actuators of each environment, as configured."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.config import chambers_of
from growd.control.actuation import Actuator, LightActuator, SwitchActuator
from growd.control.attainment import AttainmentWatch, Loop, carbon_dioxide_loop, light_loop
from growd.control.autotune import Autotuner
from growd.control.carbon_dioxide import (
    COMMAND_STALE_S,
    DIRECTIONS,
    CarbonDioxideController,
    DosedSwitchController,
)
from growd.control.combining import Combiner
from growd.control.controllers import Controller, DirectController, LightController
from growd.control.filters import Filter
from growd.control.light_calibration import PATIENCE_S, LightCalibration
from growd.control.pid import Gains
from growd.control.sampling import NOT_READY_LIMIT_S, Sampler
from growd.device_kinds import SENSOR_KINDS
from growd.runtime.supervisor import Supervisor
from growd.runtime.worker import WorkerError, Workers
from growd.variables import CARBON_DIOXIDE, FAN, ILLUMINANCE, VALVE
from growd.wiring.interlocks import interlocks_of
from growd.wiring.outputs import light_device, relay_device
from growd.wiring.sensors import SensorDevice
from growd_drivers.errors import DriverError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.bus.nodes import Node
    from growd.config import Chamber, Config, RelayOptions
    from growd.control.hold import OutputHold
    from growd.control.interlocks.node import Interlocks, Memory
    from growd.runtime.worker import Worker
    from growd.wiring.outputs import OutputDevice
    from growd_drivers.hardware import Hardware
    from growd_drivers.relay import Relay

DEVICE_TIMEOUT_S: Final = 2.0
DEVICE_CLOSE_S: Final = 5.0  # time limit for closing an output at shutdown
LAST_READ_S: Final = 2.0  # time limit for a last reading; a BH1750 in the dark takes two thirds of a second


class NodeTask(Protocol):
    """A component that runs under the name of its node."""

    node: Node

    async def run(self) -> None:
        """Until cancelled."""


class AllChambers:
    """The control of each environment on `hardware`, which the caller closes.

    `memory` keeps what has to outlast a restart. Days begin in `zone` (None: local). `report` gets a sentence
    for each output that may not be safe at the end. `hold` keeps all outputs safe while it is set.
    """

    def __init__(
        self,
        config: Config,
        bus: Bus,
        hardware: Hardware,
        *,
        memory: Memory,
        report: Callable[[str], None],
        zone: tzinfo | None = None,
        hold: OutputHold | None = None,
    ) -> None:
        self._clock = bus.clock
        self._liveness = bus.liveness
        self._report = report
        self.workers = Workers(bus.clock.monotonic)
        """A thread for each bus, each serial line and each output, shared by all environments."""
        self.by_environment = {
            chamber.environment: ChamberControl(
                chamber, bus, hardware, self.workers, memory=memory, report=report, zone=zone, hold=hold
            )
            for chamber in chambers_of(config)
        }
        if hold is not None:
            hold.judge_by(self._unsafe)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all components around the body. At the end the outputs are safe, and closed."""
        chambers = self.by_environment.values()
        try:
            async with Supervisor(self._clock, self._liveness) as supervisor:
                for chamber in chambers:
                    for component in chamber.components():
                        supervisor.start(component.node.name, component.run)
                yield
            await _all_of(self._report, (chamber.make_safe() for chamber in chambers))
        finally:
            await _all_of(self._report, (chamber.close() for chamber in chambers))
            await self.workers.close(LAST_READ_S)

    def _unsafe(self) -> list[str]:
        """The actuators whose outputs are not known to be safe."""
        return [name for chamber in self.by_environment.values() for name in chamber.unsafe()]


class ChamberControl:
    """Samplers, filters, controllers, interlocks and actuators of one environment."""

    def __init__(
        self,
        chamber: Chamber,
        bus: Bus,
        hardware: Hardware,
        workers: Workers,
        *,
        memory: Memory,
        report: Callable[[str], None],
        zone: tzinfo | None,
        hold: OutputHold | None = None,
    ) -> None:
        self.chamber = chamber
        self._environment = chamber.environment
        self._options = chamber.options
        self._bus = bus
        self._hardware = hardware
        self._workers = workers
        self._memory = memory
        self._zone = zone
        self._hold = hold
        self._report_unsafe = report
        self._interlocks: Interlocks | None = None
        self._actuators: list[Actuator] = []
        self._experiments: list[Autotuner | LightCalibration] = []
        self._outputs: list[tuple[Worker, OutputDevice[Any]]] = []

    def components(self) -> list[NodeTask]:
        """All components, new. Actuators, which make their outputs safe, come right after the interlocks."""
        interlocks = interlocks_of(self.chamber, self._bus, self._memory, self._zone, self._hold)
        self._interlocks = interlocks
        self._actuators = [*self._lamp(interlocks), *self._relays(interlocks)]
        control = [
            *self._light_control(interlocks),
            *self._switch_control(),
            *self._carbon_dioxide_control(interlocks),
        ]
        for each in control:
            if self._hold is not None and isinstance(each, Controller):
                each.heed(self._hold)
        return [
            interlocks,
            *self._actuators,
            *self.filters(),
            *control,
            AttainmentWatch(self._bus, self._environment, self._loops(), interlocks.why_held),
            *self.combiners(),
            *self.samplers(),
        ]

    def unsafe(self) -> list[str]:
        """The actuators whose outputs are not known to be safe."""
        return [actuator.node.name for actuator in self._actuators if not actuator.is_safe]

    async def make_safe(self) -> None:
        """Make all outputs safe, after their components have ended."""
        await _all_of(self._report, (actuator.make_safe() for actuator in self._actuators))
        if self._interlocks is not None:
            await self._interlocks.close()

    async def close(self) -> None:
        """Close all outputs, which leaves them safe, and report those that do not answer."""
        await _all_of(self._report, (self._close(worker, device) for worker, device in self._outputs))

    # sensors

    def samplers(self) -> Iterator[Sampler]:
        """One for each sensor."""
        for sensor in self._options.sensor:
            device = SensorDevice(self._hardware, sensor)
            is_judged = self._interlocks is not None and self._interlocks.judges(device.name)
            warm_up_s = SENSOR_KINDS[sensor.kind].warm_up_s
            sampler = Sampler(
                self._bus,
                self._environment,
                device.name,
                read=device.read,
                prepare=device.prepare,
                variables=device.variables,
                worker=self._workers.named(sensor.line, partial(self._hardware.take_over, sensor.line)),
                interval_s=sensor.interval_s,
                intervals_s=self.chamber.interval_range_s(sensor),
                read_timeout_s=self.chamber.scaled(DEVICE_TIMEOUT_S),
                not_ready=NotReadyError,
                not_ready_limit_s=max(NOT_READY_LIMIT_S + warm_up_s, sensor.interval_s),
                services=device.services,
                calibrations=self._interlocks if is_judged else None,
                shared=self.chamber.shared,
                confirms=sensor.confirms,
            )
            sampler.node.describe("line", partial(self._line_state, sensor.line))
            yield sampler

    def combiners(self) -> Iterator[Combiner]:
        """One for each variable that several sensors measure."""
        for variable in self.chamber.shared:
            yield Combiner(
                self._bus,
                self._environment,
                variable,
                self.chamber.sensor_names(variable),
                method=self._options.combine.get(variable, "first"),
                stale_after_s=self.chamber.stale_after_s(variable),
            )

    def filters(self) -> Iterator[Filter]:
        """One for each variable that is measured."""
        for variable in self.chamber.measured:
            yield Filter(
                self._bus,
                self._environment,
                variable,
                weight=self._options.filter.weight,
                stale_after_s=self.chamber.stale_after_s(variable),
            )

    def _line_state(self, name: str) -> dict[str, Any]:
        """The bus or serial line of a sensor, and how often it had to be recovered."""
        return {
            "name": name,
            "recoveries": self._hardware.recoveries(name),
            "threads_left_behind": self._workers[name].replaced,
        }

    # controllers

    def _light_control(
        self, interlocks: Interlocks
    ) -> Iterator[LightController | DirectController | LightCalibration]:
        light = self._options.light
        if not light.enabled:
            return
        controller = LightController(
            self._bus,
            self._environment,
            full_scale_lux=light.full_scale_lux,
            gamma=light.gamma,
            minimum_duty=light.minimum_duty,
            is_switched=light.switched,
            measured_stale_after_s=self.chamber.stale_after_s(ILLUMINANCE),
            override_s=light.override_s,
            mix={channel.name: channel.mix for channel in light.channel},
        )
        yield controller
        for channel in self.chamber.lamp_channels:
            yield self._direct(f"light_intensity_{channel}", light.override_s)
        if self.chamber.controls_illuminance and not light.switched:  # it goes through the levels of the lamp
            calibration = self._light_calibration(controller, interlocks)
            self._experiments.append(calibration)
            yield calibration

    def _light_calibration(self, controller: LightController, interlocks: Interlocks) -> LightCalibration:
        channels = self.chamber.lamp_channels
        return LightCalibration(
            self._bus,
            self._environment,
            controller,
            channels=channels,
            interval_s=max(sensor.interval_s for sensor in self.chamber.sensors_of(ILLUMINANCE)),
            ramp_s=self._options.light.ramp_s,
            stale_after_s=self.chamber.stale_after_s(ILLUMINANCE),
            why_held=partial(interlocks.why_held, (ILLUMINANCE, *channels)),
            patience_s=self.chamber.scaled(PATIENCE_S),
            others=self._running_experiment,
        )

    def _switch_control(self) -> Iterator[DirectController | DosedSwitchController]:
        for relay in {relay.variable: relay for relay in self._options.relay}.values():
            if self.chamber.controls_carbon_dioxide and relay.variable in DIRECTIONS:
                yield self._dosed(relay)
            else:
                yield self._direct(relay.variable, relay.override_s)

    def _direct(self, variable: str, override_s: float) -> DirectController:
        return DirectController(self._bus, self._environment, variable, override_s=override_s)

    def _dosed(self, relay: RelayOptions) -> DosedSwitchController:
        options, is_valve = self._options.carbon_dioxide, relay.variable == VALVE
        controller = DosedSwitchController(
            self._bus,
            self._environment,
            relay.variable,
            minimum_on_s=options.minimum_on_s if is_valve else options.fan_minimum_on_s,
            minimum_off_s=options.minimum_off_s if is_valve else options.fan_minimum_off_s,
            command_stale_after_s=self.chamber.scaled(COMMAND_STALE_S),
            override_s=relay.override_s,
        )
        if self._hold is not None:
            self._hold.watch(controller.end_dose)
        return controller

    def _carbon_dioxide_control(
        self, interlocks: Interlocks
    ) -> Iterator[CarbonDioxideController | Autotuner]:
        if not self.chamber.controls_carbon_dioxide:
            return
        options = self._options.carbon_dioxide
        valves, fans = self.chamber.relay_names(VALVE), self.chamber.relay_names(FAN)
        controller = CarbonDioxideController(
            self._bus,
            self._environment,
            gains=Gains(options.kp_per_ppm, options.ti_s, options.td_s, options.set_point_weight),
            on_off=options.method == "on_off",
            band_ppm=options.band_ppm,
            fan_band_ppm=options.fan_band_ppm,
            valves=valves,
            fans=fans,
            measured_stale_after_s=self.chamber.stale_after_s(CARBON_DIOXIDE),
            override_s=options.override_s,
            is_simulated=self.chamber.config.simulator.enabled,
        )
        yield controller
        tuner = Autotuner(
            self._bus,
            self._environment,
            controller,
            valves,
            fans=fans,
            why_held=partial(interlocks.why_held, [VALVE]),
            most_open_s=options.autotune_open_s,
            others=self._running_experiment,
        )
        self._experiments.append(tuner)
        yield tuner

    def _running_experiment(self) -> str:
        """The autotune or calibration that runs, in words, or ""; they would disturb each other."""
        return next((each.running for each in self._experiments if each.running), "")

    def _loops(self) -> Iterator[Loop]:
        """The variables that are measured and controlled."""
        light = self._options.light
        if self.chamber.controls_illuminance:
            yield light_loop(light.full_scale_lux, self.chamber.lamp_channels, is_switched=light.switched)
        if self.chamber.controls_carbon_dioxide:
            fans = self.chamber.relay_names(FAN)
            yield carbon_dioxide_loop((*self.chamber.relay_names(VALVE), *fans), has_fan=bool(fans))

    # outputs

    def _lamp(self, interlocks: Interlocks) -> Iterator[Actuator]:
        light = self._options.light
        if not light.enabled:
            return
        lamp = light_device(self._hardware, light)
        yield LightActuator(
            self._bus,
            self._environment,
            write=lambda channel, level: lamp.use().set(channel, level),
            worker=self._output_worker("light", lamp),
            mix={channel.name: channel.mix for channel in light.channel},
            ramp_s=light.ramp_s,
            is_switched=light.switched,
            stale_after_s=self.chamber.scaled(light.stale_after_s),
            write_timeout_s=self.chamber.scaled(DEVICE_TIMEOUT_S),
            guard=interlocks.guard("light", {}),
        )

    def _relays(self, interlocks: Interlocks) -> Iterator[Actuator]:
        for options in self._options.relay:
            relay = relay_device(self._hardware, options)
            is_on = options.safe == "on"
            yield SwitchActuator(
                self._bus,
                self._environment,
                options.name,
                options.variable,
                write=partial(_switch, relay),
                worker=self._output_worker(options.name, relay),
                safe_on=is_on,
                stale_after_s=self.chamber.scaled(options.stale_after_s),
                write_timeout_s=self.chamber.scaled(DEVICE_TIMEOUT_S),
                guard=interlocks.guard(options.name, {options.variable: float(is_on)}),
            )

    def _output_worker(self, name: str, device: OutputDevice[Any]) -> Worker:
        """One thread per output, so that a hanging output blocks no other. No bus or line has such a name."""
        worker = self._workers.named(f"{self._environment}/{name}")
        self._outputs.append((worker, device))
        return worker

    async def _close(self, worker: Worker, device: OutputDevice[Any]) -> None:
        try:
            async with asyncio.timeout(DEVICE_CLOSE_S):
                await worker.run(device.close)
        except TimeoutError:
            self._report(f"{device.name} does not answer: its outputs may not be safe")
        except (DriverError, WorkerError) as error:
            self._report(f"{device.name}'s outputs may not be safe: {error}")

    def _report(self, sentence: str) -> None:
        several = bool(self.chamber.config.chamber)
        self._report_unsafe(f"in {self._environment} {sentence}" if several else sentence)


def _switch(relay: OutputDevice[Relay], on: bool) -> None:  # noqa: FBT001  an actuator's `write`
    relay.use().set(on)


async def _all_of(report: Callable[[str], None], steps: Iterable[Awaitable[object]]) -> None:
    """Take all steps at the same time, each to its end, also when another one fails."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException):
            report(f"outputs may not be safe: {result!r}")
