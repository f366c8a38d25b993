"""Which series an environment has."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from growd.store.history.query import CATEGORIES
from growd.store.rollups.document import RETIRED

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from growd.store.reading.source import SourceReader

MARKS: Final = {"recipe_start": "started", "recipe_end": "ended"}
"""Desired points with the id of a recipe, and what happened to it."""

_STORED: Final = (*CATEGORIES, "event", "quality")


class KnownSeries(msgspec.Struct, frozen=True):
    """The series of an environment with points, looked up at a monotonic time, and those with rollups."""

    at: float
    by_category: dict[str, list[str]]
    retired_until: int
    retired: dict[str, list[str]]

    def variables(self) -> set[str]:
        """The variables that have values."""
        tables = (self.by_category, self.retired)
        return {
            name for table in tables for each in CATEGORIES for name in table.get(each, ())
        } - MARKS.keys()

    def of(self, variables: Sequence[str]) -> list[tuple[str, str]]:
        """Category and name of each series of these variables."""
        pairs = [(category, variable) for variable in variables for category in CATEGORIES]
        return [(category, variable) for category, variable in pairs if self.has(category, variable)]

    def has(self, category: str, variable: str) -> bool:
        """Whether the database has points of this series, or has had them."""
        return variable in self.by_category[category] or variable in self.retired.get(category, ())


async def stored_series(reader: SourceReader, environment: str) -> KnownSeries:
    """Look up the series of an environment with points. Raises `StoreError`."""
    return KnownSeries(time.monotonic(), await _stored(reader, environment), 0, {})


async def with_retired(
    reader: SourceReader, environment: str, known: KnownSeries, retired_until: int
) -> KnownSeries:
    """Look up the series whose points before `retired_until` are gone, too. Raises `StoreError`."""
    retired = await _retired(reader, environment, known.by_category) if retired_until else {}
    return KnownSeries(known.at, known.by_category, retired_until, retired)


async def together(work: Sequence[Coroutine[None, None, Any]]) -> list[Any]:
    """The results, in order. The first error cancels the rest."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one, name="history") for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _stored(reader: SourceReader, environment: str) -> dict[str, list[str]]:
    """The variables with points, by category."""
    source = reader.source
    if not source.lists_series:
        asked = [reader.variables(source.database_of(one), environment, one) for one in _STORED]
        return dict(zip(_STORED, await together(asked), strict=True))
    lists = await together([reader.series(name) for name in (source.points, source.events)])
    found: dict[str, list[str]] = {category: [] for category in _STORED}
    for series in (one for each in lists for one in each):
        place, category, variable = series.key
        if place == environment and category in found and series.database == source.database_of(category):
            found[category].append(variable)
    return found


async def _retired(
    reader: SourceReader, environment: str, by_category: dict[str, list[str]]
) -> dict[str, list[str]]:
    """The series with rollups whose points are all gone: most often none, and one request tells."""
    gaps = []
    for category in RETIRED:
        names = sorted(by_category[category], key=lambda name: f"{quote(name, safe='')}/")
        gaps += [(category, *pair) for pair in zip(["", *names], [*names, ""], strict=True)]
    found = await together([reader.rolled_up(environment, *gap) for gap in gaps])
    retired: dict[str, list[str]] = {category: [] for category in RETIRED}
    for (category, *_), names in zip(gaps, found, strict=True):
        retired[category] += names
    return retired
