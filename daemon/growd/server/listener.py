"""Listening sockets, and an orderly end of what their clients have open."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final, cast

from growd.server.connections import ConnectionFactory, ConnectionLimits, connection_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from growd.server.client_limits import Clients
    from growd.server.client_request import ClientRequest
    from growd.server.tls import Certificate

    Handle = Callable[[ClientRequest], Awaitable[web.StreamResponse]]

CLOSE_S: Final = 0.2  # how long open requests may go on when the daemon stops
# Waiting clients queue in the kernel and are accepted a few at a time, so that others are served meanwhile.
QUEUED: Final = 512
AT_ONCE: Final = 8


class AddressError(OSError):
    """The address can't be listened on; the sentence says why."""

    def __str__(self) -> str:
        return self.strerror or ""


class Listener:
    """Listens on an address and has `handle` answer each request."""

    def __init__(self, handle: Handle, limits: ConnectionLimits, clients: Clients) -> None:
        self._handler = handle
        self._limits = limits
        self._clients = clients
        self._listening: list[asyncio.Server] = []
        self._factory: ConnectionFactory | None = None
        self._handlers: set[asyncio.Task[Any]] = set()
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return 0 if self._factory is None else len(self._factory.admission.connections)

    @property
    def requests(self) -> int:
        """How many are being answered."""
        return len(self._handlers)

    async def open(
        self, host: str, port: int, passed: Sequence[socket.socket], certificate: Certificate | None
    ) -> tuple[str, int]:
        """Listen, and return host and port. Raises `AddressError`.

        `passed` are sockets of that address which a service manager has opened.
        """
        factory = ConnectionFactory(self._handle, self._limits, self._clients, certificate)
        loop = self._loop = asyncio.get_running_loop()
        try:
            await _check_passed(passed, host, port)
            wanted: list[dict[str, Any]] = [{"sock": each} for each in passed] or [
                {"host": host, "port": port}
            ]
            # asyncio accepts as many at once as may be queued, and starts a task for each
            self._listening = [await loop.create_server(factory, **each, backlog=AT_ONCE) for each in wanted]
        except OSError as error:
            raise AddressError(error.errno, _why(error, host, port)) from None
        self._factory = factory
        sockets = [each for server in self._listening for each in server.sockets]
        for listening in sockets:
            _queue(listening.fileno(), QUEUED)
        address: tuple[str, int] = sockets[0].getsockname()[:2]
        return address

    async def close(self) -> None:
        """Refuse new connections, let open requests end for a moment, then end them."""
        listening, factory = self._listening, self._factory
        self._listening = []
        if not listening or factory is None:
            return
        for server in listening:
            server.close()
        await factory.leave()
        factory.http.pre_shutdown()  # no further request on open connections
        await self._end_handlers()
        await factory.http.shutdown(CLOSE_S)
        await factory.abort_refused()

    async def _end_handlers(self) -> None:
        """Cancel each once and wait: aiohttp would cancel them again during their cleanup."""
        if not self._handlers:
            return
        _, late = await asyncio.wait(self._handlers, timeout=CLOSE_S)
        for handler in late:
            handler.cancel()
        if late:
            await asyncio.wait(late)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        # asked with the loop, since finding the running loop is a system call
        task = cast("asyncio.Task[Any]", asyncio.current_task(self._loop))
        self._handlers.add(task)
        connection = connection_of(request)
        try:
            connection.begin(request)
            if connection.is_pipelining:
                await self._let_others_go_first()
            return await self._handler(cast("ClientRequest", request))
        finally:
            connection.end()
            self._handlers.discard(task)

    async def _let_others_go_first(self) -> None:
        """Serve one pipelined request a turn of the loop, of all connections together.

        A client that sends thousands at once would otherwise keep the loop: from Python 3.12 on a handler
        that never waits is followed by the next at once.
        """
        async with self._turn:
            await asyncio.sleep(0)


async def refuse_taken(host: str, port: int) -> None:
    """Raise `AddressError` if an address can't be listened on, such as one that another program has."""
    try:
        server = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, host, port, start_serving=False
        )
    except OSError as error:
        raise AddressError(error.errno, _why(error, host, port)) from None
    server.close()


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
