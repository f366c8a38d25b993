"""Where the points of a run are, and which of them rollups stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.store.errors import StoreError
from growd.store.reading.source import Series
from growd.store.rollups.document import RETIRED

if TYPE_CHECKING:
    from growd.store.reading.source import ExportedPoint, SourceReader

WIDTH_S: Final = 300
"""The width of the rollups that stand for retired points."""

_CATEGORIES: Final = ("measured", "desired", "commanded", "quality", "event")


class PointsRetiredError(StoreError):
    """Points were deleted while they were read: reading again gives all."""


async def retired_until(reader: SourceReader) -> float:
    """The UNIX time before which points may have been deleted, so that rollups stand for them."""
    states = [await reader.rollup_state(name) for name in (reader.source.points, reader.source.events)]
    return float(max((state.sealed_until for state in states if state is not None), default=0))


async def check_unmoved(reader: SourceReader, known: float, start: float) -> None:
    """Raise `PointsRetiredError` if points from `start` on were deleted since `known` was the time above."""
    now = await retired_until(reader)
    if now > max(known, start):
        raise PointsRetiredError("old points of the run were deleted while they were read; try again")


async def series_of(reader: SourceReader, environment: str) -> list[Series]:
    """All series of an environment, without their newest points, also those with rollups only."""
    found: list[Series] = []
    for category in _CATEGORIES:
        database = reader.source.database_of(category)
        names = {*await reader.variables(database, environment, category)}
        if reader.source.rollups and category in RETIRED:
            names |= {*await reader.rolled_up(environment, category)}
        found += [Series((environment, category, name), {}, database) for name in sorted(names)]
    return found


def is_rolled_up(point: ExportedPoint, until: float) -> bool:
    """Whether a bucket before `until` stands for a point; readings by hand are kept."""
    return point.timestamp < until and point.kind in RETIRED and not point.is_manual
