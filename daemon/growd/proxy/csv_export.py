"""The list function `csv` answered by growd: the same bytes, from pages of the view that it goes through.

CouchDB sends each row to a JavaScript process and back; this reads the view and formats its rows here. What
can't be answered in the very bytes of the database is the database's to answer: see `plan_of`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import msgspec

from growd.proxy.errors import AnswerTooLargeError, GatewayError
from growd.proxy.framing import AnswerHead, Headers
from growd.proxy.gateway import Relay, error_answer, first_segment, send
from growd.proxy.headers import HOP_BY_HOP, answer_headers
from growd.store.errors import PageError
from growd.store.exporting.csv_format import USUAL_COLUMNS, CsvFormat
from growd.store.exporting.pages import LARGEST_PAGE, Newest, Pages, Selection, slices

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Coroutine,
        Mapping,
        Sequence,
    )

    from aiohttp import web

    from growd.proxy.gateway import Gateway, Whole
    from growd.store.exporting.csv_format import Row
    from growd.store.index_builds import IndexBuild

    Building = Callable[[str], Awaitable[IndexBuild | None]]

_log = logging.getLogger(__name__)

_CONTENT_TYPE: Final = b"text/csv; charset=utf-8; header=present"
_REDUCED: Final = "by_variable"  # the view that has a reduce
_VIEWS: Final = frozenset({_REDUCED, "by_timestamp", "by_category", "all_vars"})
_EVERY_POINT: Final = "4"  # the group level at which each key is a group
_PIECE: Final = 32 * 1024  # bytes that are sent at once
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
_NOT_ASKED: Final = frozenset({b"accept-encoding"})
# A probe is no repetition of the client's request, so its conditions do not apply.
_CONDITIONS: Final = frozenset(name.lower().encode() for name in _NOT_OURS)
# of the view's answer, what is not true of the table
_OF_THE_VIEW: Final = HOP_BY_HOP | {
    b"cache-control",
    b"content-encoding",
    b"content-length",
    b"content-security-policy",
    b"content-type",
    b"etag",
    b"last-modified",
}
_FLAG: Final = re.compile("true|false")
_NUMBER: Final = re.compile("[0-9]{1,9}")
_KEY: Final = re.compile(".+")
_FORMS: Final = {
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
"""The parameters that are understood, and what they may be, as they stand in the address."""

_columns: Final = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read, and how to write it."""

    view: str
    selection: Selection
    newest: Newest | None  # what chooses among rows of one key, at group_level=4
    format: CsvFormat


class IndexBuildingError(Exception):
    """The index of what is asked for is being built, which takes longer than a client would wait."""

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
            return error_answer(request, 503, "index_building", str(error), retry)
        return answer or await self._gateway.handle(request, fresh_target(request.raw_path))

    async def _answered(self, request: web.BaseRequest, database: str) -> web.StreamResponse | None:
        """The answer to an export; None where it is the database's to give. Raises `IndexBuildingError`."""
        target = request.raw_path
        views = next((views for lists, views in self._views.items() if target.startswith(lists)), None)
        if request.method != "GET" or views is None:
            return None
        plan = self._plan(request)
        if plan is not None:
            export = _Export(self._gateway, request, plan, (views + plan.view).encode())
            return await self._export(export, database)
        if self._building is not None:
            probe = f"{views}by_timestamp?limit=0".encode()
            asked = self._gateway.ask(request, probe, most=LARGEST_PAGE, dropped=_NOT_ASKED | _CONDITIONS)
            with suppress(GatewayError):
                await self._unless_building(asked, database)
        return None

    def _plan(self, request: web.BaseRequest) -> Plan | None:
        target = request.raw_path
        if not target.isascii() or request.body_exists or any(name in request.headers for name in _NOT_OURS):
            return None
        view, _, query = target.partition("/_list/csv/")[2].partition("?")
        return plan_of(view, query)

    async def _export(self, export: _Export, database: str) -> web.StreamResponse | None:
        try:
            first = await self._unless_building(export.page(), database)
            rows = export.pages.take(first.body) if first.head.status == HTTPStatus.OK else None
        except (GatewayError, PageError):
            rows = None
        # where there are none the database tells why in its own words
        return None if rows is None else await export.run(first, rows)

    async def _unless_building(self, asked: Coroutine[None, None, Whole], database: str) -> Whole:
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


