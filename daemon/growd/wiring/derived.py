"""The variables that growd calculates, and the set points that follow from them, as configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from growd.bus.errors import UnknownNameError
from growd.config import chambers_of
from growd.control.derived.node import Derivations
from growd.variables import ILLUMINANCE, TEMPERATURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber, Config
    from growd.control.interlocks.saved_states import Memory
    from growd.control.planning.light import LightPlanner
    from growd.control.planning.planner import Planner
    from growd.parts import NodeTask


class DerivedOfChamber:
    """The calculated variables of one environment, and the planners whose set points need them.

    `memory` keeps sums of light and warmth. Days begin in `zone` (None: local).
    """

    def __init__(self, chamber: Chamber, bus: Bus, memory: Memory, zone: tzinfo | None) -> None:
        self._chamber = chamber
        self._bus = bus
        self.environment = chamber.environment
        options = chamber.options.derived
        self.derivations = Derivations(
            bus,
            chamber.environment,
            chamber.derived,
            memory=memory,
            stale_after_s=chamber.stale_after_s,
            lamp=chamber.lamp_light,
            base_degc=options.base_temperature_degc,
            daylight_lux=self._elsewhere_lux if ILLUMINANCE in chamber.measured else None,
            full_lux=self._full_lux,
            is_switched=chamber.is_lamp_switched,
            zone=zone,
        )
        self._of_light: LightPlanner | None = None
        self.planners = [*self._planners()]

    @property
    def nodes(self) -> list[NodeTask]:
        """All nodes, to be run."""
        return [self.derivations, *self.planners]

    def outlook_by(self, set_point_at: Callable[[str, float], float | None]) -> None:
        """Use the set points of the rest of the day that this returns, such as those of a recipe."""
        self.derivations.outlook_by(set_point_at)
        if self._of_light is not None:
            self._of_light.outlook_by(set_point_at)

    def _planners(self) -> Iterator[Planner]:
        chamber = self._chamber
        if chamber.plans_humidity:
            from growd.control.planning.humidity import HumidityPlanner  # noqa: PLC0415  as configured

            stale_after_s = chamber.stale_after_s(TEMPERATURE)
            yield HumidityPlanner(self._bus, chamber.environment, stale_after_s=stale_after_s)
        if chamber.plans_light:
            from growd.control.planning.light import LightPlanner  # noqa: PLC0415  as configured
            from growd.control.planning.light_day import Window  # noqa: PLC0415

            plan = chamber.options.light_plan
            planner = self._of_light = LightPlanner(
                self._bus,
                chamber.environment,
                self.derivations,
                chamber.lamp_light,
                full_lux=self._full_lux,
                window=Window(*plan.window_s, plan.ramp_s),
                least=plan.least_umol,
                most=plan.most_umol,
                is_switched=chamber.is_lamp_switched,
            )
            self.derivations.expect(planner.expected_mol)
            yield planner

    def _elsewhere_lux(self) -> float:
        """The light that is not of the lamp, by its controller."""
        return float(self._of_light_controller("elsewhere_lux") or 0.0)

    def _full_lux(self) -> float:
        """The light of the lamp at full level, as configured or calibrated; 0 without a lamp."""
        return float(self._of_light_controller("full_lux") or 0.0)

    def _of_light_controller(self, detail: str) -> Any:
        try:
            return self._bus.find_node(f"{self.environment}/controllers/{ILLUMINANCE}").detail(detail)
        except UnknownNameError:
            return None


def derived_of(config: Config, bus: Bus, memory: Memory, zone: tzinfo | None) -> list[DerivedOfChamber]:
    """Those of all environments that have variables to calculate; the control of their lamps is there."""
    return [
        DerivedOfChamber(chamber, bus, memory, zone) for chamber in chambers_of(config) if chamber.derived
    ]
