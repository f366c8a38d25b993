"""Reads one series from a database: its points, and its rollups."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from math import isnan
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.history.buckets import Buckets, as_number
from growd.store.history.cache import Segment, SeriesKey, chunk_end
from growd.store.history.coverage import FINEST, Coverage
from growd.store.reading.pages import MOST_ROWS, slices
from growd.store.reading.source import Series, Span
from growd.store.rollups.arithmetic import as_buckets
from growd.store.rollups.document import WIDTHS, RollupSeries, span_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from growd.store.reading.source import SourceReader

ONLY_POINTS: Final = Coverage()
_AT_THE_START: Final = 5  # points that may have just the time at which a range begins
_BEFORE: Final = {300: 86_400, 3_600: 40 * 86_400, 86_400: 100 * 366 * 86_400}  # widths, and how far back
_MOST_ROLLUPS: Final = 500  # in one answer


class _Value(msgspec.Struct, gc=False):
    value: Any = None


class _Row(msgspec.Struct, gc=False):
    key: tuple[str, str, str, float]
    value: _Value


_decode: Final = msgspec.json.Decoder(_Row).decode


class SeriesReader:
    """One series, its rollups as `coverage` has them. `rows` and `documents` count what was read."""

    def __init__(self, reader: SourceReader, series: SeriesKey, coverage: Coverage = ONLY_POINTS) -> None:
        self.rows = 0
        self.documents = 0
        self.coverage = coverage
        self.key = RollupSeries(series.environment, series.category, series.variable)
        self._database = series.database
        self._reader = reader

    async def before(self, start: int) -> dict[str, Any] | None:
        """Time and value of the last point before `start`; None if there is none with a number."""
        series = Series((*self.key,), {}, self._database)
        newest = await self._reader.newest(series, None, start, _AT_THE_START)
        point = next((point for point in newest if point.timestamp < start), None)
        sealed_until = self.coverage.sealed_until
        if sealed_until and (point is None or point.timestamp < sealed_until):
            found = await self._before_in_rollups(start)
            if found is not None and (point is None or found["time"] > point.timestamp):
                return found
        if point is None:
            return None
        value = as_number(point.value)
        return None if value is not None and isnan(value) else {"time": point.timestamp, "value": value}

    async def buckets(self, level: int, start: int, end: int) -> Buckets:
        """The buckets of a range before the edge: from rollups, and from points where these lack some."""
        found = Buckets(level)
        for width, part_start, part_end in self.coverage.parts(self.key, level, start, end):
            if width:
                await self._add_rollups(found, width, part_start, part_end)
                continue
            async with aclosing(self.segments(FINEST, part_start, part_end)) as segments:
                async for segment in segments:
                    found.merge(segment.buckets, segment.start, segment.end)
        return found

    async def segments(self, level: int, start: int, end: int) -> AsyncGenerator[Segment]:
        """The points from `start` to before `end`, chunk by chunk."""
        span = Span(self._database, "by_variable", (*self.key,), 0.0)
        segment = Segment(start, min(chunk_end(level, start), end), Buckets(level))
        pages = self._reader.pages(span, start, end, first_rows=MOST_ROWS)
        async with aclosing(pages):
            async for rows, _ in pages:
                for part in slices(rows):
                    for at, value in map(_point, part):
                        if at >= end:  # the range includes its end
                            break
                        while at >= segment.end:
                            done, segment = segment, _after(segment, end)  # first: the cache may cut it
                            yield done
                        if value is None or not isnan(value):
                            segment.buckets.add(at, value)
                    self.rows += len(part)
                    await asyncio.sleep(0)  # so that other tasks run
        while segment.start < end:
            done, segment = segment, _after(segment, end)  # first: the cache may cut it
            yield done

    async def _add_rollups(self, found: Buckets, width: int, start: int, end: int) -> None:
        at = start
        while at < end:
            until = min(span_of(width, at) + _MOST_ROLLUPS * WIDTHS[width], end)
            rollups = await self._reader.rollups(self.key, width, at, until)
            self.documents += len(rollups)
            found.merge(as_buckets(rollups, width), at, until)
            await asyncio.sleep(0)  # so that other tasks run
            at = until

    async def _before_in_rollups(self, start: int) -> dict[str, Any] | None:
        """The last value before `start`: of its day, of its month, of all.

        The embedded database reads all documents of a range, also if only the newest are wanted.
        """
        for width, length in _BEFORE.items():
            first = span_of(width, max(0, start - length))
            for rollup in await self._reader.newest_rollups(self.key, width, first, start):
                for at, value in zip(reversed(rollup.last_at), reversed(rollup.last), strict=True):
                    if at < start:
                        return {"time": at, "value": value}
        return None


def _after(segment: Segment, end: int) -> Segment:
    """The next segment, which is empty."""
    level, start = segment.buckets.width, segment.end
    return Segment(start, min(chunk_end(level, start), end), Buckets(level))


def _point(row: msgspec.Raw) -> tuple[float, float | None]:
    """Time and value of a row; NaN for a value that is no number."""
    try:
        decoded = _decode(row)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # a number that is too large, or half a surrogate pair in a text
        members = json.loads(bytes(row))
        return float(members["key"][3]), as_number(members["value"].get("value"))
    value = decoded.value.value
    return decoded.key[3], value if type(value) is float else as_number(value)
