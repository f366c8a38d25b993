"""The one address that clients use: `/_svc` to the API, everything else to the database."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import socket
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from growd.access.origins import Guard
from growd.server.client_request import add_own_headers, split_target
from growd.server.connections import Connection, ConnectionLimits, HttpServer
from growd.server.errors import ApiError
from growd.server.handshakes import Handshake
from growd.server.json_answer import JsonAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import StreamReader

    from growd.api.rest import Api
    from growd.server.client_request import ClientRequest
    from growd.server.tls import Certificate

CLOSE_S: Final = 0.2  # how long open requests may go on when the daemon leaves
# A crowd waits in the kernel, and is let in by and by: each turn of the loop belongs to all clients.
QUEUED: Final = 512
AT_ONCE: Final = 8


BODILESS: Final = frozenset({"GET", "HEAD"})  # methods of which no operation of the API takes a body


class Passage(Protocol):
    """What answers everything that is not the API's: the way through to the database."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse: ...


class AddressError(OSError):
    """The address can't be listened on; the sentence says why."""

    def __str__(self) -> str:
        return self.strerror or ""


class Server:
    """Listens, and sends each request to the API or through to the database."""

    def __init__(
        self,
        api: Api,
        passage: Passage,
        limits: ConnectionLimits | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._api = api
        self._passage = passage
        self._limits = limits or ConnectionLimits()
        self.guard = guard or Guard()
        self._listeners: list[asyncio.Server] = []
        self._http: HttpServer | None = None
        self._handlers: set[asyncio.Task[Any]] = set()
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.address: tuple[str, int] | None = None
        self.scheme = "http"
        self.answered: Counter[int] = Counter()
        """How many requests were answered, by the first digit of the status; open streams are none yet."""

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._http.admission.connections) if self._http is not None else 0

    @property
    def url(self) -> str:
        """Where it listens: "http://127.0.0.1:5984"."""
        host, port = self.address or ("", 0)
        return f"{self.scheme}://[{host}]:{port}" if ":" in host else f"{self.scheme}://{host}:{port}"

    async def open(
        self,
        host: str,
        port: int,
        passed: Sequence[socket.socket] = (),
        certificate: Certificate | None = None,
    ) -> None:
        """Listen on `host`, `port` (0: any free one; `address` tells which). Raises `AddressError`.

        Of that address `passed` are sockets that a service manager has opened already. It keeps them while
        growd restarts, so that clients wait meanwhile. With a `certificate` it speaks TLS only.
        """
        http = HttpServer(self._handle, self._limits, self._api.clients)
        protocol = http if certificate is None else functools.partial(Handshake, http, certificate)
        loop = self._loop = asyncio.get_running_loop()
        try:
            await _check_passed(passed, host, port)
            wanted: list[dict[str, Any]] = [{"sock": each} for each in passed] or [
                {"host": host, "port": port}
            ]
            # asyncio accepts as many at once as may be queued, and starts a task for each
            self._listeners = [await loop.create_server(protocol, **each, backlog=AT_ONCE) for each in wanted]
        except OSError as error:
            raise AddressError(error.errno, _why(error, host, port)) from None
        self._http = http
        sockets = [each for listener in self._listeners for each in listener.sockets]
        for listening in sockets:
            _queue(listening.fileno(), QUEUED)
        self.address = sockets[0].getsockname()[:2]
        self.scheme = "http" if certificate is None else "https"

    async def close(self) -> None:
        """Refuse new connections, let open requests come to their end for a moment, then end them."""
        listeners, http = self._listeners, self._http
        self._listeners = []
        if not listeners or http is None:
            return
        for listener in listeners:
            listener.close()
        await http.leave()
        http.pre_shutdown()  # no further request on the connections that are open
        self._api.end_streams()
        await self._end_handlers()
        await http.shutdown(CLOSE_S)
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
        # asked with the loop, as to find out which loop runs is a system call
        task = cast("asyncio.Task[Any]", asyncio.current_task(self._loop))
        self._handlers.add(task)
        try:
            connection = cast("Connection", request.protocol)
            if connection.has_more:
                connection.tell_of_malformed_body()
                await self._stand_back()
            response = await self._answer(request, path, query)
            if not (response.prepared or isinstance(response, JsonAnswer)):  # these have them
                add_own_headers(request, response.headers)
            self.answered[response.status // 100] += 1
            return response
        finally:
            self._handlers.discard(task)

    async def _answer(self, request: web.BaseRequest, path: str, query: str) -> web.StreamResponse:
        is_api = path == self._api.root or path.startswith(self._api.root + "/")
        answer = self._turn_away(cast("ClientRequest", request), is_api=is_api)
        if answer is not None:
            return answer
        if not is_api:
            return await self._passage.handle(request)
        if request.method in BODILESS and not request.content.is_eof():
            return await self._ask_without_body(request, path, query)
        return await self._api.handle(request, path, query)

    def _turn_away(self, request: ClientRequest, *, is_api: bool) -> web.Response | None:
        """The answer to a request that goes no further: a preflight, or one that is refused."""
        clients = self._api.clients
        clients.recognise(request)
        try:
            if is_api:
                clients.count(request.client)
            return self.guard.admit(request, is_api=is_api)
        except ApiError as error:
            return error.response_to(request)

    async def _ask_without_body(self, request: web.BaseRequest, path: str, query: str) -> web.StreamResponse:
        """Have the API answer, and drop the body, which no operation of this method takes."""
        dropping = asyncio.create_task(_drop(request.content), name=f"drop body {path}")
        try:
            return await self._api.handle(request, path, query)
        finally:
            dropping.cancel()
            await asyncio.wait([dropping])

    async def _stand_back(self) -> None:
        """Let others go first: a turn of the loop serves one of all requests that have more behind them.

        Clients that send thousands at once would otherwise have as many turns as they have connections. And
        from Python 3.12 on handlers start at once: one that never waits would be followed by the next.
        """
        async with self._turn:
            await asyncio.sleep(0)


async def _drop(body: StreamReader) -> None:
    """Read a body that nobody wants, so that it is not kept while its request is answered, as on a stream."""
    # aiohttp's errors for what is malformed or breaks off
    with suppress(web.RequestPayloadError, HttpProcessingError, ConnectionError, RuntimeError):
        while await body.readany():
            pass


async def _check_passed(passed: Sequence[socket.socket], host: str, port: int) -> None:
    """What is configured is what holds, also for who may ask from where. Raises `AddressError`."""
    if not passed:
        return
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = {address[0] for *_, address in found}
    for each in passed:
        its_host, its_port = each.getsockname()[:2] if each.family != socket.AF_UNIX else ("a path", 0)
        if its_host not in hosts or port not in {0, its_port}:
            raise AddressError(
                errno.EINVAL,
                f"the service manager passes a socket that listens on {its_host} port {its_port}, but [http] "
                f"host and port are {host} and {port}; make growd.socket and the configuration say the same",
            )


def _queue(listening: int, connections: int) -> None:
    """Let so many connections wait in the kernel. `listening` is the socket's file number."""
    with socket.socket(fileno=os.dup(listening)) as same:
        same.listen(connections)


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; choose another with --port"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"port {port} on {host} may not be used by this user; choose one above 1023 with --port"
    return f"can't listen on {host} port {port}: {error.strerror or error}"
