"""What daylight has been on the days before, by the time of day."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from datetime import date, tzinfo

BINS: Final = 48
BIN_S: Final = 86_400.0 / BINS
DAYS: Final = 10
"""Days that are remembered."""

SUNNIER: Final = 1.05
"""How much brighter than the brightest remembered daylight a day may be: days become longer in spring."""

_FAINT: Final = 1.0  # umol/m2/s: no ratio of such light
_BRIGHTEST_RATIO: Final = 2.0


class DaylightProfile:
    """The mean daylight (PPFD) of each half-hour of the last `DAYS` days, and of today so far, in `zone`."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._days: list[list[float | None]] = []
        self._today: list[tuple[float, float]] = [(0.0, 0.0)] * BINS  # photons, seconds
        self._date: date | None = None
        self._compare()

    def add(self, ppfd: float, seconds: float, wall: float) -> bool:
        """Add daylight of seconds that end at `wall` (UNIX seconds). Returns whether a day has ended."""
        local = datetime.fromtimestamp(wall, self._zone)
        is_new = self._date is not None and local.date() != self._date
        if is_new:
            self._end_day()
        self._date = local.date()
        number = bin_at(local.hour * 3_600 + local.minute * 60 + local.second)
        photons, known = self._today[number]
        self._today[number] = photons + ppfd * seconds, known + seconds
        return is_new

    def brightest(self) -> list[float]:
        """The most daylight to reckon with in each half-hour of a day."""
        return [SUNNIER * max(found, default=0.0) for found in self._before]

    def expected(self) -> list[float]:
        """The daylight to expect: the mean of the days before, as bright as today is beside it so far."""
        ratio = self._ratio()
        return [ratio * mean for mean in self._means]

    def state(self) -> list[list[float | None]]:
        """The days to save."""
        return self._days

    def restore(self, saved: Any) -> None:
        """Continue from saved days. Raises TypeError or ValueError if they are invalid."""
        days = [[None if each is None else float(each) for each in day] for day in saved]
        if any(len(day) != BINS for day in days):
            raise ValueError("a day has another number of half-hours")
        self._days = days[-DAYS:]
        self._compare()

    def _compare(self) -> None:
        """Sort the days by half-hours."""
        self._before = [
            [each for each in times if each is not None] for times in zip(*self._days, strict=True)
        ]
        self._before = self._before or [[]] * BINS
        self._means = [sum(found) / len(found) if found else 0.0 for found in self._before]

    def _ratio(self) -> float:
        """The daylight of today so far, as a share of the mean of the days before at these times."""
        bins = list(zip(self._today, self._before, self._means, strict=True))
        mean = sum(usual * known for (_, known), before, usual in bins if before)
        today = sum(photons for (photons, _), before, _ in bins if before)
        known_s = sum(known for _, known in self._today)
        return min(_BRIGHTEST_RATIO, today / mean) if mean > _FAINT * known_s else 1.0

    def _end_day(self) -> None:
        means = [round(photons / known, 1) if known else None for photons, known in self._today]
        self._days = [*self._days, means][-DAYS:]
        self._today = [(0.0, 0.0)] * BINS
        self._compare()


def bin_at(time_of_day: float) -> int:
    """The half-hour of a time of day (seconds)."""
    return min(BINS - 1, int(time_of_day / BIN_S))
