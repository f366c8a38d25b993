"""The buckets of series, from memory where they are known."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from growd.store.history.buckets import Buckets
from growd.store.history.cache import BucketCache, Segment, SeriesKey, chunk_end
from growd.store.history.changes import ChangeFollower
from growd.store.history.coverage import FINEST, Coverage
from growd.store.history.grid import LEVELS, Grid
from growd.store.history.series_reader import ONLY_POINTS, SeriesReader
from growd.store.rollups.document import WIDTHS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from growd.store.reading.source import SourceReader

_EDGE: Final = 60  # the level of the newest points, which are read again most often


class RememberedBuckets:
    """The buckets of series, from memory where they are known.

    `read_rows` counts the points that were read from the database, `read_rollups` the documents.
    """

    def __init__(self, cache: BucketCache) -> None:
        self.read_rows = 0
        self.read_rollups = 0
        self._cache = cache
        self._changes = ChangeFollower(cache)
        self._locks: WeakValueDictionary[tuple[SeriesKey, int], asyncio.Lock] = WeakValueDictionary()

    async def follow(self, reader: SourceReader, database: str) -> Coverage:
        """Forget the buckets of the points that came into a database since the last call."""
        return await self._changes.follow(reader, database)

    async def read(
        self,
        reader: SourceReader,
        series: SeriesKey,
        grid: Grid,
        coverage: Coverage = ONLY_POINTS,
        now: float = 0.0,
    ) -> Buckets:
        """The buckets of a series at the UNIX time `now`. Two calls at once read each point once."""
        one = SeriesReader(reader, series, coverage)
        edge = coverage.edge(one.key, now) if grid.level >= FINEST else 0
        async with self._lock_of(series, grid.level):
            found, place = Buckets(grid.width), grid.start
            while place < grid.end:
                known = self._known_at(series, grid.level, place)
                until = 0 if known is None else min(known.end, grid.end)
                if until < edge:  # a rollup can go on from here
                    until = until // FINEST * FINEST
                if known is not None and until > place:
                    found.merge(known.buckets, place, until)
                    await asyncio.sleep(0)  # so that other tasks run
                else:
                    until = self._unknown_until(series, grid, place)
                    if until < edge:
                        until = min(-(-until // FINEST) * FINEST, grid.end)
                    segments = self._read(one, grid.level, place, until, edge)
                    with self._cache.reading(series.database, coverage.sealed_until) as reading:
                        async with aclosing(segments):
                            async for segment in segments:
                                found.merge(segment.buckets, segment.start, segment.end)
                                self._cache.put(reading, series, segment)
                place = until
            self.read_rows += one.rows
            self.read_rollups += one.documents
            return found

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

        Finer buckets in it are read too: the cache would forget what is before a gap in a chunk.
        """
        next_whole = -(-place // grid.level) * grid.level
        end = min(grid.end, next_whole) if place < next_whole else grid.end
        at = place
        while at < end:
            following = min(chunk_end(grid.level, at), end)
            known = self._cache.segment(series, grid.level, at)
            if known is not None and place < known.start < following and at < known.end:
                return known.start
            at = following
        return end

    async def _read(
        self, one: SeriesReader, level: int, start: int, end: int, edge: int
    ) -> AsyncGenerator[Segment]:
        """A range in buckets of at most `level` seconds: rollups before the edge, points from there on."""
        at = start
        for each, until in _levels(level, start, min(end, edge)):
            buckets = await one.buckets(each, at, until)
            while at < until:
                following = min(chunk_end(each, at), until)
                yield Segment(at, following, buckets.part(at, following))
                at = following
        if at >= end:
            return
        coarsest = level if one.coverage.changed is None else min(level, _EDGE)
        async with aclosing(one.segments(_level(coarsest, at, end), at, end)) as segments:
            async for segment in segments:
                yield segment


def _levels(coarsest: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The levels to remember a range in, each with the end of its part: the coarsest that fits.

    So the buckets before the edge are whole.
    """
    at = start
    while at < end:
        fitting = [level for level in WIDTHS if level <= coarsest and at % level == 0 and at + level <= end]
        level = max(fitting, default=FINEST)
        coarser = [each for each in WIDTHS if level < each <= coarsest]
        until = min([end // level * level, *(-(-at // each) * each for each in coarser if at % each)])
        yield level, until
        at = until


def _level(coarsest: int, start: int, end: int) -> int:
    """The level to read points into: a short part, such as that behind the newest point, in finer buckets.

    Points that come later make less of it unknown.
    """
    fitting = [level for level in LEVELS if level <= coarsest and start % level == 0]
    return max((level for level in fitting if end - start > 2 * level), default=min(LEVELS))
