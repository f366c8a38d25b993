"""Samplers, filters, controllers, interlocks and actuators of each environment, as configured."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from growd.config import chambers_of
from growd.control.calibration_log import CalibrationLog
from growd.control.filters import Filter
from growd.control.pin_watch import PinWatch
from growd.control.sampling import NOT_READY_LIMIT_S, Sampler
from growd.control.topics import desired, measured
from growd.device_kinds import SENSOR_KINDS
from growd.parts import ControlledChamber
from growd.runtime.supervisor import Supervisor
from growd.wiring.actuators import DEVICE_TIMEOUT_S, PINS, ChamberOutputs, Common, all_of
from growd.wiring.control import ControlOfChamber
from growd.wiring.interlocks import interlocks_of
from growd.wiring.pumps import pumps_of, reminders_of
from growd.wiring.sensors import SensorDevice
from growd_drivers.errors import NotReadyError
from growd_drivers.pins import KeptPins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from growd.config import Chamber, Config
    from growd.control.calibration_log import RecordKeeper
    from growd.control.combining import Combiner
    from growd.control.interlocks.node import Interlocks
    from growd.control.receiving import Receiver
    from growd.parts import NodeTask

LAST_READ_S: Final = 2.0  # time limit for a last reading; a BH1750 in the dark takes two thirds of a second


class AllChambers:
    """The control of each environment."""

    def __init__(self, config: Config, common: Common) -> None:
        self._bus = common.bus
        self._report = common.report
        self.workers = common.workers
        self.by_environment = {
            chamber.environment: ChamberControl(chamber, common) for chamber in chambers_of(config)
        }
        self._pin_watch: PinWatch | None = None
        pins = getattr(common.hardware, "pins", None)
        if isinstance(pins, KeptPins):
            self._pin_watch = PinWatch(common.bus, self.by_environment, pins, self.workers.named(PINS))
        if common.hold is not None:
            common.hold.judge_by(self._unsafe)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all components around the body. At the end the outputs are safe, and closed."""
        chambers = self.by_environment.values()
        try:
            async with Supervisor(self._bus.clock, self._bus.liveness) as supervisor:
                if self._pin_watch is not None:
                    supervisor.start(self._pin_watch.node.name, self._pin_watch.run)
                for chamber in chambers:
                    for component in chamber.components():
                        supervisor.start(component.node.name, component.run)
                yield
            await all_of(self._report, (chamber.make_safe() for chamber in chambers))
        finally:
            await all_of(self._report, (chamber.outputs.close() for chamber in chambers))
            await self.workers.close(LAST_READ_S)

    def _unsafe(self) -> list[str]:
        """The actuators whose outputs are not known to be safe."""
        return [name for chamber in self.by_environment.values() for name in chamber.outputs.unsafe()]


