"""The front door: what is not the API's goes to the database and back, byte for byte, streamed both ways."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from growd.api.requests import split_target
from growd.proxy.errors import (
    AnswerTooLargeError,
    FeedEndedError,
    RequestRefusedError,
    StaleConnectionError,
    UpstreamBrokenError,
    UpstreamUnreachableError,
)
from growd.proxy.feeds import Feed
from growd.proxy.headers import Outside, answer_headers, request_head
from growd.proxy.upstream import Answer, Connection, ConnectionPool, Upstream
from growd.server.client_request import cors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import StreamWriter

    from growd.proxy.framing import AnswerHead

_log = logging.getLogger(__name__)

SERVER_OPTIONS: Final[Mapping[str, Any]] = {
    "handler_cancellation": True,  # a client that goes away ends its request to the database
    "auto_decompress": False,  # compressed bodies pass untouched
    "max_line_size": 64 * 1024,  # bytes; long `keys=[...]` queries
    "max_field_size": 64 * 1024,  # bytes; cookies and tokens
}
"""What `aiohttp.web.Server` has to be told for a `Gateway` behind it to see requests as they came."""

_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_RETRY_AFTER = "2"  # seconds; an embedded database starts in less
_SWITCHING_PROTOCOLS = 101
_NO_CONTENT = 204
_CLIENT_CLOSED_REQUEST = 499  # nginx's number; it stands in the access log only
_HTTP_1_1 = (1, 1)
_LAST_CHUNK = b"0\r\n\r\n"
_SMALL = 64 * 1024  # bytes of a body that goes out in one piece with its head


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer of the database, all of it, and what it takes to send its headers on."""

    head: AnswerHead
    body: bytes
    upstream: Upstream
    outside: Outside


