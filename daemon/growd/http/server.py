"""The one address that clients use: `/_svc` to the API, everything else to the database."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from growd.bus.errors import shown
from growd.http.errors import ApiError
from growd.http.gateway import SERVER_OPTIONS
from growd.http.requests import split_target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.http.api import Api

CLOSE_S: Final = 0.2  # how long open requests may go on when the daemon leaves
# A client that vanished without a word is noticed after 60 + 4 * 15 seconds, also on a stream that is silent.
KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
METHODS: Final = "GET, HEAD, POST, PUT, DELETE, COPY, OPTIONS"  # of the API and the database
_REQUEST_LINE: Final = re.compile(r"b'\S+ /\S* HTTP/1\.[01]'")  # as aiohttp quotes it
_log = logging.getLogger(__name__)


class Passage(Protocol):
    """What answers everything that is not the API's: the way through to the database."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse: ...


class AddressError(OSError):
    """The address can't be listened on; the sentence says why."""

    def __str__(self) -> str:
        return self.strerror or ""


class Server:
    """Listens, and sends each request to the API or through to the database."""

    def __init__(self, api: Api, passage: Passage) -> None:
        self._api = api
        self._passage = passage
        self._runner: web.ServerRunner | None = None
        self._handlers: set[asyncio.Task[Any]] = set()
        self.address: tuple[str, int] | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen on `host`, `port` (0: any free one; `address` tells which). Raises `AddressError`."""
        self._runner = web.ServerRunner(_HttpServer(self._handle), shutdown_timeout=CLOSE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=512)
        try:
            await site.start()
        except OSError as error:
            await self.close()
            raise AddressError(error.errno, _why(error, host, port)) from None
        self.address = self._runner.addresses[0][:2]

    async def close(self) -> None:
        """Refuse new connections, let open requests come to their end for a moment, then end them."""
        runner, self._runner = self._runner, None
        if runner is None or runner.server is None:
            return
        for site in runner.sites:
            await site.stop()
        runner.server.pre_shutdown()  # no further request on the connections that are open
        self._api.end_streams()
        await self._end_handlers()
        await runner.cleanup()
        await self._api.close()

    async def _end_handlers(self) -> None:
        """End them once, and wait: aiohttp would cancel them twice, in the midst of their tidying up."""
        if not self._handlers:
            return
        _, late = await asyncio.wait(self._handlers, timeout=CLOSE_S)
        for handler in late:
            handler.cancel()
        if late:
            await asyncio.wait(late)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, query = split_target(request.raw_path)
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._handlers.add(task)
        try:
            if path == self._api.root or path.startswith(self._api.root + "/"):
                return await self._api.handle(request, path, query)
            return await self._passage.handle(request)
        finally:
            self._handlers.discard(task)


class _HttpServer(web.Server):
    """aiohttp's server with our connections."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        options = {name: value for name, value in SERVER_OPTIONS.items() if name != "handler_cancellation"}
        # a client that goes away cancels its handler: its stream, or its request to the database, ends
        super().__init__(handler, handler_cancellation=True)
        self._options = {**options, "access_log": None}

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._options)


class _Connection(web.RequestHandler):
    """A connection that answers what is no HTTP in our form of errors, and does not fill the log with it."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        connection: socket.socket = transport.get_extra_info("socket")
        for option, value in KEEP_ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def data_received(self, data: bytes) -> None:
        """Besides: tell whoever reads a body that it turned out malformed.

        aiohttp 3.14 only queues an answer behind the request, whose handler then waits for ever.
        """
        super().data_received(data)
        request = self._current_request
        # nothing can follow a body that is not complete, but an error in it
        if self._messages and request is not None and not request.content.is_eof():
            self._messages.clear()
            request.content.set_exception(web.RequestPayloadError("the body is malformed"))
            request.content.feed_eof()
            self.close()

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
        return _not_http(exc).response()


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


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; choose another with --port"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"port {port} on {host} may not be used by this user; choose one above 1023 with --port"
    return f"can't listen on {host} port {port}: {error.strerror or error}"
