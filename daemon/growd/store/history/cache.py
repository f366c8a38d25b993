"""Finished buckets in memory, so that the same points are not read again."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.store.history.grid import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.store.history.buckets import Buckets

MOST_BUCKETS: Final = 300_000  # 14 MB
_MOST_SEALED_S: Final = 60 * 86_400
_SEGMENT: Final = 10  # buckets that an empty segment counts for
Chunks = dict[tuple[int, int], float]  # level and number of a chunk, and the earliest time in it


class SeriesKey(NamedTuple):
    """One series: a database, and the first three parts of the key of `by_variable`."""

    database: str
    environment: str
    category: str
    variable: str


class _Place(NamedTuple):
    series: SeriesKey
    level: int
    chunk: int


class Segment:
    """The buckets of one chunk that are known, all from `start` to `end`."""

    __slots__ = ("buckets", "end", "start")

    def __init__(self, start: int, end: int, buckets: Buckets) -> None:
        self.start = start
        self.end = end
        self.buckets = buckets

    def cut(self, time: float) -> None:
        """Forget the bucket of `time` and all later ones."""
        width = self.buckets.width
        end = int(time // width) * width
        if end < self.end:
            self.end = max(end, self.start)
            self.buckets.cut(self.end)

    def joined(self, other: Segment) -> Segment:
        """Both, if one begins where the other ends; else the other."""
        for first, second in ((self, other), (other, self)):
            if first.end == second.start:
                first.buckets.extend(second.buckets)
                return Segment(first.start, second.end, first.buckets)
        return other


class ChunkReading:
    """A reading of a database that has begun; points that arrive meanwhile may be missing in it."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.spoilt: Chunks = {}
        self.is_void = False


class BucketCache:
    """The buckets of all series, at most `most` of them; those that were not used for longest go first."""

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self.held = 0  # buckets
        self._most = most
        self._segments: OrderedDict[_Place, Segment] = OrderedDict()
        self._readings: set[ChunkReading] = set()
        self._sealed: dict[str, int] = {}

    def segment(self, series: SeriesKey, level: int, time: int) -> Segment | None:
        """What is known of the chunk of `time`."""
        place = _place(series, level, time)
        found = self._segments.get(place)
        if found is not None:
            self._segments.move_to_end(place)
        return found

    @contextmanager
    def reading(self, database: str, sealed_until: int) -> Iterator[ChunkReading]:
        """A reading, for `put`, of the points from `sealed_until` on, as far as it reads points."""
        reading = ChunkReading(database)
        reading.is_void = sealed_until < self._sealed.get(database, 0)
        self._readings.add(reading)
        try:
            yield reading
        finally:
            self._readings.discard(reading)

    def put(self, reading: ChunkReading, series: SeriesKey, segment: Segment) -> None:
        """Take over a segment of one chunk that was read."""
        if reading.is_void:
            return
        level = segment.buckets.width
        place = _place(series, level, segment.start)
        if (spoilt := reading.spoilt.get((level, place.chunk))) is not None:
            segment.cut(spoilt)
        known = self._segments.pop(place, None)
        if known is not None:
            self.held -= _weight(known)
            segment = known.joined(segment)
        self._segments[place] = segment
        self.held += _weight(segment)
        while self.held > self._most:
            _, oldest = self._segments.popitem(last=False)
            self.held -= _weight(oldest)

    def forget(self, database: str, times: Iterable[float]) -> None:
        """Points of these times have come into the database."""
        spoilt = _chunks(times)
        for place, segment in self._segments.items():
            time = spoilt.get((place.level, place.chunk))
            if time is not None and place.series.database == database:
                self.held -= _weight(segment)
                segment.cut(time)
                self.held += _weight(segment)
        for reading in self._readings:
            if reading.database == database:
                for chunk, time in spoilt.items():
                    reading.spoilt[chunk] = min(time, reading.spoilt.get(chunk, time))

    def seal(self, database: str, until: int) -> None:
        """Points before `until` may be deleted: what was read meanwhile may lack some."""
        before = self._sealed.get(database)
        self._sealed[database] = until
        if before is None or until - before > _MOST_SEALED_S:
            self.clear(database)
        else:
            self.forget(database, range(before, until, min(LEVELS.values())))

    def clear(self, database: str) -> None:
        """Forget all series of a database."""
        for place in [place for place in self._segments if place.series.database == database]:
            self.held -= _weight(self._segments.pop(place))
        for reading in self._readings:
            reading.is_void = reading.is_void or reading.database == database


def chunk_end(level: int, time: int) -> int:
    """The end of the chunk of `time`."""
    return (time // LEVELS[level] + 1) * LEVELS[level]


def _place(series: SeriesKey, level: int, time: int) -> _Place:
    return _Place(series, level, time // LEVELS[level])


def _chunks(times: Iterable[float]) -> Chunks:
    chunks: Chunks = {}
    for time in times:
        for level, length in LEVELS.items():
            chunk = (level, int(time // length))
            chunks[chunk] = min(time, chunks.get(chunk, time))
    return chunks


def _weight(segment: Segment) -> int:
    return _SEGMENT + len(segment.buckets)
