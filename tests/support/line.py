"""The line to a server, which a test takes down and up; with TLS towards the clients where that is asked."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl


class Line:
    """Forwards to the server at `url`. Its own `url` stays the same over `down` and `up`."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self._far = (parts.hostname, parts.port)
        self._tls = tls
        self._port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self._port}"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        """Listen: on a free port the first time, on the same one later."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self._tls)
        self._port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse connections, and break those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass_on(reader, far_writer), name="line: there")
                    group.create_task(_pass_on(far_reader, writer), name="line: back")
            finally:
                far_writer.transport.abort()
        except* (OSError, asyncio.CancelledError):
            pass  # this connection ends, whatever ended it
        finally:
            self._open.discard(task)
            writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    with suppress(OSError, NotImplementedError):  # TLS has no half of a connection
        writer.write_eof()
