"""Connections to the database: bytes in, bytes out, bounded, and kept for the next request."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import urlsplit

from growd.proxy.errors import StaleConnectionError, UpstreamBrokenError, UpstreamUnreachableError
from growd.proxy.framing import HEAD_LIMIT, AnswerHead, Body, body_of, parse_head

if TYPE_CHECKING:
    from collections.abc import Callable

READ_AHEAD = 256 * 1024  # bytes held per connection before it is read no further


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the database listens. `prefix` is put before every path; it does not end in a slash."""

    scheme: str
    host: str
    port: int
    prefix: bytes = b""

    @classmethod
    @lru_cache(maxsize=8)
    def parse(cls, base: str) -> Self:
        """From "http://127.0.0.1:5985", perhaps with a path. Credentials in it are left out.

        `ValueError` if it is no such address.
        """
        parts = urlsplit(base)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"the database's address must be http://host:port, not {base!r}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/").encode())

    @property
    def authority(self) -> bytes:
        """Host and port, as Host has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()

    @property
    def origin(self) -> bytes:
        """As it stands in an absolute address, prefix included."""
        return self.scheme.encode() + b"://" + self.authority + self.prefix


class Connection(asyncio.Protocol):
    """One connection to the database. A single task reads and a single task writes at a time."""

    def __init__(
        self, upstream: Upstream, on_made: Callable[[Connection], None], on_lost: Callable[[Connection], None]
    ) -> None:
        self.upstream = upstream
        self.idle_since: float | None = None
        self._loop = asyncio.get_running_loop()  # asked for once: each question is a system call
        self.lost = self._loop.create_future()
        self._on_made = on_made
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._received: deque[bytes] = deque()
        self._size = 0
        self._silent = True
        self._reused = False
        self._reading_paused = False
        self._writing_paused = False
        self._error: Exception | None = None
        self._read_waiter: asyncio.Future[None] | None = None
        self._write_waiter: asyncio.Future[None] | None = None

    @property
    def usable(self) -> bool:
        """It is open, and nothing has arrived that nobody asked for."""
        return self._transport is not None and not self._transport.is_closing() and not self._received

    @property
    def data_waiting(self) -> bool:
        """The next `read` answers at once."""
        return bool(self._received) or self.lost.done()

    @property
    def congested(self) -> bool:
        """The database takes bytes more slowly than they come: `drain` has to wait."""
        return self._writing_paused and not self.lost.done()

    def begin(self) -> None:
        """Another request goes out on this connection."""
        self._reused = self.idle_since is not None
        self.idle_since = None
        self._silent = True

    def write(self, data: bytes) -> None:
        """Hand bytes to the system; `drain` waits until it took them. `UpstreamBrokenError` if it is gone."""
        if self._transport is None or self._transport.is_closing():
            raise self._gone()
        self._transport.write(data)

    async def drain(self) -> None:
        """Wait while the database takes bytes more slowly than they come."""
        while self.congested:
            self._write_waiter = self._loop.create_future()
            await self._write_waiter

    async def read(self) -> bytes:
        """The next bytes, empty at the end. `UpstreamBrokenError` if it broke off."""
        while not self._received:
            if self.lost.done():
                if self._error is not None:
                    raise self._error
                return b""
            self._read_waiter = self._loop.create_future()
            await self._read_waiter
        data = self._received.popleft()
        self._size -= len(data)
        if self._reading_paused and self._size <= READ_AHEAD and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()
        return data

    def put_back(self, data: bytes) -> None:
        """Bytes that were read too many; the next `read` gives them."""
        if data:
            self._received.appendleft(data)
            self._size += len(data)

    async def read_head(self) -> AnswerHead:
        """The next head, interim ones (1xx) too."""
        block = await self._some_of_head()
        while (end := block.find(b"\r\n\r\n")) < 0:
            if len(block) > HEAD_LIMIT:
                raise UpstreamBrokenError(f"the answer's headers are longer than {HEAD_LIMIT} bytes")
            block += await self._some_of_head()
        self.put_back(block[end + 4 :])
        return parse_head(block[:end])

    def fail(self, error: Exception) -> None:
        """Close at once; whoever reads gets `error`."""
        self._error = self._error or error
        self._reused = False  # it is we who close it: it was not stale
        self.abort()

    def abort(self) -> None:
        """Close at once, dropping what was not yet sent."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is none by its type
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._size += len(data)
        self._silent = False
        if self._size > READ_AHEAD and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
        _wake(self._read_waiter)

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        _wake(self._write_waiter)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._error is None:
            self._salvage()
            self._error = UpstreamBrokenError(f"the connection to the database broke: {exc}")
        self.lost.set_result(None)
        self._on_lost(self)
        _wake(self._read_waiter)
        _wake(self._write_waiter)

    def _salvage(self) -> None:
        """Take what the database had sent before it closed.

        When a write fails asyncio reads no further, and a database that refuses a long upload answers, then
        closes: its answer lies in the socket still. The socket does not block and is closed after this.
        """
        if self._transport is None or self._transport.get_extra_info("sslcontext") is not None:
            return
        with suppress(OSError):
            while data := os.read(self._transport.get_extra_info("socket").fileno(), READ_AHEAD):
                self.data_received(data)

    async def _some_of_head(self) -> bytes:
        try:
            data = await self.read()
        except UpstreamBrokenError:
            if self._reused and self._silent:
                raise self._gone() from None
            raise
        if not data:
            raise self._gone()
        return data

    def _gone(self) -> UpstreamBrokenError:
        if self._reused and self._silent:
            return StaleConnectionError("the database had closed the connection")
        return UpstreamBrokenError("the database closed the connection before it answered")


