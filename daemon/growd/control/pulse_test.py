"""The response of a chamber to one dose of CO2, and the gains that follow from it.

The rise gives the effect of the open valve per second, the delay gives the lag of the measurement, and the
fall afterwards gives the loss of the air. A drift from before the dose, as after a recipe, follows
dx/dt = a - loss x, and is subtracted.

The gains are those of the SIMC rules for a first-order process with delay (Skogestad 2003, Simple analytic
rules for model reduction and PID controller tuning, J. Process Control 13:291), kp = 1 / (rise (tc + delay)),
but with the time constant of the process as integral time. The shorter one of these rules removes
disturbances sooner and overshoots, which a valve cannot take back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.control.pid import Gains

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BASELINE_S: Final = 300.0  # before the dose: the drift of the air
ENOUGH_PPM: Final = 100.0  # measured rise at which the dose ends
SETTLE_S: Final = 180.0  # after the dose: until the sensor has settled
DECAY_S: Final = 480.0  # then: the decay of the rise
OPENS_WITHIN_S: Final = 90.0
SHUTS_WITHIN_S: Final = 5.0
COMES_LATE_S: Final = 2.0  # delay of an edge: the period of the test, and that of the controller
LEAST_RISE_PPM: Final = 40.0  # noise and drift are a tenth of it
LEAST_SAMPLES: Final = 10  # in each part
MOST_STEPS: Final = 50  # of the iteration for the loss
SAME_LOSS: Final = 1e-7  # in 1/s: a thousandth of an air change per hour
MOST_START_PPM: Final = 2_500.0  # no chamber needs a dose on top of more

TIME_CONSTANTS_S: Final = (600.0, 7_200.0)
DOSE_PPM: Final = 33.0  # rise of one dose; its ripple is half: within an SCD30's accuracy (30 ppm + 3 %)
DOSES_IN_BAND: Final = 15.0  # the ripple of doses must not drive the demand to its limits
DELAYS: Final = 2.0  # closed-loop time constant plus delay, in delays, as in the rules
FASTEST_S: Final = 30.0  # lower limit: no crop needs more
DERIVATIVE: Final = 0.75  # of the lag: most of it is the first-order lag of the sensor's cell
LIMITS_ON_S: Final = (0.5, 60.0)  # of a dose: from what a valve can do to what is still smooth


class TuneError(Exception):
    """The dose response could not be measured. The text says why."""


@dataclass(frozen=True)
class Response:
    """The measured response to one dose."""

    rise_ppm_s: float
    """Rise of CO2 per second of the open valve."""
    lag_s: float
    """Lag of the measured value, filter included."""
    loss_per_h: float
    """Air changes per hour."""

    @property
    def rise(self) -> float:
        """Rise of CO2 per second of the open valve."""
        return self.rise_ppm_s

    def parameters(self) -> dict[str, float]:
        """The parameters of the controller."""
        gains = self.gains()
        return {"kp": gains.kp, "ti": gains.ti_s, "td": gains.td_s}

    def words(self) -> str:
        """The result for people."""
        gains = self.gains()
        return (
            f"kp {gains.kp:.3g} 1/ppm, ti {gains.ti_s:.0f} s, td {gains.td_s:.1f} s, "
            f"doses of {self.minimum_on_s():.1f} s"
        )

    def of_doses(self) -> dict[str, float]:
        """The parameters of the doses of the valve."""
        least = self.minimum_on_s()
        return {"minimum_on": least, "minimum_off": least}

    def gains(self) -> Gains:
        """The gains for this response."""
        slowest, longest = TIME_CONSTANTS_S
        time_constant = 3600.0 / self.loss_per_h if self.loss_per_h > 0 else longest
        horizon = max(DELAYS * self.lag_s, DOSES_IN_BAND * self.minimum_on_s(), FASTEST_S)
        return Gains(
            kp=1.0 / (self.rise_ppm_s * horizon),
            ti_s=max(slowest, min(longest, time_constant)),
            td_s=DERIVATIVE * self.lag_s,
        )

    def minimum_on_s(self) -> float:
        """The length of one dose in seconds."""
        shortest, longest = LIMITS_ON_S
        return max(shortest, min(longest, DOSE_PPM / self.rise_ppm_s))


class PulseTest:
    """Decides when the valve opens, and takes readings. Times are seconds of one clock."""

    def __init__(self, began: float, most_open_s: float) -> None:
        self._most_open_s = most_open_s
        self._dose_at = began + BASELINE_S
        self._samples: list[tuple[float, float]] = []
        self._opened: float | None = None
        self._closed: float | None = None

    @property
    def is_done(self) -> bool:
        """Whether all readings are taken."""
        return bool(self._samples) and self._samples[-1][0] >= self._ends

    def progress(self, now: float) -> float:
        """The progress, 0..1."""
        whole = BASELINE_S + self._most_open_s + SETTLE_S + DECAY_S
        return max(0.0, min(1.0, 1.0 - self.left_s(now) / whole))

    def left_s(self, now: float) -> float:
        """The time until the end; before the end of the dose the longest that it may be."""
        if self._closed is not None:
            return max(0.0, self._ends - now)
        return max(0.0, self._dose_at + self._most_open_s + SETTLE_S + DECAY_S - now)

    def stage(self, now: float) -> str:
        """The current stage, for display."""
        if now < self._dose_at:
            return "watching the air before the dose"
        return "dosing" if self._closed is None else "watching the effect of the dose"

    def measured(self, now: float, ppm: float) -> None:
        """Take a measured value. Raises `TuneError` if there is too much CO2 at the start."""
        if now <= self._dose_at and ppm > MOST_START_PPM:
            raise TuneError(f"CO2 is {ppm:.0f} ppm; it must be below {MOST_START_PPM:.0f} ppm at the start")
        self._samples.append((now, ppm))

    def output(self, now: float, is_open: bool) -> None:  # noqa: FBT001  its name says it
        """The valve is open or shut from now on."""
        if is_open and now < self._dose_at:
            raise TuneError("the valve was opened before the dose")
        if is_open and self._closed is not None:
            raise TuneError("the valve was opened again after the dose")
        if is_open and self._opened is None:
            self._opened = now
        elif not is_open and self._opened is not None and self._closed is None:
            self._closed = now

    def wants_on(self, now: float) -> bool:
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
        """The result. Raises `TuneError` if it is not plausible."""
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
            raise TuneError(f"CO2 rose by only {rise:.0f} ppm: is the bottle empty, or the valve too small?")
        drift = by_itself(self._samples[-1][0]) - by_itself(self._dose_at)
        if abs(drift) > rise:
            moved = f"{'fell' if drift < 0 else 'rose'} by {abs(drift):.0f} ppm by itself"
            advice = "wait until it is steady, and try again"
            raise TuneError(f"CO2 {moved}, more than the {rise:.0f} ppm of the dose: {advice}")
        lag = _lag(excess, opened, closed, rise, loss)
        return Response(rise / (closed - opened), max(1.0, lag), 3600.0 * max(0.0, loss))

    def _loss(self, closed: float) -> float:
        """The loss in 1/s, found by iteration, since it also shapes the drift before the dose."""
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
        """CO2 without the dose: the drift from before, slowed by the loss."""
        line = line_through([(_slowed(at - self._dose_at, loss), ppm) for at, ppm in self._before_dose()])
        return lambda at: line(_slowed(at - self._dose_at, loss))

    @property
    def _ends(self) -> float:
        return math.inf if self._closed is None else self._closed + SETTLE_S + DECAY_S

    def _before_dose(self) -> list[tuple[float, float]]:
        before = [(at, ppm) for at, ppm in self._samples if at <= self._dose_at]
        if len(before) < LEAST_SAMPLES:
            raise TuneError(
                f"{len(before)} readings in {BASELINE_S:.0f} s are too few; {LEAST_SAMPLES} are needed"
            )
        return before


def line_through(points: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """The straight line through points, by least squares."""
    count = len(points)
    middle_x = math.fsum(x for x, _ in points) / count
    middle_y = math.fsum(y for _, y in points) / count
    spread = math.fsum((x - middle_x) ** 2 for x, _ in points)
    slope = math.fsum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else 0.0
    return lambda x: middle_y + slope * (x - middle_x)


def _slowed(seconds: float, loss: float) -> float:
    """The integral of a decay over `seconds`."""
    return -math.expm1(-loss * seconds) / loss if loss > 0 else seconds


def _logarithm(excess: Sequence[tuple[float, float]], closed: float) -> Callable[[float], float]:
    """The line through the logarithm of the rise. Raises `TuneError` if the rise is too small."""
    tail = [(at, ppm) for at, ppm in excess if at >= closed + SETTLE_S]
    if len(tail) < LEAST_SAMPLES:
        raise TuneError("too little was measured after the dose")
    if min(ppm for _, ppm in tail) < LEAST_RISE_PPM / 4:
        raise TuneError(f"CO2 did not rise by {LEAST_RISE_PPM:.0f} ppm for long enough: is the bottle empty?")
    return line_through([(at, math.log(ppm)) for at, ppm in tail])


def _lag(
    excess: Sequence[tuple[float, float]], opened: float, closed: float, rise: float, loss: float
) -> float:
    """The lag of the measured excess: the area between it and the real one, divided by the rise."""
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
