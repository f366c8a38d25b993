"""The dose response of a chamber, from one dose of known length, and the gains that follow from it.

A dose lets CO2 in for a while; how far it rises tells what a second of the open valve is worth, how late that
shows tells how far the measuring is behind, and how it falls again tells the loss of the air. Where the air
still changes from before, as after a recipe, it goes on as dx/dt = a - loss x, and that is taken off.

The gains are those of the SIMC rules for a first-order process with delay (Skogestad 2003, Simple analytic
rules for model reduction and PID controller tuning, J. Process Control 13:291), kp = 1 / (rise (tc + delay)),
but with the process's own time constant as integral time: the shorter one of these rules brings disturbances
down sooner and overshoots, which a valve that only lets in can't take back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.control.pid import Gains

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BASELINE_S: Final = 300.0  # before the dose: how the air moves by itself
ENOUGH_PPM: Final = 100.0  # measured rise at which the dose ends
SETTLE_S: Final = 180.0  # after the dose: until the sensor has caught up
DECAY_S: Final = 480.0  # and then: how the rise goes away again
OPENS_WITHIN_S: Final = 90.0
SHUTS_WITHIN_S: Final = 5.0
COMES_LATE_S: Final = 2.0  # an edge: by the look at the test, and by the controller's own second
LEAST_RISE_PPM: Final = 40.0  # of which noise and drift are a tenth
LEAST_SAMPLES: Final = 10  # in each part
MOST_STEPS: Final = 50  # in which the loss is found
SAME_LOSS: Final = 1e-7  # in 1/s: a thousandth of one air change in an hour
MOST_START_PPM: Final = 2_500.0  # a dose on top of more is not needed by anybody

TIME_CONSTANTS_S: Final = (600.0, 7_200.0)
DOSE_PPM: Final = 33.0  # one dose, whose ripple is half of that: within an SCD30's accuracy (30 ppm + 3 %)
DOSES_IN_BAND: Final = 15.0  # the ripple of doses must not drive the demand from end to end
DELAYS: Final = 2.0  # closed-loop time constant and delay together, in delays: as the rules have it
FASTEST_S: Final = 30.0  # and at least: no crop asks for more
DERIVATIVE: Final = 0.75  # of the lag: most of it is that of the sensor's cell, of first order
LIMITS_ON_S: Final = (0.5, 60.0)  # of a dose: what a valve and its relay can do, and what is even


class TuneError(Exception):
    """The dose response could not be taken, and why."""


@dataclass(frozen=True)
class Response:
    """What one dose told of the chamber."""

    rise_ppm_s: float
    """CO2 for each second that the valve is open."""
    lag_s: float
    """How far what is measured is behind, filter included."""
    loss_per_h: float
    """The share of what is above the room's air that goes in an hour."""

    def gains(self) -> Gains:
        """The gains for it."""
        slowest, longest = TIME_CONSTANTS_S
        time_constant = 3600.0 / self.loss_per_h if self.loss_per_h > 0 else longest
        horizon = max(DELAYS * self.lag_s, DOSES_IN_BAND * self.minimum_on_s(), FASTEST_S)
        return Gains(
            kp=1.0 / (self.rise_ppm_s * horizon),
            ti_s=max(slowest, min(longest, time_constant)),
            td_s=DERIVATIVE * self.lag_s,
        )

    def minimum_on_s(self) -> float:
        """How long one dose is."""
        shortest, longest = LIMITS_ON_S
        return max(shortest, min(longest, DOSE_PPM / self.rise_ppm_s))


