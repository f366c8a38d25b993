"""A PID controller as a pure calculation: it has no clock, and each step is told how long it was.

Our own, and not the package `simple-pid`: that one has no filter on the derivative, and against windup it
clamps the integral. It can be told that a hand has taken over (`auto_mode`), and then does as well; but what
an interlock does to a valve it can't be told, nor how much of a dose was really given. `bench/control.py` has
both in one run; `docs/control.md` has the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

FILTER: Final = 5.0
"""The derivative is of the measured value through a first-order lag of `td_s` / FILTER: noise that is faster
is not differentiated (Astrom and Hagglund 2006, Advanced PID Control, 3.3: 2 to 20)."""


@dataclass(frozen=True)
class Gains:
    """The numbers of a PID in the standard form, kp (e + 1/ti integral(e) + td de/dt)."""

    kp: float
    """Output for each unit of error."""
    ti_s: float
    """Integral time in s, above 0."""
    td_s: float = 0.0
    """Derivative time in s, 0 for none."""
    weight: float = 1.0
    """How much of the set point the proportional term sees, 0..1."""


class Pid:
    """A PID in the standard form, with `minimum` <= output <= `maximum`.

    The derivative is of the measured value, so that a new set point gives no kick. The integral stays within
    `integral_minimum` and `maximum`: a counter-actuator that works now and then is no steady demand.

    Against windup the integral follows what the actuator really did, with the integral time as its tracking
    time (back-calculation). That makes the integral a first-order model of the process, fed with what was
    really put in: where `ti_s` is the process's own time constant it ends where the steady output will be,
    however long the output was at its limit or in other hands.
    """

    def __init__(
        self, gains: Gains, minimum: float, maximum: float, *, integral_minimum: float | None = None
    ) -> None:
        self._gains = gains
        self._minimum = minimum
        self._maximum = maximum
        self._integral_minimum = minimum if integral_minimum is None else integral_minimum
        self._integral = 0.0
        self._filtered: float | None = None  # the measured value, through the lag of the derivative
        self._last: tuple[float, float] | None = None  # set point and measured value

    @property
    def gains(self) -> Gains:
        return self._gains

    @gains.setter
    def gains(self, gains: Gains) -> None:
        """Take other gains; the integral takes up what they change, as far as its limits let it."""
        if self._last is not None:
            before = self._proportional(*self._last) + self._derivative(self._last[1])
            self._gains = gains
            after = self._proportional(*self._last) + self._derivative(self._last[1])
            self._integral = self._bounded(self._integral + before - after)
        self._gains = gains

    @property
    def integral(self) -> float:
        """The part of the output that holds when there is no error."""
        return self._integral

    def update(
        self, set_point: float, measured: float, seconds: float, applied: float | None = None
    ) -> float:
        """The output after `seconds` in which the measured value was `measured`.

        `applied` is what the actuator did on average in that time; None where it did as it was told. All
        numbers are finite, `seconds` is not below 0.
        """
        self._advance_derivative(measured, seconds)
        self._last = (set_point, measured)
        beside = self._proportional(set_point, measured) + self._derivative(measured)
        if applied is None:
            applied = self._clamped(beside + self._integral)
        gains = self._gains
        # di/dt = kp e / ti + (applied - beside - i) / ti, solved exactly, so that the step does not matter
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
        """Forget how the measured value moved, for it is not known any more; the integral is held."""
        self._filtered = self._last = None

    def reset(self) -> None:
        """Begin anew."""
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
        return max(self._integral_minimum, min(self._maximum, integral))

    def _clamped(self, output: float) -> float:
        return max(self._minimum, min(self._maximum, output))
