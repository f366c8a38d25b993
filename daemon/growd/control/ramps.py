"""Ramps: an output that moves to where it is sent at a steady rate."""

from __future__ import annotations


class Ramp:
    """A level that takes `full_swing_s` seconds from 0 to 1, and its share of them for less.

    Where it is at a time (`now`, monotonic seconds) depends on that time alone, however often it is asked.
    With `full_swing_s` 0 it is where it is sent at once.
    """

    def __init__(self, full_swing_s: float, level: float = 0.0) -> None:
        self._full_swing = full_swing_s
        self._begin = self._target = level
        self._since = 0.0

    def send(self, target: float, now: float) -> None:
        """Move to `target` from where it is now."""
        if target != self._target:
            self._begin, self._since, self._target = self.at(now), now, target

    def jump(self, level: float) -> None:
        """Be at `level` from now on."""
        self._begin = self._target = level

    def at(self, now: float) -> float:
        """The level at a time not before the last `send`."""
        way = self._target - self._begin
        if abs(way) * self._full_swing <= now - self._since:
            return self._target
        gone = (now - self._since) / self._full_swing
        return self._begin + (gone if way > 0 else -gone)

    def is_moving(self, now: float) -> bool:
        """Whether it has not arrived at that time."""
        return self.at(now) != self._target
