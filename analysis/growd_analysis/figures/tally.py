"""Statistics of values that hold for a time, each weighted with that time."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from growd_analysis.figures.figures import Deviation, Statistics, Tolerance


class Held(NamedTuple):
    """A value that held from `begin` to `end` (UNIX seconds), between `low` and `high`.

    `error` is its distance from the set point, None without one.
    """

    begin: float
    end: float
    value: float
    low: float
    high: float
    error: float | None
    is_within: bool


class Tally:
    """Sums of held values."""

    __slots__ = ("compared_s", "error_s", "high", "low", "seconds", "total", "within_s")

    def __init__(self) -> None:
        self.seconds = self.total = 0.0
        self.low, self.high = inf, -inf
        self.compared_s = self.error_s = self.within_s = 0.0

    def add(self, held: Held) -> None:
        """Count a value for the time that it held."""
        seconds = held.end - held.begin
        self.seconds += seconds
        self.total += seconds * held.value
        self.low = min(self.low, held.low)
        self.high = max(self.high, held.high)
        if held.error is not None:
            self.compared_s += seconds
            self.error_s += seconds * abs(held.error)
            if held.is_within:
                self.within_s += seconds

    def statistics(self) -> Statistics:
        """Minimum, mean and maximum; None without data."""
        if not self.seconds:
            return Statistics(0.0, None, None, None)
        return Statistics(round(self.seconds, 3), self.low, short(self.total / self.seconds), self.high)

    @property
    def mean_absolute(self) -> float | None:
        """The mean distance from the set point, None if there was none."""
        return short(self.error_s / self.compared_s) if self.compared_s else None

    @property
    def within(self) -> float | None:
        """The share of the compared time within the tolerance."""
        return short(self.within_s / self.compared_s) if self.compared_s else None


class Excursions:
    """The longest time without a pause in which a value was outside its tolerance."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.longest_at: float | None = None
        self._begin = self._end = -inf

    def add(self, held: Held) -> None:
        """Count a value, in the order of time."""
        if held.error is None or held.is_within:
            self._end = -inf
            return
        if held.begin > self._end:
            self._begin = held.begin
        self._end = held.end
        if self._end - self._begin > self.longest_s:
            self.longest_s, self.longest_at = self._end - self._begin, self._begin

    def deviation(self, whole: Tally, tolerance: Tolerance) -> Deviation | None:
        """Together with the sums of the same values; None if nothing was compared."""
        if not whole.compared_s:
            return None
        return Deviation(
            round(whole.compared_s, 3),
            whole.mean_absolute,
            tolerance,
            whole.within,
            round(self.longest_s, 3),
            self.longest_at,
        )


def short(number: float) -> float:
    """Nine digits, which is more than any sensor has."""
    return float(f"{number:.9g}")