class Gateway:
    """Hands requests on to the database that `upstream()` names at the time, `None` while there is none.

    A peer that takes no byte, or sends none of the body it announced, for `stall_limit` seconds is let go.
    There is no limit on how long the database may take to answer, nor on how long an answer may last: views
    are indexed for minutes, feeds live for days. `connect_timeout` is in seconds.
    """

    def __init__(
        self,
        upstream: Callable[[], str | None],
        *,
        connect_timeout: float = 5.0,
        stall_limit: float = 300.0,
        closed: frozenset[str] = frozenset(),
    ) -> None:
        self._closed = closed
        self.stall_limit = stall_limit
        self._upstream = upstream
        self._pool = ConnectionPool(connect_timeout=connect_timeout)
        self._feeds: set[Connection] = set()
        self._is_leaving = False

    def end_feeds(self) -> None:
        """End the open feeds of changes, well-formed where that can be, and refuse further ones.

        A client with a whole answer asks again and learns that growd is gone. One whose answer is cut off may
        wait for ever.
        """
        self._is_leaving = True
        for connection in [*self._feeds]:
            connection.fail(FeedEndedError())

    async def close(self) -> None:
        """End every connection to the database."""
        await self._pool.close()

    async def handle(self, request: web.BaseRequest, instead: bytes | None = None) -> web.StreamResponse:
        """Answer a request with what the database says to it, or in its form that it says nothing.

        With `instead` the database is asked for that target.
        """
        name = first_segment(request)
        if name in self._closed:
            return error_answer(
                request, 403, "forbidden", f"{name} is growd's own here and can't be reached."
            )
        try:
            return await self._hand_on(request, instead)
        except RequestRefusedError as refused:
            return error_answer(request, refused.status, refused.error, refused.reason)
        except UpstreamUnreachableError as error:
            _log.debug("%s %s: %s", request.method, request.raw_path, error)
            reason = "The database is down or starts. Try again."
            return error_answer(request, 503, "service_unavailable", reason, {"Retry-After": _RETRY_AFTER})
        except UpstreamBrokenError as error:
            _log.info("%s %s: %s", request.method, request.raw_path, error)
            return error_answer(request, 502, "bad_gateway", f"The database gave no answer: {error}.")
        except (ConnectionError, TimeoutError):
            return _gone(request)

    async def ask(
        self, request: web.BaseRequest, target: bytes, *, most: int, dropped: frozenset[bytes] = frozenset()
    ) -> Whole:
        """What the database says to a GET of `target` in the name of a client, of up to `most` bytes.

        The headers are those of the client's request, without those `dropped`. Raises `GatewayError`,
        `AnswerTooLargeError` among them.
        """
        upstream = self._present_upstream()
        head, outside = request_head(request, upstream, instead=target, dropped=dropped)
        return Whole(*await self._answer_to(head, upstream, most), upstream, outside)

    async def get(
        self, target: bytes, headers: list[tuple[bytes, bytes]], *, most: int
    ) -> tuple[AnswerHead, bytes]:
        """What the database says to a GET of `target` with these headers alone, of up to `most` bytes.

        Raises `GatewayError`.
        """
        upstream = self._present_upstream()
        lines = [b"GET " + upstream.prefix + target + b" HTTP/1.1", b"Host: " + upstream.authority]
        lines += [name + b": " + value for name, value in headers]
        return await self._answer_to(b"\r\n".join(lines) + b"\r\n\r\n", upstream, most)

    async def _answer_to(self, head: bytes, upstream: Upstream, most: int) -> tuple[AnswerHead, bytes]:
        """The whole answer to a request that may be repeated."""
        try:
            return await self._read_whole(await self._pool.acquire(upstream), head, most)
        except StaleConnectionError:
            return await self._read_whole(await self._pool.acquire(upstream, fresh=True), head, most)

    async def _read_whole(self, connection: Connection, head: bytes, most: int) -> tuple[AnswerHead, bytes]:
        answer = None
        try:
            connection.write(head)
            while (found := await connection.read_head()).interim:
                pass
            answer = Answer(connection, found, hdrs.METH_GET)
            body = await _whole_body(answer, most)
        finally:
            if answer is not None and answer.reusable:
                self._pool.release(connection)
            else:
                connection.abort()
        return found, body

    def _present_upstream(self) -> Upstream:
        base = self._upstream()
        if base is None:
            raise UpstreamUnreachableError("the database is not up")
        return Upstream.parse(base)

    async def _hand_on(self, request: web.BaseRequest, instead: bytes | None) -> web.StreamResponse:
        upstream = self._present_upstream()
        head, outside = request_head(request, upstream, instead=instead)
        exchange = _Exchange(request, head, outside, self.stall_limit)
        try:
            return await self._converse(exchange, await self._pool.acquire(upstream))
        except StaleConnectionError:
            # RFC 9110 section 9.2.2: a proxy repeats nothing that might be done twice.
            if request.body_exists or request.method not in _REPEATABLE:
                raise
            return await self._converse(exchange, await self._pool.acquire(upstream, fresh=True))

    async def _converse(self, exchange: _Exchange, connection: Connection) -> web.StreamResponse:
        try:
            if exchange.feed is not None:
                if self._is_leaving:
                    raise FeedEndedError
                self._feeds.add(connection)
            answer = await exchange.run(connection)
            if exchange.left_reusable:
                self._pool.release(connection)
            return answer
        finally:
            self._feeds.discard(connection)
            if not exchange.left_reusable:
                connection.abort()


