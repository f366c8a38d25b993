"""Points out of the database into a file, page by page, on from where an earlier try was cut."""

from __future__ import annotations

import asyncio
import difflib
import json
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from growd.store.errors import StoreError
from growd.store.exporting.csv_format import CsvFormat
from growd.store.exporting.pages import Pages, Position, Selection, slices
from growd.store.exporting.wide_table import Column, WideTable
from growd.variables import VARIABLES

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping, Sequence
    from pathlib import Path

    from growd.store.exporting.part_file import Mark
    from growd.store.exporting.wide_table import Key

    Form = Callable[[Sequence[msgspec.Raw]], bytes]

_CONNECT_S: Final = 10.0
_SILENT_S: Final = 600.0  # a view may be indexed for minutes before its first byte
_NEWEST: Final = "_view/by_variable?group_level=3"
_WIDE_ROWS: Final = 500  # of a wide table, in one write

COLUMNS: Final = ("time", "environment", "category", "variable", "value", "unit", "is_manual")
ALL: Final = "all"
POINTS: Final = ("measured", "desired")
EVENTS: Final = ("commanded", "quality", "event")
_MARKS: Final = frozenset({"recipe_start", "recipe_end"})
_KNOWN_COLUMNS: Final = frozenset({*COLUMNS, "_id", "_rev", "is_desired", "timestamp", "quality"})


class ExportRefusedError(StoreError):
    """The database does not give what is asked for; the sentence says why."""


class ExportBrokenError(StoreError, ConnectionError):
    """The database does not answer, or broke off: trying again goes on."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where points are: the address of a database server or of growd, and names.

    `events` is the database of commands, qualities and events. `login` as for Basic, `tls` for an address
    with https.
    """

    address: URL
    points: str
    events: str
    design: str
    login: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which points, and which columns. Empty words and None stand for all, as `ALL` does for the category.

    Times are UNIX seconds, and both belong to what is wanted. The points recipe_start and recipe_end are
    wanted `with_marks` only, or by their names. With `every` it is a table with one row for so many seconds,
    in which a measured value counts for `carried_s` seconds.
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
        """Whether points of this category and variable are wanted."""
        if self.variable not in {"", variable} or self.category not in {ALL, category}:
            return False
        return self.with_marks or bool(self.variable) or variable not in _MARKS


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: `part` of one, by the time of the points, and so many rows in all."""

    part: float
    rows: int


class Target(Protocol):
    """What rows are written to: a `PartFile` or a `StreamFile`."""

    @property
    def mark(self) -> Mark:
        """How much there is."""

    def write(self, data: bytes, rows: int, place: tuple[str, str, str] | None) -> None:
        """Append what came, so many rows; `place` is where to go on behind it."""


class _Series(msgspec.Struct):
    """A row of the newest points: one for each environment, category and variable."""

    key: tuple[str, str, str]
    value: dict[str, Any]
    database: str = ""

    @property
    def newest(self) -> float:
        """The time of the newest point, 0 where it has none."""
        time = self.value.get("timestamp")
        return float(time) if isinstance(time, int | float) else 0.0


class _AllSeries(msgspec.Struct):
    rows: list[_Series]


class _Filtered(msgspec.Struct):
    variable: str
    is_desired: bool = False
    category: str | None = None
    timestamp: float = 0.0
    environment: str = ""
    value: Any = None

    @property
    def kind(self) -> str:
        return self.category or ("desired" if self.is_desired else "measured")


class _FilteredRow(msgspec.Struct):
    value: _Filtered


class _FilteredRows(msgspec.Struct):
    rows: list[_FilteredRow]


@dataclass(frozen=True, slots=True)
class _Span:
    """Rows of a view that follow each other, all keys with one `prefix`; `last` is the newest's time."""

    database: str
    prefix: tuple[str, ...]
    last: float

    @property
    def name(self) -> str:
        return json.dumps([self.database, *self.prefix])


