"""Controllers, experiments and the watch on set points of one environment, as configured."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from growd.control.attainment import AttainmentWatch, Loop, carbon_dioxide_loop, light_loop
from growd.control.autotune import Autotuner
from growd.control.carbon_dioxide import (
    COMMAND_STALE_S,
    DIRECTIONS,
    CarbonDioxideController,
    DosedSwitchController,
)
from growd.control.controllers import Controller, DirectController, LightController
from growd.control.light_calibration import PATIENCE_S, LightCalibration
from growd.control.pid import Gains
from growd.variables import CARBON_DIOXIDE, FAN, ILLUMINANCE, VALVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.bus import Bus
    from growd.bus.nodes import Node
    from growd.config import Chamber, Output
    from growd.control.hold import OutputHold
    from growd.control.interlocks.node import Interlocks


class NodeTask(Protocol):
    """A component that runs under the name of its node."""

    node: Node

    async def run(self) -> None:
        """Until cancelled."""


class ControlOfChamber:
    """Controllers, experiments and the watch on set points of one environment."""

    def __init__(
        self, chamber: Chamber, bus: Bus, interlocks: Interlocks, hold: OutputHold | None = None
    ) -> None:
        self.chamber = chamber
        self._environment = chamber.environment
        self._options = chamber.options
        self._bus = bus
        self._interlocks = interlocks
        self._hold = hold
        self._experiments: list[Autotuner | LightCalibration] = []

    def components(self) -> list[NodeTask]:
        """All components, new."""
        control: list[NodeTask] = [
            *self._light_control(),
            *self._switch_control(),
            *self._carbon_dioxide_control(),
        ]
        for each in control:
            if self._hold is not None and isinstance(each, Controller):
                each.heed(self._hold)
        watch = AttainmentWatch(self._bus, self._environment, self._loops(), self._interlocks.why_held)
        return [*control, watch]

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
            override_s=light.override_s,
            mix=self.chamber.lamp_mix,
        )
        yield controller
        for channel in self.chamber.lamp_channels:
            yield self._direct(f"light_intensity_{channel}", light.override_s)
        if (
            self.chamber.controls_illuminance and not self.chamber.is_lamp_switched
        ):  # it goes through the levels of the lamp
            calibration = self._light_calibration(controller)
            self._experiments.append(calibration)
            yield calibration

    def _light_calibration(self, controller: LightController) -> LightCalibration:
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
            patience_s=self.chamber.scaled(PATIENCE_S),
            others=self._running_experiment,
        )

    def _switch_control(self) -> Iterator[DirectController | DosedSwitchController]:
        for variable, output in {each.own_variable: each for each in self.chamber.outputs}.items():
            if self.chamber.controls_carbon_dioxide and variable in DIRECTIONS:
                yield self._dosed(output)
            else:
                yield self._direct(variable, output.override_s)

    def _direct(self, variable: str, override_s: float) -> DirectController:
        return DirectController(self._bus, self._environment, variable, override_s=override_s)

    def _dosed(self, output: Output) -> DosedSwitchController:
        options, is_valve = self._options.carbon_dioxide, output.own_variable == VALVE
        controller = DosedSwitchController(
            self._bus,
            self._environment,
            output.own_variable,
            minimum_on_s=options.minimum_on_s if is_valve else options.fan_minimum_on_s,
            minimum_off_s=options.minimum_off_s if is_valve else options.fan_minimum_off_s,
            command_stale_after_s=self.chamber.scaled(COMMAND_STALE_S),
            override_s=output.override_s,
        )
        if self._hold is not None:
            self._hold.watch(controller.end_dose)
        return controller

    def _carbon_dioxide_control(self) -> Iterator[CarbonDioxideController | Autotuner]:
        if not self.chamber.controls_carbon_dioxide:
            return
        options = self._options.carbon_dioxide
        valves, fans = self.chamber.names_of_outputs(VALVE), self.chamber.names_of_outputs(FAN)
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
            why_held=partial(self._interlocks.why_held, [VALVE]),
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
        light = self.chamber.light
        if self.chamber.controls_illuminance:
            yield light_loop(
                light.full_scale_lux, self.chamber.lamp_channels, is_switched=self.chamber.is_lamp_switched
            )
        if self.chamber.controls_carbon_dioxide:
            fans = self.chamber.names_of_outputs(FAN)
            yield carbon_dioxide_loop((*self.chamber.names_of_outputs(VALVE), *fans), has_fan=bool(fans))
