"""Controllers, experiments and the watch on set points of one environment, as configured."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from growd.control.controllers import Controller, DirectController, LightController
from growd.control.self_test import SelfTest
from growd.runtime.event_loop import load
from growd.variables import ILLUMINANCE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.bus.nodes import Node
    from growd.config import Chamber
    from growd.control.attainment import AttainmentWatch
    from growd.control.autotune import Autotuner
    from growd.control.calibration_log import CalibrationLog
    from growd.control.interlocks.node import Interlocks
    from growd.control.light_calibration import LightCalibration
    from growd.control.loop import LoopController
    from growd.control.loop_inputs import FreshAir
    from growd.control.output_control import OutputController
    from growd.control.pump_calibration import Cylinder, PumpCalibration
    from growd.control.pumps import Pumps
    from growd.control.self_test import OutputUnderTest
    from growd.control.watched_loops import Loop
    from growd.control.wear import OutputCounters
    from growd.wiring.actuators import Common

# A chamber imports only the control of what it has: a lamp alone needs no loops.


class NodeTask(Protocol):
    """A component that runs under the name of its node."""

    node: Node

    async def run(self) -> None:
        """Until cancelled."""


class ControlOfChamber:
    """Controllers, experiments and the watch on set points of one environment."""

    def __init__(
        self,
        chamber: Chamber,
        common: Common,
        interlocks: Interlocks,
        pumps: Pumps,
        counters: OutputCounters,
        *,
        log: CalibrationLog | None,
        cylinder: Cylinder | None,
    ) -> None:
        self.chamber = chamber
        self._environment = chamber.environment
        self._bus = common.bus
        self._interlocks = interlocks
        self._memory = common.memory
        self._hold = common.hold
        self._log = log
        self._pumps = pumps
        self._counters = counters
        self._cylinder = cylinder
        self._experiments: list[Autotuner | LightCalibration | PumpCalibration | SelfTest] = []

    def components(self) -> list[NodeTask]:
        """All components, new."""
        control: list[NodeTask] = [
            *self._light_control(),
            *self._output_control(),
            *self._loop_control(),
            *self._pump_calibration(),
        ]
        for each in control:
            if self._hold is not None and isinstance(each, Controller):
                each.heed(self._hold)
        test = SelfTest(
            self._bus,
            self._environment,
            self._outputs_under_test,
            self._interlocks,
            self._memory,
            set_points=self.chamber.reach(),
            others=self._running_experiment,
        )
        self._experiments.append(test)
        return [*control, test, *self._attainment()]

    async def _outputs_under_test(self) -> list[OutputUnderTest]:
        await load("growd.wiring.self_test")
        from growd.wiring.self_test import outputs_under_test  # noqa: PLC0415  few test their outputs

        return outputs_under_test(self.chamber)

    @cached_property
    def _air(self) -> FreshAir:
        from growd.control.loop_inputs import FreshAir  # noqa: PLC0415

        return FreshAir(self._bus, self._environment)

    def _light_control(self) -> Iterator[LightController | DirectController | LightCalibration]:
        light = self.chamber.light
        if not light.enabled:
            return
        controller = LightController(
            self._bus,
            self._environment,
            full_scale_lux=light.full_scale_lux,
            gamma=light.gamma,
            minimum_duty=light.minimum_duty,
            is_switched=self.chamber.is_lamp_switched,
            measured_stale_after_s=self.chamber.stale_after_s(ILLUMINANCE),
            mix=self.chamber.lamp_mix,
        )
        yield controller
        for channel in self.chamber.lamp_channels:
            yield DirectController(self._bus, self._environment, f"light_intensity_{channel}")
        # the calibration goes through the levels of the lamp
        if self.chamber.controls_illuminance and not self.chamber.is_lamp_switched:
            calibration = self._light_calibration(controller)
            self._experiments.append(calibration)
            yield calibration

    def _light_calibration(self, controller: LightController) -> LightCalibration:
        from growd.control.light_calibration import LightCalibration  # noqa: PLC0415

        channels = self.chamber.lamp_channels
        return LightCalibration(
            self._bus,
            self._environment,
            controller,
            channels=channels,
            interval_s=max(sensor.interval_s for sensor in self.chamber.sensors_of(ILLUMINANCE)),
            ramp_s=self.chamber.light.ramp_s,
            stale_after_s=self.chamber.stale_after_s(ILLUMINANCE),
            why_held=partial(self._interlocks.why_held, (ILLUMINANCE, *channels)),
            others=self._running_experiment,
            log=self._log,
        )

    def _output_control(self) -> Iterator[DirectController | OutputController]:
        for variable, outputs in self.chamber.by_own_variable.items():
            is_driven = any(each in self.chamber.loops for each in outputs[0].moved)
            if is_driven or VARIABLES[variable].unit != "switch":
                from growd.wiring.loops import output_controller  # noqa: PLC0415

                controller = output_controller(self.chamber, self._bus, outputs, self._air, self._pumps)
                if self._hold is not None:
                    self._hold.watch(controller.end_dose)
                yield controller
            else:
                override_s = outputs[0].override_s
                yield DirectController(self._bus, self._environment, variable, override_s=override_s)

    def _loop_control(self) -> Iterator[LoopController | Autotuner]:
        if not self.chamber.loops:
            return
        from growd.control.loop_inputs import LampShare  # noqa: PLC0415
        from growd.wiring.loops import autotuner, can_tune, loop_controller  # noqa: PLC0415

        lamp = LampShare(self._bus, self._environment, self.chamber.lamp_mix, self.chamber.light.gamma)
        for variable in self.chamber.loops:
            controller = loop_controller(
                self.chamber, self._bus, variable, self._air, lamp, pumps=self._pumps
            )
            yield controller
            if can_tune(self.chamber, variable):
                tuner = autotuner(
                    self.chamber, self._bus, controller, self._interlocks, self._running_experiment
                )
                self._experiments.append(tuner)
                yield tuner

    def _pump_calibration(self) -> Iterator[PumpCalibration]:
        if self._log is None or not self._pumps.dosing:
            return
        from growd.wiring.pumps import pump_calibration  # noqa: PLC0415

        made = pump_calibration(
            self.chamber,
            self._bus,
            self._pumps,
            interlocks=self._interlocks,
            others=self._running_experiment,
            log=self._log,
            counters=self._counters,
            cylinder=self._cylinder,
        )
        self._experiments.append(made)
        yield made

    def _running_experiment(self) -> str:
        """The experiment or self-test that runs, in words, or ""; they would disturb each other."""
        return next((each.running for each in self._experiments if each.running), "")

    def _attainment(self) -> Iterator[AttainmentWatch]:
        if self.chamber.loops or self.chamber.controls_illuminance:
            from growd.control.attainment import AttainmentWatch  # noqa: PLC0415

            yield AttainmentWatch(self._bus, self._environment, self._loops(), self._interlocks.why_held)

    def _loops(self) -> Iterator[Loop]:
        """The variables that are measured and controlled."""
        from growd.control.watched_loops import light_loop  # noqa: PLC0415
        from growd.wiring.loops import watched_loop  # noqa: PLC0415

        light = self.chamber.light
        if self.chamber.controls_illuminance:
            yield light_loop(
                light.full_scale_lux, self.chamber.lamp_channels, is_switched=self.chamber.is_lamp_switched
            )
        for variable in self.chamber.loops:
            yield watched_loop(self.chamber, variable)
