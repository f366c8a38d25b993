"""The connections of clients: how many, how long they may dawdle, and what is answered to what is no HTTP.

What clients can make growd keep is bounded, for each and for all together: heads that are not complete by
`MAX_HEAD` and `MAX_HEADS`; requests sent ahead, while another is answered, by `AHEAD`, and by what one read
of the socket brings besides on `RUNNING_AHEAD` connections; answers by the transport's buffer, as handlers
wait while it is full. `admission` keeps count of all together.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from aiohttp import EMPTY_PAYLOAD, StreamReader, web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from growd.bus.errors import shown
from growd.server.admission import Admission
from growd.server.client_request import NO_STORE, SECURITY_HEADERS, ClientRequest, add_own_headers
from growd.server.errors import ApiError, error_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import RawRequestMessage

    from growd.server.client_limits import Clients

METHODS: Final = "GET, HEAD, POST, PUT, DELETE, COPY, OPTIONS"  # of the API and the database
MAX_HEAD: Final = 128 * 1024  # bytes of a request's line and headers together, or of trailers
MAX_RAW_TARGET: Final = 8 * 1024  # bytes of a request line with raw UTF-8; encoding more would take too long
AHEAD: Final = 16 * 1024  # bytes of requests behind the one that is answered, before no more are read
LINGER_S: Final = 1.0  # how long a client that was refused may take to read why
# A client that vanished without a word is noticed after 60 + 4 * 15 seconds, also on a stream that is silent;
# so is one that lives, but takes no byte of what it asked for (tcp(7), TCP_USER_TIMEOUT, in milliseconds).
KEEP_ALIVE: Final = (
    (socket.TCP_KEEPIDLE, 60),
    (socket.TCP_KEEPINTVL, 15),
    (socket.TCP_KEEPCNT, 4),
    (socket.TCP_USER_TIMEOUT, 120_000),
)
SERVER_OPTIONS: Final = {
    "auto_decompress": False,  # compressed bodies pass untouched
    "max_line_size": 64 * 1024,  # bytes; long `keys=[...]` queries
    "max_field_size": 64 * 1024,  # bytes; cookies and tokens
}
_BLANK_LINE: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(r"b'\S+ /\S* HTTP/1\.[01]'")  # as aiohttp quotes it
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]+")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be, and how long one may be open without a request.

    `header_timeout_s` runs from the connection, or from the first byte of a later request, until the head is
    complete; `keep_alive_s` from an answer to the next request.
    """

    connections: int = 3_000
    header_timeout_s: float = 10.0
    keep_alive_s: float = 75.0  # longer than the 60 s for which nginx keeps one to us


