"""The response of a chamber to its heater, humidifier or dosing pumps, and the settings that follow from it.

A step of an output gives the steepest rise and the delay before it (reaction curve). The gains are those of
the SIMC rules for an integrating process with delay (Skogestad 2003, see `pulse_test`): kp = 1 / (rise (tc +
delay)), with tc + delay of two delays, ti = 4 (tc + delay). A dose gives the change for each ml.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.control.pid import Gains
from growd.control.pulse_test import TuneError, line_through
from growd.variables import ACIDITY, CONDUCTIVITY, HUMIDITY, TEMPERATURE, VARIABLES, WATER_TEMPERATURE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.control.pumps import JointFlow

BASELINE_S: Final = 180.0  # before the step: the drift
STARTS_WITHIN_S: Final = 60.0
STOPS_WITHIN_S: Final = 5.0
COMES_LATE_S: Final = 2.0  # delay of an edge: the period of the test, and that of the controller
LEAST_SAMPLES: Final = 10
WINDOWS: Final = 4.0  # of the rise: the slope is that of the steepest of so many parts
LEAST_WINDOW_S: Final = 10.0
DELAYS: Final = 2.0  # closed-loop time constant plus delay, in delays
INTEGRAL: Final = 4.0
DERIVATIVE: Final = 0.5
FASTEST_S: Final = 20.0
DOSES_IN_HORIZON: Final = 8.0  # the ripple of doses must not drive the demand to its limits
LONGEST_TI_S: Final = 7_200.0
AVERAGED_S: Final = 60.0  # of the value before a dose and after it
MIXED_S: Final = 600.0


@dataclass(frozen=True)
class Range:
    """What a test does to a variable: the change that ends it, the least that counts, where it may start."""

    enough: float
    least: float
    lowest: float
    highest: float


RANGES: Final = {
    TEMPERATURE: Range(3.0, 1.0, 5.0, 32.0),
    HUMIDITY: Range(8.0, 3.0, 5.0, 85.0),
    WATER_TEMPERATURE: Range(0.8, 0.3, 5.0, 28.0),
    ACIDITY: Range(0.3, 0.08, 4.0, 9.0),
    CONDUCTIVITY: Range(0.2, 0.05, 0.0, 4.0),
}
"""The variables that can be tuned, CO2 apart."""


@dataclass(frozen=True)
class StepResponse:
    """The measured response to an output at full level."""

    variable: str
    rise: float
    """Steepest rise in the unit of the variable per second."""
    lag_s: float
    """Delay until then, with that of the sensor."""
    minimum_on_s: float
    loss_per_h: float = 0.0

    def parameters(self) -> dict[str, float]:
        """The parameters of the controller."""
        gains = self.gains()
        return {"kp": gains.kp, "ti": gains.ti_s, "td": gains.td_s}

    def gains(self) -> Gains:
        """The gains for this response."""
        horizon = max(DELAYS * self.lag_s, DOSES_IN_HORIZON * self.minimum_on_s, FASTEST_S)
        ti_s = min(LONGEST_TI_S, INTEGRAL * horizon)
        return Gains(1.0 / (self.rise * horizon), ti_s, DERIVATIVE * self.lag_s)

    def of_doses(self) -> dict[str, float]:
        """No parameters of the outputs."""
        return {}

    def words(self) -> str:
        """The result for people."""
        gains, unit = self.gains(), VARIABLES[self.variable].unit
        return f"kp {gains.kp:.3g} 1/{unit}, ti {gains.ti_s:.0f} s, td {gains.td_s:.1f} s"


@dataclass(frozen=True)
class DoseResponse:
    """The measured effect of one dose."""

    variable: str
    ml_per_unit: float
    raises: bool
    rise: float
    lag_s: float = 0.0
    loss_per_h: float = 0.0

    def parameters(self) -> dict[str, float]:
        """The parameters of the controller."""
        return {"ml_per_unit" if self.raises else "lowering_ml_per_unit": self.ml_per_unit}

    def of_doses(self) -> dict[str, float]:
        """No parameters of the outputs."""
        return {}

    def words(self) -> str:
        """The result for people."""
        what = "raise" if self.raises else "lower"
        return f"{self.ml_per_unit:.3g} ml {what} the tank by 1 {VARIABLES[self.variable].unit}"


class _Test:
    """Decides when the outputs are on, and takes readings. Times are seconds of one clock."""

    def __init__(
        self, variable: str, began: float, most_on_s: float, after_s: float, starts_within_s: float
    ) -> None:
        self._variable = variable
        self._starts_within_s = starts_within_s
        self._range = RANGES[variable]
        self._begin = began + BASELINE_S
        self._most_on_s = most_on_s
        self._after_s = after_s
        self._samples: list[tuple[float, float]] = []
        self._on_at: float | None = None
        self._off_at: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether all readings are taken."""
        return bool(self._samples) and self._samples[-1][0] >= self._ends

    def progress(self, now: float) -> float:
        """The progress, 0..1."""
        whole = BASELINE_S + self._most_on_s + self._after_s
        return max(0.0, min(1.0, 1.0 - self.left_s(now) / whole))

    def left_s(self, now: float) -> float:
        """The time until the end; before the end of the step the longest that it may be."""
        if self._off_at is not None:
            return max(0.0, self._ends - now)
        return max(0.0, self._begin + self._most_on_s + self._after_s - now)

    def stage(self, now: float) -> str:
        """The current stage, for display."""
        if now < self._begin:
            return "watching before the test"
        return "testing the output" if self._off_at is None else "watching the effect"

    def measured(self, now: float, value: float) -> None:
        """Take a measured value. Raises `TuneError` if it is too low or too high at the start."""
        limits = self._range
        if now <= self._begin and not limits.lowest <= value <= limits.highest:
            span = f"{limits.lowest:g} to {limits.highest:g}"
            raise TuneError(f"{self._variable} is {value:.4g}; it must be from {span} at the start")
        self._samples.append((now, value))

    def output(self, now: float, is_on: bool) -> None:  # noqa: FBT001  its name says it
        """The tested outputs are on or off from now on."""
        if is_on and (now < self._begin or self._off_at is not None):
            raise TuneError("the output was switched on by somebody else")
        if is_on and self._on_at is None:
            self._on_at = now
        elif not is_on and self._on_at is not None and self._off_at is None:
            self._off_at = now

    def wants_on(self, now: float) -> bool:
        """Whether the outputs should be on now. Raises `TuneError` if they do not follow, or may not."""
        if now < self._begin or self._off_at is not None:
            return False
        if self._on_at is None:
            if len(self._before()) < LEAST_SAMPLES:
                raise TuneError(f"{len(self._before())} readings in {BASELINE_S:.0f} s are too few")
            if now > self._begin + self._starts_within_s:
                raise TuneError("the output did not switch on")
            return True
        on_s = now - self._on_at
        if on_s > self._most_on_s + STOPS_WITHIN_S:
            raise TuneError("the output did not switch off")
        return on_s + COMES_LATE_S <= self._most_on_s and abs(self._moved()) < self._range.enough

    @property
    def _ends(self) -> float:
        return math.inf if self._off_at is None else self._off_at + self._after_s

    def _before(self) -> list[tuple[float, float]]:
        return [(at, value) for at, value in self._samples if at <= self._begin]

    def _moved(self) -> float:
        """How far the value moved from what its drift before the test continues to."""
        at, value = self._samples[-1]
        return value - line_through(self._before())(at)


