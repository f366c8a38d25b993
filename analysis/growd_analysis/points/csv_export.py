"""The list function `csv` answered by growd: the same bytes, made from pages of the view.

CouchDB sends each row to a JavaScript process and back; growd reads the view and formats its rows itself. The
database answers those requests whose bytes growd can't reproduce: see `parse_csv_list`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from aiohttp import hdrs, web

from growd.proxy.gateway import AnswerTooLargeError, GatewayError, break_off
from growd.server.client_request import add_cors
from growd.server.errors import ApiError
from growd.store.errors import PageError, PageTooLargeError
from growd.store.reading.pages import LARGEST_PAGE, ViewPages, ViewRange, slices
from growd_analysis.points.csv_format import USUAL_COLUMNS, CsvFormat

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

    from multidict import CIMultiDict

    from growd.proxy.gateway import DatabaseAnswer, Gateway
    from growd.store.index_builds import IndexBuild

    Building = Callable[[str], Awaitable[IndexBuild | None]]

    from collections.abc import Sequence

    from growd.store.reading.pages import FetchPage
    from growd_analysis.points.csv_format import Row

_REDUCED: Final = "by_variable"  # the view that has a reduce
_VIEWS: Final = frozenset({_REDUCED, "by_timestamp", "all_vars"})
_EVERY_POINT: Final = "4"  # the group level at which each key is a group
_PIECE: Final = 32 * 1024  # bytes
_FLAG: Final = re.compile("true|false")
_NUMBER: Final = re.compile("[0-9]{1,9}")
_KEY: Final = re.compile(".+")
_PARAMETERS: Final = {
    "startkey": _KEY,
    "endkey": _KEY,
    "inclusive_end": _FLAG,
    "descending": _FLAG,
    "reduce": _FLAG,
    "group_level": re.compile(_EVERY_POINT),
    "limit": _NUMBER,
    "skip": _NUMBER,
    "cols": _KEY,
    "stale": re.compile("ok|update_after"),
    "update": re.compile("true|false|lazy"),
    "stable": _FLAG,
}
"""The parameters that are understood, and their possible values, as in the address."""

_columns: Final = msgspec.json.Decoder(list[str]).decode


class NewestRows:
    """The newest row of each key, as the reduce of `by_variable` gives it at group_level=4.

    The rows of one key come in the order of their ids, and the greatest id wins: see the function
    `builtin_first_last` in CouchDB's couch_query_servers for `_last`. Shards and the direction of reading
    make no difference there. `skip` and `limit` count keys.
    """

    def __init__(self, *, descending: bool, skip: int = 0, limit: int | None = None) -> None:
        self.done = limit == 0
        self._descending = descending
        self._skip = skip
        self._left = limit
        self._present: Row | None = None

    def take(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that are known to be the newest of their keys."""
        found = []
        present = self._present
        for row in rows:
            is_new = present is None or row.key != present.key
            if is_new and present is not None:
                found.append(present)
            if is_new or not self._descending:
                present = row
        self._present = present
        return self._counted(found)

    def end(self) -> list[Row]:
        """The newest row of the last key."""
        return [] if self._present is None else self._counted([self._present])

    def _counted(self, found: list[Row]) -> list[Row]:
        skipped = min(self._skip, len(found))
        self._skip -= skipped
        found = found[skipped:]
        if self._left is None:
            return found
        found = found[: self._left]
        self._left -= len(found)
        self.done = self._left == 0
        return found


@dataclass(frozen=True, slots=True)
class CsvList:
    """A request to the list function `csv`: the view and its range, and how to write the rows.

    `newest` is set at group_level=4, where one row of each key is written.
    """

    view: str
    view_range: ViewRange
    newest: NewestRows | None
    format: CsvFormat

    async def pieces(self, fetch: FetchPage) -> AsyncGenerator[bytes]:
        """The table in pieces: the first begins with the column names, and comes with the first page.

        Raises `PageError`, and what `fetch` raises.
        """
        made, newest = bytearray(self.format.head), self.newest
        async with aclosing(ViewPages(self.view_range).read(fetch)) as pages:
            async for rows in pages:
                for part in slices(rows):
                    found = self._decoded(part)
                    made += self.format.lines(found if newest is None else newest.take(found))
                    if len(made) >= _PIECE:
                        yield bytes(made)
                        made.clear()
                    await asyncio.sleep(0)  # let other tasks run
                if made:
                    yield bytes(made)
                    made.clear()
                if newest is not None and newest.done:
                    break
        if newest is not None and (last := self.format.lines(newest.end())):
            yield last

    def _decoded(self, part: Sequence[msgspec.Raw]) -> list[Row]:
        try:
            return self.format.rows(part)
        except (ValueError, RecursionError) as error:
            raise PageError(f"a row of the view can't be read: {error}") from None


