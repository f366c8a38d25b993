"""Reads series of points into buckets; what is read once is remembered."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from math import isnan
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import msgspec

from growd.store.errors import StoreError
from growd.store.exporting.pages import MOST_ROWS, slices
from growd.store.exporting.source import Series, Span
from growd.store.history.buckets import Buckets, as_number
from growd.store.history.cache import BucketCache, Segment, SeriesKey, chunk_end
from growd.store.history.grid import LEVELS, Grid

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from growd.store.exporting.source import Change, SourceReader

_AT_THE_START: Final = 5  # points that may have just the time at which a range begins
_SOUGHT: Final = 60  # the finest level whose buckets are looked for within a range
_MOST_CHANGES: Final = 2_000  # in one answer
_MOST_CHANGE_PAGES: Final = 10  # above that, everything is read again
# the id of a point that growd made; see `PointMaker`
_ID: Final = re.compile(r"[0-9a-f]{12}:(\d{13})-[0-9a-f]{10}\Z")


class _Value(msgspec.Struct, gc=False):
    value: Any = None


class _Row(msgspec.Struct, gc=False):
    key: tuple[str, str, str, float]
    value: _Value


_decode: Final = msgspec.json.Decoder(_Row).decode


class RememberedBuckets:
    """The buckets of series, from memory where they are known.

    `read_rows` counts the points that were read from the database.
    """

    def __init__(self, cache: BucketCache) -> None:
        self.read_rows = 0
        self._cache = cache
        self._since: dict[str, str] = {}  # how far the changes of each database are known
        self._following = asyncio.Lock()
        self._locks: WeakValueDictionary[tuple[SeriesKey, int], asyncio.Lock] = WeakValueDictionary()

    async def follow(self, reader: SourceReader, database: str) -> None:
        """Forget the buckets of the points that came into a database since the last call."""
        async with self._following:
            try:
                self._since[database] = await self._forget_since(reader, database, self._since.get(database))
            except StoreError:
                self._since.pop(database, None)  # it may be another database
                raise

    async def before(self, reader: SourceReader, series: SeriesKey, start: float) -> dict[str, Any] | None:
        """Time and value of the last point before `start`; None if there is none with a number."""
        one = Series((series.environment, series.category, series.variable), {}, series.database)
        newest = await reader.newest(one, None, start, _AT_THE_START)
        point = next((point for point in newest if point.timestamp < start), None)
        if point is None:
            return None
        value = as_number(point.value)
        return None if value is not None and isnan(value) else {"time": point.timestamp, "value": value}

    async def read(self, reader: SourceReader, series: SeriesKey, grid: Grid) -> Buckets:
        """The buckets of a series. Two calls at once for the same series read each point once."""
        async with self._lock_of(series, grid.level):
            found, place = Buckets(grid.width), grid.start
            while place < grid.end:
                known = self._known_at(series, grid.level, place)
                if known is not None:
                    until = min(known.end, grid.end)
                    found.merge(known.buckets, place, until)
                    await asyncio.sleep(0)  # so that other tasks run
                else:
                    until = self._unknown_until(series, grid, place)
                    segments = self._segments(reader, series, _level(grid, place, until), place, until)
                    with self._cache.reading(series.database) as reading:
                        async with aclosing(segments):
                            async for segment in segments:
                                found.merge(segment.buckets, segment.start, segment.end)
                                self._cache.put(reading, series, segment)
                place = until
            return found

    async def _forget_since(self, reader: SourceReader, database: str, since: str | None) -> str:
        """Forget what has changed since then, all of it with None; how far the changes are known now.

        A client that goes away may cancel this anywhere: to forget a bucket twice does no harm.
        """
        for _ in range(_MOST_CHANGE_PAGES):
            changes = await reader.changes(database, since, _MOST_CHANGES)
            times = None if since is None else _times(changes.results)
            if times is None:
                self._cache.clear(database)
            else:
                self._cache.forget(database, times)
            since = str(changes.last_seq)
            if len(changes.results) < _MOST_CHANGES:
                return since
        self._cache.clear(database)
        return str((await reader.changes(database, None, 1)).last_seq)

    def _lock_of(self, series: SeriesKey, level: int) -> asyncio.Lock:
        lock = self._locks.get((series, level))
        if lock is None:
            lock = self._locks[series, level] = asyncio.Lock()
        return lock

    def _known_at(self, series: SeriesKey, coarsest: int, place: int) -> Segment | None:
        """A segment with the buckets from `place` on."""
        for level in reversed(LEVELS):
            if level <= coarsest and place % level == 0:
                known = self._cache.segment(series, level, place)
                if known is not None and known.start <= place < known.end:
                    return known
        return None

    def _unknown_until(self, series: SeriesKey, grid: Grid, place: int) -> int:
        """The end of the part of the grid from `place` on that has to be read.

        Buckets of the finest level are not looked for: over years that would take long.
        """
        levels = {grid.level, min(grid.level, _SOUGHT)}
        step = LEVELS[min(levels)]
        next_whole = -(-place // grid.level) * grid.level
        end = min(grid.end, next_whole) if place < next_whole else grid.end
        at = place
        while at < end:
            following = min((at // step + 1) * step, end)
            found = [self._cache.segment(series, level, at) for level in levels]
            starts = [max(one.start, at) for one in found if one is not None and at < one.end]
            later = [start for start in starts if place < start < following]
            if later:
                return min(later)
            at = following
        return end

    async def _segments(
        self, reader: SourceReader, series: SeriesKey, level: int, start: int, end: int
    ) -> AsyncGenerator[Segment]:
        """The points from `start` to before `end`, chunk by chunk."""
        span = Span(series.database, "by_variable", series[1:], 0.0)
        segment = Segment(start, min(chunk_end(level, start), end), Buckets(level))
        pages = reader.pages(span, start, end, first_rows=MOST_ROWS)
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
                    self.read_rows += len(part)
                    await asyncio.sleep(0)  # so that other tasks run
        while segment.start < end:
            done, segment = segment, _after(segment, end)  # first: the cache may cut it
            yield done


def _level(grid: Grid, start: int, end: int) -> int:
    """The level to read points into: a short part, such as that behind the newest point, in finer buckets.

    Points that come later make less of it unknown.
    """
    fitting = [level for level in LEVELS if level <= grid.level and start % level == 0]
    return max((level for level in fitting if end - start > 2 * level), default=min(LEVELS))


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


def _times(changes: Sequence[Change]) -> list[float] | None:
    """The times of new points, from their ids; None if another document has changed."""
    times: list[float] = []
    for change in changes:
        made = _ID.match(change.id)
        if made is None or not change.is_new:
            return None
        rounded = int(made[1])
        times += ((rounded - 1) / 1e3, rounded / 1e3)  # it may be in the bucket before
    return times
