"""A PID controller as a pure calculation, without a clock.

The package `simple-pid` has no filter on the derivative, and clamps the integral against windup. It cannot
use the real output of the actuator, so it does not know of interlocks and of doses still due.
`bench/control.py` compares both; `bench/RESULTS.md` has the figures.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

FILTER: Final = 5.0
"""The derivative filters the measured value with a first-order lag of `td_s` / FILTER (Astrom and Hagglund
2006, Advanced PID Control, 3.3: 2 to 20)."""


class Gains(msgspec.Struct, frozen=True):
    """Gains of a PID in the standard form, kp (e + 1/ti integral(e) + td de/dt)."""

    kp: float
    """Output for each unit of error."""
    ti_s: float
    """Integral time in s, above 0."""
    td_s: float = 0.0
    """Derivative time in s, 0 for none."""
    weight: float = 1.0
    """Set point weight of the proportional term, 0..1."""


class Pid:
    """A PID in the standard form, with `minimum` <= output <= `maximum`.

    The derivative acts on the measured value, so a new set point gives no kick. The integral, together with
    the feed-forward, stays within `integral_limits`.

    Against windup the integral tracks the real output of the actuator, with `ti_s` as tracking time
    (back-calculation). If `ti_s` is the time constant of the process, the integral converges to the steady
    output, however long the output was limited or overridden.
    """

    def __init__(
        self, gains: Gains, minimum: float, maximum: float, *, integral_minimum: float | None = None
    ) -> None:
        self._gains = gains
        self._minimum = minimum
        self._maximum = maximum
        self.integral_limits = (minimum if integral_minimum is None else integral_minimum, maximum)
        """The lowest and the highest sum of integral and feed-forward."""
        self._feed_forward = 0.0
        self._integral = 0.0
        self._filtered: float | None = None  # the measured value, through the lag of the derivative
        self._last: tuple[float, float] | None = None  # set point and measured value

    @property
    def gains(self) -> Gains:
        return self._gains

    @gains.setter
    def gains(self, gains: Gains) -> None:
        """Change the gains without a bump: the integral absorbs the change within its limits."""
        if self._last is not None:
            before = self._proportional(*self._last) + self._derivative(self._last[1])
            self._gains = gains
            after = self._proportional(*self._last) + self._derivative(self._last[1])
            self._integral = self._bounded(self._integral + before - after)
        self._gains = gains

    @property
    def integral(self) -> float:
        """The integral part of the output."""
        return self._integral

    def update(
        self,
        set_point: float,
        measured: float,
        seconds: float,
        applied: float | None = None,
        feed_forward: float = 0.0,
    ) -> float:
        """The output after `seconds` with the measured value `measured`.

        `applied` is the actuator's average output in that time, None if it followed. `feed_forward` is added
        to the output. All numbers are finite, and `seconds` is not negative.
        """
        self._feed_forward = feed_forward
        self._advance_derivative(measured, seconds)
        self._last = (set_point, measured)
        beside = feed_forward + self._proportional(set_point, measured) + self._derivative(measured)
        if applied is None:
            applied = self._clamped(beside + self._integral)
        gains = self._gains
        # di/dt = kp e / ti + (applied - beside - i) / ti, solved exactly for any step
        is_followed = applied == beside + self._integral
        pull = gains.kp * (set_point - measured)
        if is_followed:
            self._integral = self._bounded(self._integral + pull * seconds / gains.ti_s)
        else:
            end = self._bounded(pull + applied - beside)
            share = -math.expm1(-seconds / gains.ti_s)
            self._integral = self._bounded(self._integral + (end - self._integral) * share)
        return self._clamped(beside + self._integral)

    def pause(self) -> None:
        """Forget the derivative, since the measured value is unknown; hold the integral."""
        self._filtered = self._last = None

    def reset(self) -> None:
        """Forget everything."""
        self.pause()
        self._integral = 0.0

    def _proportional(self, set_point: float, measured: float) -> float:
        return self._gains.kp * (self._gains.weight * set_point - measured)

    def _derivative(self, measured: float) -> float:
        lag = self._gains.td_s / FILTER
        if self._filtered is None or lag <= 0:
            return 0.0
        return -self._gains.kp * self._gains.td_s * (measured - self._filtered) / lag

    def _advance_derivative(self, measured: float, seconds: float) -> None:
        lag = self._gains.td_s / FILTER
        if self._filtered is None or lag <= 0:
            self._filtered = measured
        else:
            self._filtered += (measured - self._filtered) * -math.expm1(-seconds / lag)

    def _bounded(self, integral: float) -> float:
        least, most = self.integral_limits
        return max(least - self._feed_forward, min(most - self._feed_forward, integral))

    def _clamped(self, output: float) -> float:
        return max(self._minimum, min(self._maximum, output))
