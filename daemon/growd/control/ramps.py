"""Ramps: a level that moves to its target at a steady rate."""

from __future__ import annotations


class Ramp:
    """A level that takes `full_swing_s` seconds from 0 to 1, and proportionally less for smaller steps.

    It starts at 0. `now` is monotonic seconds. With `full_swing_s` 0 it jumps.
    """

    def __init__(self, full_swing_s: float) -> None:
        self._full_swing = full_swing_s
        self._begin = self._target = 0.0
        self._since = 0.0

    def send(self, target: float, now: float) -> None:
        """Start moving to `target`."""
        if target != self._target:
            self._begin, self._since, self._target = self.at(now), now, target

    def jump(self, level: float) -> None:
        """Set the level at once."""
        self._begin = self._target = level

    def at(self, now: float) -> float:
        """The level at `now`, which must not be before the last `send`."""
        way = self._target - self._begin
        if abs(way) * self._full_swing <= now - self._since:
            return self._target
        gone = (now - self._since) / self._full_swing
        return self._begin + (gone if way > 0 else -gone)

    def is_moving(self, now: float) -> bool:
        """Whether it has not reached its target."""
        return self.at(now) != self._target
