"""Client connections: a wrapper around aiohttp's protocol that bounds their number and their request heads.

aiohttp limits lines, single headers, the number of requests sent ahead, and idle time. This limits the time
and size of a whole head, and the bytes sent ahead. TLS handshakes count as connections.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from growd.bus.errors import shown
from growd.server.admission import Admission
from growd.server.client_request import NO_STORE, SECURITY_HEADERS, ClientRequest, add_own_headers
from growd.server.errors import ApiError, error_fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import StreamReader

    from growd.server.client_limits import Clients
    from growd.server.tls import Certificate

METHODS: Final = "GET, HEAD, POST, PUT, DELETE, COPY, OPTIONS"  # of the API and the database
MAX_HEAD: Final = 128 * 1024  # bytes of a request's line and headers together
AHEAD: Final = 16 * 1024  # bytes behind the request that is being answered, before no more are read
MAX_RAW_TARGET: Final = 8 * 1024  # bytes of a request line with raw UTF-8; encoding more would take too long
HANDSHAKE_S: Final = 10.0  # the longest TLS handshake
LINGER_S: Final = 1.0  # how long a refused client may take to read the refusal
# A client that vanished is noticed after 60 + 4 * 15 seconds, and one that takes no byte after 120
# (tcp(7); TCP_USER_TIMEOUT is in milliseconds).
KEEP_ALIVE: Final = (
    (socket.TCP_KEEPIDLE, 60),
    (socket.TCP_KEEPINTVL, 15),
    (socket.TCP_KEEPCNT, 4),
    (socket.TCP_USER_TIMEOUT, 120_000),
)
TLS_BUFFERS: Final = (
    16 * 1024,
    64 * 1024,
)  # bytes that may wait, encrypted and not yet
AIOHTTP_OPTIONS: Final = {
    "access_log": None,
    "auto_decompress": False,  # compressed bodies pass untouched
    "max_line_size": 64 * 1024,  # bytes; long `keys=[...]` queries
    "max_field_size": 16 * 1024,  # bytes; cookies and tokens
    "max_headers": 64,
    "lingering_time": 2.0,  # seconds in which the rest of a refused body is read
}
_BLANK_LINE: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(r"b'\S+ /\S* HTTP/1\.[01]'")  # as aiohttp quotes it
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]+")
_log = logging.getLogger(__name__)


class ConnectionLimits(msgspec.Struct, frozen=True):
    """How many connections there may be, and how long one may be open without a request.

    `header_timeout_s` runs from the connection, or from the first byte of a later request, until the head is
    complete; `keep_alive_s` from an answer to the next request.
    """

    connections: int = 3_000
    header_timeout_s: float = 10.0
    keep_alive_s: float = 75.0  # longer than the 60 s for which nginx keeps a connection


class ConnectionFactory:
    """Makes the protocol of each new connection, over TLS with a `certificate`."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: ConnectionLimits,
        clients: Clients,
        certificate: Certificate | None = None,
    ) -> None:
        # a client that goes away cancels its handler: its stream, or its request to the database, ends
        self.http = web.Server(
            handler,
            handler_cancellation=True,
            request_factory=partial(ClientRequest, loop=asyncio.get_running_loop()),
        )
        self.admission = Admission(limits.connections, clients)
        self.limits = limits
        self.certificate = certificate
        self.is_leaving = False
        self.refused: set[ClientConnection] = set()  # aiohttp does not know them any more
        self._handshakes: set[asyncio.Task[None]] = set()

    def __call__(self) -> ClientConnection:
        return ClientConnection(self)

    def make_http(self, connection: ClientConnection) -> web.RequestHandler:
        """aiohttp's protocol for one connection."""  # noqa: D403  a name
        options: dict[str, Any] = {**AIOHTTP_OPTIONS, "keepalive_timeout": self.limits.keep_alive_s}
        return _HttpProtocol(connection, self.http, loop=asyncio.get_running_loop(), **options)

    def own(self, handshake: asyncio.Task[None]) -> None:
        """Keep a handshake until it is over or `leave` ends it."""
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def abort_refused(self) -> None:
        """End the refused connections that are still open."""
        for connection in [*self.refused]:
            connection.abort()
        await asyncio.sleep(0)  # asyncio closes the sockets in the next turn

    async def leave(self) -> None:
        """Refuse new connections and end handshakes.

        asyncio may report a connection after the listening socket is closed.
        """
        self.is_leaving = True
        handshakes = [*self._handshakes]
        for handshake in handshakes:
            handshake.cancel()
        if handshakes:
            await asyncio.wait(handshakes)


