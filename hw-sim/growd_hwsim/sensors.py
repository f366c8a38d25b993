"""What the simulated sensors on I2C have in common: a true value, a time and noise."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

from growd_hwsim.chamber import Air
from growd_hwsim.i2c import I2CSlave

if TYPE_CHECKING:
    from collections.abc import Callable

INSTANT = Air(0.0, 0.0, 0.0)
"""The response times of a sensor without a lag."""


class I2CSensor(I2CSlave):
    """A sensor of `truth()`, on the time of `monotonic`, with the noise of `seed`."""

    def __init__(self, truth: Callable[[], Any], monotonic: Callable[[], float], *, seed: int = 0) -> None:
        super().__init__()
        self._truth = truth
        self._monotonic = monotonic
        self._noise = random.Random(f"{self.name} {seed}")  # noqa: S311  noise, not secrets
        self.power_cycle()

    def power_cycle(self) -> None:
        """Lose and regain power."""


class AirCell:
    """The air inside a sensor: it follows the air around it through a first-order lag of `response_s`."""

    def __init__(self, air: Callable[[], Air], monotonic: Callable[[], float], response_s: Air) -> None:
        self.response_s = response_s
        self._around = air
        self._monotonic = monotonic
        self._inside: Air | None = None
        self._at = 0.0

    def air(self) -> Air:
        """The air inside now. The air around counts as constant since the last call."""
        now, around = self._monotonic(), self._around()
        seconds, self._at = now - self._at, now
        inside = around if self._inside is None else self._inside
        parts = zip(inside, around, self.response_s, strict=True)
        self._inside = Air(*(_followed(old, new, seconds, lag) for old, new, lag in parts))
        return self._inside


def _followed(value: float, target: float, seconds: float, lag_s: float) -> float:
    return target if lag_s <= 0 else value + (target - value) * -math.expm1(-seconds / lag_s)


class AirSensor(I2CSensor):
    """A sensor of the air of `air()`, which it follows with time constants of `response_s`."""

    def __init__(
        self, air: Callable[[], Air], monotonic: Callable[[], float], response_s: Air, *, seed: int = 0
    ) -> None:
        self._cell = AirCell(air, monotonic, response_s)
        super().__init__(air, monotonic, seed=seed)

    def follow_at_once(self) -> None:
        """Have no lag."""
        self._cell.response_s = INSTANT

    def _jitter(self, deviation: float, limit: float) -> float:
        """Gaussian noise that is cut off at a limit."""
        return min(max(self._noise.gauss(0.0, deviation), -limit), limit)
