"""Makes an answer of the history from the buckets and events of a database."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import InvalidValueError
from growd.runtime.text import most_like
from growd.store.history.buckets import Buckets
from growd.store.history.cache import SeriesKey
from growd.store.history.coverage import FINEST
from growd.store.history.events import breaks_of, events_of
from growd.store.history.grid import Grid
from growd.store.history.known_series import KnownSeries, stored_series, together, with_retired
from growd.store.history.query import CATEGORIES, check_size
from growd.store.history.series_reader import SeriesReader
from growd.variables import VARIABLES, similar_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from growd.store.history.coverage import Coverage
    from growd.store.history.query import HistoryQuery
    from growd.store.history.remembered import RememberedBuckets
    from growd.store.reading.source import SourceReader

SERIES_S: Final = 10.0
"""For how many real seconds the list of the series of an environment is used again."""

_AT_ONCE: Final = 12  # series of one request
_NO_BREAKS: Final[dict[str, list[float]]] = {"breaks": [], "resumes": []}
_EMPTY: Final = {"before": None, **Buckets(1).columns()}


class HistoryAnswers:
    """Reads answers; the arguments are those of `History`."""

    def __init__(
        self,
        buckets: RememberedBuckets,
        known: Callable[[str], Collection[str]],
        holds_s: Callable[[str], float],
        now: Callable[[], float],
    ) -> None:
        self._buckets = buckets
        self._known = known
        self._holds_s = holds_s
        self._now = now
        self._series: dict[str, KnownSeries] = {}

    async def answer(self, query: HistoryQuery, reader: SourceReader) -> dict[str, Any]:
        """The answer of the API; series are JSON already. Raises `StoreError` and `BusError`."""
        databases = (reader.source.points, reader.source.events)
        while True:
            follow = [self._buckets.follow(reader, name) for name in databases]
            stored, *covered = await together([self._find_stored(reader, query), *follow])
            coverage = dict(zip(databases, covered, strict=True))
            answer = await self._answer_from(query, reader, coverage, stored)
            states = await together([reader.rollup_state(name) for name in databases])
            sealed = [0 if state is None else state.sealed_until for state in states]
            if all(now <= one.sealed_until for now, one in zip(sealed, covered, strict=True)):
                return answer
            # the retirement of a day began meanwhile: points may have been deleted before they were read

    async def _answer_from(
        self,
        query: HistoryQuery,
        reader: SourceReader,
        coverage: Mapping[str, Coverage],
        known: KnownSeries,
    ) -> dict[str, Any]:
        retired_until = max(one.sealed_until for one in coverage.values())
        if known.retired_until != retired_until:
            known = await with_retired(reader, query.environment, known, retired_until)
        self._series[query.environment] = known
        self._check_names(query, known)
        narrowest = FINEST if query.start < retired_until else 1
        grid = Grid.covering(query.start, query.end, query.points, narrowest)
        variables = query.variables or tuple(sorted(known.variables()))
        variables = variables if query.with_series else ()
        check_size(query, len(variables))
        broken = [variable for variable in variables if known.has("quality", variable)]
        wanted = [
            SeriesKey(reader.source.database_of(category), query.environment, category, variable)
            for category, variable in known.of(variables)
        ]
        (events, is_truncated), breaks, *series = await together(
            [
                self._events(reader, query, known, grid),
                breaks_of(reader, query.environment, broken, grid),
                *self._all_series(reader, wanted, grid, coverage),
            ]
        )
        by_name = {(key.variable, key.category): columns for key, columns in series}
        return {
            "environment": query.environment,
            "start": grid.start,
            "end": grid.end,
            "bucket_s": grid.width,
            "retired_until": retired_until,
            "series": [
                {
                    "variable": variable,
                    "unit": VARIABLES[variable].unit if variable in VARIABLES else "",
                    "holds_s": self._holds_s(variable),
                    **breaks.get(variable, _NO_BREAKS),
                    **{category: by_name.get((variable, category), _EMPTY) for category in CATEGORIES},
                }
                for variable in variables
            ],
            "events": events,
            "events_truncated": is_truncated,
        }

    async def _events(
        self, reader: SourceReader, query: HistoryQuery, known: KnownSeries, grid: Grid
    ) -> tuple[list[dict[str, Any]], bool]:
        if not query.with_events:
            return [], False
        return await events_of(reader, query.environment, known, grid)

    def _all_series(
        self,
        reader: SourceReader,
        wanted: Sequence[SeriesKey],
        grid: Grid,
        coverage: Mapping[str, Coverage],
    ) -> list[Coroutine[None, None, tuple[SeriesKey, msgspec.Raw]]]:
        """Readings of series, as JSON, some of them at a time."""
        places, now = asyncio.Semaphore(_AT_ONCE), self._now()

        async def read(key: SeriesKey) -> tuple[SeriesKey, msgspec.Raw]:
            async with places:
                covered = coverage[key.database]
                before, buckets = await together(
                    [
                        SeriesReader(reader, key, covered).before(grid.start),
                        self._buckets.read(reader, key, grid, covered, now),
                    ]
                )
                columns = msgspec.json.encode({"before": before, **buckets.columns()})
                await asyncio.sleep(0)  # all series at once would hold up other tasks
            return key, msgspec.Raw(columns)

        return [read(key) for key in wanted]

    async def _find_stored(self, reader: SourceReader, query: HistoryQuery) -> KnownSeries:
        """The series of an environment, at most `SERIES_S` old; looked up again for an unknown name."""
        known = self._series.get(query.environment)
        names = {*query.variables} - {*VARIABLES, *self._known(query.environment)}
        is_old = known is None or time.monotonic() - known.at >= SERIES_S
        if known is None or is_old or not names <= known.variables():
            return await stored_series(reader, query.environment)
        return known

    def _check_names(self, query: HistoryQuery, known: KnownSeries) -> None:
        stored = known.variables()
        names = {*stored, *self._known(query.environment), *VARIABLES}
        for name in query.variables:
            if name not in names:
                alike = similar_variable(name) or next(iter(most_like(name, names)), "")
                there = ", ".join(sorted(stored)) or "none yet"
                expected = f"a variable such as {alike}" if alike else f"a variable with points: {there}"
                raise InvalidValueError("variable", expected, name)