class ClientConnection(asyncio.Protocol):
    """One connection. Its bytes go to aiohttp's protocol; heads that are too slow or large are refused."""

    def __init__(self, factory: ConnectionFactory) -> None:
        self.client: str | None = None  # whom it counts for
        self._factory = factory
        self._admission = factory.admission
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._http: web.RequestHandler | None = None
        self._timer: asyncio.TimerHandle | None = None  # of a head, or of a refused client
        self._early = b""  # bytes that came with the end of the TLS handshake
        self._head_size = 0  # bytes of an unfinished head
        self._head_end = b""  # its last bytes
        self._body: StreamReader | None = None  # of the request that is being answered
        self._ahead = 0  # bytes that came behind it
        self._is_paused = False  # because of them
        self._is_waiting = True  # for a request
        self._is_refused = False
        self._served = 0  # requests since bytes came last

    @property
    def is_pipelining(self) -> bool:
        """Whether the current request came together with an earlier one."""
        return self._served > 1

    def begin(self, request: web.BaseRequest) -> None:
        """A request is being answered."""
        self._served += 1
        self._body = request.content
        self._finish_head()

    def upgrade(self) -> None:
        """From now on the client sends messages of a websocket, which aiohttp bounds, and no requests."""
        self._body = None
        self._take_ahead()

    def end(self) -> None:
        """The request was answered."""
        body, self._body = self._body, None
        self._take_ahead()
        if body is not None and body.is_eof():  # else aiohttp closes the connection
            self._is_waiting = True
            self._admission.mark_idle(self)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection, which is idle."""
        if self._transport is not None:
            self._transport.close()

    def refuse_head(self, status: int, code: str, sentence: str) -> None:
        """Refuse a request whose head is not complete."""
        self._refuse(ApiError(status, code, sentence))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._factory.is_leaving:
            self._transport.abort()
            return
        connection: socket.socket = transport.get_extra_info("socket")
        for option, value in KEEP_ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self.client = self._admission.clients.connected(transport)
        refusal = self._admission.admit(self)
        if refusal is not None:
            self._turn_away(refusal)
        elif self._factory.certificate is None:
            self._begin_http(self._transport)
        else:
            self._transport.pause_reading()  # what comes is for TLS
            handshake = self._loop.create_task(self._agree(self._factory.certificate), name="TLS handshake")
            handshake.add_done_callback(self._handshake_is_over)
            self._factory.own(handshake)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._http is None:
            self._early += data
            return
        if self._is_waiting:
            data = self._take_head(data)
        is_ahead = self._body is not None and self._body.is_eof()
        self._served = 0
        if data:
            self._http.data_received(data)
        if is_ahead:
            self._count_ahead(len(data))

    def eof_received(self) -> None:
        if self._http is not None:
            self._http.eof_received()

    def pause_writing(self) -> None:
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._http is not None:
            self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop_timer()
        self._admission.forget(self)
        self._factory.refused.discard(self)
        if self._http is not None:
            self._http.connection_lost(exc)

    # TLS

    async def _agree(self, certificate: Certificate) -> None:
        """Begin TLS. asyncio could do that itself, but reports a connection only after its handshake."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            over_tls = await self._loop.start_tls(
                transport,
                self,
                certificate.context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=LINGER_S,
            )
        except OSError as error:  # ssl's errors, a lost connection and a timeout
            _log.debug("%s does not speak TLS: %s", transport.get_extra_info("peername"), error)
            return
        if over_tls is None or over_tls.is_closing() or self._transport is None:
            return
        encrypted, plain = TLS_BUFFERS
        transport.set_write_buffer_limits(high=encrypted)
        over_tls.set_write_buffer_limits(high=plain)
        self._transport = over_tls
        self._begin_http(over_tls)
        early, self._early = self._early, b""
        self.data_received(early)

    def _handshake_is_over(self, handshake: asyncio.Task[None]) -> None:
        if self._http is not None or self._is_refused:
            return
        self._admission.forget(self)  # asyncio does not report its end
        if handshake.cancelled() and self._transport is not None:
            self._transport.abort()

    # heads

    def _begin_http(self, transport: asyncio.Transport) -> None:
        self._http = self._factory.make_http(self)
        self._http.connection_made(transport)
        self._start_timer()

    def _take_head(self, data: bytes) -> bytes:
        """Count bytes of a head. Returns those to pass on, none if the head was refused."""
        lead = b""
        if not self._head_size:
            rest = data.lstrip(b"\r\n")  # RFC 9112, section 2.2; or the end of a head that came with others
            lead, data = data[: -len(rest) or None], rest
            if not data:
                return lead
            data = data if data.isascii() else _with_ascii_target(data)
        known = len(self._head_end)
        end = (self._head_end + data).find(_BLANK_LINE)
        self._head_size += len(data) if end < 0 else end - known
        if self._head_size > MAX_HEAD:
            self.refuse_head(431, "header_too_large", f"the headers are longer than {MAX_HEAD} bytes")
            return b""
        if end >= 0:
            self._finish_head()
            return lead + data
        self._head_end = (self._head_end + data)[-len(_BLANK_LINE) + 1 :]
        if self._timer is None:
            self._start_timer()
        self._admission.hold(self, self._head_size)
        return b"" if self._is_refused else lead + data

    def _count_ahead(self, size: int) -> None:
        """Stop reading when too much waits behind a request, unless aiohttp has stopped already."""
        self._ahead += size
        transport = self._transport
        if self._ahead > AHEAD and transport is not None and transport.is_reading():
            transport.pause_reading()
            self._is_paused = True

    def _take_ahead(self) -> None:
        """Read again what waits behind a request."""
        self._ahead = 0
        if self._is_paused and self._transport is not None:
            self._transport.resume_reading()
        self._is_paused = False

    def _finish_head(self) -> None:
        self._is_waiting = False
        self._stop_timer()
        if self._head_size:
            self._head_size, self._head_end = 0, b""
            self._admission.hold(self, 0)
        self._admission.mark_busy(self)

    def _start_timer(self) -> None:
        self._timer = self._loop.call_later(self._factory.limits.header_timeout_s, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        if not self._head_size:
            self.close()  # nothing was sent
            return
        seconds = self._factory.limits.header_timeout_s
        self.refuse_head(408, "header_timeout", f"the headers did not arrive within {seconds:g} s")

    # refusals

    def _turn_away(self, refusal: ApiError) -> None:
        """Refuse a new connection. Before TLS there is no way to tell why."""
        is_plain = self._factory.certificate is None
        if is_plain and self._admission.may_linger(self):
            self._refuse(refusal)
        elif self._transport is not None:
            self._is_refused = True
            self._transport.abort()

    def _refuse(self, error: ApiError) -> None:
        """Answer and close.

        The client's further bytes are read for a moment: closing with unread bytes resets the connection,
        which may destroy the answer (RFC 9112, section 9.6).
        """
        self._is_refused = True
        self._stop_timer()
        self._head_size = 0
        self._admission.hold(self, 0)
        self._end_http()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._factory.refused.add(self)
        transport.write(_whole(error))
        if transport.can_write_eof():
            transport.write_eof()
            self._timer = self._loop.call_later(LINGER_S, transport.abort)
        else:  # TLS ends both directions at once
            self._timer = self._loop.call_later(LINGER_S, transport.close)

    def _end_http(self) -> None:
        """Free what aiohttp holds of a head, and keep it from answering too. The transport stays open."""
        http, self._http = self._http, None
        if http is not None:
            http.transport = None
            http.connection_lost(None)


class _HttpProtocol(web.RequestHandler):
    """aiohttp's protocol with errors in growd's JSON form, which do not fill the log."""

    def __init__(self, connection: ClientConnection, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self.connection = connection

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        _log.debug("%s sent no valid HTTP: %s", request.remote, exc)
        response = _malformed(exc).response()
        add_own_headers(request, response.headers)
        response.headers["Connection"] = "close"  # aiohttp takes the request for one of HTTP/1.0
        return response


def connection_of(request: web.BaseRequest) -> ClientConnection:
    """The connection of a request."""
    return cast("_HttpProtocol", request.protocol).connection


def _with_ascii_target(data: bytes) -> bytes:
    """A request whose target is ASCII: other bytes are percent-encoded.

    Programs send `key="café"` as it is. CouchDB accepts that; aiohttp's parser refuses it. A target that
    does not come whole in one read, or is longer than `MAX_RAW_TARGET`, is refused all the same.
    """
    line, separator, rest = data.partition(b"\r\n")
    if len(line) > MAX_RAW_TARGET:
        return data
    encoded = _BEYOND_ASCII.sub(lambda found: b"%" + found[0].hex("%").upper().encode(), line)
    return encoded + separator + rest


def _whole(error: ApiError) -> bytes:
    """The bytes of an answer where there is no request to answer."""
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


def _malformed(error: HttpProcessingError) -> ApiError:
    said = error.message.strip()
    if isinstance(error, LineTooLong):
        sentence = f"the request line or a header is longer than {error.args[1]} bytes"
        return ApiError(431, "header_too_large", sentence, closes=True)
    if isinstance(error, BadHttpMethod) and _REQUEST_LINE.search(said):
        sentence = f"the method must be one of {METHODS}"
        return ApiError(405, "method_not_allowed", sentence, {"Allow": METHODS}, closes=True)
    if said.startswith("Too many headers"):
        sentence = f"the request has more than {AIOHTTP_OPTIONS['max_headers']} headers"
        return ApiError(431, "header_too_large", sentence, closes=True)
    sentence = f"invalid HTTP/1.1 request: {shown(said.partition(chr(10))[0].rstrip(':'))}"
    return ApiError(400, "bad_request", sentence, closes=True)
