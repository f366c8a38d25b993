"""Writes a run and its points, events, notes and photos into one file."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypeVar, cast

import msgspec

from growd.store.history.known_series import MARKS
from growd.store.reading.source import MissingError, Span, exported_point
from growd.store.rollups.document import RETIRED, RollupSeries
from growd.store.run_documents import short_id
from growd_analysis.figures.run_figures import WIDTH_S, check_unmoved, is_rolled_up, retired_until, series_of
from growd_analysis.points.csv_format import UNITS, iso_time, stringify
from growd_analysis.runs.readme import readme
from growd_analysis.runs.tables import (
    EVENTS,
    OBSERVATIONS,
    PHOTOS,
    POINTS,
    ROLLUPS,
    STUDY,
    observations,
    study_fields,
    table,
)
from growd_client.request import API

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from growd.store.reading.source import ExportedPoint, Series, SourceReader
    from growd.store.rollups.document import Rollup
    from growd_analysis.runs.run_zip import RunZip
    from growd_analysis.runs.tables import Table
    from growd_camera.album import CameraPhoto

HELD_S: Final = 660.0
"""How long a measurement holds with the default [store] maximum_interval_s."""

REPLAY: Final = "replay.csv"
_SPAN_S: Final = 10 * 86_400.0  # of rollups that are read at once: whole buckets
_IN_MEMORY: Final = 1_000_000  # bytes of the recording
_OTHER_LETTERS: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Counts(NamedTuple):
    """How much an export has."""

    points: int
    events: int
    buckets: int
    photos: int


@dataclass(slots=True)
class RunExport:
    """One export of the run that the API has `described`, with tables of the `kind` "csv" or "parquet".

    `scratch` is a folder for temporary files. `report` gets the share that is done. `photos` are those that
    cameras took, oldest first.
    """

    reader: SourceReader
    described: dict[str, Any]
    kind: str
    scratch: Path
    report: Callable[[float], None]
    photos: Sequence[CameraPhoto] = ()

    async def write(self, file: RunZip) -> Counts:
        """Write all members. Raises `StoreError`."""
        photos = await self._write_records(file) + await self._write_photos(file)
        raw_from = await retired_until(self.reader)
        series = await series_of(self.reader, self._run["environment"])
        numbers = [one for one in series if one.key[1] not in {"quality", "event"}]
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(self.scratch)) as replay:
            await asyncio.to_thread(replay.write, b"timestamp,variable,value\n")
            buckets = 0
            if self._start < raw_from:
                buckets = await self._write_rollups(file, numbers, min(raw_from, self._end), replay)
            points = await self._write_points(file, numbers, raw_from, replay)
            await asyncio.to_thread(file.add_file, REPLAY, cast("BinaryIO", replay))
        await check_unmoved(self.reader, raw_from, self._start)
        events = await self._write_events(file, series)
        counts = Counts(points, events, buckets, photos)
        text = readme(self.described, self.kind, counts._asdict(), self._end, raw_from)
        await asyncio.to_thread(file.add, "README.txt", text.encode())
        self.report(1.0)
        return counts

    @property
    def _run(self) -> dict[str, Any]:
        run: dict[str, Any] = self.described["run"]
        return run

    @property
    def _start(self) -> float:
        return float(self._run["started"])

    @property
    def _end(self) -> float:
        ended = self._run["ended"]
        return float(self.described["until"] if ended is None else ended)

    # the record

    async def _write_records(self, file: RunZip) -> int:
        """The record, the recipes, the journal and its photos; how many photos."""
        run = self._run
        recipes = [run, *run.get("revisions", [])]
        record = {name: value for name, value in run.items() if name != "_rev"}
        await asyncio.to_thread(file.add, "run.json", _json(record))
        for number, each in enumerate(recipes, 1):
            recipe = {"_id": each["recipe_id"], **each.get("recipe", {})}
            await asyncio.to_thread(file.add, f"recipes/{number}.json", _json(recipe))
        notes = [note | {"photos": _photo_names(note)} for note in self.described["notes"]]
        journal = {"notes": notes, "measurements": self.described["measurements"]}
        await asyncio.to_thread(file.add, "journal.json", _json(journal))
        for layout, each in ((STUDY, study_fields(run)), (OBSERVATIONS, observations(self.described))):
            async with in_thread(table(file, layout, self.kind, self.scratch)) as made:
                await asyncio.to_thread(made.add, each)
        for note in self.described["notes"]:
            for name, member in zip(note["photos"], _photo_names(note), strict=True):
                await self._write_photo(file, member, (self.reader.source.events, note["id"], name))
        return sum(len(note["photos"]) for note in notes)

    async def _write_photos(self, file: RunZip) -> int:
        """The photos of cameras without those that are gone meanwhile, and their table; how many."""
        rows = []
        for photo in self.photos:
            member = _photo_name(photo)
            path = f"_{self.reader.source.design}", *API.split("/"), "photo", photo.id
            with suppress(MissingError):
                await self._write_photo(file, member, path)
                leaves = photo.canopy_cover, photo.canopy_greenness
                rows.append((photo.time, photo.camera, member, photo.sha256, *leaves))
        async with in_thread(table(file, PHOTOS, self.kind, self.scratch)) as made:
            await asyncio.to_thread(made.add, rows)
        return len(rows)

    async def _write_photo(self, file: RunZip, member: str, path: tuple[str, ...]) -> None:
        async with aclosing(self.reader.content(*path)) as pieces:
            content = b"".join([piece async for piece in pieces])
        async with in_thread(file.member(member, is_compressed=False)) as target:
            await asyncio.to_thread(target.write, content)

    # points

    async def _write_rollups(
        self, file: RunZip, series: Sequence[Series], until: float, replay: IO[bytes]
    ) -> int:
        """The five-minute rollups of what is retired; how many buckets."""
        count = 0
        retired = [RollupSeries(*one.key) for one in series if one.key[1] in RETIRED]
        async with in_thread(table(file, ROLLUPS, self.kind, self.scratch)) as made:
            for one in retired:
                at = self._start // WIDTH_S * WIDTH_S
                while at < until:
                    after = min(at + _SPAN_S, until)
                    documents = await self.reader.rollups(one, WIDTH_S, at, after)
                    rows = [
                        row
                        for document in documents
                        for row in _bucket_rows(document, at, after, self._start)
                    ]
                    count += await asyncio.to_thread(_add_buckets, made, rows, replay)
                    at = after
        return count

    async def _write_points(
        self, file: RunZip, series: Sequence[Series], raw_from: float, replay: IO[bytes]
    ) -> int:
        """The points whose values are numbers; how many."""
        count = 0
        async with in_thread(table(file, POINTS, self.kind, self.scratch)) as made:
            for number, one in enumerate(series):
                self.report(number / (len(series) + 1))
                async with aclosing(self._read(one)) as batches:
                    async for points in batches:
                        kept = [
                            point
                            for point in points
                            if _is_number(point) and not is_rolled_up(point, raw_from)
                        ]
                        count += await asyncio.to_thread(_add_points, made, kept, replay)
        return count

    async def _write_events(self, file: RunZip, series: Sequence[Series]) -> int:
        """The points whose values are texts: qualities, events, marks of recipes; how many."""
        count = 0
        numbers = {"measured", "desired", "commanded"}
        async with in_thread(table(file, EVENTS, self.kind, self.scratch)) as made:
            for one in series:
                if one.key[1] in numbers and one.key[2] not in MARKS and not await self._has_texts(one):
                    continue
                async with aclosing(self._read(one)) as batches:
                    async for points in batches:
                        rows = [_event_row(point) for point in points if not _is_number(point)]
                        await asyncio.to_thread(made.add, rows)
                        count += len(rows)
        return count

    async def _has_texts(self, series: Series) -> bool:
        """Whether values of a series of numbers may be texts: the type of a topic does not change."""
        newest = await self.reader.newest(series, self._start, self._end, 1)
        return bool(newest) and isinstance(newest[0].value, str | list | dict)

    async def _read(self, series: Series) -> AsyncGenerator[list[ExportedPoint]]:
        if before := await self._before(series):
            yield before
        span = Span(series.database, "by_variable", series.key, 0.0)
        async with aclosing(self.reader.pages(span, self._start, self._end)) as pages:
            async for rows, _ in pages:
                yield await asyncio.to_thread(lambda page: list(map(exported_point, page)), rows)

    async def _before(self, series: Series) -> list[ExportedPoint]:
        """The value at the start, if it is older: at most `HELD_S` for a measurement. Not of events."""
        if series.key[1] == "event" or series.key[2] in MARKS:
            return []
        oldest = self._start - HELD_S if series.key[1] == "measured" else None
        newest = await self.reader.newest(series, oldest, self._start, 2)  # one may be of the start itself
        before = [point for point in newest if point.timestamp < self._start and not point.is_manual]
        return before[:1] if len(newest) == len(before) else []


def _is_number(point: ExportedPoint) -> bool:
    """Whether its value is a number, or released."""
    return point.kind not in {"quality", "event"} and (
        point.value is None or isinstance(point.value, int | float)
    )


def _add_points(made: Table, points: Sequence[ExportedPoint], replay: IO[bytes]) -> int:
    made.add([_point_row(point) for point in points])
    recorded = [
        f"{point.timestamp!r},{point.variable},{float(point.value)!r}\n"
        for point in points
        if point.kind == "measured" and not point.is_manual and point.value is not None
    ]
    replay.write("".join(recorded).encode())
    return len(points)


def _point_row(point: ExportedPoint) -> tuple[Any, ...]:
    unit = UNITS.get(point.variable) if point.kind in {"measured", "desired"} else None
    return (
        point.timestamp,
        point.environment,
        point.kind,
        point.variable,
        None if point.value is None else float(point.value),
        unit,
        bool(point.is_manual),
        point.by if isinstance(point.by, str) and point.by else None,
    )


def _event_row(point: ExportedPoint) -> tuple[Any, ...]:
    value = point.value if isinstance(point.value, str) else stringify(point.value)
    by = point.by if isinstance(point.by, str) and point.by else None
    return point.timestamp, point.environment, point.kind, point.variable, value, by


def _bucket_rows(document: Rollup, first: float, end: float, start: float) -> list[tuple[Any, ...]]:
    """The buckets from the one at `first` to before `end` that have values since `start`."""
    unit = UNITS.get(document.variable) if document.category == "measured" else None
    names = (document.environment, document.category, document.variable, unit)
    times = [float(document.start + at * document.width) for at in document.at]
    columns = zip(
        times, document.count, document.min, document.mean, document.max, document.last, document.last_at,
        strict=True,
    )  # fmt: skip
    return [
        (time, *names, *values) for time, *values in columns if first <= time < end and values[-1] >= start
    ]


def _add_buckets(made: Table, rows: Sequence[tuple[Any, ...]], replay: IO[bytes]) -> int:
    made.add(rows)
    recorded = [
        f"{row[-1]!r},{row[3]},{float(row[-2])!r}\n"
        for row in rows
        if row[2] == "measured" and row[-2] is not None
    ]
    replay.write("".join(recorded).encode())
    return len(rows)


def _photo_name(photo: CameraPhoto) -> str:
    """The member for the photo of a camera."""
    time = iso_time(photo.time)[:19].replace(":", "")
    return f"photos/{photo.camera}/{time}-{photo.sha256[:10]}.jpg"


def _photo_names(note: dict[str, Any]) -> list[str]:
    """The members for the photos of a note, in their order."""
    time = iso_time(note["time"])[:19].replace(":", "")
    names = (_OTHER_LETTERS.sub("_", name).strip(".") for name in note["photos"])
    return [f"photos/{time}-{short_id(note['id'])}-{number}-{name}" for number, name in enumerate(names, 1)]


def _json(value: Any) -> bytes:
    """Readable JSON whose members have a fixed order."""
    plain = json.loads(msgspec.json.encode(value))
    return (json.dumps(plain, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


T = TypeVar("T")


@asynccontextmanager
async def in_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave `manager` in a thread; it does not suppress errors."""
    value = await asyncio.to_thread(manager.__enter__)
    try:
        yield value
    except BaseException:
        await asyncio.to_thread(manager.__exit__, *sys.exc_info())
        raise
    await asyncio.to_thread(manager.__exit__, None, None, None)
