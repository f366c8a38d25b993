"""Where points are read from: the views of a database server, or of growd in front of one."""

from __future__ import annotations

import json
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote, unquote

import aiohttp
import msgspec
from yarl import URL

from growd.store.couch_answers import connection_failure
from growd.store.errors import DISK_FULL, NO_ROOM, StoreError
from growd.store.reading.pages import RowPosition, ViewPages, ViewRange
from growd.store.reading.queries import QueryAnswers, QueryBatch
from growd.store.rollups.document import WIDTHS, Rollup, rollup_id, span_of
from growd.store.rollups.state import RollupState

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Sequence

    from growd.store.rollups.document import RollupSeries

T = TypeVar("T")
CONNECT_S: Final = 10.0
SILENCE_S: Final = 600.0  # a view may be indexed for minutes before its first byte
_PIECE: Final = 64 * 1024
_NEWEST: Final = "_view/by_variable?group_level=3"


class ExportRefusedError(StoreError):
    """The export is impossible as it was asked for; the message says why."""


class MissingError(ExportRefusedError):
    """A database or a document does not exist."""


class ExportBrokenError(StoreError, ConnectionError):
    """The database does not answer, or the connection broke: the same export can be resumed."""


class PointSource(msgspec.Struct, frozen=True):
    """The address of a database server or of growd, and the names of databases and design document.

    `events` is the database of commands, qualities and events, `rollups` that of rollups, if it is read.
    `login` is for Basic, `tls` for https. `lists_series`: it finds all series without reading all rows, as
    CouchDB does.
    """

    address: URL
    points: str
    events: str
    design: str
    login: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None
    rollups: str = ""
    lists_series: bool = False

    def database_of(self, category: str) -> str:
        """The database with the points of a category."""
        return self.points if category in {"measured", "desired"} else self.events


class _Rows(msgspec.Struct, Generic[T]):
    rows: list[T]


class Series(msgspec.Struct, frozen=True):
    """One environment, category and variable (`key`), and its newest point (`value`)."""

    key: tuple[str, str, str]
    value: dict[str, Any]
    database: str = ""

    @property
    def newest(self) -> float:
        """The time of the newest point, 0 if it has none."""
        time = self.value.get("timestamp")
        return float(time) if isinstance(time, int | float) else 0.0


class ExportedPoint(msgspec.Struct):
    """The fields of a stored point that readers use."""

    variable: str
    is_desired: bool = False
    is_manual: bool = False
    category: str | None = None
    timestamp: float = 0.0
    environment: str = ""
    value: Any = None
    by: Any = ""
    details: Any = None

    @property
    def kind(self) -> str:
        """The category; points of `environmental_data_point` have none of their own."""
        return self.category or ("desired" if self.is_desired else "measured")


class _KeyRow(msgspec.Struct):
    key: tuple[str, str, str, Any]


class _Revision(msgspec.Struct):
    rev: str


class Change(msgspec.Struct):
    """A document that was written or deleted."""

    id: str
    changes: list[_Revision]
    deleted: bool = False

    @property
    def is_new(self) -> bool:
        """Whether it is the first revision of its document."""
        return not self.deleted and all(one.rev.startswith("1-") for one in self.changes)


class Changes(msgspec.Struct):
    """Changes of a database, and where they end; `pending` come after them."""

    results: list[Change]
    last_seq: int | str
    pending: int = 0


class _Timed(msgspec.Struct):
    """What a document says of its time."""

    timestamp: Any = None


class _TimedRow(msgspec.Struct):
    doc: _Timed | None = None


class _RollupRow(msgspec.Struct):
    doc: Rollup


class _PointRow(msgspec.Struct):
    value: ExportedPoint


class Span(msgspec.Struct, frozen=True):
    """Consecutive rows of `view` whose keys begin with `prefix`; `newest` is the time of the last one."""

    database: str
    view: str
    prefix: tuple[str, ...]
    newest: float


