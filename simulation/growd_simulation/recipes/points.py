"""What a simulated run keeps in memory: points and their reader, the record, and states of components."""

from __future__ import annotations

import heapq
import json
from array import array
from bisect import bisect_left, bisect_right, insort_right
from itertools import islice
from math import inf
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from yarl import URL

from growd.store.bootstrap import Databases
from growd.store.reading.pages import MOST_ROWS, RowPosition
from growd.store.reading.source import Changes, PointSource, Series, SourceReader, exported_point

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from growd.store.points import DataPoint
    from growd.store.reading.source import ExportedPoint, Span

    Key = tuple[str, str, str]

    from growd.store.points import PointMaker

_NAMES: Final = Databases()
SOURCE: Final = PointSource(URL("memory:"), _NAMES.points, _NAMES.events, "svc", lists_series=True)
"""Where the points are, for what reads them with a `MemoryReader`."""

_time: Final = attrgetter("timestamp")


class PointsInMemory:
    """Keeps the points of a `Recorder`: 16 bytes for one with a number, and nothing twice."""

    def __init__(self) -> None:
        self._series: dict[Key, _Series] = {}

    def add(self, point: DataPoint) -> None:
        """Keep a point."""
        category = point.category or ("desired" if point.is_desired else "measured")
        key = point.environment, category, point.variable
        if key not in self._series:
            kind: dict[str, str | bool] = {"is_desired": point.is_desired}
            self._series[key] = _Series(key, {"category": category} if point.category else kind)
        self._series[key].add(point)

    async def flush(self) -> None:
        """Nothing waits."""

    def of(self, database: str) -> list[_Series]:
        """The series of a database, in the order of their keys."""
        found = [one for _, one in sorted(self._series.items())]
        return [one for one in found if one.database == database]

    def find(self, key: Key) -> _Series | None:
        """The series of a key, None if it has no points."""
        return self._series.get(key)


class _Series:
    """The points of one series in the order of their times: numbers in columns, and all others."""

    def __init__(self, key: Key, kind: dict[str, str | bool]) -> None:
        self.key = key
        self.database = SOURCE.events if "category" in kind else SOURCE.points
        self._times, self._values = array("d"), array("d")
        self._others: list[DataPoint] = []
        environment, _, variable = key
        members: dict[str, str | bool] = {"environment": environment, "variable": variable, **kind}
        self._members = json.dumps({**members, "is_manual": False})[:-1]

    def add(self, point: DataPoint) -> None:
        """Keep a point, most often the newest one."""
        value, at, times = point.value, point.timestamp, self._times
        is_plain = not (point.is_manual or point.by or point.details or isinstance(value, bool))
        if isinstance(value, float | int) and is_plain:
            place = len(times) if not times or times[-1] <= at else bisect_right(times, at)
            times.insert(place, at)
            self._values.insert(place, float(value))
        else:
            insort_right(self._others, point, key=_time)

    def rows(
        self, prefix: tuple[str, ...], start: float | None, end: float | None, most: int | None = None
    ) -> Iterator[tuple[float, bytes]]:
        """Times and rows from `start` to `end` of a view whose keys are `prefix` and the time.

        With `most` at least so many of the last ones, if there are.
        """
        start, end = -inf if start is None else start, inf if end is None else end
        first, after = bisect_left(self._times, start), bisect_right(self._times, end)
        begin = bisect_left(self._others, start, key=_time)
        until = bisect_right(self._others, end, key=_time)
        if most is not None:
            first, begin = max(first, after - most), max(begin, until - most)
        key = json.dumps(prefix)[:-1]
        places = range(first, after)  # no copy: there may be millions
        numbers = zip(
            map(self._times.__getitem__, places), map(self._values.__getitem__, places), strict=True
        )
        lines = (
            (
                at,
                f'{{"id":"","key":{key},{at!r}],"value":{self._members},"timestamp":{at!r},"value":{value!r}}}}}',
            )
            for at, value in numbers
        )
        others = ((point.timestamp, _row(prefix, point)) for point in self._others[begin:until])
        for at, row in heapq.merge(lines, others, key=itemgetter(0)):
            yield at, row.encode()


class MemoryReader(SourceReader):
    """Reads points in memory as a `SourceReader` reads those of a database, whose rows have no ids."""

    def __init__(self, points: PointsInMemory) -> None:
        self._points = points
        self.source = SOURCE

    async def series(self, database: str) -> list[Series]:
        found = []
        for one in self._points.of(database):
            *_, (_, newest) = one.rows(one.key, None, None, 1)
            found.append(Series(one.key, msgspec.json.decode(newest)["value"], database))
        return found

    async def variables(self, database: str, environment: str, category: str) -> list[str]:
        keys = [one.key for one in self._points.of(database)]
        return [variable for *place, variable in keys if place == [environment, category]]

    async def newest(
        self, series: Series, start: float | None, end: float, limit: int
    ) -> list[ExportedPoint]:
        one = self._points.find(series.key)
        rows = [] if one is None else [*one.rows(one.key, start, end, limit)]
        return [exported_point(msgspec.Raw(row)) for _, row in reversed(rows[-limit:])]

    async def changes(self, database: str, since: str | None, limit: int) -> Changes:  # noqa: ARG002  as there
        return Changes([], "0")

    async def pages(
        self,
        span: Span,
        start: float | None,
        end: float | None,
        after: RowPosition | None = None,  # noqa: ARG002  no reading breaks off
        first_rows: int | None = None,  # noqa: ARG002  nobody waits for the first row
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], RowPosition]]:
        found = [one for one in self._points.of(span.database) if one.key[: len(span.prefix)] == span.prefix]
        rows = heapq.merge(*(one.rows(span.prefix, start, end) for one in found), key=itemgetter(0))
        while page := [*islice(rows, MOST_ROWS)]:
            yield (
                [msgspec.Raw(row) for _, row in page],
                RowPosition(json.dumps([*span.prefix, page[-1][0]]), ""),
            )


def _row(prefix: tuple[str, ...], point: DataPoint) -> str:
    return json.dumps({"id": "", "key": [*prefix, point.timestamp], "value": point.document()})


class ShortMemory:
    """A `Memory` of interlocks, counters and sums for one simulation."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}

    async def state(self, key: str, default: Any = None) -> Any:
        """The saved state, or `default`."""
        return self._states.get(key, default)

    async def save_state(self, key: str, value: Any) -> None:
        """Save the state."""
        self._states[key] = value


class OneRun:
    """The `Journal` of one run, whose present record is `document`."""

    def __init__(self, points: PointsInMemory, maker: PointMaker, environment: str) -> None:
        self.document: dict[str, Any] = {}
        self._points = points
        self._maker = maker
        self._environment = environment

    def new_run_id(self, time: float) -> str:
        """The id of the run."""
        return self._maker.new_id(time)

    async def load(self) -> None:
        """There is no earlier run."""

    async def commit(
        self,
        run: dict[str, Any] | None,  # noqa: ARG002  nothing resumes it
        variable: str,
        value: str,
        time: float,
        document: dict[str, Any],
    ) -> None:
        """Keep the point and the record."""
        self._points.add(self._maker.make(self._environment, variable, value, time, is_desired=True))
        self.document = document

    async def revise(self, run: dict[str, Any], document: dict[str, Any]) -> None:  # noqa: ARG002  as above
        """Keep the record."""
        self.document = document

    async def load_order(self) -> None:
        """No order waits."""

    async def save_order(self, order: dict[str, Any] | None) -> None:
        """Nothing resumes it."""

    async def progress(self, run: dict[str, Any]) -> None:
        """Nothing resumes it."""
