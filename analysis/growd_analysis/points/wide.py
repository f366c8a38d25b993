"""A wide table: points of many variables as rows with one column for each, a row for each step of time."""

from __future__ import annotations

import math
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.reading.source import ExportRefusedError, Span, exported_point

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from growd.store.reading.source import ExportedPoint, Series, SourceReader

    Key = tuple[str, str, str]  # environment, category, variable
    WideRow = dict[str, Any]
    Batch = tuple[float, float, list[msgspec.Raw]]  # times of the first and last row, and the rows

BATCH_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Column:
    """The name of a series, and for how many seconds its last value counts; None: until the next one."""

    name: str
    carried_s: float | None


class WideTable:
    """Rows at the multiples of `every` seconds, from points that come in the order of their times.

    A cell has the newest value of its series that is not younger than the row. Rows without any value are
    left out. A row is a dictionary of the values by the names of the columns, and its `timestamp`.
    """

    def __init__(
        self,
        columns: Mapping[Key, Column],
        every: float,
        start: float | None = None,
        seeds: Mapping[Key, tuple[float, Any]] | None = None,
    ) -> None:
        self._columns = columns
        self._every = every
        self._newest: dict[Key, tuple[float, Any]] = dict(seeds or {})
        self._next = None if start is None else self._step_from(start)

    def take(self, key: Key, time: float, value: Any) -> Iterator[WideRow]:
        """The rows before a point, whose value counts from then on."""
        if self._next is None:
            self._next = self._step_from(time)
        while self._next < time:
            row = self._row(self._next)
            if len(row) == 1:  # nothing changes before the point comes
                self._next = self._step_from(time)
                break
            self._next += self._every
            yield row
        if key in self._columns:
            self._newest[key] = (time, value)

    def end(self, time: float) -> Iterator[WideRow]:
        """The rows from the last point to this time."""
        while self._next is not None and self._next <= time:
            row = self._row(self._next)
            self._next += self._every
            if len(row) > 1:
                yield row

    def _row(self, time: float) -> WideRow:
        row: WideRow = {"timestamp": time}
        for key, (since, value) in self._newest.items():
            column = self._columns[key]
            if value is not None and (column.carried_s is None or time - since <= column.carried_s):
                row[column.name] = value
        return row

    def _step_from(self, time: float) -> float:
        return math.ceil(time / self._every) * self._every


class WideExport:
    """Reads series together and makes the rows of a wide table; `has` chooses category and variable.

    A measured value counts for `carried_s` seconds; other values, which are stored when they change, until
    the next one.
    """

    def __init__(
        self, reader: SourceReader, every: float, carried_s: float, has: Callable[[str, str], bool]
    ) -> None:
        self._reader = reader
        self._every = every
        self._carried_s = carried_s
        self._has = has
        self._qualities: list[Series] = []

    async def end_with_qualities(self, measured: Sequence[Series], database: str) -> None:
        """End measured values where their quality changes, if that database has the qualities."""
        keys = {(one.key[0], "quality", one.key[2]) for one in measured}
        try:
            self._qualities = [one for one in await self._reader.series(database) if one.key in keys]
        except ExportRefusedError:
            self._qualities = []

    def columns(self, series: Sequence[Series]) -> tuple[str, ...]:
        """The names of all columns."""
        return ("time", *sorted(column.name for column in self._columns(series).values()))

    async def tables(
        self, series: Sequence[Series], start: float | None, end: float, read_to: float | None
    ) -> AsyncGenerator[Batch]:
        """The rows from `start` to `end`, from points up to `read_to`; None for the first or last point."""
        rows: list[WideRow] = []
        async with aclosing(self._rows(series, start, end, read_to)) as all_rows:
            async for row in all_rows:
                rows.append(row)
                if len(rows) >= BATCH_ROWS:
                    yield _batch(rows)
                    rows = []
        if rows:
            yield _batch(rows)

    async def _rows(
        self, series: Sequence[Series], start: float | None, end: float, read_to: float | None
    ) -> AsyncGenerator[WideRow]:
        columns = self._columns(series)
        seeds = {} if start is None else await self._seeds([*series, *self._qualities], start)
        table = WideTable(columns, self._every, start, _ended(seeds, columns))
        async with aclosing(self._merged(self._spans(series), start, read_to)) as points:
            async for point in points:
                for row in _taken(table, point):
                    yield row
        for row in table.end(end):
            yield row

    def _columns(self, series: Sequence[Series]) -> dict[Key, Column]:
        many = len({one.key[0] for one in series}) > 1
        found = {}
        for one in series:
            environment, category, variable = one.key
            name = variable if category == "measured" else f"{category}/{variable}"
            carried = self._carried_s if category == "measured" else None
            found[one.key] = Column(f"{environment}/{name}" if many else name, carried)
        return found

    def _spans(self, series: Sequence[Series]) -> list[Span]:
        spans = {Span(one.database, "by_timestamp", one.key[:1], 0.0): None for one in series}
        return [*spans, *(Span(one.database, "by_variable", one.key, 0.0) for one in self._qualities)]

    async def _seeds(self, series: Sequence[Series], start: float) -> dict[Key, tuple[float, Any]]:
        """The newest point of each series before the first row."""
        found = {one.key: await self._reader.newest(one, None, start, 1) for one in series}
        return {key: (newest[0].timestamp, newest[0].value) for key, newest in found.items() if newest}

    async def _merged(
        self, spans: Sequence[Span], start: float | None, end: float | None
    ) -> AsyncGenerator[ExportedPoint]:
        """The points of several spans in the order of their times."""
        async with AsyncExitStack() as stack:
            present = []
            for span in spans:
                points = await stack.enter_async_context(aclosing(self._points(span, start, end)))
                if (first := await anext(points, None)) is not None:
                    present.append((first, points))
            while present:
                place = min(range(len(present)), key=lambda number: present[number][0].timestamp)
                point, points = present[place]
                yield point
                following = await anext(points, None)
                present[place : place + 1] = [] if following is None else [(following, points)]

    async def _points(
        self, span: Span, start: float | None, end: float | None
    ) -> AsyncGenerator[ExportedPoint]:
        is_quality = span.view == "by_variable"
        async with aclosing(self._reader.pages(span, start, end)) as pages:
            async for rows, _ in pages:
                for point in map(exported_point, rows):
                    if is_quality or self._has(point.kind, point.variable):
                        yield point


def _taken(table: WideTable, point: ExportedPoint) -> Iterator[WideRow]:
    """The rows before a point. A quality other than ok ends the measured value."""
    values = [((point.environment, point.kind, point.variable), point.value)]
    if point.kind == "quality" and point.value != "ok":
        values.append(((point.environment, "measured", point.variable), None))
    return chain.from_iterable(table.take(key, point.timestamp, value) for key, value in values)


def _batch(rows: Sequence[WideRow]) -> Batch:
    raw = [msgspec.Raw(msgspec.json.encode({"key": None, "value": row})) for row in rows]
    return rows[0]["timestamp"], rows[-1]["timestamp"], raw


def _ended(
    seeds: Mapping[Key, tuple[float, Any]], columns: Mapping[Key, Column]
) -> dict[Key, tuple[float, Any]]:
    """The seeds that have columns, without the measured values that a later quality ended."""
    found = {key: seed for key, seed in seeds.items() if key in columns}
    for (environment, category, variable), (time, value) in seeds.items():
        measured = (environment, "measured", variable)
        if category == "quality" and value != "ok" and measured in found and found[measured][0] <= time:
            found[measured] = (time, None)
    return found
