"""What the outputs of an environment consume, from its configuration and its counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.recipes.circumstances import counted_outputs
from growd.wiring.actuators import rated_outputs
from growd_analysis.figures.figures import Rating

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.wear import Rated


def ratings_of(chamber: Chamber, bus: Bus) -> dict[str, Rating]:
    """What all outputs of a variable consume together at full level, pumps by their calibrations."""
    in_force = {each["name"]: each["flow_ml_min"] for each in counted_outputs(bus, chamber.environment)}
    by_variable: dict[str, list[Rated]] = {}
    for rated in rated_outputs(chamber):
        by_variable.setdefault(rated.variable, []).append(rated)
    ratings = {}
    for variable, outputs in by_variable.items():
        watts = [each.power_w for each in outputs]
        flows = [in_force.get(each.name, each.flow_ml_min) for each in outputs]
        ratings[variable] = Rating(_sum(watts), _sum(flows, 0.001))
    return ratings


def _sum(values: Sequence[float | None], factor: float = 1.0) -> float | None:
    """None if one is not known."""
    known = [value * factor for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