class _Export:
    """One table on its way to one client."""

    def __init__(self, gateway: Gateway, request: web.BaseRequest, plan: Plan, view: bytes) -> None:
        self.pages = Pages(plan.selection)
        self._gateway = gateway
        self._request = request
        self._plan = plan
        self._view = view

    async def page(self) -> Whole:
        """The next page, whatever its status. Raises `GatewayError`."""
        most = LARGEST_PAGE
        while True:
            target = self._view + b"?" + self.pages.query().encode()
            try:
                return await self._gateway.ask(self._request, target, most=most, dropped=_NOT_ASKED)
            except AnswerTooLargeError:
                if not self.pages.ask_for_fewer():
                    most = _NO_MORE

    async def run(self, first: Whole, rows: list[msgspec.Raw]) -> Relay:
        """Send the whole table, of which the first page is there."""
        headers = _headers(first)
        answered = AnswerHead(first.head.minor_version, HTTPStatus.OK, b"OK", Headers(headers))
        relay = Relay(self._request, answered, headers)
        waiting = [relay.head, *relay.framed([self._plan.format.head])]
        try:
            async with aclosing(self._lines(rows)) as pieces:
                async for lines in pieces:
                    await self._send([*waiting, *relay.framed([lines])])
                    waiting = []
            await self._send([*waiting, relay.end])
        except (GatewayError, PageError) as error:
            _log.info("%s %s: %s", self._request.method, self._request.raw_path, error)
            relay.break_off()
        except (ConnectionError, TimeoutError):
            relay.break_off()  # the client is gone, or takes nothing
        except BaseException:  # as growd leaves
            relay.break_off()
            raise
        return relay

    async def _send(self, pieces: list[bytes]) -> None:
        await send(self._request, pieces, self._gateway.stall_limit)

    async def _lines(self, rows: list[msgspec.Raw]) -> AsyncGenerator[bytes]:
        """All lines in pieces, none of them empty. While a page is sent the next one is read."""
        chosen = self._plan.newest
        while True:
            async with self._next_page() as next_page:
                async for lines in self._of_page(rows, chosen):
                    yield lines
                if next_page is None or (chosen is not None and chosen.done):
                    break
                rows = self._new_rows(await next_page)
        if chosen is not None and (last := self._plan.format.lines(chosen.end())):
            yield last

    async def _of_page(self, rows: list[msgspec.Raw], chosen: Newest | None) -> AsyncIterator[bytes]:
        made = bytearray()
        for part in slices(rows):
            found: list[Row] = self._rows(part)
            made += self._plan.format.lines(found if chosen is None else chosen.take(found))
            if len(made) >= _PIECE:
                yield bytes(made)
                made.clear()
            await asyncio.sleep(0)  # others have their turn
        if made:
            yield bytes(made)

    def _rows(self, part: Sequence[msgspec.Raw]) -> list[Row]:
        try:
            return self._plan.format.rows(part)
        except (ValueError, RecursionError) as error:
            raise PageError(f"a row of the view can't be read: {error}") from None

    @asynccontextmanager
    async def _next_page(self) -> AsyncIterator[asyncio.Task[Whole] | None]:
        """The next page while it is read, None if there is none."""
        chosen = self._plan.newest
        if self.pages.done or (chosen is not None and chosen.done):
            yield None
            return
        task = asyncio.create_task(self.page(), name="export: next page")
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # looked at: nobody else will when the client has gone

    def _new_rows(self, page: Whole) -> list[msgspec.Raw]:
        if page.head.status != HTTPStatus.OK:
            raise PageError(f"the database answered with {page.head.status} to a later page")
        return self.pages.take(page.body)


def fresh_target(target: str) -> bytes | None:
    """A request for a view or list without what asks for an old index; None where nothing asks for that."""
    path, _, query = target.partition("?")
    parts = query.split("&")
    kept = [part for part in parts if part not in _STALE]
    is_of_a_view = "/_view/" in path or "/_list/" in path
    if len(kept) == len(parts) or not is_of_a_view or not target.startswith("/"):
        return None
    return f"{path}?{'&'.join(kept)}".encode("utf-8", "surrogateescape")


def plan_of(view: str, query: str) -> Plan | None:
    """How to answer a request for this view with this query string; None: it is the database's to answer.

    That is so for other views and reduces, and for all whose meaning or refusal is the database's to know:
    unknown parameters, some twice, and values of another form than the usual one.
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
    return _plan(view, given, CsvFormat(columns), is_grouped=is_grouped)


def _plan(view: str, given: Mapping[str, str], form: CsvFormat, *, is_grouped: bool) -> Plan:
    skip = int(given.get("skip", "0"))
    limit = int(given["limit"]) if "limit" in given else None
    descending = given.get("descending") == "true"
    selection = Selection(
        startkey=given.get("startkey", ""),
        rest=_as_given(given, "endkey", "inclusive_end"),
        descending=descending,
        skip=0 if is_grouped else skip,
        limit=None if is_grouped else limit,
    )
    newest = Newest(descending=descending, skip=skip, limit=limit) if is_grouped else None
    return Plan(view, selection, newest, form)


def _as_given(given: Mapping[str, str], *names: str) -> tuple[str, ...]:
    return tuple(f"{name}={given[name]}" for name in names if name in given)


def _parameters(query: str) -> dict[str, str] | None:
    """Names and values as they came, or None if one is not understood."""
    given: dict[str, str] = {}
    if ";" in query:  # CouchDB parts parameters there too
        return None
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        form = _FORMS.get(name)
        if form is None or name in given or form.fullmatch(value) is None:
            return None
        given[name] = value
    return given


def _columns_of(given: Mapping[str, str]) -> list[str] | None:
    """The names of the columns, or None if `cols` is not what it should be."""
    if "cols" not in given:
        return list(USUAL_COLUMNS)
    try:
        return _columns(unquote_to_bytes(given["cols"].replace("+", " "))) or None
    except ValueError:
        return None


def _headers(page: Whole) -> list[tuple[bytes, bytes]]:
    """The table's headers: those of the first page that are true of it, and those of a list function."""
    found: list[tuple[bytes, bytes]] = Headers(
        answer_headers(page.head.headers, page.upstream, page.outside)
    ).without(_OF_THE_VIEW)
    headers = [*found, (b"Content-Type", _CONTENT_TYPE)]
    if any(server.startswith(b"CouchDB/") for server in page.head.headers.values(b"server")):
        headers.append((b"Content-Security-Policy", b"sandbox"))  # as CouchDB's lists have it
    return headers