class Answer:
    """An answer whose head has arrived; its body is read piece by piece."""

    def __init__(self, connection: Connection, head: AnswerHead, method: str) -> None:
        self.head = head
        self._connection = connection
        self._body: Body = body_of(head, method)

    @property
    def complete(self) -> bool:
        """The body was read to its end."""
        return self._body.complete

    @property
    def reusable(self) -> bool:
        """It was complete and left the connection fit for another request."""
        return self.complete and self.head.persistent and self._connection.usable

    @property
    def data_waiting(self) -> bool:
        """The next `read` answers at once."""
        return self._connection.data_waiting

    async def read(self) -> list[bytes]:
        """The next pieces, perhaps none. `UpstreamBrokenError` if the answer broke off."""
        data = await self._connection.read()
        if not data:
            self._body.end()
            return []
        pieces, beyond = self._body.take(data)
        self._connection.put_back(beyond)
        return pieces


class ConnectionPool:
    """Open connections, and those kept for the next request.

    A database closes connections that lie idle (Node after 5 s, CouchDB after 300 s), and a request that
    meets such a close can't always be repeated. So none is used that lay idle for longer than `idle_limit`
    seconds. These are the network's seconds: no clock of the simulator applies.
    """

    def __init__(self, *, connect_timeout: float = 5.0, idle_limit: float = 4.0, max_idle: int = 32) -> None:
        self._connect_timeout = connect_timeout
        self._idle_limit = idle_limit
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()
        self._max_idle = max_idle
        self._ssl: ssl.SSLContext | None = None
        self._is_closed = False

    async def acquire(self, upstream: Upstream, *, fresh: bool = False) -> Connection:
        """A connection to use for one request. `UpstreamUnreachableError` if there is none to be had."""
        connection = None if fresh else self._kept(upstream)
        if connection is None:
            connection = await self._connect(upstream)
        connection.begin()
        return connection

    def release(self, connection: Connection) -> None:
        """Keep a connection whose request was answered in full."""
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if len(self._idle) > self._max_idle:
            self._idle.popleft().abort()

    async def close(self) -> None:
        """End all connections and wait until their sockets are closed."""
        self._is_closed = True
        self._idle.clear()
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.lost

    def _kept(self, upstream: Upstream) -> Connection | None:
        """The youngest of those kept; the others are closed when they are too old, so they go first."""
        oldest = time.monotonic() - self._idle_limit
        while self._idle:
            connection = self._idle.pop()
            if (
                connection.usable
                and connection.upstream == upstream
                and connection.idle_since is not None
                and connection.idle_since >= oldest
            ):
                return connection
            connection.abort()
        return None

    async def _connect(self, upstream: Upstream) -> Connection:
        context = await self._ssl_context() if upstream.scheme == "https" else None
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(upstream, self._keep, self._forget),
                    upstream.host,
                    upstream.port,
                    ssl=context,
                )
        except OSError as error:  # TimeoutError and ssl.SSLError are OSErrors
            raise UpstreamUnreachableError(f"no connection to the database: {error}") from error
        if self._is_closed:
            raise UpstreamUnreachableError("growd is stopping")
        return connection

    async def _ssl_context(self) -> ssl.SSLContext:
        if self._ssl is None:  # it reads the system's certificates from disk
            self._ssl = await asyncio.to_thread(ssl.create_default_context)
        return self._ssl

    def _keep(self, connection: Connection) -> None:
        """Own it from the moment it is open: it may be lost before `_connect` hears of it."""
        self._open.add(connection)
        if self._is_closed:
            connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