class _Exchange:
    """One request and its answer on a connection to the database."""

    def __init__(self, request: web.BaseRequest, head: bytes, outside: Outside, stall_limit: float) -> None:
        self.left_reusable = False
        self.feed = Feed.of(request.raw_path)
        self._request = request
        self._head = head
        self._outside = outside
        self._stall_limit = stall_limit
        self._chunked = hdrs.TRANSFER_ENCODING in request.headers
        self._upload: asyncio.Task[None] | None = None

    async def run(self, connection: Connection) -> web.StreamResponse:
        if self._body_is_here:
            connection.write(self._head + self._last(self._request.content.read_nowait()))
        else:
            connection.write(self._head)
            upload = self._upload_body(connection)
            self._upload = asyncio.create_task(upload, name=f"gateway upload {self._request.method}")
        try:
            head = await self._final_head(connection)
            answer = Answer(connection, head, self._request.method)
            relayed = await self._relay(answer, connection.upstream)
            self.left_reusable = answer.reusable and self._uploaded
            return relayed
        finally:
            if self._upload is not None:
                self._upload.cancel()
                await asyncio.wait([self._upload])

    @property
    def _body_is_here(self) -> bool:
        """The body, if there is one, came whole with the head, and is small enough to go out with it."""
        content = self._request.content
        return content.is_eof() and content.total_bytes <= _SMALL and content.exception() is None

    @property
    def _uploaded(self) -> bool:
        return self._upload is None or (self._upload.done() and self._request.content.at_eof())

    async def _upload_body(self, connection: Connection) -> None:
        """Hand the body on as it comes. What fails here is told by whoever reads the answer."""
        try:
            await self._pump(connection)
        except UpstreamBrokenError:
            return  # perhaps it answered before it closed
        except RequestRefusedError as refused:
            connection.fail(refused)
        # aiohttp's errors for what is malformed, and for a connection that was lost
        except (web.RequestPayloadError, HttpProcessingError, OSError, RuntimeError):
            connection.fail(RequestRefusedError(400, "bad_request", "The request's body broke off."))

    async def _pump(self, connection: Connection) -> None:
        at_end = False
        while not at_end:
            piece = await self._piece()
            at_end = self._request.content.at_eof()
            connection.write(self._last(piece) if at_end else self._framed(piece))
            if connection.congested:
                await self._drain(connection)

    async def _piece(self) -> bytes:
        """What has come of the body, empty at its end. `RequestRefusedError` if nothing comes for long."""
        if piece := self._request.content.read_nowait():
            return piece
        try:
            async with asyncio.timeout(self._stall_limit):
                return await self._request.content.readany()
        except TimeoutError:
            reason = f"No byte of the body came for {self._stall_limit:g} s."
            raise RequestRefusedError(408, "timeout", reason) from None

    async def _drain(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(self._stall_limit):
                await connection.drain()
        except TimeoutError:
            reason = f"the database took no byte of the body for {self._stall_limit:g} s"
            error = UpstreamBrokenError(reason)
            connection.fail(error)
            raise error from None

    def _framed(self, piece: bytes) -> bytes:
        """A piece of the body as the database is to get it."""
        return b"".join(_chunk([piece])) if self._chunked and piece else piece

    def _last(self, piece: bytes) -> bytes:
        """The last piece, and what ends the body."""
        return self._framed(piece) + (_LAST_CHUNK if self._chunked else b"")

    async def _final_head(self, connection: Connection) -> AnswerHead:
        """The answer's head; interim ones before it (100 Continue) are passed on at once."""
        while (head := await connection.read_head()).interim:
            if head.status == _SWITCHING_PROTOCOLS:
                raise UpstreamBrokenError("the database changed to another protocol unasked")
            if self._request.version >= _HTTP_1_1:  # RFC 9110 section 15.2
                headers = answer_headers(head.headers, connection.upstream, self._outside)
                await self._send([_head_bytes(head, headers)])
        return head

    async def _relay(self, answer: Answer, upstream: Upstream) -> web.StreamResponse:
        """Send the answer to the client, each piece as soon as it is there."""
        headers = answer_headers(answer.head.headers, upstream, self._outside)
        relay = Relay(
            self._request, answer.head, headers, bodiless=answer.complete, may_persist=self._uploaded
        )
        waiting = [relay.head]
        try:
            while not answer.complete:
                if waiting and not answer.data_waiting:
                    await self._send(waiting)
                    waiting = []
                pieces = await answer.read()
                waiting += relay.framed(pieces)
                if self.feed is not None:
                    self.feed.take(pieces)
                if pieces and not answer.complete:
                    await self._send(waiting)
                    waiting = []
            await self._send([*waiting, relay.end])
        except FeedEndedError:
            ending = None if self.feed is None else self.feed.ending_of(answer.head)
            if ending is None:
                relay.break_off()
            else:
                await self._send([*waiting, *relay.framed([ending] * bool(ending)), relay.end])
        except UpstreamBrokenError as error:
            _log.info("%s %s: %s", self._request.method, self._request.raw_path, error)
            relay.break_off()
        except (RequestRefusedError, ConnectionError, TimeoutError):
            relay.break_off()  # the client is to blame, or gone
        except BaseException:  # as growd leaves
            relay.break_off()
            raise
        return relay

    async def _send(self, pieces: list[bytes]) -> None:
        await send(self._request, pieces, self._stall_limit)


class Relay(web.StreamResponse):
    """Tells aiohttp of an answer that goes out by our hand.

    aiohttp's own would add Date, Server and Content-Type where the database sent none, and re-encode headers.
    `headers` are those of `answered` as the client is to get them, but for framing and Connection. No body
    follows if it is `bodiless`.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        answered: AnswerHead,
        headers: list[tuple[bytes, bytes]],
        *,
        bodiless: bool = False,
        may_persist: bool = True,
    ) -> None:
        super().__init__(status=answered.status)
        self._request = request
        self._sized = bodiless or b"content-length" in answered.headers
        self._chunks = not self._sized and request.version >= _HTTP_1_1
        self._persists = may_persist and request.keep_alive and (self._sized or self._chunks)
        # an answer to HEAD, or 304, may tell how its body would have been sent (RFC 9112 section 6.1)
        told = bodiless and b"transfer-encoding" in answered.headers
        may_tell = request.version >= _HTTP_1_1 and answered.status != _NO_CONTENT
        if self._chunks or (told and may_tell):
            headers = [*headers, (b"Transfer-Encoding", b"chunked")]
        if b"access-control-allow-origin" not in answered.headers:  # else CouchDB has decided
            headers = [*headers, *cors_of(request)]
        if not self._persists:
            headers = [*headers, (b"Connection", b"close")]
        elif request.version < _HTTP_1_1:
            headers = [*headers, (b"Connection", b"keep-alive")]
        self.head = _head_bytes(answered, headers)

    @property
    def keep_alive(self) -> bool:
        return self._persists

    @property
    def end(self) -> bytes:
        """What follows the last piece."""
        return _LAST_CHUNK if self._chunks else b""

    def framed(self, pieces: list[bytes]) -> list[bytes]:
        """Pieces of the body as the client is to get them."""
        return _chunk(pieces) if self._chunks and pieces else pieces

    def break_off(self) -> None:
        """End the connection so that the client can't take what it got for the whole answer."""
        self._persists = False
        transport = self._request.transport
        if transport is None:
            return
        if self._sized or self._chunks:
            transport.close()  # after what was sent: the length, or the last chunk, will be missed
            return
        # an answer that ends with its connection can only be told apart by a reset
        with suppress(OSError):
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Everything was sent."""


def first_segment(request: web.BaseRequest) -> str:
    """The name that a path begins with: of a database, or of what the server itself has.

    As the database reads the target: also one in absolute form, and without a fragment, which none may have.
    """
    path, _ = split_target(request.raw_path)
    return unquote(path.partition("#")[0].lstrip("/").partition("/")[0])


async def send(request: web.BaseRequest, pieces: list[bytes], stall_limit: float) -> None:
    """Send bytes as fast as the client takes them; `TimeoutError` if it takes none for `stall_limit` s."""
    writer = cast("StreamWriter", request.writer)
    await writer.write(b"".join(pieces), drain=False)
    if request.protocol.writing_paused:
        async with asyncio.timeout(stall_limit):
            await writer.drain()


async def _whole_body(answer: Answer, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while not answer.complete:
        pieces += (new := await answer.read())
        size += sum(map(len, new))
        if size > most:
            raise AnswerTooLargeError(f"the database's answer is larger than {most} bytes")
    return b"".join(pieces)


def _gone(request: web.BaseRequest) -> web.Response:
    """The client went away, or takes nothing, before its answer began."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=_CLIENT_CLOSED_REQUEST)


def _chunk(pieces: list[bytes]) -> list[bytes]:
    """Pieces, not all empty, as one chunk of a body (RFC 9112 section 7.1)."""
    return [b"%x\r\n" % sum(map(len, pieces)), *pieces, b"\r\n"]


def _head_bytes(head: AnswerHead, headers: list[tuple[bytes, bytes]]) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason)]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def error_answer(
    request: web.BaseRequest, status: int, error: str, reason: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer in CouchDB's form of errors."""
    answer = web.Response(
        status=status,
        text=json.dumps({"error": error, "reason": reason}) + "\n",
        content_type="application/json",
        headers={"Cache-Control": "must-revalidate", "Server": "growd", **(headers or {})},
    )
    if not request.content.at_eof():
        answer.force_close()  # the rest of the body is still to come
    return answer
