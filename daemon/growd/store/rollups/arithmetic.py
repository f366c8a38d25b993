"""Makes rollups: from points, from finer rollups, and from a rollup and points that came late."""

from __future__ import annotations

from math import fsum, inf, isfinite, nan
from typing import TYPE_CHECKING, Final

from growd.store.history.buckets import Buckets
from growd.store.rollups.document import WIDTHS, Rollup, RollupSeries, rollup_id

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGITS: Final = 9  # of a mean, which is more than any sensor has


class _Bucket:
    """What is known of one bucket; the order of the points makes no difference."""

    __slots__ = ("count", "high", "last", "low", "parts")

    def __init__(self) -> None:
        self.count = 0
        self.low, self.high = inf, -inf
        self.parts: list[float] = []  # of the sum
        self.last: tuple[float, float] = (-inf, -inf)  # time and value, of two at one time the greater

    def add(self, time: float, value: float | None) -> None:
        if value is None:
            self.last = max(self.last, (time, -inf))
        else:
            self.merge(value, value, value, 1, (time, value))

    def merge(self, low: float, total: float, high: float, count: int, last: tuple[float, float]) -> None:
        self.count += count
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.parts.append(total)
        self.last = max(self.last, last)

    def mean(self) -> float | None:
        """None without numbers, and if their sum is too large for a number."""
        try:
            mean = fsum(self.parts) / self.count
        except (OverflowError, ValueError, ZeroDivisionError):
            return None
        if not isfinite(mean):
            return None
        return min(max(float(f"{mean:.{_DIGITS}g}"), self.low), self.high)


class RollupBuilder:
    """Builds the document of a series, a width and a span, from points or finer documents in any order."""

    def __init__(self, series: RollupSeries, width: int, start: int) -> None:
        self.series = series
        self.width = width
        self.start = start
        self._buckets: dict[int, _Bucket] = {}

    def add(self, time: float, value: float | None) -> None:
        """Count a point; None is a release. Its time must be in the span."""
        self._bucket(time).add(time, value)

    def merge(self, other: Rollup) -> None:
        """Count the buckets of a document of the same or a finer width that are in the span."""
        end = self.start + WIDTHS[self.width]
        for n, place in enumerate(other.at):
            start = other.start + place * other.width
            if not self.start <= start < end:
                continue
            low, mean, high, last = other.min[n], other.mean[n], other.max[n], other.last[n]
            at = (other.last_at[n], -inf if last is None else last)
            bucket = self._bucket(start)
            if low is None or high is None:
                bucket.last = max(bucket.last, at)
            else:
                total = inf if mean is None else mean * other.count[n]
                bucket.merge(low, total, high, other.count[n], at)

    def rollup(self, *, is_sealed: bool = False, rev: str = "") -> Rollup | None:
        """The document; None without points."""
        if not self._buckets:
            return None
        at = sorted(self._buckets)
        buckets = [self._buckets[place] for place in at]
        return Rollup(
            id=rollup_id(self.series, self.width, self.start),
            rev=rev,
            environment=self.series.environment,
            category=self.series.category,
            variable=self.series.variable,
            width=self.width,
            start=self.start,
            at=at,
            min=[bucket.low if bucket.count else None for bucket in buckets],
            mean=[bucket.mean() for bucket in buckets],
            max=[bucket.high if bucket.count else None for bucket in buckets],
            last=[value if isfinite(value := bucket.last[1]) else None for bucket in buckets],
            last_at=[bucket.last[0] for bucket in buckets],
            count=[bucket.count for bucket in buckets],
            is_sealed=is_sealed,
        )

    def _bucket(self, time: float) -> _Bucket:
        place = int((time - self.start) // self.width)
        found = self._buckets.get(place)
        if found is None:
            found = self._buckets[place] = _Bucket()
        return found


def coarser(series: RollupSeries, width: int, start: int, finer: Iterable[Rollup]) -> Rollup | None:
    """The document of a width, made of those of the next finer width in its span; None without any."""
    builder = RollupBuilder(series, width, start)
    for one in finer:
        builder.merge(one)
    return builder.rollup()


def with_late_points(
    series: RollupSeries, start: int, sealed: Rollup | None, points: Iterable[tuple[float, float | None]]
) -> Rollup | None:
    """The sealed document of an hour with points added; None without document and points."""
    builder = RollupBuilder(series, min(WIDTHS), start)
    if sealed is not None:
        builder.merge(sealed)
    for time, value in points:
        builder.add(time, value)
    return builder.rollup(is_sealed=True, rev=sealed.rev if sealed is not None else "")


def as_buckets(rollups: Iterable[Rollup], width: int) -> Buckets:
    """The buckets of documents of one series and this width, which come in the order of time."""
    buckets = Buckets(width)
    for rollup in rollups:
        buckets.start.extend([rollup.start + place * width for place in rollup.at])
        buckets.count.extend(rollup.count)
        buckets.low.extend(_numbers(rollup.min, inf))
        buckets.high.extend(_numbers(rollup.max, -inf))
        totals = zip(_numbers(rollup.mean, inf), rollup.count, strict=True)
        buckets.total.extend([mean * count if count else 0.0 for mean, count in totals])
        buckets.last.extend(_numbers(rollup.last, nan))
    return buckets


def _numbers(column: list[float | None], otherwise: float) -> list[float]:
    """A column with a number in the place of None."""
    return [otherwise if one is None else one for one in column]
