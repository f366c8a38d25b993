"""`growd db export`: points from a database into a file, resumed where an earlier try broke off."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import aiohttp

from growd.runtime.text import most_like
from growd.store.history.known_series import MARKS
from growd.store.reading.pages import RowPosition, slices
from growd.store.reading.source import (
    CONNECT_S,
    SILENCE_S,
    ExportRefusedError,
    PointSource,
    Series,
    SourceReader,
    Span,
    exported_point,
)
from growd.variables import VARIABLES
from growd_analysis.points.csv_format import CsvFormat
from growd_analysis.points.wide import WideExport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from pathlib import Path

    import msgspec

    from growd_analysis.points.part_file import Mark, Place

    Encode = Callable[[Sequence[msgspec.Raw]], bytes]

COLUMNS: Final = ("time", "environment", "category", "variable", "value", "unit", "is_manual")
ALL: Final = "all"
POINTS: Final = ("measured", "desired")
EVENTS: Final = ("commanded", "quality", "event")
_KNOWN_COLUMNS: Final = frozenset({*COLUMNS, "_id", "_rev", "is_desired", "timestamp", "quality"})


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """Which points, and which columns. Empty texts and None mean all, as `ALL` does for the category.

    Times are UNIX seconds, both inclusive. The points recipe_start and recipe_end come `with_marks` only, or
    by their names. With `every` the export is a table with one row for each step of so many seconds, in which
    a measured value counts for `carried_s` seconds.
    """

    view: str
    columns: tuple[str, ...]
    environment: str = ""
    variable: str = ""
    category: str = ALL
    start: float | None = None
    end: float | None = None
    with_marks: bool = False
    every: float | None = None
    carried_s: float = 660.0

    def has(self, category: str, variable: str) -> bool:
        """Whether points of this category and variable are part of the export."""
        if self.variable not in {"", variable} or self.category not in {ALL, category}:
            return False
        return self.with_marks or bool(self.variable) or variable not in MARKS


@dataclass(frozen=True, slots=True)
class Progress:
    """How much is exported: the part from 0 to 1, by the time of the points, and the number of rows."""

    part: float
    rows: int


class ExportFile(Protocol):
    """What an export writes to: a `PartFile` or a `StreamFile`."""

    @property
    def mark(self) -> Mark:
        """How much there is."""

    def write(self, data: bytes, rows: int, place: Place | None) -> None:
        """Append so many rows; `place` is where to resume behind them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are written together, the place to resume behind them, and the part done by then."""

    rows: Sequence[msgspec.Raw]
    place: Place
    part: float


class Export:
    """One export from a source into a file; `columns` are final once it runs."""

    def __init__(self, reader: SourceReader, query: ExportQuery) -> None:
        self.columns = query.columns
        self._reader = reader
        self._query = query

    async def to_csv(self, file: ExportFile, report: Callable[[Progress], None]) -> None:
        """Append the lines that are missing. Raises `StoreError`."""
        batches = await self._batches(file.mark.place)
        csv = CsvFormat(self.columns)
        if not file.mark.bytes:
            await asyncio.to_thread(file.write, csv.head, 0, None)
        await _write(batches, file, report, lambda rows: csv.lines(csv.rows(rows)))

    async def to_rows(self, file: ExportFile, report: Callable[[Progress], None]) -> None:
        """Append the rows that are missing, a line of JSON each. Raises `StoreError`."""
        batches = await self._batches(file.mark.place)
        await _write(batches, file, report, lambda rows: b"".join(b"%b\n" % bytes(row) for row in rows))

    async def _batches(self, place: Place | None) -> AsyncGenerator[Batch]:
        series, query = await self._series(), self._query
        if query.every is None:
            return self._long_batches(self._spans(series), place)
        wide = WideExport(self._reader, query.every, query.carried_s, query.has)
        if query.category == "measured":
            await wide.end_with_qualities(series, self._reader.source.events)
        self.columns = wide.columns(series)
        return self._wide_batches(wide, series, place)

    async def _long_batches(self, spans: list[Span], place: Place | None) -> AsyncGenerator[Batch]:
        done, after = _resumed(spans, place)
        for number, span in enumerate(spans[done:], done):
            begin: float | None = None
            pages = self._reader.pages(span, self._query.start, self._query.end, after)
            async with aclosing(pages):
                async for rows, position in pages:
                    *_, time = json.loads(position.key)
                    begin = time if begin is None else begin
                    part = (number + _share(begin, time, span.newest)) / len(spans)
                    place = (_name_of(span), position.key, position.id)
                    yield Batch(self._chosen(rows), place, part)
            after = None

    async def _wide_batches(
        self, wide: WideExport, series: Sequence[Series], place: Place | None
    ) -> AsyncGenerator[Batch]:
        """Tables of rows that follow the last row in the file, if it has the same columns."""
        columns, query = json.dumps(self.columns), self._query
        if place is not None and place[0] != columns:
            raise ExportRefusedError("the database has other variables by now: --replace starts over")
        start = query.start if place is None else float(place[1]) + (query.every or 0)
        end = max((one.newest for one in series), default=0.0)
        end = end if query.end is None else min(end, query.end)
        begin: float | None = None
        async with aclosing(wide.tables(series, start, end, query.end)) as tables:
            async for first, last, rows in tables:
                begin = first if begin is None else begin
                yield Batch(rows, (columns, repr(last), ""), _share(begin, last, end))

    async def _series(self) -> list[Series]:
        """The series to export."""
        query, found = self._query, list[Series]()
        for database, categories in (
            (self._reader.source.points, POINTS),
            (self._reader.source.events, EVENTS),
        ):
            if query.category in {ALL, *categories}:
                found += await self._reader.series(database)
        self._check_names(found)
        chosen = [one for one in found if query.has(*one.key[1:])]
        if query.environment:
            chosen = [one for one in chosen if one.key[0] == query.environment]
        if query.every is not None:
            chosen = [one for one in chosen if one.key[1] != "event"]
        return chosen

    def _check_names(self, series: Sequence[Series]) -> None:
        """Raises `ExportRefusedError` for names that neither growd nor the database has."""
        if not series:
            return
        query = self._query
        fields = {field for one in series for field in one.value}
        environments, variables = ({one.key[part] for one in series} for part in (0, 2))
        known: list[tuple[str, str, set[str]]] = [
            ("environment", query.environment, environments),
            ("variable", query.variable, variables | VARIABLES.keys()),
            *(("column", name, fields | _KNOWN_COLUMNS) for name in query.columns),
        ]
        for kind, name, names in known:
            if name and name not in names:
                alike = most_like(name, names)
                hint = f"did you mean {alike[0]}?" if alike else f"there are: {', '.join(sorted(names))}"
                raise ExportRefusedError(f"there is no {kind} {name}; {hint}")

    def _spans(self, series: Sequence[Series]) -> list[Span]:
        """The parts of the view to read, in its order."""
        newest: dict[tuple[str, tuple[str, ...]], float] = {}
        for one in series:
            prefix = one.key if self._query.view == "by_variable" else one.key[:1]
            place = (one.database, prefix)
            newest[place] = max(one.newest, newest.get(place, one.newest))
        return [Span(database, self._query.view, prefix, time) for (database, prefix), time in newest.items()]

    def _chosen(self, rows: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """The rows of the variable and category, if the view does not select them itself."""
        if self._query.view == "by_variable":
            return rows
        points = (exported_point(row) for row in rows)
        wanted = [self._query.has(point.kind, point.variable) for point in points]
        return [row for row, is_wanted in zip(rows, wanted, strict=True) if is_wanted]


@asynccontextmanager
async def reading(source: PointSource) -> AsyncIterator[SourceReader]:
    """A reader with a connection of its own."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
    connector = aiohttp.TCPConnector(ssl=source.tls or True)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        yield SourceReader(session, source)


