"""Names of the cloud's databases, and the month of a point.

Points and events have a database for each month (UTC) in which they were made: `points_2026_11`. A point with
a time before 2015 or after next month is in `points_other`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

POINTS: Final = "points"
EVENTS: Final = "events"
SERIES: Final = (POINTS, EVENTS)
OTHER: Final = "other"
FIRST_YEAR: Final = 2015
NO_DATABASE: Final = "no such database or page"
"""The answer of a receiver about other databases."""
NOT_OF_A_DEVICE: Final = "is not the account of a device"
"""The end of the answer of a receiver about its databases to other accounts."""

_DAY_MS: Final = 86_400_000
_LAST_DAY: Final = 2_932_896  # 9999-12-31, since 1970
_PREFIX: Final = re.compile(r"(?:[a-z][a-z0-9_]{0,30})?")  # of CouchDB's names of databases


class Month(NamedTuple):
    """A month of the calendar, UTC. Months compare by time."""

    year: int
    month: int

    def __str__(self) -> str:
        return f"{self.year:04d}_{self.month:02d}"

    @property
    def next(self) -> Month:
        """The month after it."""
        return Month(self.year + 1, 1) if self.month == 12 else Month(self.year, self.month + 1)  # noqa: PLR2004

    @classmethod
    def at(cls, seconds: float) -> Month:
        """The month of a UNIX time."""
        return _month_of_day(int(seconds * 1000) // _DAY_MS)


@dataclass(frozen=True, slots=True)
class CloudNames:
    """The names of the databases, all of which begin with `prefix`."""

    prefix: str = ""

    @property
    def devices(self) -> str:
        """Documents of devices and invitations."""
        return f"{self.prefix}devices"

    @property
    def recipes(self) -> str:
        """Recipes for the devices."""
        return f"{self.prefix}recipes"

    @property
    def checkpoints(self) -> str:
        """The checkpoints of the replications of devices. If it is deleted, devices send everything again."""
        return f"{self.prefix}checkpoints"

    def of_month(self, series: str, month: Month) -> str:
        """The database of `POINTS` or `EVENTS` of a month."""
        return f"{self.prefix}{series}_{month}"

    def other(self, series: str) -> str:
        """The database of points without a plausible time."""
        return f"{self.prefix}{series}_{OTHER}"

    def of_document(self, series: str, document_id: str, now: float) -> str:
        """The database of the document `<device>:<milliseconds>-<random>`, at the UNIX time `now`."""
        month = _month_of_day(int(document_id[13:26]) // _DAY_MS)
        if month.year >= FIRST_YEAR and month <= Month.at(now).next:
            return self.of_month(series, month)
        return self.other(series)

    def series(self, now: float) -> list[str]:
        """The databases of points and events that there should be at the UNIX time `now`."""
        month = Month.at(now)
        return [
            *(self.of_month(series, each) for series in SERIES for each in (month, month.next)),
            *(self.other(series) for series in SERIES),
        ]


def is_prefix(text: str) -> bool:
    """Whether names of databases may begin so."""
    return _PREFIX.fullmatch(text) is not None


@lru_cache(256)
def _month_of_day(day: int) -> Month:
    """The month of a day since 1970; those outside the calendar count as its first or last."""
    date = datetime.fromtimestamp(min(max(day, 0), _LAST_DAY) * 86_400, UTC)
    return Month(date.year, date.month)
