"""Sends requests on to the database and its answers back to the client, streamed both ways."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import aiohttp
import msgspec
from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from growd.proxy.feeds import Feed
from growd.proxy.headers import answer_headers, origin_of, request_headers, request_target
from growd.server.client_request import add_cors, send_continue, split_target
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping
    from contextlib import AbstractAsyncContextManager


class GatewayError(Exception):
    """Base of the gateway's errors."""


class UpstreamUnreachableError(GatewayError):
    """The database accepts no connection: it is down or starting, or growd is stopping."""


class UpstreamBrokenError(GatewayError):
    """The database closed the connection early, or its answer is not valid HTTP."""


class AnswerTooLargeError(GatewayError):
    """The database's answer is larger than the caller accepts."""


_log = logging.getLogger(__name__)

# How a view is asked for rows from an index that is not brought up first.
_STALE: Final = frozenset(
    {"stale=ok", "stale=update_after", "update=lazy", "update=false", "stable=true", "stable=false"}
)

READ_AHEAD: Final = 256 * 1024  # bytes of an answer held before the database is read no further
SMALL: Final = 64 * 1024  # bytes of a body that is sent in one piece with its head
MAX_HEADER: Final = 64 * 1024  # bytes of one header of an answer; CouchDB's own stay below 2 kB
# A database closes idle connections (Node after 5 s, CouchDB after 300 s), and not every request that meets
# a closed one can be repeated.
IDLE_S: Final = 4.0
CONNECT_S: Final = 5.0
_REPEATABLE: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
_OWN_HEADERS: Final = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.USER_AGENT)
_RETRY_AFTER: Final = {"Retry-After": "2"}  # seconds; an embedded database starts in less
_CLIENT_CLOSED_REQUEST: Final = 499  # nginx's number, for the count of answers only


class DatabaseAnswer(msgspec.Struct, frozen=True):
    """A whole answer of the database; `headers` are those for the client."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


class Gateway:
    """Hands requests on to the database at `upstream()`, which is None while there is none.

    A client or database that takes no byte for `stall_limit` seconds is disconnected, and so is a client
    that sends no byte of its body for that long. An answer may take any time: views are indexed for minutes,
    feeds last for days. Databases in `closed` are growd's own.
    """

    def __init__(
        self,
        upstream: Callable[[], str | None],
        *,
        stall_limit: float = 300.0,
        closed: frozenset[str] = frozenset(),
    ) -> None:
        self.stall_limit = stall_limit
        self.answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse | None]] | None = None
        """Answers some requests in place of the database, and the others with None; set by a part."""
        self._closed = closed
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None
        self._open: dict[asyncio.Timeout, _Exchange] = {}
        self._is_leaving = False

    def end_feeds(self) -> None:
        """End the open feeds of changes, well-formed where possible, and refuse new ones.

        A client with a whole answer asks again and finds growd gone. A client whose answer is cut off may
        wait for ever.
        """
        self._is_leaving = True
        self._end(lambda exchange: exchange.feed is not None)

    def give_up(self) -> None:
        """End the requests that wait for the database, which does not answer any more."""
        self._end(lambda exchange: exchange.is_waiting)

    def _end(self, is_meant: Callable[[_Exchange], bool]) -> None:
        for limit, exchange in self._open.items():
            if is_meant(exchange):
                limit.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """End every connection to the database."""
        self._is_leaving = True
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: web.BaseRequest, instead: str | None = None) -> web.StreamResponse:
        """The database's answer to a request, or an error. With `instead` that target is requested."""
        name = first_segment(request)
        if name in self._closed:
            return ApiError(403, "forbidden", f"{name} is reserved for growd").response_to(request)
        try:
            answer = None if self.answer is None else await self.answer(request)
            return await self._hand_on(request, instead) if answer is None else answer
        except ApiError as refusal:
            return refusal.response_to(request)
        except UpstreamUnreachableError as error:
            _log.debug("%s %s: %s", request.method, request.raw_path, error)
            sentence = "the database is down or starting; try again"
            return ApiError(503, "service_unavailable", sentence, _RETRY_AFTER).response_to(request)
        except UpstreamBrokenError as error:
            _log.info("%s %s: %s", request.method, request.raw_path, error)
            return ApiError(502, "bad_gateway", f"the database gave no valid answer: {error}").response_to(
                request
            )
        except (ConnectionError, TimeoutError):  # the client has gone, or reads nothing
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=_CLIENT_CLOSED_REQUEST)

    async def ask(
        self, request: web.BaseRequest, target: str, *, most: int, dropped: frozenset[str] = frozenset()
    ) -> DatabaseAnswer:
        """The answer to a GET of `target` with the client's headers, without those `dropped`.

        Raises `GatewayError`: `AnswerTooLargeError` beyond `most` bytes.
        """
        upstream = self._present_upstream()
        headers, outside = request_headers(request, dropped | {"content-length"})
        answer, body = await self._get(upstream, target, headers, most)
        return DatabaseAnswer(answer.status, answer_headers(answer, upstream, outside), body)

    async def get(self, target: str, headers: Mapping[str, str], *, most: int) -> DatabaseAnswer:
        """The answer to a GET of `target` with these headers alone. Raises `GatewayError`."""
        answer, body = await self._get(self._present_upstream(), target, headers, most)
        return DatabaseAnswer(answer.status, CIMultiDict(answer.headers), body)

    async def _get(
        self, upstream: str, target: str, headers: Mapping[str, str], most: int
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        body = bytearray()
        try:
            async with self._client().get(
                URL(upstream + target, encoded=True), headers=headers, allow_redirects=False
            ) as answer:
                while piece := await answer.content.readany():
                    body += piece
                    if len(body) > most:
                        raise AnswerTooLargeError(f"the database's answer is larger than {most} bytes")
        except aiohttp.ClientError as error:
            raise _translated(error) from error
        return answer, bytes(body)

    async def _hand_on(self, request: web.BaseRequest, instead: str | None) -> web.StreamResponse:
        exchange = _Exchange(request, self._present_upstream(), instead, self.stall_limit)
        if exchange.feed is not None and self._is_leaving:
            raise UpstreamUnreachableError("growd is stopping")
        try:
            async with asyncio.timeout(None) as limit:
                self._open[limit] = exchange
                return await exchange.run(self._client())
        except TimeoutError:
            if not limit.expired():
                raise
            return await exchange.end()
        except BaseException:
            exchange.break_off()
            raise
        finally:
            self._open.pop(limit, None)

    def _present_upstream(self) -> str:
        base = self._upstream()
        if base is None:
            raise UpstreamUnreachableError("the database is not up")
        return origin_of(base)

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, keepalive_timeout=IDLE_S, socket_factory=self._socket
                ),
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_OWN_HEADERS,
                auto_decompress=False,
                read_bufsize=READ_AHEAD,
                max_line_size=MAX_HEADER,
                max_field_size=MAX_HEADER,
            )
        if self._session.closed:
            raise UpstreamUnreachableError("growd is stopping")
        return self._session

    def _socket(self, address: Any) -> socket.socket:
        """A socket that fails when the database takes no byte for `stall_limit` seconds (tcp(7))."""
        made = socket.socket(*address[:3])
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.stall_limit * 1000))
        return made


