"""The widths of buckets, and the grid of buckets that covers a range."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final

_DAY: Final = 86_400
WIDTHS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *chain.from_iterable((_DAY * ten, _DAY * 2 * ten, _DAY * 5 * ten) for ten in (1, 10, 100, 1_000)),
)
"""Seconds. Each is a multiple of the level that it is made of."""

LEVELS: Final = {1: 3_600, 60: 86_400, 3_600: 864_000}
"""The widths of the buckets that points are read into, in seconds, and the length of a chunk of each.

A coarser bucket is made of finer ones, so a view of another width reads no point again if its level is the
same.
"""


@dataclass(frozen=True, slots=True)
class Grid:
    """Buckets of `width` seconds from `start` to `end`, aligned to UNIX time."""

    start: int
    end: int
    width: int

    @classmethod
    def covering(cls, start: float, end: float, points: int) -> Grid:
        """The grid with the smallest width that covers a range with at most `points` (from 2) buckets."""
        for width in WIDTHS:
            first, last = int(start // width), -int(-end // width)
            if last - first <= points:
                break
        return cls(first * width, last * width, width)

    @property
    def level(self) -> int:
        """The width of the buckets to read points into."""
        return max(level for level in LEVELS if self.width % level == 0)