def parse_csv_list(view: str, query: str) -> CsvList | None:
    """The request for this view with this query string; None if the database has to answer it.

    That is so for other views and reduces, for unknown or repeated parameters, and for values of another form
    than the usual one.
    """
    given = _parameters(query)
    if view not in _VIEWS or given is None:
        return None
    is_grouped = "group_level" in given
    is_reduced = view == _REDUCED and given.get("reduce") != "false"
    if is_grouped != is_reduced or (view != _REDUCED and given.get("reduce") == "true"):
        return None
    columns = _columns_of(given)
    if columns is None:
        return None
    skip = int(given.get("skip", "0"))
    limit = int(given["limit"]) if "limit" in given else None
    descending = given.get("descending") == "true"
    view_range = ViewRange(
        startkey=given.get("startkey", ""),
        rest=tuple(f"{name}={given[name]}" for name in ("endkey", "inclusive_end") if name in given),
        descending=descending,
        skip=0 if is_grouped else skip,
        limit=None if is_grouped else limit,
    )
    newest = NewestRows(descending=descending, skip=skip, limit=limit) if is_grouped else None
    return CsvList(view, view_range, newest, CsvFormat(columns))


def _parameters(query: str) -> dict[str, str] | None:
    """Names and values, still encoded; None if one of them is not understood."""
    given: dict[str, str] = {}
    if ";" in query:  # CouchDB separates parameters there too
        return None
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        form = _PARAMETERS.get(name)
        if form is None or name in given or form.fullmatch(value) is None:
            return None
        given[name] = value
    return given


def _columns_of(given: dict[str, str]) -> list[str] | None:
    """The names of the columns, or None if `cols` is no list of names."""
    if "cols" not in given:
        return list(USUAL_COLUMNS)
    try:
        return _columns(unquote_to_bytes(given["cols"].replace("+", " "))) or None
    except ValueError:
        return None


T = TypeVar("T")
_log = logging.getLogger(__name__)

_CONTENT_TYPE: Final = "text/csv; charset=utf-8; header=present"
PATIENCE_S: Final = 0.5  # for the first rows, until it is asked whether their index is being built
_LONGEST_PATIENCE_S: Final = 5.0
SHORT_BUILD: Final = 2_000  # changes: an index that lacks no more is waited for
_RETRY_S: Final = 30  # where the database does not say how long a build takes
_LONGEST_RETRY_S: Final = 600
_NO_MORE: Final = 2**63  # bytes of a page that can't have fewer rows
# A request with one of these asks for more than a table. A method may stand in one of them.
_NOT_OURS: Final = frozenset(
    {
        "Expect",
        "If-Match",
        "If-Modified-Since",
        "If-None-Match",
        "If-Range",
        "If-Unmodified-Since",
        "Range",
        "X-HTTP-Method-Override",
    }
)
_NOT_ASKED: Final = frozenset({"accept-encoding"})
# A probe is no repetition of the client's request, so its conditions do not apply.
_CONDITIONS: Final = frozenset(name.lower() for name in _NOT_OURS)
# headers of the view's answer that do not hold for the table
_OF_THE_VIEW: Final = (
    hdrs.CACHE_CONTROL,
    hdrs.CONTENT_ENCODING,
    hdrs.CONTENT_LENGTH,
    "Content-Security-Policy",
    hdrs.CONTENT_TYPE,
    hdrs.ETAG,
    hdrs.LAST_MODIFIED,
)