def write_table(rows: Path, columns: Sequence[str], target: Path) -> None:
    """Make Parquet of exported rows. Raises `StoreError`."""
    from growd_analysis.points.parquet import write_parquet  # noqa: PLC0415  an optional extra

    try:
        write_parquet(rows, columns, target)
    except (ValueError, OSError) as error:
        raise ExportRefusedError(f"{target} can't be written: {error}") from None


async def _write(
    batches: AsyncGenerator[Batch], file: ExportFile, report: Callable[[Progress], None], encode: Encode
) -> None:
    async with aclosing(batches):
        async for batch in batches:
            data = b"".join(map(encode, slices(batch.rows)))
            await asyncio.to_thread(file.write, data, len(batch.rows), batch.place)
            report(Progress(batch.part, file.mark.rows))
    report(Progress(1.0, file.mark.rows))


def _resumed(spans: list[Span], place: Place | None) -> tuple[int, RowPosition | None]:
    """How many spans are complete, and where to resume in the next one."""
    if place is None:
        return 0, None
    name, key, docid = place
    for number, span in enumerate(spans):
        if _name_of(span) == name:
            return number, RowPosition(key, docid)
    raise ExportRefusedError(f"the database no longer has the points of {name}: --replace starts over")


def _share(begin: float, time: float, end: float) -> float:
    """How far `time` is on the way from `begin` to `end`, from 0 to 1."""
    return min(max((time - begin) / (end - begin), 0.0), 1.0) if end > begin else 1.0


def _name_of(span: Span) -> str:
    """What the mark of a part file calls a span."""
    return json.dumps([span.database, *span.prefix])