class HttpServer(web.Server):
    """aiohttp's server with our connections, of which there is a bounded number."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: ConnectionLimits,
        clients: Clients,
    ) -> None:
        # a client that goes away cancels its handler: its stream, or its request to the database, ends
        super().__init__(handler, handler_cancellation=True, request_factory=self._request)
        self._options = {**SERVER_OPTIONS, "access_log": None, "keepalive_timeout": limits.keep_alive_s}
        self.header_timeout_s = limits.header_timeout_s
        self.admission = Admission(limits.connections, clients)
        self._handshakes: set[asyncio.Task[None]] = set()
        self.is_leaving = False

    def __call__(self) -> web.RequestHandler:
        return Connection(self, loop=asyncio.get_running_loop(), **self._options)

    def own(self, handshake: asyncio.Task[None]) -> None:
        """Keep a handshake that is under way, until it is over or `leave` ends it."""
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def leave(self) -> None:
        """Take no connection any more, and end handshakes.

        asyncio tells of a connection a moment after it accepted it, also when nobody listens any more.
        """
        self.is_leaving = True
        handshakes = [*self._handshakes]
        for handshake in handshakes:
            handshake.cancel()
        if handshakes:
            await asyncio.wait(handshakes)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> ClientRequest:
        return ClientRequest(message, payload, protocol, writer, task, protocol._loop)  # noqa: SLF001  as aiohttp does


class Connection(web.RequestHandler):
    """A connection that holds a client to the limits and answers what is no HTTP in our form of errors.

    Nor does it fill the log with that.
    """

    __slots__ = (
        "_admission",
        "_ahead",
        "_body",
        "_body_bytes",
        "_body_is_whole",
        "_header_timeout_s",
        "_requests_seen",
        "_server",
        "_surplus",
        "_timer",
        "client",
    )

    def __init__(self, server: HttpServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._admission = server.admission
        self.client: str | None = None  # whom it counts for
        self._header_timeout_s = server.header_timeout_s
        self._timer: asyncio.TimerHandle | None = None  # of a head that is awaited, or of lingering
        self._requests_seen = 0
        self._body: StreamReader = EMPTY_PAYLOAD  # of the last request
        self._body_bytes = 0
        self._body_is_whole = True
        self._surplus = 0  # bytes since then that completed no request and were of no body
        self._ahead = 0  # bytes that came behind a request that is being answered

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        return self._waiter is not None and not self._waiter.done()

    @property
    def has_more(self) -> bool:
        """Whether further requests wait behind the one that is being answered."""
        return bool(self._messages)

    @property
    def runs_ahead(self) -> bool:
        """Whether so much waits that nothing is read until it is answered."""
        return self._ahead > AHEAD

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._server.is_leaving:
            cast("asyncio.Transport", transport).abort()
            return
        super().connection_made(transport)
        connection: socket.socket = transport.get_extra_info("socket")
        for option, value in KEEP_ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self.client = self._admission.clients.connected(transport)
        refusal = self._admission.admit(self)
        if refusal is None:
            self._await_head()
        else:
            self._refuse(refusal)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self._admission.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._close or self._force_close:
            self._discard(len(data))
            return
        if self._body_is_whole and not self._surplus and not data.isascii():
            data = _with_ascii_target(data)
        super().data_received(data)
        while self._upgraded:
            self._decline_upgrade()
        if self._request_count != self._requests_seen:
            self._count_request(data)
        elif data:
            self._count_bytes(data)
        self.tell_of_malformed_body()

    def tell_of_malformed_body(self) -> None:
        """Tell whoever reads a body that it turned out malformed.

        To be called also when a request that had to wait is taken. aiohttp 3.14 only queues an answer behind
        the request, whose handler then waits for ever.
        """
        request = self._current_request
        # nothing can follow a body that is not complete, but an error in it
        if self._messages and request is not None and not request.content.is_eof():
            self._messages.clear()
            request.content.set_exception(web.RequestPayloadError("the body is malformed"))
            request.content.feed_eof()
            self.close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        if not self._messages:
            self._admission.mark_idle(self)
            if self._surplus and self._timer is None and not self._close:
                self._await_head()
        return finished

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        _log.debug("%s sent what is no HTTP: %s", request.remote, exc)
        response = _not_http(exc).response()
        add_own_headers(request, response.headers)
        return response

    def _resume_reading_if_drained(self) -> None:
        """Not before all are answered, so that what one read brought is all that waits."""
        if self._messages:
            return
        self.data_received(b"")  # aiohttp's parser keeps back what is beyond 32 requests
        if not self._messages:
            self._ahead = 0
            self._admission.has_caught_up(self)
            self._resume_reading_for_buffer()

    def _decline_upgrade(self) -> None:
        """Take what follows as the next request, as the only protocol here is HTTP (RFC 9110, section 7.8).

        aiohttp 3.14 would put it aside until the request is answered, out of the sight of all limits.
        """
        tail, self._message_tail = self._message_tail, b""
        self._upgraded = False
        if self._parser is not None:
            self._parser.set_upgraded(False)
        super().data_received(tail)

    def _count_request(self, data: bytes) -> None:
        self._requests_seen = self._request_count
        message, self._body = self._messages[-1] if self._messages else (None, EMPTY_PAYLOAD)
        self._body_bytes = self._body.total_bytes
        self._body_is_whole = self._body.is_eof()
        in_chunks = getattr(message, "chunked", False)  # what stands for an error has no such attribute
        of_body = 0 if in_chunks else self._body_bytes
        self._set_surplus(max(0, len(_behind_blank_line(data)) - of_body) if self._body_is_whole else 0)
        self._stop_timer()
        self._admission.mark_busy(self)
        was_idle = self._waiter is not None  # it has been woken since
        if was_idle:
            self._ahead = 0
        if len(self._messages) > was_idle:
            self._count_ahead(len(data))

    def _count_ahead(self, size: int) -> None:
        self._ahead += size
        if not self.runs_ahead:
            return
        if not self._buffer_paused:
            self._pause_reading_for_buffer()
        self._admission.runs_ahead(self)

    def _count_bytes(self, data: bytes) -> None:
        """Bytes came that completed no head: of a body, or of a head, trailers or chunk extensions."""
        if not self._body_is_whole:
            self._count_body(data)
        elif self._surplus or data.strip(b"\r\n"):  # empty lines before a request: RFC 9112, section 2.2
            self._set_surplus(self._surplus + len(data))
        if self._surplus > MAX_HEAD:
            self._refuse_head(431, "header_too_large", f"the headers are longer than {MAX_HEAD} bytes")
        elif self._surplus and self._timer is None and self.is_idle:
            self._await_head()

    def _count_body(self, data: bytes) -> None:
        grown = self._body.total_bytes - self._body_bytes
        self._body_bytes += grown
        self._body_is_whole = self._body.is_eof()
        if self._messages:  # it is the body of one that waits
            self._count_ahead(len(data))
        if self._body_is_whole:
            self._set_surplus(len(_behind_blank_line(data[grown:])))
        else:
            self._set_surplus(0 if grown else self._surplus + len(data))

    def _set_surplus(self, size: int) -> None:
        if size != self._surplus:
            self._surplus = size
            self._admission.holds(self, size)

    def give_up_head(self) -> None:
        self._refuse_head(503, "too_many_headers", "too many clients send their headers slowly")

    def _await_head(self) -> None:
        self._timer = self._loop.call_later(self._header_timeout_s, self._head_is_late)

    def _head_is_late(self) -> None:
        self._timer = None
        if self.is_idle and not self._surplus:
            self.force_close()  # it never said a word
        elif self.is_idle:
            seconds = self._header_timeout_s
            self._refuse_head(408, "header_timeout", f"the headers did not come within {seconds:g} s")

    def _refuse_head(self, status: int, code: str, sentence: str) -> None:
        self._set_surplus(0)
        if self.is_idle:
            self._refuse(ApiError(status, code, sentence))
        else:
            self.abort()  # an answer is under way, in the midst of which no other can be given

    def _refuse(self, error: ApiError) -> None:
        """Answer, and go.

        What the client still sends is read for a moment: a close with bytes unread is a reset, which may
        take the answer away from the client (RFC 9112, section 9.6).
        """
        transport = self.transport
        self.close()
        self._ahead = 0
        self._stop_timer()
        if transport is None or transport.is_closing():
            return
        transport.write(_whole(error))
        if not self._admission.may_linger(self):
            transport.close()
        elif transport.can_write_eof():
            transport.write_eof()
            self._timer = self._loop.call_later(LINGER_S, transport.abort)
        else:  # the end of TLS is one of both directions, so it comes later
            self._timer = self._loop.call_later(LINGER_S, transport.close)

    def _discard(self, size: int) -> None:
        """One that was refused may send on, but not without end: reading it takes time as well."""
        self._ahead += size
        if self._admission.is_lingering(self) and self._ahead > MAX_HEAD:
            self.abort()

    def abort(self) -> None:
        self.close()
        if self.transport is not None:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _with_ascii_target(data: bytes) -> bytes:
    """A request whose target is ASCII: its other bytes are percent-encoded.

    Programs send `key="café"` as it is; CouchDB takes that, and aiohttp's parser refuses it. A target that
    does not come whole in one read, or is longer than `MAX_RAW_TARGET`, is refused all the same.
    """
    line, separator, rest = data.partition(b"\r\n")
    if len(line) > MAX_RAW_TARGET:
        return data
    encoded = _BEYOND_ASCII.sub(lambda found: b"%" + found[0].hex("%").upper().encode(), line)
    return encoded + separator + rest


def _behind_blank_line(data: bytes) -> bytes:
    """What follows the last empty line, which ends heads and bodies in chunks. Further ones are no matter."""
    if data.endswith(_BLANK_LINE):
        return b""
    end = data.rfind(_BLANK_LINE)
    return (data[end + len(_BLANK_LINE) :] if end >= 0 else data).lstrip(b"\r\n")


def _whole(error: ApiError) -> bytes:
    """An answer as it stands on the wire, where there is no request to answer."""
    body = msgspec.json.encode(error_fields(error.code, error.sentence))
    fields = {
        "Content-Type": "application/json",
        "Content-Length": len(body),
        "Connection": "close",
        "Cache-Control": NO_STORE,
        **dict(SECURITY_HEADERS),
        **(error.headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n{head}\r\n".encode() + body


def _not_http(error: HttpProcessingError) -> ApiError:
    said = error.message.strip()
    if isinstance(error, LineTooLong):
        sentence = f"the request line or a header is longer than {error.args[1]} bytes"
        return ApiError(431, "header_too_large", sentence, closes=True)
    if isinstance(error, BadHttpMethod) and _REQUEST_LINE.search(said):
        sentence = f"the method is none of {METHODS}"
        return ApiError(405, "method_not_allowed", sentence, {"Allow": METHODS}, closes=True)
    sentence = f"this is no HTTP/1.1 request: {shown(said.partition(chr(10))[0].rstrip(':'))}"
    return ApiError(400, "bad_request", sentence, closes=True)