class FlushBeforeRead:
    """Lets `gateway` handle requests, those for `databases` within `reading()`.

    Points wait for a batch to spare the card; a reader, and a feed while it is open, must see them anyway. So
    views are always answered from an index that is brought up first: it may be as old as the last reader.
    `reading` is called with True for a feed from now on. It gets waiting points as changes: points that were
    sent before it begins would be neither in the feed nor in the view that its client has read.
    """

    def __init__(
        self,
        gateway: Gateway,
        databases: Collection[str],
        reading: Callable[[bool], AbstractAsyncContextManager[None]],
    ) -> None:
        self._gateway = gateway
        self._databases = databases
        self._reading = reading

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if first_segment(request) not in self._databases:
            return await self._gateway.handle(request)
        async with self._reading(_begins_now(request.raw_path)):
            return await self._gateway.handle(request, _fresh_target(request.raw_path))


class _Exchange:
    """One request to the database, and its answer on the way to the client."""

    def __init__(
        self, request: web.BaseRequest, upstream: str, instead: str | None, stall_limit: float
    ) -> None:
        self.feed = Feed.of(request.raw_path)
        self._request = request
        self._upstream = upstream
        self._target = request_target(request) if instead is None else instead
        self._stall_limit = stall_limit
        self._upload = _Upload(request, stall_limit)
        self._response: web.StreamResponse | None = None

    async def run(self, client: aiohttp.ClientSession) -> web.StreamResponse:
        headers, outside = request_headers(self._request)
        try:
            async with client.request(
                self._request.method,
                URL(self._upstream + self._target, encoded=True),
                headers=headers,
                data=self._upload.data,
                allow_redirects=False,
                middlewares=() if self._request.method in _REPEATABLE else (_never_repeat,),
            ) as answer:
                if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
                    raise UpstreamBrokenError("it switched to another protocol unasked")
                return await self._relay(answer, answer_headers(answer, self._upstream, outside))
        except aiohttp.ClientError as error:
            if self._response is None:
                raise self._upload.error or _translated(error) from error
            if not isinstance(error, aiohttp.ClientConnectionResetError):  # the client has gone
                _log.info("%s %s: %s", self._request.method, self._request.raw_path, _translated(error))
            self.break_off()
            return self._response

    async def _relay(self, answer: aiohttp.ClientResponse, headers: CIMultiDict[str]) -> web.StreamResponse:
        add_cors(self._request, headers)
        whole = await _small_body(answer)
        if whole is None:
            self._response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
        else:
            self._response = web.Response(
                body=whole, status=answer.status, reason=answer.reason, headers=headers
            )
        if not self._request.content.at_eof():
            self._response.force_close()  # the client may still send its body, or not
        async with asyncio.timeout(self._stall_limit):
            await self._response.prepare(self._request)
            if whole is not None:
                await self._response.write_eof()
                return self._response
        await self._stream(answer, self._response)
        async with asyncio.timeout(self._stall_limit):
            await self._response.write_eof()
        return self._response

    async def _stream(self, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        while piece := await answer.content.readany():
            if self.feed is not None:
                self.feed.take(piece)
            async with asyncio.timeout(self._stall_limit):
                await response.write(piece)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the head of an answer, but not for a view or list, which may take long."""
        return self._response is None and "/_design/" not in self._target

    async def end(self) -> web.StreamResponse:
        """Make the feed's answer whole if possible, as growd is stopping; else break it off."""
        if self._response is None:
            if self.feed is None and self._request.method not in _REPEATABLE:  # it may have been done
                raise UpstreamBrokenError("it does not answer")
            raise UpstreamUnreachableError("it does not answer, or growd is stopping")
        ending = self.feed.ending_of(self._response) if self.feed is not None else None
        if ending is None:
            self.break_off()
        else:
            with suppress(ConnectionError):
                await self._response.write_eof(ending)
        return self._response

    def break_off(self) -> None:
        """Close the connection so that the client can't take what it got for a whole answer."""
        if self._response is not None:
            break_off(self._request, self._response)


class _Upload:
    """A request's body: `data` for aiohttp's client. `error` is why it ended early."""

    def __init__(self, request: web.BaseRequest, stall_limit: float) -> None:
        self.error: ApiError | None = None
        self._content = request.content
        self._stall_limit = stall_limit
        self._has_begun = False
        self._request = request
        self.data: _Upload | bytes | None = self
        is_here = self._content.is_eof() and self._content.exception() is None
        if is_here and self._content.total_bytes <= SMALL:
            self.data = self._content.read_nowait() or None

    def __aiter__(self) -> _Upload:
        return self

    async def __anext__(self) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            send_continue(self._request)
        try:
            async with asyncio.timeout(self._stall_limit):
                piece = await self._content.readany()
        except TimeoutError:
            sentence = f"no byte of the body arrived for {self._stall_limit:g} s"
            self.error = ApiError(408, "timeout", sentence)
        # aiohttp's errors for a malformed body and a lost connection
        except (web.RequestPayloadError, HttpProcessingError, OSError, RuntimeError):
            self.error = ApiError(400, "bad_request", "the body is incomplete or malformed")
        if self.error is not None:
            raise self.error
        if not piece:
            raise StopAsyncIteration
        return piece


def _fresh_target(target: str) -> str | None:
    """A request for a view or list without what asks for an old index; None where nothing asks for that."""
    path, _, query = target.partition("?")
    parts = query.split("&")
    kept = [part for part in parts if part not in _STALE]
    is_of_a_view = "/_view/" in path or "/_list/" in path
    if len(kept) == len(parts) or not is_of_a_view or not target.startswith("/"):
        return None
    return f"{path}?{'&'.join(kept)}"


def first_segment(request: web.BaseRequest) -> str:
    """The first part of the path: a database, or an address of the server itself.

    As the database reads the target: also in absolute form, and without a fragment.
    """
    path, _ = split_target(request.raw_path)
    return unquote(path.partition("#")[0].lstrip("/").partition("/")[0])


def _begins_now(target: str) -> bool:
    """Whether a target is a feed of the changes from now on."""
    path, query = split_target(target)
    return path.endswith("/_changes") and "since=now" in query.split("&")


def break_off(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """End an answer that has begun so that the client sees that it is incomplete."""
    transport = request.transport
    if transport is None:
        return
    if hdrs.CONTENT_LENGTH in response.headers or request.version >= HttpVersion11:
        transport.close()  # the length, or the last chunk, will be missing
        return
    # an answer that ends with its connection is complete unless the connection is reset
    with suppress(OSError):
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _never_repeat(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating PUT and DELETE when a connection breaks (RFC 9110, section 9.2.2)."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(_why(error)) from error


async def _small_body(answer: aiohttp.ClientResponse) -> bytes | None:
    """The whole body if it is small or here already, else None."""
    content = answer.content
    if content.is_eof() and content.exception() is None:
        return content.read_nowait()
    length = answer.content_length
    return await answer.read() if length is not None and length <= SMALL else None


def _translated(error: aiohttp.ClientError) -> UpstreamUnreachableError | UpstreamBrokenError:
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UpstreamUnreachableError(f"no connection to the database: {error}")
    return UpstreamBrokenError(_why(error))


def _why(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message.strip().partition("\n")[0] or "its answer is not HTTP"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection before it answered"
    return str(error) or type(error).__name__
