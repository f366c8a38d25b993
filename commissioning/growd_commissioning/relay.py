"""A relay experiment: an output is switched on and off by the variable that it raises, and gives the gains.

After Astrom and Hagglund (Automatica 20:645, 1984). What only rises by itself has no oscillation to measure
the period of, so the result is the model that fits the course best: a first-order process, measured with a
lag. The gains are those of the SIMC rules for an integrating process with delay (Skogestad, J. Process
Control 13:291, 2003): kp = 1 / (rise (tc + delay)). The integral time of CO2 is the time constant of the air:
a shorter one overshoots, which a valve cannot take back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.control.pid import Gains
from growd.runtime.sentence import Sentence
from growd.variables import CARBON_DIOXIDE, VARIABLES
from growd_commissioning.effect_course import EFFECT, RANGES, WATCHING
from growd_commissioning.experiments import ExperimentError
from growd_commissioning.fits import least_squares, line_through

if TYPE_CHECKING:
    from collections.abc import Sequence

BASELINE_S: Final = 300.0  # before the first time on: the drift
TIMES_ON: Final = 2
STOPS_WITHIN_S: Final = 5.0
COMES_LATE_S: Final = 2.0  # delay of an edge: the period of the test, and that of the controller
LEAST_SAMPLES: Final = 10
MOST_SAMPLES: Final = 150  # for the fit, which runs on the event loop
LAGS_S: Final = tuple(1.15**step for step in range(38))  # 1 to 176 s
ODD: Final = 0.15  # of all change: a larger deviation from the model has another cause

DELAYS: Final = 2.0  # closed-loop time constant plus delay, in delays
DOSES_IN_HORIZON: Final = 8.0  # the ripple of doses must not drive the demand to its limits
DOSES_OF_CO2: Final = 15.0
FASTEST_S: Final = 20.0
INTEGRAL: Final = 4.0
DERIVATIVE: Final = 0.5
TIME_CONSTANTS_S: Final = (600.0, 7_200.0)
DOSE_PPM: Final = 33.0  # its ripple is half: within an SCD30's accuracy (30 ppm + 3 %)
LIMITS_ON_S: Final = (0.5, 60.0)  # of a dose: from what a valve can do to what is still smooth


@dataclass(frozen=True)
class Response:
    """The measured response to an output at full level."""

    variable: str
    rise: float
    """In the unit of the variable per second."""
    lag_s: float
    loss_per_h: float
    least_on_s: float
    """The shortest time on of the output."""

    @property
    def minimum_on_s(self) -> float:
        """The length of a dose: for CO2 that of `DOSE_PPM`."""
        if self.variable != CARBON_DIOXIDE:
            return self.least_on_s
        shortest, longest = LIMITS_ON_S
        return max(shortest, min(longest, DOSE_PPM / self.rise))

    def gains(self) -> Gains:
        """The gains for this response."""
        doses = DOSES_OF_CO2 if self.variable == CARBON_DIOXIDE else DOSES_IN_HORIZON
        horizon = max(DELAYS * self.lag_s, doses * self.minimum_on_s, FASTEST_S)
        shortest, longest = TIME_CONSTANTS_S
        ti_s = INTEGRAL * horizon
        if self.variable == CARBON_DIOXIDE:
            ti_s = max(shortest, 3600.0 / self.loss_per_h if self.loss_per_h > 0 else longest)
        return Gains(1.0 / (self.rise * horizon), min(ti_s, longest), DERIVATIVE * self.lag_s)

    def __str__(self) -> str:
        """The result for people."""
        gains, unit = self.gains(), VARIABLES[self.variable].unit
        doses = f", doses of {self.minimum_on_s:.1f} s" if self.variable == CARBON_DIOXIDE else ""
        return f"kp {gains.kp:.3g} 1/{unit}, ti {gains.ti_s:.0f} s, td {gains.td_s:.1f} s{doses}"


class _Fit(NamedTuple):
    error: float
    lag_s: float
    rise: float
    loss: float
    drift: float
    """By how much the variable moved by itself."""


class RelayTest:
    """Decides when the outputs are on, and takes readings. Times are seconds of one clock.

    The outputs are on until the variable has risen by `Range.enough`, for at most `most_on_s`; then off until
    half of that is left. A variable that stays up, as humidity in a tight chamber, or that rose by less, ends
    the test after `Range.rest_s`: one time on is enough for the fit.
    """

    def __init__(self, variable: str, began: float, most_on_s: float, starts_within_s: float) -> None:
        self._variable = variable
        self._range = RANGES[variable]
        self._begin = began + BASELINE_S
        self._most_on_s = most_on_s
        self._starts_within_s = starts_within_s
        self._samples: list[tuple[float, float]] = []
        self._edges: list[float] = []  # on, off, on, off
        self._asked: float | None = None  # since when the outputs should be on

    @property
    def is_done(self) -> bool:
        """Whether all readings are taken."""
        is_resting = bool(self._edges) and not self._is_on and self._asked is None
        return is_resting and self._samples[-1][0] >= self._edges[-1] + self._range.rest_s

    def progress(self, now: float) -> float:
        """The progress, 0..1."""
        return max(0.0, min(1.0, 1.0 - self.left_s(now) / (BASELINE_S + self._longest(TIMES_ON))))

    def left_s(self, now: float) -> float:
        """The longest time until the end."""
        since = self._edges[-1] if self._edges else self._begin
        left = self._longest(TIMES_ON - len(self._edges) // 2)
        if self._edges and not self._is_on:
            left += self._range.rest_s
        return max(0.0, since + left - now)

    def stage(self, now: float) -> str:
        """The current stage, for display."""
        if now < self._begin:
            return WATCHING
        return Sentence("testing the output", "output_on") if self._is_on else EFFECT

    def measured(self, now: float, value: float) -> None:
        """Take a measured value. Raises `ExperimentError` if it is too low or too high at the start."""
        limits = self._range
        if now <= self._begin and not limits.lowest <= value <= limits.highest:
            span = f"{limits.lowest:g} to {limits.highest:g}"
            text = f"{self._variable} is {value:.4g}; it must be from {span} at the start"
            unit = VARIABLES[self._variable].unit
            ends = {"least": limits.lowest, "most": limits.highest, "unit": unit}
            raise ExperimentError(text, "not_in_start_range", variable=self._variable, value=value, **ends)
        self._samples.append((now, value))

    def output(self, now: float, is_on: bool) -> None:  # noqa: FBT001  its name says it
        """The tested outputs are on or off from now on."""
        if is_on == self._is_on:
            return
        if is_on and self._asked is None:
            raise ExperimentError("the output was switched on by somebody else", "switched_by_other")
        self._edges.append(now)
        self._asked = None if not is_on else self._asked

    def wants_on(self, now: float) -> bool:
        """Whether the outputs should be on now. Raises `ExperimentError` if they do not follow."""
        if now < self._begin:
            return False
        if self._is_on:
            return self._stays_on(now - self._edges[-1])
        if self._asked is None and self._is_due():
            self._asked = now
        if self._asked is not None and now > self._asked + self._starts_within_s:
            raise ExperimentError("the output did not switch on", "output_not_on")
        return self._asked is not None

    def response(self, least_on_s: float) -> Response:
        """The result. Raises `ExperimentError` if it is not plausible."""
        risen = self._risen()
        fit, unit = self._fitted(), VARIABLES[self._variable].unit
        if max(risen) < self._range.least or fit.rise <= 0:
            change = max(0.0, *risen)
            text = (
                f"{self._variable} rose by only {change:.2g} {unit}: does the output work, or is "
                "its bottle empty?"
            )
            raise ExperimentError(text, "rose_little", variable=self._variable, change=change, unit=unit)
        on_s = math.fsum(off - on for on, off in zip(self._edges[::2], self._edges[1::2], strict=True))
        if abs(fit.drift) > fit.rise * on_s or fit.error > ODD * (max(risen) - min(risen)):
            text = f"{self._variable} moves by itself: wait until it is steady, and try again"
            raise ExperimentError(text, "moves_by_itself", variable=self._variable)
        return Response(self._variable, fit.rise, fit.lag_s, 3600.0 * fit.loss, least_on_s)

    @property
    def _is_on(self) -> bool:
        return len(self._edges) % 2 == 1

    def _stays_on(self, on_s: float) -> bool:
        if on_s > self._most_on_s + STOPS_WITHIN_S:
            raise ExperimentError("the output did not switch off", "output_not_off")
        return on_s + COMES_LATE_S <= self._most_on_s and self._risen()[-1] < self._range.enough

    def _is_due(self) -> bool:
        risen, enough = self._risen(), self._range.enough
        if not self._edges:
            return True
        has_fallen = max(risen) >= enough and risen[-1] <= enough / 2
        return len(self._edges) < 2 * TIMES_ON and has_fallen

    def _risen(self) -> list[float]:
        """The rise at each reading since the begin. Raises `ExperimentError` if they are too few."""
        before = [(at, value) for at, value in self._samples if at <= self._begin]
        if len(before) < LEAST_SAMPLES:
            text = f"{len(before)} readings in {BASELINE_S:.0f} s are too few"
            raise ExperimentError(text, "few_readings")
        start = line_through(before)(self._begin)
        return [value - start for at, value in self._samples if at > self._begin] or [0.0]

    def _longest(self, times: int) -> float:
        return times * (self._most_on_s + self._range.rest_s)

    def _fitted(self) -> _Fit:
        """The model that fits best: dx/dt = rise u + drift - loss x, measured with a lag of first order."""
        (began, first), area, rows = self._samples[0], 0.0, []
        for (last, before), (at, value) in pairwise(self._samples):
            area += ((before + value) / 2 - first) * (at - last)
            rows.append((at, at - began, -area, value - first))
        rows = rows[:: math.ceil(len(rows) / MOST_SAMPLES)]
        return min(self._fit(lag_s, rows) for lag_s in LAGS_S)

    def _fit(self, lag_s: float, rows: Sequence[tuple[float, float, float, float]]) -> _Fit:
        data = [(self._on_s(at, lag_s), passed, 1.0, area, moved) for at, passed, area, moved in rows]
        rise, drift, first, loss = least_squares(data)
        if loss <= 0:
            rise, drift, first = least_squares([(*each[:3], each[-1]) for each in data])
            loss = 0.0
        square = math.fsum((m - rise * on - drift * p - first - loss * a) ** 2 for on, p, _, a, m in data)
        passed = rows[-1][0] - self._begin
        by_itself = drift * (-math.expm1(-loss * passed) / loss if loss > 0 else passed)
        return _Fit(math.sqrt(square / len(data)), lag_s, rise, loss, by_itself)

    def _on_s(self, at: float, lag_s: float) -> float:
        """How long the outputs were on until then, as it is measured with this lag."""
        since = (max(0.0, at - edge) for edge in self._edges)
        seconds = (each + lag_s * math.expm1(-each / lag_s) for each in since)
        return math.fsum(-each if index % 2 else each for index, each in enumerate(seconds))