class Exports:
    """Answers CSV exports from the databases of points in place of the list function.

    While an index is built from many changes, exports get 503 with the progress that `building` tells. A
    client that takes nothing for `gateway.stall_limit` seconds is let go.
    """

    def __init__(self, gateway: Gateway, building: Building | None = None) -> None:
        self._gateway = gateway
        self._building = building

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse | None:
        """The answer to a GET of a list `csv`; None where it is the database's to give. Raises `ApiError`."""
        folder, _, rest = request.raw_path.partition("/_list/csv/")
        view, _, query = rest.partition("?")
        database = folder.split("/")[1]
        table = None if _is_more(request) else parse_csv_list(view, query)
        if table is not None:
            return await self._download(request, table, f"{folder}/_view/{table.view}", database)
        if self._building is not None:
            probe = f"{folder}/_view/by_timestamp?limit=0"
            asked = self._gateway.ask(request, probe, most=LARGEST_PAGE, dropped=_NOT_ASKED | _CONDITIONS)
            with suppress(GatewayError):
                await self._unless_building(asked, database)
        return None

    async def _download(
        self, request: web.BaseRequest, table: CsvList, view: str, database: str
    ) -> web.StreamResponse | None:
        download = _Download(self._gateway, request, view)
        async with aclosing(table.pieces(download.fetch)) as pieces:
            try:
                first = await self._unless_building(_next(pieces), database)
            except (GatewayError, PageError):
                return None  # the database answers in its own words
            return await download.send(first, pieces)

    async def _unless_building(self, asked: Coroutine[None, None, T], database: str) -> T:
        """The answer, however long it takes, unless the index it needs is being built."""
        if self._building is None:
            return await asked
        task = asyncio.create_task(asked, name="export: first page")
        patience = PATIENCE_S
        try:
            while not (await asyncio.wait([task], timeout=patience))[0]:
                build = await self._building(database)
                if build is not None and build.left > SHORT_BUILD:
                    later = {
                        "Retry-After": str(min(max(build.seconds_left or _RETRY_S, 1), _LONGEST_RETRY_S))
                    }
                    raise ApiError(503, "index_building", f"{build}. Try again later.", later)
                patience = min(2 * patience, _LONGEST_PATIENCE_S)
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])


class _Download:
    """One table on its way to one client."""

    def __init__(self, gateway: Gateway, request: web.BaseRequest, view: str) -> None:
        self._gateway = gateway
        self._request = request
        self._view = view
        self._first: DatabaseAnswer | None = None

    async def fetch(self, query: str, most: int | None) -> bytes:
        """A page of the view, asked for in the client's name. Raises `GatewayError` or `PageError`."""
        target = f"{self._view}?{query}"
        most = _NO_MORE if most is None else most
        try:
            page = await self._gateway.ask(self._request, target, most=most, dropped=_NOT_ASKED)
        except AnswerTooLargeError as error:
            raise PageTooLargeError(str(error)) from None
        if page.status != HTTPStatus.OK:
            raise PageError(f"the database answered with {page.status}")
        self._first = self._first or page
        return page.body

    async def send(self, piece: bytes, pieces: AsyncGenerator[bytes]) -> web.StreamResponse:
        """Send the whole table, whose first piece has come."""
        assert self._first is not None  # noqa: S101  it has come
        response = web.StreamResponse(headers=_headers(self._first))
        add_cors(self._request, response.headers)
        try:
            await response.prepare(self._request)
            await self._write(response, piece)
            async for lines in pieces:
                await self._write(response, lines)
            await response.write_eof()
        except (GatewayError, PageError) as error:
            _log.info("%s %s: %s", self._request.method, self._request.raw_path, error)
            break_off(self._request, response)
        except (ConnectionError, TimeoutError):
            break_off(self._request, response)  # the client has gone, or reads nothing
        except BaseException:  # growd is stopping
            break_off(self._request, response)
            raise
        return response

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        async with asyncio.timeout(self._gateway.stall_limit):
            await response.write(piece)


async def _next(pieces: AsyncGenerator[bytes]) -> bytes:
    return await anext(pieces)


def _is_more(request: web.BaseRequest) -> bool:
    """Whether a request asks for more than a table."""
    return (
        not request.raw_path.isascii()
        or request.body_exists
        or any(name in request.headers for name in _NOT_OURS)
    )


def _headers(page: DatabaseAnswer) -> CIMultiDict[str]:
    """The table's headers: those of the first page that hold for it, and those of a list function."""
    headers = page.headers.copy()
    for name in _OF_THE_VIEW:
        headers.popall(name, None)
    headers[hdrs.CONTENT_TYPE] = _CONTENT_TYPE
    headers["Content-Security-Policy"] = "sandbox"  # as lists of the database have it
    return headers
