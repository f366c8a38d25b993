"""Which points of a series to drop first if there is no room for all: those between the extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from growd.store.points import DataPoint

WIDTHS: Final = (60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Seconds over which a series is thinned, one after the other as room gets scarcer."""


def is_expendable(point: DataPoint) -> bool:
    """Whether it is a number that was measured or commanded. Set points, events and recipes stay."""
    is_series = not point.is_desired and point.category in {"", "commanded"}
    return is_series and not point.is_manual and isinstance(point.value, (int, float))


def thinned(points: Sequence[DataPoint], width: float) -> set[int]:
    """The indexes of the points that can go if each series keeps four in `width` seconds.

    The four are the first, the last, the lowest and the highest. Points that are not expendable stay.
    """
    spans: dict[tuple[str, str, str, int], list[int]] = {}
    for index, point in enumerate(points):
        if is_expendable(point):
            span = (point.environment, point.category, point.variable, int(point.timestamp // width))
            spans.setdefault(span, []).append(index)
    return {index for span in spans.values() for index in _between(points, span)}


class ThinningProgress:
    """How far the rows of growd.sqlite3 are thinned: row by row, then again over a longer time.

    `width` is None when all are thinned over the longest time; these rows are not read again.
    """

    def __init__(self) -> None:
        self.place = 0  # the number of the last row that was read
        self.width: float | None = WIDTHS[0]
        self._done = 0
        self._newest = 0

    def advance(self, last: int) -> None:
        """The rows up to `last` were read; 0: there were no more."""
        if last:
            self.place = last
            self._newest = max(self._newest, last)
            return
        self.place = self._done
        self.width = next((width for width in WIDTHS if width > (self.width or 0)), None)

    def start_over(self) -> None:
        """Some rows were dropped: thin those that came since, before more are dropped."""
        self._done = self.place = self._newest
        self.width = WIDTHS[0]


def _between(points: Sequence[DataPoint], span: Sequence[int]) -> Iterable[int]:
    def value(index: int) -> Any:  # a number, and not as a float: an integer may be too large for one
        return points[index].value

    kept = {span[0], span[-1], min(span, key=value), max(span, key=value)}
    return (index for index in span if index not in kept)