class PulseTest:
    """Tells when the valve is to be open, and takes what is measured. Times are seconds of one clock."""

    def __init__(self, began: float, most_open_s: float) -> None:
        self._most_open_s = most_open_s
        self._dose_at = began + BASELINE_S
        self._samples: list[tuple[float, float]] = []
        self._opened: float | None = None
        self._closed: float | None = None

    @property
    def is_done(self) -> bool:
        """All is measured that has to be."""
        return bool(self._samples) and self._samples[-1][0] >= self._ends

    def progress(self, now: float) -> float:
        """How much of it is over, 0..1."""
        whole = BASELINE_S + self._most_open_s + SETTLE_S + DECAY_S
        left = self._ends - now if self._closed is not None else self._dose_at + whole - BASELINE_S - now
        return max(0.0, min(1.0, 1.0 - left / whole))

    def stage(self, now: float) -> str:
        """What goes on, for people."""
        if now < self._dose_at:
            return "watching the air before the dose"
        return "dosing" if self._closed is None else "watching what the dose did"

    def measured(self, now: float, ppm: float) -> None:
        """Take a measured value. Raises `TuneError` where there is too much CO2 to begin with."""
        if now <= self._dose_at and ppm > MOST_START_PPM:
            raise TuneError(f"there are {ppm:.0f} ppm already; below {MOST_START_PPM:.0f} it can be done")
        self._samples.append((now, ppm))

    def valve(self, now: float, is_open: bool) -> None:  # noqa: FBT001  its name says it
        """The valve is open or shut from now on."""
        if is_open and now < self._dose_at:
            raise TuneError("the valve was opened before the dose")
        if is_open and self._closed is not None:
            raise TuneError("the valve was opened again after the dose")
        if is_open and self._opened is None:
            self._opened = now
        elif not is_open and self._opened is not None and self._closed is None:
            self._closed = now

    def wants_open(self, now: float) -> bool:
        """Whether the valve should be open now. Raises `TuneError` if it does not follow, or may not."""
        if now < self._dose_at or self._closed is not None:
            return False
        if self._opened is None:
            self._before_dose()
            if now > self._dose_at + OPENS_WITHIN_S:
                raise TuneError("the valve did not open")
            return True
        before = [ppm for _, ppm in self._before_dose()]
        risen = self._samples[-1][1] - math.fsum(before) / len(before)
        open_s = now - self._opened
        if open_s > self._most_open_s + SHUTS_WITHIN_S:
            raise TuneError("the valve did not shut")
        return open_s + COMES_LATE_S <= self._most_open_s and risen < ENOUGH_PPM

    def response(self) -> Response:
        """What came out. Raises `TuneError` where that is not to be believed."""
        if self._opened is None or self._closed is None:
            raise TuneError("there was no dose")
        opened, closed = self._opened, self._closed
        loss = self._loss(closed)
        by_itself = self._by_itself(loss)
        excess = [(at, ppm - by_itself(at)) for at, ppm in self._samples if at > opened]
        logarithm = _logarithm(excess, closed)
        middle = (opened + closed) / 2
        rise = math.exp(logarithm(middle))
        if rise < LEAST_RISE_PPM:
            raise TuneError(f"CO2 rose by {rise:.0f} ppm only: is the bottle empty, or the valve too small?")
        drift = by_itself(self._samples[-1][0]) - by_itself(self._dose_at)
        if abs(drift) > rise:
            moved = f"{'fell' if drift < 0 else 'rose'} by {abs(drift):.0f} ppm by itself"
            advice = "wait until it is steady, and try again"
            raise TuneError(f"CO2 {moved}, more than the {rise:.0f} ppm of the dose: {advice}")
        lag = _lag(excess, opened, closed, rise, loss)
        return Response(rise / (closed - opened), max(1.0, lag), 3600.0 * max(0.0, loss))

    def _loss(self, closed: float) -> float:
        """The loss in 1/s. The air before the dose decays with it too, so it is found in steps."""
        loss = 0.0
        for _ in range(MOST_STEPS):
            by_itself = self._by_itself(loss)
            excess = [(at, ppm - by_itself(at)) for at, ppm in self._samples]
            logarithm = _logarithm(excess, closed)
            before, loss = loss, max(0.0, logarithm(0.0) - logarithm(1.0))
            if abs(loss - before) < SAME_LOSS:
                return loss
        raise TuneError("CO2 changed too much by itself: wait until it is steady, and try again")

    def _by_itself(self, loss: float) -> Callable[[float], float]:
        """What the air would do without the dose: it goes where it went before, ever slower by the loss."""
        line = _line([(_slowed(at - self._dose_at, loss), ppm) for at, ppm in self._before_dose()])
        return lambda at: line(_slowed(at - self._dose_at, loss))

    @property
    def _ends(self) -> float:
        return math.inf if self._closed is None else self._closed + SETTLE_S + DECAY_S

    def _before_dose(self) -> list[tuple[float, float]]:
        before = [(at, ppm) for at, ppm in self._samples if at <= self._dose_at]
        if len(before) < LEAST_SAMPLES:
            raise TuneError(f"it takes {LEAST_SAMPLES} readings in {BASELINE_S:.0f} s, and not {len(before)}")
        return before


def _line(points: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """The straight line through points, by least squares."""
    count = len(points)
    middle_x = math.fsum(x for x, _ in points) / count
    middle_y = math.fsum(y for _, y in points) / count
    spread = math.fsum((x - middle_x) ** 2 for x, _ in points)
    slope = math.fsum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0
    return lambda x: middle_y + slope * (x - middle_x)


def _slowed(seconds: float, loss: float) -> float:
    """Time as a decay sees it: how far that goes in so many seconds, over its rate at 0."""
    return -math.expm1(-loss * seconds) / loss if loss > 0 else seconds


def _logarithm(excess: Sequence[tuple[float, float]], closed: float) -> Callable[[float], float]:
    """The straight line through the logarithm of the rise. Raises `TuneError` where that is too little."""
    tail = [(at, ppm) for at, ppm in excess if at >= closed + SETTLE_S]
    if len(tail) < LEAST_SAMPLES:
        raise TuneError("too little was measured after the dose")
    if min(ppm for _, ppm in tail) < LEAST_RISE_PPM / 4:
        raise TuneError(f"CO2 did not rise by {LEAST_RISE_PPM:.0f} ppm and stay so: is the bottle empty?")
    return _line([(at, math.log(ppm)) for at, ppm in tail])


def _lag(
    excess: Sequence[tuple[float, float]], opened: float, closed: float, rise: float, loss: float
) -> float:
    """How far the measured excess is behind that of the air: the area between them over the rise."""
    area, (last, _) = 0.0, (opened, 0.0)
    middle = (opened + closed) / 2
    for at, ppm in excess:
        if at > closed + SETTLE_S:
            break
        half = (last + at) / 2
        let_in = min(1.0, (half - opened) / (closed - opened))
        area += (rise * let_in * math.exp(-loss * max(0.0, half - middle)) - ppm) * (at - last)
        last = at
    return area / rise
