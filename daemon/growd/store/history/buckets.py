"""Buckets: what is left of the points of a series in equal spans of time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from math import inf, isfinite, isnan, nan
from typing import Any


class Buckets:
    """The buckets of a series that have points, in columns, in the order of time.

    `count`, `low`, `high` and `total` are those of the numbers; a release (null) is no number. `last` is the
    last value, NaN for a release.
    """

    __slots__ = ("count", "high", "last", "low", "start", "total", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.start = array("q")  # UNIX seconds
        self.count = array("Q")
        self.low, self.high, self.total, self.last = array("d"), array("d"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self.start)

    def add(self, time: float, value: float | None) -> None:
        """Count a point, not earlier than those before."""
        self._begin(time)
        if value is None:
            self.last[-1] = nan
            return
        self.count[-1] += 1
        self.total[-1] += value
        self.last[-1] = value
        if value < self.low[-1]:  # noqa: PLR1730  in a loop over all points
            self.low[-1] = value
        if value > self.high[-1]:  # noqa: PLR1730
            self.high[-1] = value

    def merge(self, finer: Buckets, start: int, end: int) -> None:
        """Count the buckets of another, from `start` to before `end`; its width divides this one."""
        at, stop = bisect_left(finer.start, start), bisect_left(finer.start, end)
        if finer.width == self.width and at < stop and (not self.start or self.start[-1] < finer.start[at]):
            self.extend(finer.part(start, end))
            return
        while at < stop:
            self._begin(finer.start[at])
            after = bisect_left(finer.start, self.start[-1] + self.width, at, stop)
            self.count[-1] += sum(finer.count[at:after])
            self.total[-1] += sum(finer.total[at:after])
            self.last[-1] = finer.last[after - 1]
            self.low[-1] = min(self.low[-1], *finer.low[at:after])
            self.high[-1] = max(self.high[-1], *finer.high[at:after])
            at = after

    def part(self, start: int, end: int) -> Buckets:
        """A copy of the buckets from `start` to before `end`."""
        part = slice(bisect_left(self.start, start), bisect_left(self.start, end))
        copy = Buckets(self.width)
        for mine, other in zip(copy._columns(), self._columns(), strict=True):
            mine.extend(other[part])
        return copy

    def extend(self, later: Buckets) -> None:
        """Append buckets of the same width that come later."""
        for mine, other in zip(self._columns(), later._columns(), strict=True):
            mine.extend(other)

    def cut(self, time: int) -> None:
        """Drop the buckets from `time` on."""
        place = bisect_left(self.start, time)
        for column in self._columns():
            del column[place:]

    def columns(self) -> dict[str, list[Any]]:
        """The columns of an answer: UNIX seconds, values or None, numbers of values."""
        counted = self.count
        return {
            "time": self.start.tolist(),
            "min": [low if count else None for low, count in zip(self.low, counted, strict=True)],
            "mean": [
                _short(total / count) if count else None
                for total, count in zip(self.total, counted, strict=True)
            ],
            "max": [high if count else None for high, count in zip(self.high, counted, strict=True)],
            "last": [None if isnan(last) else last for last in self.last],
            "count": counted.tolist(),
        }

    def _begin(self, time: float) -> None:
        """Append an empty bucket unless the last one is that of `time`."""
        start = int(time // self.width) * self.width
        if self.start and self.start[-1] == start:
            return
        self.start.append(start)
        self.count.append(0)
        self.low.append(inf)
        self.high.append(-inf)
        self.total.append(0.0)
        self.last.append(nan)

    def _columns(self) -> tuple[array[Any], ...]:
        return self.start, self.count, self.low, self.high, self.total, self.last


def as_number(value: Any) -> float | None:
    """A stored value as a number, true and false as 1 and 0, None for a release; NaN for anything else."""
    if value is None:
        return None
    if not isinstance(value, (int, float)):
        return nan
    try:
        number = float(value)
    except OverflowError:
        return nan
    return number if isfinite(number) else nan


def _short(mean: float) -> float | None:
    """Nine digits, which is more than any sensor has; None if the sum was too large for a number."""
    return float(f"{mean:.9g}") if isfinite(mean) else None
