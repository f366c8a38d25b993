"""Controllers and the watch on set points of one environment, as configured."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from growd.control.controllers import Controller, DirectController, LightController
from growd.variables import HUMIDITY, ILLUMINANCE, PPFD, VAPOUR_PRESSURE_DEFICIT, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config import Chamber
    from growd.control.attainment import AttainmentWatch
    from growd.control.interlocks.node import Interlocks
    from growd.control.loop import LoopController
    from growd.control.loop_inputs import FreshAir
    from growd.control.output_control import OutputController
    from growd.control.pumps import Pumps
    from growd.control.watched_loops import Loop
    from growd.wiring.actuators import Common

# A chamber imports only the control of what it has: a lamp alone needs no loops.


class ControlOfChamber:
    """Controllers and the watch on set points of one environment, new."""

    def __init__(self, chamber: Chamber, common: Common, interlocks: Interlocks, pumps: Pumps) -> None:
        self.chamber = chamber
        self.lamp: LightController | None = None
        self.loops: dict[str, LoopController] = {}
        self._environment = chamber.environment
        self._bus = common.bus
        self._interlocks = interlocks
        self._hold = common.hold
        self._pumps = pumps
        self.controllers: list[Controller] = [
            *self._light_control(),
            *self._output_control(),
            *self._loop_control(),
        ]
        for each in self.controllers:
            if self._hold is not None:
                each.heed(self._hold)

    @cached_property
    def _air(self) -> FreshAir:
        from growd.control.loop_inputs import FreshAir  # noqa: PLC0415

        return FreshAir(self._bus, self._environment)

    def _light_control(self) -> Iterator[LightController | DirectController]:
        light = self.chamber.light
        if not light.enabled:
            return
        self.lamp = LightController(
            self._bus,
            self._environment,
            full_scale_lux=light.full_scale_lux,
            gamma=light.gamma,
            minimum_duty=light.minimum_duty,
            is_switched=self.chamber.is_lamp_switched,
            measured_stale_after_s=self.chamber.stale_after_s(ILLUMINANCE),
            mix=self.chamber.lamp_mix,
        )
        yield self.lamp
        for channel in self.chamber.lamp_channels:
            yield DirectController(self._bus, self._environment, f"light_intensity_{channel}")

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
                yield DirectController(self._bus, self._environment, variable)

    def _loop_control(self) -> Iterator[LoopController]:
        if not self.chamber.loops:
            return
        from growd.control.loop_inputs import LampShare  # noqa: PLC0415
        from growd.wiring.loops import loop_controller  # noqa: PLC0415

        lamp = LampShare(self._bus, self._environment, self.chamber.lamp_mix, self.chamber.light.gamma)
        for variable in self.chamber.loops:
            self.loops[variable] = loop_controller(
                self.chamber, self._bus, variable, self._air, lamp, pumps=self._pumps
            )
            yield self.loops[variable]

    def attainment(self) -> Iterator[AttainmentWatch]:
        """The watch on set points, if there are any to reach."""
        if self.chamber.loops or self.chamber.controls_illuminance or self.chamber.plans_light:
            from growd.control.attainment import AttainmentWatch  # noqa: PLC0415

            yield AttainmentWatch(self._bus, self._environment, self._loops(), self._interlocks.why_held)

    def _loops(self) -> Iterator[Loop]:
        """The variables that are measured and controlled."""
        from growd.control.watched_loops import light_loop, planned_loop  # noqa: PLC0415
        from growd.wiring.loops import watched_loop  # noqa: PLC0415

        full, channels = self.chamber.light.full_scale_lux, self.chamber.lamp_channels
        light = light_loop(full, channels, is_switched=self.chamber.is_lamp_switched)
        if self.chamber.controls_illuminance:
            yield light
        if self.chamber.plans_light:
            yield planned_loop(PPFD, light)
        yield from (watched_loop(self.chamber, variable) for variable in self.chamber.loops)
        if self.chamber.plans_humidity:
            humidity = watched_loop(self.chamber, HUMIDITY)
            yield planned_loop(VAPOUR_PRESSURE_DEFICIT, humidity, is_opposite=True)
