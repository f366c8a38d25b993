"""The widths of buckets, and the grid of buckets that covers a range."""

from __future__ import annotations

from itertools import chain
from typing import Final

import msgspec

_DAY: Final = 86_400
WIDTHS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *chain.from_iterable((_DAY * ten, _DAY * 2 * ten, _DAY * 5 * ten) for ten in (1, 10, 100, 1_000)),
)
"""Seconds. Each is a multiple of the level that it is made of."""

LEVELS: Final = {1: 3_600, 60: _DAY, 300: _DAY, 3_600: 10 * _DAY, _DAY: 300 * _DAY}
"""The widths of the buckets that are remembered, in seconds, and the length of a chunk of each.

A coarser bucket is made of finer ones, so a view of another width reads nothing again if its level is the
same. From 300 s on they are the widths of the rollups.
"""


class Grid(msgspec.Struct, frozen=True):
    """Buckets of `width` seconds from `start` to `end`, aligned to UNIX time."""

    start: int
    end: int
    width: int

    @classmethod
    def covering(cls, start: float, end: float, points: int, narrowest: int = 1) -> Grid:
        """The grid with the smallest width that covers a range with at most `points` (from 2) buckets.

        `narrowest` is the least width.
        """
        for width in WIDTHS:
            first, last = int(start // width), -int(-end // width)
            if last - first <= points and width >= narrowest:
                break
        return cls(first * width, last * width, width)

    @property
    def level(self) -> int:
        """The width of the buckets to read and remember."""
        return max(level for level in LEVELS if self.width % level == 0)