class SourceReader:
    """Reads series and rows. Every call raises `ExportRefusedError` or `ExportBrokenError`.

    With `batches` it sends small queries that are asked for at the same time in one request.
    """

    def __init__(self, session: aiohttp.ClientSession, source: PointSource, *, batches: bool = False) -> None:
        self._session = session
        self._batches: dict[tuple[str, str], QueryBatch] | None = {} if batches else None
        self.source = source
        self._shown = str(source.address.with_user(None)).rstrip("/")
        login = source.login
        self._headers = {"Authorization": aiohttp.encode_basic_auth(*login)} if login else {}

    async def series(self, database: str) -> list[Series]:
        """All series of a database."""
        answer = await self._get(database, _NEWEST)
        try:
            rows = msgspec.json.decode(answer, type=_Rows[Series]).rows
        except ValueError as error:
            raise ExportRefusedError(f"{self._shown} is not a database of growd: {error}") from None
        return [Series(row.key, row.value, database) for row in rows]

    async def variables(self, database: str, environment: str, category: str) -> list[str]:
        """The variables of one category, each found by a small request: no server reads all rows for it."""
        found: list[str] = []
        while True:
            first = [environment, category, *([found[-1], {}] if found else [])]
            query = {"limit": 1, "startkey": first, "endkey": [environment, category, {}]}
            rows = _decoded(await self._rows(database, query, 1), _Rows[_KeyRow]).rows
            if not rows:
                return found
            found.append(rows[0].key[2])

    async def newest(
        self, series: Series, start: float | None, end: float, limit: int
    ) -> list[ExportedPoint]:
        """The newest points of a series from `start` to `end`, inclusive; at most `limit`, newest first."""
        query = {"startkey": [*series.key, end], "endkey": [*series.key, start]}
        query |= {"descending": True, "limit": limit}
        answer = await self._rows(series.database, query, limit)
        return [row.value for row in _decoded(answer, _Rows[_PointRow]).rows]

    async def changes(self, database: str, since: str | None, limit: int) -> Changes:
        """The first changes of a database after `since`; with None no change, and where they end now."""
        place = "now" if since is None else quote(since, safe="")
        return _decoded(
            await self._ask(database, f"_changes?since={place}&limit={1 if since is None else limit}"),
            Changes,
        )

    async def times(self, database: str, ids: Sequence[str]) -> list[float]:
        """The times of those of these documents that have one."""
        answer = await self._ask(database, "_all_docs?include_docs=true", {"keys": list(ids)})
        found = [row.doc.timestamp for row in _decoded(answer, _Rows[_TimedRow]).rows if row.doc is not None]
        return [float(time) for time in found if isinstance(time, int | float)]

    async def rollup_state(self, database: str) -> RollupState | None:
        """How far the rollups of a database are; None without rollups."""
        if not self.source.rollups:
            return None
        name = "growd-points" if database == self.source.points else "growd-events"
        try:
            answer = await self._ask(self.source.rollups, f"_local/{name}")
        except MissingError:
            return None
        return _decoded(answer, RollupState)

    async def newest_rollups(self, series: RollupSeries, width: int, start: int, end: int) -> list[Rollup]:
        """The last two documents of a series that begin from `start` to before `end`, newest first."""
        keys = {"startkey": rollup_id(series, width, end - 1), "endkey": rollup_id(series, width, start)}
        return await self._rollups({"descending": True, "limit": 2, **keys}, 2)

    async def rolled_up(
        self, environment: str, category: str, after: str = "", before: str = ""
    ) -> list[str]:
        """The variables of one category that have rollups, between two names; a small request for each."""
        found: list[str] = []
        prefix = f"{quote(environment, safe='')}/{category}/"
        last = f"{prefix}{quote(before, safe='')}/" if before else f"{prefix}~"
        while True:
            name = found[-1] if found else after
            first = f"{prefix}{quote(name, safe='')}/~" if name else prefix
            query = {"limit": 1, "startkey": first, "endkey": last, "inclusive_end": False}
            answer = await self._query(self.source.rollups, "_all_docs", query, 1)
            rows = _decoded(answer, _Rows[dict[str, Any]]).rows
            if not rows:
                return found
            found.append(unquote(rows[0]["id"].split("/")[2]))

    async def rollups(self, series: RollupSeries, width: int, start: float, end: float) -> list[Rollup]:
        """The documents of a series with buckets of `width` from `start` to before `end`, in their order."""
        first = span_of(width, start)
        keys = {"startkey": rollup_id(series, width, first), "endkey": rollup_id(series, width, ceil(end))}
        return await self._rollups({"inclusive_end": False, **keys}, int((end - first) // WIDTHS[width]) + 1)

    async def pages(
        self,
        span: Span,
        start: float | None,
        end: float | None,
        after: RowPosition | None = None,
        first_rows: int | None = None,
    ) -> AsyncGenerator[tuple[list[msgspec.Raw], RowPosition]]:
        """The rows of a span from `start` to `end`, page by page, with the position of the last row."""
        first = [*span.prefix, *([] if start is None else [start])]
        last: list[Any] = [*span.prefix, {} if end is None else end]
        view_range = ViewRange(startkey=encoded_key(first), rest=(f"endkey={encoded_key(last)}",))
        pages = ViewPages(view_range, after, first_rows)

        async def fetch(query: str, _most: int | None) -> bytes:
            return await self._get(span.database, f"_view/{span.view}?{query}")

        reading = pages.read(fetch)
        try:
            async for rows in reading:
                if pages.position is not None:
                    yield rows, pages.position
        finally:
            await reading.aclose()

    async def content(self, *path: str) -> AsyncGenerator[bytes]:
        """What is at a path, piece by piece: an attachment at its database, document and name."""
        address = str(self.source.address).rstrip("/")
        url = URL("/".join([address, *(quote(part, safe="") for part in path)]), encoded=True)
        try:
            async with self._session.get(url, headers=self._headers, allow_redirects=False) as response:
                if response.status != HTTPStatus.OK:
                    raise self._refusal(response.status, await response.read())
                async for piece in response.content.iter_chunked(_PIECE):
                    yield piece
        except (TimeoutError, aiohttp.ClientError) as error:
            raise self._broken(error) from None

    async def _rollups(self, query: dict[str, Any], most: int) -> list[Rollup]:
        answer = await self._query(self.source.rollups, "_all_docs", {"include_docs": True, **query}, most)
        return [row.doc for row in _decoded(answer, _Rows[_RollupRow]).rows]

    async def _rows(self, database: str, query: dict[str, Any], most: int) -> bytes | msgspec.Raw:
        """The answer to a query of `by_variable` with at most `most` rows."""
        target = f"_design/{self.source.design}/_view/by_variable"
        return await self._query(database, target, {"reduce": False, **query}, most)

    async def _query(
        self, database: str, target: str, query: dict[str, Any], most: int
    ) -> bytes | msgspec.Raw:
        if self._batches is None:
            options = "&".join(f"{name}={encoded_key(value)}" for name, value in query.items())
            return await self._ask(database, f"{target}?{options}")

        async def send(body: dict[str, Any]) -> QueryAnswers:
            return _decoded(await self._ask(database, f"{target}/queries", body), QueryAnswers)

        batch = self._batches.setdefault((database, target), QueryBatch(send))
        return await batch.answer(query, most)

    async def _get(self, database: str, target: str) -> bytes:
        return await self._ask(database, f"_design/{self.source.design}/{target}")

    async def _ask(self, database: str, target: str, sent: Any = None) -> bytes:
        """The answer to a GET, or to a POST of JSON."""
        address = str(self.source.address).rstrip("/")
        url = URL(f"{address}/{quote(database, safe='')}/{target}", encoded=True)
        try:
            async with self._session.request(
                "GET" if sent is None else "POST",
                url,
                json=sent,
                headers=self._headers,
                allow_redirects=False,
            ) as response:
                body = await response.read()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise self._broken(error) from None
        if response.status != HTTPStatus.OK:
            raise self._refusal(response.status, body)
        return body

    def _broken(self, error: Exception) -> ExportBrokenError:
        return ExportBrokenError(f"no complete answer from {self._shown}: {connection_failure(error)}")

    def _refusal(self, status: int, body: bytes) -> StoreError:
        sentence = f"{self._shown} answered {_described(status, body)}"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            is_full = DISK_FULL.search(str(body))
            return ExportBrokenError(f"{NO_ROOM}; make room there" if is_full else sentence)
        return MissingError(sentence) if status == HTTPStatus.NOT_FOUND else ExportRefusedError(sentence)


def _decoded(answer: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except ValueError as error:
        raise ExportRefusedError(f"the database's answer is not in the expected form: {error}") from None


def exported_point(row: msgspec.Raw) -> ExportedPoint:
    """The point of a row of a view."""
    return msgspec.json.decode(row, type=_PointRow).value


def encoded_key(key: Any) -> str:
    """A key as it stands in a query string."""
    return quote(json.dumps(key), safe="")


def _described(status: int, body: bytes) -> str:
    """A status, and CouchDB's reason if there is one."""
    try:
        answer = msgspec.json.decode(body, type=dict[str, Any])
    except ValueError:
        return str(status)
    return f"{status}: {answer.get('reason') or answer.get('error')}"