class Export:
    """Reads what is wanted from a source into a file."""

    def __init__(self, session: aiohttp.ClientSession, source: Source, wanted: Wanted) -> None:
        self.columns = wanted.columns
        self._session = session
        self._source = source
        self._shown = str(source.address.with_user(None)).rstrip("/")
        self._wanted = wanted
        self._qualities: list[_Series] = []  # of a wide table that has no column for them
        self._form = CsvFormat(wanted.columns)

    async def to_csv(self, file: Target, tell: Callable[[Progress], None]) -> None:
        """Append the lines that are missing. Raises `StoreError`."""
        series = await self._series()
        if not file.mark.bytes:
            await asyncio.to_thread(file.write, self._form.head, 0, None)
        await self._read(series, file, tell, lambda rows: self._form.lines(self._form.rows(rows)))

    async def to_rows(self, file: Target, tell: Callable[[Progress], None]) -> None:
        """Append the rows that are missing, a line of JSON each. Raises `StoreError`."""
        series = await self._series()
        await self._read(series, file, tell, lambda rows: b"".join(b"%b\n" % bytes(row) for row in rows))

    async def _read(
        self, series: Sequence[_Series], file: Target, tell: Callable[[Progress], None], form: Form
    ) -> None:
        if self._wanted.every is not None:
            await self._read_wide(series, file, tell, form)
            return
        spans = self._spans(series)
        done, after = self._resumed(spans, file)
        for number, span in enumerate(spans[done:], done):
            progress = _Meter(number, len(spans), span.last)
            async for rows, position in self._pages(span, after):
                chosen = self._chosen(rows)
                data = b"".join(map(form, slices(chosen)))
                place = (span.name, position.key, position.id)
                await asyncio.to_thread(file.write, data, len(chosen), place)
                tell(Progress(progress.part(position), file.mark.rows))
            after = None
        tell(Progress(1.0, file.mark.rows))

    async def _read_wide(
        self, series: Sequence[_Series], file: Target, tell: Callable[[Progress], None], form: Form
    ) -> None:
        """A row for each step, from all series together, on behind the last row that is there."""
        wanted = self._wanted
        assert wanted.every is not None  # noqa: S101  for the type checker
        last = max((one.newest for one in series), default=0.0)
        last = last if wanted.end is None else min(last, wanted.end)
        start, after = wanted.start, self._last_row(file)
        if after is not None:
            start = after + wanted.every
        columns = self._carried(series)
        seeds = {} if start is None else await self._seeds([*series, *self._qualities], start)
        table = WideTable(columns, wanted.every, start, _ended(seeds, columns))
        spans = {_Span(one.database, one.key[:1], last): None for one in series}
        spans |= {_Span(one.database, one.key, last): None for one in self._qualities}
        first: float | None = None

        async def write(rows: list[dict[str, Any]]) -> None:
            nonlocal first
            time = rows[-1]["timestamp"]
            first = rows[0]["timestamp"] if first is None else first
            raw = [msgspec.Raw(msgspec.json.encode({"key": None, "value": row})) for row in rows]
            place = (json.dumps(self.columns), repr(time), "")
            await asyncio.to_thread(file.write, form(raw), len(rows), place)
            part = (time - first) / (last - first) if last > first else 1.0
            tell(Progress(min(max(part, 0.0), 1.0), file.mark.rows))

        waiting: list[dict[str, Any]] = []
        async for point in self._merged(list(spans), start):
            key = (point.environment, point.kind, point.variable)
            taken = [(key, point.value)]
            if point.kind == "quality" and point.value != "ok":
                taken.append(((point.environment, "measured", point.variable), None))
            for row in chain.from_iterable(table.take(each, point.timestamp, value) for each, value in taken):
                waiting.append(row)
                if len(waiting) >= _WIDE_ROWS:
                    await write(waiting)
                    waiting = []
        waiting += table.end(last)
        if waiting:
            await write(waiting)
        tell(Progress(1.0, file.mark.rows))

    def _last_row(self, file: Target) -> float | None:
        """The time of the last row that is there."""
        if file.mark.place is None:
            return None
        columns, time, _ = file.mark.place
        if columns != json.dumps(self.columns):
            raise ExportRefusedError("the database has other variables by now: --restart begins anew")
        return float(time)

    def _carried(self, series: Sequence[_Series]) -> dict[tuple[str, str, str], Column]:
        """The columns of a wide table: what is stored when it changes holds until the next change."""
        many = len({one.key[0] for one in series}) > 1
        found = {}
        for one in series:
            environment, category, variable = one.key
            name = variable if category == "measured" else f"{category}/{variable}"
            carried = self._wanted.carried_s if category == "measured" else None
            found[one.key] = Column(f"{environment}/{name}" if many else name, carried)
        return found

    async def _seeds(self, series: Sequence[_Series], start: float) -> dict[tuple[str, str, str], Any]:
        """The newest point of each series before the first row."""
        seeds = {}
        for one in series:
            query = f"startkey={_encoded([*one.key, start])}&endkey={_encoded([*one.key])}"
            target = f"_view/by_variable?reduce=false&descending=true&limit=1&{query}"
            rows = msgspec.json.decode(await self._ask(one.database, target), type=_FilteredRows).rows
            if rows:
                seeds[one.key] = rows[0].value.timestamp, rows[0].value.value
        return seeds

    async def _merged(self, spans: Sequence[_Span], start: float | None) -> AsyncIterator[_Filtered]:
        """The points of several spans of `by_timestamp` in the order of their times."""
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(aclosing(self._points(span, start))) for span in spans]
            heads = [(await anext(stream, None), stream) for stream in streams]
            present = [(head, stream) for head, stream in heads if head is not None]
            while present:
                place = min(range(len(present)), key=lambda number: present[number][0].timestamp)
                point, stream = present[place]
                yield point
                following = await anext(stream, None)
                if following is None:
                    del present[place]
                else:
                    present[place] = following, stream

    async def _points(self, span: _Span, start: float | None) -> AsyncGenerator[_Filtered]:
        selection, is_one = self._selection(span, start), len(span.prefix) > 1
        view = "by_variable" if is_one else "by_timestamp"
        async with aclosing(self._pages(span, None, selection, view)) as pages:
            async for rows, _ in pages:
                for row in rows:
                    point = msgspec.json.decode(row, type=_FilteredRow).value
                    if is_one or self._wanted.has(point.kind, point.variable):
                        yield point

    def _resumed(self, spans: list[_Span], file: Target) -> tuple[int, Position | None]:
        """How many spans are done, and where to go on in the next."""
        if file.mark.place is None:
            return 0, None
        name, key, docid = file.mark.place
        for number, span in enumerate(spans):
            if span.name == name:
                return number, Position(key, docid)
        raise ExportRefusedError(f"the database no longer has the points of {name}: --restart begins anew")

    async def _series(self) -> list[_Series]:
        """The series that are wanted; `columns` is settled then."""
        wanted, found = self._wanted, list[_Series]()
        databases = {self._source.points: POINTS, self._source.events: EVENTS}
        for database, categories in databases.items():
            if wanted.category not in {ALL, *categories}:
                continue
            answer = await self._ask(database, _NEWEST)
            try:
                rows = msgspec.json.decode(answer, type=_AllSeries).rows
            except ValueError as error:
                sentence = f"what answers at {self._shown} is no database of growd: {error}"
                raise ExportRefusedError(sentence) from None
            found += [_Series(row.key, row.value, database) for row in rows]
        self._check_names(found)
        chosen = [one for one in found if wanted.has(*one.key[1:])]
        if wanted.environment:
            chosen = [one for one in chosen if one.key[0] == wanted.environment]
        if wanted.every is not None:
            chosen = [one for one in chosen if one.key[1] != "event"]
            if wanted.category == "measured":
                self._qualities = await self._qualities_of(chosen)
            self.columns = ("time", *sorted(column.name for column in self._carried(chosen).values()))
            self._form = CsvFormat(self.columns)
        return chosen

    async def _qualities_of(self, measured: Sequence[_Series]) -> list[_Series]:
        """The series of their qualities, which end their values; none where the database has no such."""
        ends = {(one.key[0], "quality", one.key[2]) for one in measured}
        try:
            rows = msgspec.json.decode(await self._ask(self._source.events, _NEWEST), type=_AllSeries).rows
        except ExportRefusedError:
            return []
        return [_Series(row.key, row.value, self._source.events) for row in rows if row.key in ends]

    def _check_names(self, series: Sequence[_Series]) -> None:
        """Raises `ExportRefusedError` for names that neither growd nor the database knows."""
        if not series:
            return
        wanted = self._wanted
        fields = {field for one in series for field in one.value}
        environments, variables = ({one.key[part] for one in series} for part in (0, 2))
        known: list[tuple[str, str, set[str]]] = [
            ("environment", wanted.environment, environments),
            ("variable", wanted.variable, variables | VARIABLES.keys()),
            *(("column", name, fields | _KNOWN_COLUMNS) for name in wanted.columns),
        ]
        for kind, name, names in known:
            if name and name not in names:
                alike = difflib.get_close_matches(name, names, 1)
                there = f"did you mean {alike[0]}?" if alike else f"there are: {', '.join(sorted(names))}"
                raise ExportRefusedError(f"there is no {kind} {name}; {there}")

    def _spans(self, series: Sequence[_Series]) -> list[_Span]:
        """The parts of the view that hold what is wanted, in its order."""
        lasts: dict[tuple[str, tuple[str, ...]], float] = {}
        for one in series:
            prefix = one.key if self._wanted.view == "by_variable" else one.key[:1]
            place = (one.database, prefix)
            lasts[place] = max(one.newest, lasts.get(place, one.newest))
        return [_Span(*place, last) for place, last in lasts.items()]

    async def _pages(
        self, span: _Span, after: Position | None, selection: Selection | None = None, view: str = ""
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], Position]]:
        """The rows of a span, page by page, with the place of the last; the next page is read meanwhile."""
        pages = Pages(selection or self._selection(span, self._wanted.start), after)
        view = view or self._wanted.view
        answer = await self._page(span, view, pages)
        while True:
            rows = pages.take(answer)
            position = pages.position
            if position is None:
                return
            if pages.done:
                yield rows, position
                return
            following = asyncio.create_task(self._page(span, view, pages), name="export: next page")
            try:
                yield rows, position
                answer = await following
            finally:
                following.cancel()
                await asyncio.wait([following])

    def _selection(self, span: _Span, start: float | None) -> Selection:
        end = self._wanted.end
        first = [*span.prefix, *([] if start is None else [start])]
        last: list[Any] = [*span.prefix, {} if end is None else end]
        return Selection(startkey=_encoded(first), rest=(f"endkey={_encoded(last)}",))

    def _chosen(self, rows: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """Those of the variable and category that are wanted, where the view does not choose by itself."""
        if self._wanted.view == "by_variable":
            return rows
        points = (msgspec.json.decode(row, type=_FilteredRow).value for row in rows)
        wanted = [self._wanted.has(point.kind, point.variable) for point in points]
        return [row for row, is_wanted in zip(rows, wanted, strict=True) if is_wanted]

    async def _page(self, span: _Span, view: str, pages: Pages) -> bytes:
        return await self._ask(span.database, f"_view/{view}?{pages.query()}")

    async def _ask(self, database: str, target: str) -> bytes:
        source = self._source
        place = f"{str(source.address).rstrip('/')}/{quote(database, safe='')}/_design/{source.design}"
        url = URL(f"{place}/{target}", encoded=True)
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                body = await response.read()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise ExportBrokenError(f"no whole answer from {self._shown}: {_why(error)}") from None
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ExportBrokenError(f"{self._shown} answered {_words(response.status, body)}")
        if response.status != HTTPStatus.OK:
            raise ExportRefusedError(f"{self._shown} answered {_words(response.status, body)}")
        return body


class _Meter:
    """How far one of several spans was read, by the times in its keys."""

    def __init__(self, number: int, of: int, last: float) -> None:
        self._number = number
        self._of = of
        self._last = last
        self._first: float | None = None

    def part(self, position: Position) -> float:
        """Of all spans, in parts of one."""
        *_, time = json.loads(position.key)
        if self._first is None:
            self._first = time
        length = self._last - self._first
        here = (time - self._first) / length if length > 0 else 1.0
        return (self._number + min(max(here, 0.0), 1.0)) / self._of


@asynccontextmanager
async def exporting(source: Source, wanted: Wanted) -> AsyncIterator[Export]:
    """An export, with its connection."""
    headers = {"Authorization": aiohttp.encode_basic_auth(*source.login)} if source.login else None
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENT_S)
    connector = aiohttp.TCPConnector(ssl=source.tls or True)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        yield Export(session, source, wanted)


def write_table(rows: Path, columns: Sequence[str], target: Path) -> None:
    """Make Parquet of rows that came. Raises `StoreError`."""
    from growd.store.exporting.parquet import write_parquet  # noqa: PLC0415  an optional extra

    try:
        write_parquet(rows, columns, target)
    except (ValueError, OSError) as error:
        raise ExportRefusedError(f"{target} can't be written: {error}") from None


def _ended(seeds: Mapping[Key, tuple[float, Any]], columns: Container[Key]) -> dict[Key, tuple[float, Any]]:
    """The seeds that have columns, without the measured values that a later quality ended."""
    found = {key: seed for key, seed in seeds.items() if key in columns}
    for (environment, category, variable), (time, value) in seeds.items():
        measured = (environment, "measured", variable)
        if category == "quality" and value != "ok" and measured in found and found[measured][0] <= time:
            found[measured] = (time, None)
    return found


def _encoded(key: list[Any]) -> str:
    return quote(json.dumps(key), safe="")


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or "it can't be reached"
    return str(error) or type(error).__name__


def _words(status: int, body: bytes) -> str:
    """A status, and CouchDB's reason if there is one."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except ValueError:
        return str(status)
    return f"{status}: {told.get('reason') or told.get('error')}"
