"""Which points of a season can go first when there is no room for all: those between, not the extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from growd.store.points import DataPoint

WIDTHS: Final = (60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Seconds over which a series may be thinned, one after the other as room gets scarcer."""


def is_expendable(point: DataPoint) -> bool:
    """A number that was measured or commanded. Set points, events and recipes are all kept."""
    is_series = not point.is_desired and point.category in {"", "commanded"}
    return is_series and not point.is_manual and isinstance(point.value, (int, float))


def thinned(points: Sequence[DataPoint], width: float) -> set[int]:
    """The indexes of the points that can go, when each series keeps four in `width` seconds.

    Those four are the first, the last, the lowest and the highest. What is not expendable stays.
    """
    spans: dict[tuple[str, str, str, int], list[int]] = {}
    for index, point in enumerate(points):
        if is_expendable(point):
            span = (point.environment, point.category, point.variable, int(point.timestamp // width))
            spans.setdefault(span, []).append(index)
    return {index for span in spans.values() for index in _between(points, span)}


def _between(points: Sequence[DataPoint], span: Sequence[int]) -> Iterable[int]:
    def value(index: int) -> Any:  # a number, and not as a float: an integer may be too large for one
        return points[index].value

    kept = {span[0], span[-1], min(span, key=value), max(span, key=value)}
    return (index for index in span if index not in kept)