class ChamberControl:
    """Samplers, filters, controllers, interlocks and actuators of one environment."""

    def __init__(self, chamber: Chamber, common: Common) -> None:
        self.chamber = chamber
        self._environment = chamber.environment
        self._options = chamber.options
        self._common = common
        self._bus = common.bus
        self._hardware = common.hardware
        self._interlocks: Interlocks | None = None
        self._pumps = pumps_of(chamber, common.bus.clock.monotonic, is_read=common.records is None)
        self.outputs = ChamberOutputs(chamber, common, self._pumps.flows)
        self._log = None if common.records is None else self._calibration_log(common.records)

    def components(self) -> list[NodeTask]:
        """All components, new. Actuators, which make their outputs safe, come right after the interlocks."""
        common = self._common
        interlocks = self._interlocks = interlocks_of(
            self.chamber, self._bus, common.memory, common.zone, hold=common.hold, pumps=self._pumps
        )
        actuators = self.outputs.actuators(interlocks)
        control = ControlOfChamber(self.chamber, common, interlocks, self._pumps)
        return [
            interlocks,
            *actuators,
            self.outputs.counters,
            *self.filters(),
            *control.controllers,
            *self._experiments(control, interlocks),
            *control.attainment(),
            *self.combiners(),
            *([self._log] if self._log is not None else []),
            *self.samplers(),
        ]

    def _experiments(self, control: ControlOfChamber, interlocks: Interlocks) -> list[NodeTask]:
        common = self._common
        return common.experiments.of(
            ControlledChamber(
                self.chamber,
                common.bus,
                common.hardware,
                interlocks,
                common.memory,
                lamp=control.lamp,
                loops=control.loops,
                pumps=self._pumps,
                litres=self.outputs.counters.litres,
                log=self._log,
            )
        )

    def _calibration_log(self, records: RecordKeeper) -> CalibrationLog:
        reminders = reminders_of(self.chamber, self.outputs.counters.litres)
        return CalibrationLog(
            self._bus,
            self._environment,
            records,
            reminders,
            takes=self._pumps.take,
            when_read=partial(setattr, self._pumps, "is_read", True),
        )

    async def make_safe(self) -> None:
        """Make all outputs safe, after their components have ended."""
        await self.outputs.make_safe()
        if self._interlocks is not None:
            await self._interlocks.close()

    # sensors

    def samplers(self) -> Iterator[Sampler | Receiver]:
        """One for each sensor."""
        for sensor in self._options.sensor:
            if SENSOR_KINDS[sensor.kind].opens == "messages":
                from growd.wiring.receivers import receiver_of  # noqa: PLC0415  few sensors send by themselves

                yield receiver_of(self._bus, self.chamber, sensor, self._hardware)
                continue
            device = SensorDevice(self._hardware, sensor, self._known, self._why_in_use)
            asked = self._interlocks.calibrations if self._interlocks is not None else None
            warm_up_s = SENSOR_KINDS[sensor.kind].warm_up_s
            sampler = Sampler(
                self._bus,
                self._environment,
                device.name,
                read=device.read,
                prepare=device.prepare,
                variables=device.variables,
                worker=self._common.workers.named(
                    sensor.line, partial(self._hardware.take_over, sensor.line)
                ),
                interval_s=sensor.interval_s,
                intervals_s=self.chamber.interval_range_s(sensor),
                read_timeout_s=DEVICE_TIMEOUT_S,
                not_ready=NotReadyError,
                not_ready_limit_s=max(NOT_READY_LIMIT_S + warm_up_s, sensor.interval_s),
                shared=self.chamber.shared,
                confirms=sensor.confirms,
            )
            judging = asked if asked is not None and asked.judges(device.name) else None
            sampler.offer(device.services, judging, self._log)
            sampler.node.describe("line", partial(self._line_state, sensor.line))
            yield sampler

    def combiners(self) -> Iterator[Combiner]:
        """One for each variable that several sensors measure."""
        for variable in self.chamber.shared:
            from growd.control.combining import Combiner  # noqa: PLC0415  most variables have one sensor

            yield Combiner(
                self._bus,
                self._environment,
                variable,
                self.chamber.sensor_names(variable),
                method=self._options.combine.get(variable, "first"),
                stale_after_s=self.chamber.stale_after_s(variable),
                drift_limit=self._options.drift.get(variable),
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

    def _known(self, variable: str) -> float | None:
        """The measured value of a variable, None if it is not known now. Any thread may call it."""
        if variable not in self.chamber.measured:
            return None
        value: float | None = self._bus.topics.get(measured(self._environment, variable)).known
        return value

    def _why_in_use(self, variable: str) -> str:
        """Why a probe may not be calibrated: outputs would follow what it reads outside of the tank."""
        is_wanted = self._bus.topics.get(desired(self._environment, variable)).known is not None
        is_held = self._common.hold is not None and self._common.hold.reason
        if not is_wanted or is_held or not any(variable in each.moved for each in self.chamber.outputs):
            return ""
        return (
            f"{variable} has a set point, so its outputs would follow what the probe reads in the bottle: "
            "release it, or hold the outputs (growd safe --hold), until the probe is back"
        )

    def _line_state(self, name: str) -> dict[str, Any]:
        """The bus or serial line of a sensor, and how often it had to be recovered."""
        return {
            "name": name,
            "recoveries": self._hardware.recoveries(name),
            "threads_left_behind": self._common.workers[name].replaced,
        }