class StepTest(_Test):
    """A step of an output, until the variable has risen enough."""

    def __init__(self, variable: str, began: float, most_on_s: float, minimum_on_s: float = 1.0) -> None:
        super().__init__(variable, began, most_on_s, after_s=10.0, starts_within_s=STARTS_WITHIN_S)
        self._minimum_on_s = minimum_on_s

    def response(self) -> StepResponse:
        """The result. Raises `TuneError` if it is not plausible."""
        if self._on_at is None or self._off_at is None:
            raise TuneError("there was no step")
        by_itself = line_through(self._before())
        risen = [(at, value - by_itself(at)) for at, value in self._samples if at >= self._on_at]
        unit = VARIABLES[self._variable].unit
        highest = max((value for _, value in risen), default=0.0)
        if highest < self._range.least:
            raise TuneError(
                f"{self._variable} rose by only {max(0.0, highest):.2g} {unit}: does the output work?"
            )
        slope, crosses = _steepest(risen, max(LEAST_WINDOW_S, (self._off_at - self._on_at) / WINDOWS))
        drift = abs(by_itself(self._off_at) - by_itself(self._begin))
        if drift > highest / 2:
            raise TuneError(f"{self._variable} moves by itself: wait until it is steady, and try again")
        return StepResponse(self._variable, slope, max(1.0, crosses - self._on_at), self._minimum_on_s)


class DoseTest(_Test):
    """One dose, and the time until it has mixed: `mixing_s` at least. `flow` is that of the pumps."""

    def __init__(
        self,
        variable: str,
        began: float,
        most_on_s: float,
        flow: JointFlow,
        mixing_s: float,
        *,
        raises: bool,
    ) -> None:
        starts_within_s = STARTS_WITHIN_S + mixing_s  # the mixing pause of another pump may hold it
        super().__init__(variable, began, most_on_s, max(MIXED_S, mixing_s), starts_within_s)
        self._flow = flow
        self._raises = raises

    def response(self) -> DoseResponse:
        """The result. Raises `TuneError` if it is not plausible."""
        if self._on_at is None or self._off_at is None:
            raise TuneError("there was no dose")
        by_itself = line_through(self._before())
        last = [value - by_itself(at) for at, value in self._samples if at >= self._ends - AVERAGED_S]
        moved = math.fsum(last) / len(last) * (1.0 if self._raises else -1.0)
        unit = VARIABLES[self._variable].unit
        if moved < self._range.least:
            raise TuneError(
                f"{self._variable} changed by only {max(0.0, moved):.2g} {unit}: is the bottle empty, the "
                "pump for mixing off, or the dose too small for this water (autotune_on_s)?"
            )
        ml = self._flow.ml(self._off_at - self._on_at)
        return DoseResponse(self._variable, ml / moved, self._raises, moved / (self._off_at - self._on_at))


def _steepest(points: Sequence[tuple[float, float]], window_s: float) -> tuple[float, float]:
    """The steepest slope of any part of this length, and when its line is at 0."""
    best, crosses = 0.0, math.inf
    for begin, _ in points:
        part = [(at, value) for at, value in points if begin <= at <= begin + window_s]
        if len(part) < LEAST_SAMPLES // 2 or part[-1][0] - begin < window_s / 2:
            continue
        line = line_through(part)
        slope = line(1.0) - line(0.0)
        if slope > best:
            best, crosses = slope, part[0][0] - line(part[0][0]) / slope
    if best <= 0:
        raise TuneError("too little was measured during the test")
    return best, crosses
