"""The list function `csv` answered by growd: the same bytes, made from pages of the view.

CouchDB sends each row to a JavaScript process and back; growd reads the view and formats its rows itself. The
database answers those requests whose bytes growd can't reproduce: see `parse_csv_list`.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from aiohttp import hdrs, web

from growd.proxy.gateway import AnswerTooLargeError, GatewayError, break_off, first_segment
from growd.runtime.event_loop import load
from growd.server.client_request import add_cors
from growd.server.errors import ApiError
from growd.store.errors import PageError, PageTooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from multidict import CIMultiDict

    from growd.proxy.gateway import DatabaseAnswer, Gateway
    from growd.store.database_node import IndexBuild
    from growd.store.exporting.csv_list import CsvList

    Building = Callable[[str], Awaitable[IndexBuild | None]]

T = TypeVar("T")
_log = logging.getLogger(__name__)

_CONTENT_TYPE: Final = "text/csv; charset=utf-8; header=present"
PATIENCE_S: Final = 0.5  # for the first rows, until it is asked whether their index is being built
_LONGEST_PATIENCE_S: Final = 5.0
SHORT_BUILD: Final = 2_000  # changes: an index that lacks no more is waited for
_RETRY_S: Final = 30  # where the database does not say how long a build takes
_LONGEST_RETRY_S: Final = 600
# How a view is asked for rows from an index that is not brought up first.
_STALE: Final = frozenset(
    {"stale=ok", "stale=update_after", "update=lazy", "update=false", "stable=true", "stable=false"}
)
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


class IndexBuildingError(Exception):
    """The index for the request is being built, which takes too long to wait for."""

    def __init__(self, build: IndexBuild) -> None:
        super().__init__(f"{build}. Try again later.")
        self.retry_s = min(max(build.seconds_left or _RETRY_S, 1), _LONGEST_RETRY_S)


class Exports:
    """Answers CSV exports in place of the list function, and hands everything else on through `gateway`.

    `databases` hold points; `design` is the name of their design document. Their views are always answered
    from an index that is brought up first, for points wait before they are shipped, and an index may be as
    old as the last reader. While an index is built from many changes, exports get 503 with the progress that
    `building` tells. A client that takes nothing for `gateway.stall_limit` seconds is let go.
    """

    def __init__(
        self, gateway: Gateway, databases: Sequence[str], design: str, building: Building | None = None
    ) -> None:
        self._gateway = gateway
        self._databases = frozenset(databases)
        self._building = building
        self._views = {
            f"/{database}/_design/{design}/_list/csv/": f"/{database}/_design/{design}/_view/"
            for database in databases
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        database = first_segment(request)
        if database not in self._databases:
            return await self._gateway.handle(request)
        try:
            answer = await self._answered(request, database)
        except IndexBuildingError as error:
            retry = {"Retry-After": str(error.retry_s)}
            return ApiError(503, "index_building", str(error), retry).response_to(request)
        return answer or await self._gateway.handle(request, fresh_target(request.raw_path))

    async def _answered(self, request: web.BaseRequest, database: str) -> web.StreamResponse | None:
        """The answer to an export; None where it is the database's to give. Raises `IndexBuildingError`."""
        target = request.raw_path
        views = next((views for lists, views in self._views.items() if target.startswith(lists)), None)
        if request.method != "GET" or views is None:
            return None
        await load("growd.store.exporting.csv_list")
        from growd.store.exporting.pages import LARGEST_PAGE  # noqa: PLC0415  only exports need it

        table = self._table(request)
        if table is not None:
            return await self._download(request, table, views + table.view, database)
        if self._building is not None:
            probe = f"{views}by_timestamp?limit=0"
            asked = self._gateway.ask(request, probe, most=LARGEST_PAGE, dropped=_NOT_ASKED | _CONDITIONS)
            with suppress(GatewayError):
                await self._unless_building(asked, database)
        return None

    def _table(self, request: web.BaseRequest) -> CsvList | None:
        target = request.raw_path
        if not target.isascii() or request.body_exists or any(name in request.headers for name in _NOT_OURS):
            return None
        from growd.store.exporting.csv_list import parse_csv_list  # noqa: PLC0415  only exports need it

        view, _, query = target.partition("/_list/csv/")[2].partition("?")
        return parse_csv_list(view, query)

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
                    raise IndexBuildingError(build)
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


def fresh_target(target: str) -> str | None:
    """A request for a view or list without what asks for an old index; None where nothing asks for that."""
    path, _, query = target.partition("?")
    parts = query.split("&")
    kept = [part for part in parts if part not in _STALE]
    is_of_a_view = "/_view/" in path or "/_list/" in path
    if len(kept) == len(parts) or not is_of_a_view or not target.startswith("/"):
        return None
    return f"{path}?{'&'.join(kept)}"


def _headers(page: DatabaseAnswer) -> CIMultiDict[str]:
    """The table's headers: those of the first page that hold for it, and those of a list function."""
    headers = page.headers.copy()
    for name in _OF_THE_VIEW:
        headers.popall(name, None)
    headers[hdrs.CONTENT_TYPE] = _CONTENT_TYPE
    headers["Content-Security-Policy"] = "sandbox"  # as lists of the database have it
    return headers
