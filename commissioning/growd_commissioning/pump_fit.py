"""From measured doses of a pump to its flow and its dead time. Pure.

The line `volume = slope * time + bias` through doses of several lengths, as in the calibration of pumps in
Pioreactor (`pump_duration_based.py`); growd shows the bias as the dead time after each start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted
from growd_commissioning.experiments import ExperimentError
from growd_commissioning.fits import line_through

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_POINTS: Final = 4
LEAST_SPREAD: Final = 2.0  # the longest dose over the shortest
LEAST_R2: Final = 0.98
MOST_FACTOR: Final = 2.0
"""How far the flow may be from the configured one: limits of volume rely on both."""

MOST_DEAD_S: Final = 1.0
"""The longest dead time: with a longer one short doses would count as nothing."""

MOST_RUN_ON_S: Final = 0.5
"""A pump may run on for so long after its end: the dead time is below 0 then."""


@dataclass(frozen=True)
class FitPoint:
    """A dose: how long the pump really ran, and the volume in the cylinder."""

    seconds: float
    ml: float


@dataclass(frozen=True)
class PumpFit:
    """The line through all doses. `r2` is its coefficient of determination."""

    ml_min: float
    dead_s: float
    r2: float

    def __str__(self) -> str:
        late = f"a dead time of {self.dead_s:.2f} s" if self.dead_s >= 0 else f"{-self.dead_s:.2f} s too much"
        return f"{self.ml_min:.4g} ml/min and {late} at each dose (R2 {self.r2:.4f})"


def fitted(points: Sequence[FitPoint], configured_ml_min: float) -> PumpFit:
    """The least squares line. Raises `ExperimentError` if it is not plausible."""
    if len(points) < LEAST_POINTS:
        missing = LEAST_POINTS - len(points)
        text = f"{counted(len(points), 'dose')} measured; give and measure {missing} more"
        raise ExperimentError(text, "doses_missing", doses=len(points), missing=missing)
    times = [each.seconds for each in points]
    if max(times) < LEAST_SPREAD * min(times):
        text = (
            f"the doses took {min(times):.2f} to {max(times):.2f} s; "
            f"give one that takes at least {LEAST_SPREAD * min(times):.1f} s"
        )
        raise ExperimentError(text, "doses_alike", least_s=LEAST_SPREAD * min(times))
    fit = _line_through(points)
    _check_line(points, fit)
    _check_pump(fit, min(times), configured_ml_min)
    return fit


def _line_through(points: Sequence[FitPoint]) -> PumpFit:
    """The line, which may be nonsense."""
    line = line_through([(each.seconds, each.ml) for each in points])
    errors = math.fsum((each.ml - line(each.seconds)) ** 2 for each in points)
    whole = math.fsum((each.ml - line.y) ** 2 for each in points)
    dead_s = line.x - line.y / line.slope if line.slope else math.inf
    return PumpFit(60 * line.slope, dead_s, 1 - errors / whole if whole else 0.0)


def _check_line(points: Sequence[FitPoint], fit: PumpFit) -> None:
    if fit.ml_min <= 0:
        text = (
            f"the flow would be {fit.ml_min:.3g} ml/min: longer doses gave no more; "
            "check the volumes and the hose"
        )
        raise ExperimentError(text, "doses_without_flow")
    if fit.r2 < LEAST_R2:
        others = [_line_through([*points[:number], *points[number + 1 :]]) for number in range(len(points))]
        worst = max(range(len(points)), key=lambda number: others[number].r2)
        point, line = points[worst], others[worst]
        expected = line.ml_min / 60 * (point.seconds - line.dead_s)
        text = (
            f"the doses are not on a line (R2 {fit.r2:.3f}, at least {LEAST_R2}): dose {worst + 1} of "
            f"{point.seconds:.2f} s gave {point.ml:.3g} ml, and by the others {expected:.3g} ml; "
            "correct its volume, or begin again"
        )
        raise ExperimentError(text, "dose_off_line", dose=worst + 1, ml=point.ml, expected=round(expected, 2))


def _check_pump(fit: PumpFit, shortest_s: float, configured_ml_min: float) -> None:
    most_s = min(MOST_DEAD_S, shortest_s)
    if fit.dead_s >= most_s:
        text = (
            f"the dead time would be {fit.dead_s:.2f} s, and must be below {most_s:.2f} s: "
            "fill the hose first, and begin again"
        )
        raise ExperimentError(text, "dead_time_long")
    if fit.dead_s < -MOST_RUN_ON_S:
        text = (
            f"the dead time would be {fit.dead_s:.2f} s, at least {-MOST_RUN_ON_S:g} s is possible: "
            "the hose may run on after a dose; bring its end to the height of the bottle, and begin again"
        )
        raise ExperimentError(text, "pump_runs_on")
    if not 1 / MOST_FACTOR <= fit.ml_min / configured_ml_min <= MOST_FACTOR:
        text = (
            f"the flow would be {fit.ml_min:.4g} ml/min, more than {MOST_FACTOR:g} times away from "
            f"flow_ml_min = {configured_ml_min:g}: check the volumes, or correct flow_ml_min"
        )
        raise ExperimentError(
            text, "flow_unlike", flow=fit.ml_min, configured=configured_ml_min, unit="ml/min"
        )
