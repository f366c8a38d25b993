"""Points out of the database into a file, page by page, on from where an earlier try was cut."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from growd.store.csv_format import CsvFormat
from growd.store.errors import StoreError
from growd.store.pages import Pages, Position, Selection, slices

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from growd.store.part_file import PartFile

_CONNECT_S: Final = 10.0
_SILENT_S: Final = 600.0  # a view may be indexed for minutes before its first byte
_NEWEST: Final = "_view/by_variable?group_level=3"


class ExportRefusedError(StoreError):
    """The database does not give what is asked for; the sentence says why."""


class ExportBrokenError(StoreError, ConnectionError):
    """The database does not answer, or broke off: trying again goes on."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where points are: the address of a database server or of growd, and names.

    `login` as for Basic, `tls` for an address with https.
    """

    address: URL
    database: str
    design: str
    login: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which points, and which columns. Empty words and None stand for all.

    Times are UNIX seconds, and both belong to what is wanted.
    """

    view: str
    columns: tuple[str, ...]
    environment: str = ""
    variable: str = ""
    category: str = ""
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: `part` of one, by the time of the points, and so many rows in all."""

    part: float
    rows: int


class _Series(msgspec.Struct):
    """A row of the newest points: one for each environment, category and variable."""

    key: tuple[str, str, str]
    value: dict[str, Any]


class _AllSeries(msgspec.Struct):
    rows: list[_Series]


class _Filtered(msgspec.Struct):
    variable: str
    is_desired: bool = False


class _FilteredRow(msgspec.Struct):
    value: _Filtered


@dataclass(frozen=True, slots=True)
class _Span:
    """Rows of a view that follow each other, all keys with one `prefix`; `last` is the newest's time."""

    prefix: tuple[str, ...]
    last: float


class Export:
    """Reads what is wanted from a source into a file."""

    def __init__(self, session: aiohttp.ClientSession, source: Source, wanted: Wanted) -> None:
        self._session = session
        address = str(source.address).rstrip("/")
        self._design = f"{address}/{quote(source.database, safe='')}/_design/{source.design}"
        self._shown = str(source.address.with_user(None)).rstrip("/")
        self._wanted = wanted
        self._form = CsvFormat(wanted.columns)

    async def to_csv(self, file: PartFile, tell: Callable[[Progress], None]) -> None:
        """Append the lines that are missing. Raises `StoreError`."""
        if not file.mark.bytes:
            await asyncio.to_thread(file.write, self._form.head, 0, None)
        await self._read(file, tell, lambda rows: self._form.lines(self._form.rows(rows)))

    async def to_rows(self, file: PartFile, tell: Callable[[Progress], None]) -> None:
        """Append the rows that are missing, a line of JSON each. Raises `StoreError`."""
        await self._read(file, tell, lambda rows: b"".join(b"%b\n" % bytes(row) for row in rows))

    async def _read(
        self, file: PartFile, tell: Callable[[Progress], None], form: Callable[[Sequence[msgspec.Raw]], bytes]
    ) -> None:
        spans = await self._spans()
        done, after = self._resumed(spans, file)
        for number, span in enumerate(spans[done:], done):
            progress = _Meter(number, len(spans), span.last)
            async for rows, position in self._pages(span, after):
                chosen = self._chosen(rows)
                data = b"".join(map(form, slices(chosen)))
                place = (json.dumps(span.prefix), position.key, position.id)
                await asyncio.to_thread(file.write, data, len(chosen), place)
                tell(Progress(progress.part(position), file.mark.rows))
            after = None
        tell(Progress(1.0, file.mark.rows))

    def _resumed(self, spans: list[_Span], file: PartFile) -> tuple[int, Position | None]:
        """How many spans are done, and where to go on in the next."""
        if file.mark.place is None:
            return 0, None
        prefix, key, docid = file.mark.place
        for number, span in enumerate(spans):
            if json.dumps(span.prefix) == prefix:
                return number, Position(key, docid)
        raise ExportRefusedError(f"the database no longer has the points of {prefix}: --restart begins anew")

    async def _spans(self) -> list[_Span]:
        """The parts of the view that hold what is wanted, in its order."""
        wanted = self._wanted
        answer = await self._ask(_NEWEST)
        try:
            series = msgspec.json.decode(answer, type=_AllSeries).rows
        except ValueError as error:
            sentence = f"what answers at {self._shown} is no database of growd: {error}"
            raise ExportRefusedError(sentence) from None
        lasts: dict[tuple[str, ...], float] = {}
        for one in series:
            asked = (wanted.environment, wanted.category, wanted.variable)
            if any(given not in {"", name} for given, name in zip(asked, one.key, strict=True)):
                continue
            prefix = one.key if wanted.view == "by_variable" else one.key[:1]
            time = one.value.get("timestamp")
            newest = float(time) if isinstance(time, int | float) else 0.0
            lasts[prefix] = max(newest, lasts.get(prefix, newest))
        return [_Span(prefix, last) for prefix, last in lasts.items()]

    async def _pages(
        self, span: _Span, after: Position | None
    ) -> AsyncIterator[tuple[list[msgspec.Raw], Position]]:
        """The rows of a span, page by page, with the place of the last; the next page is read meanwhile."""
        pages = Pages(self._selection(span), after)
        answer = await self._page(pages)
        while True:
            rows = pages.take(answer)
            position = pages.position
            if position is None:
                return
            if pages.done:
                yield rows, position
                return
            following = asyncio.create_task(self._page(pages), name="export: next page")
            try:
                yield rows, position
                answer = await following
            finally:
                following.cancel()
                await asyncio.wait([following])

    def _selection(self, span: _Span) -> Selection:
        start, end = self._wanted.start, self._wanted.end
        first = [*span.prefix, *([] if start is None else [start])]
        last: list[Any] = [*span.prefix, {} if end is None else end]
        return Selection(startkey=_encoded(first), rest=(f"endkey={_encoded(last)}",))

    def _chosen(self, rows: list[msgspec.Raw]) -> list[msgspec.Raw]:
        """Those of the variable and category that are wanted, where the view does not choose by itself."""
        wanted = self._wanted
        if wanted.view == "by_variable" or not (wanted.variable or wanted.category):
            return rows
        return [row for row in rows if self._is_wanted(msgspec.json.decode(row, type=_FilteredRow).value)]

    def _is_wanted(self, point: _Filtered) -> bool:
        category = "desired" if point.is_desired else "measured"
        return self._wanted.variable in {"", point.variable} and self._wanted.category in {"", category}

    async def _page(self, pages: Pages) -> bytes:
        return await self._ask(f"_view/{self._wanted.view}?{pages.query()}")

    async def _ask(self, target: str) -> bytes:
        url = URL(f"{self._design}/{target}", encoded=True)
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


def write_table(rows: Path, wanted: Wanted, target: Path) -> None:
    """Make Parquet of rows that came. Raises `StoreError`."""
    from growd.store.parquet import write_parquet  # noqa: PLC0415  an optional extra

    try:
        write_parquet(rows, wanted.columns, target)
    except (ValueError, OSError) as error:
        raise ExportRefusedError(f"{target} can't be written: {error}") from None


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
