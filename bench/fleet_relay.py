"""A TCP relay between devices and the cloud that counts bytes, connections and requests."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PART: Final = 65_536
REQUEST: Final = re.compile(rb"(?:^|[\r\n}])(GET|HEAD|PUT|POST|DELETE) (/\S*) HTTP/1\.1\r\n")
# the parts of a path that differ from request to request
KINDS: Final = (
    (re.compile(r"\?.*"), ""),
    (re.compile(r"_local/.+"), "_local/ID"),
    (re.compile(r"^/(?!_)[^/]+"), "/DB"),
)


class Relay:
    """Listens at a port of 127.0.0.1 and passes everything on to the target."""

    def __init__(self, host: str, port: int) -> None:
        self.up = self.down = self.connections = 0
        self.requests: Counter[str] = Counter()
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> str:
        """Begin to listen, and return the URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1_024)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, far_writer, self._count_up))
                tasks.create_task(self._pass(far_reader, writer, self._count_down))
        finally:
            self._writers -= {writer, far_writer}
            writer.close()
            far_writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[bytes], None]
    ) -> None:
        with suppress(OSError):
            while part := await reader.read(PART):
                count(part)
                writer.write(part)
                await writer.drain()
            writer.write_eof()

    def _count_up(self, part: bytes) -> None:
        self.up += len(part)
        for method, path in REQUEST.findall(part):
            kind = path.decode()
            for pattern, name in KINDS:
                kind = pattern.sub(name, kind)
            self.requests[f"{method.decode()} {kind}"] += 1

    def _count_down(self, part: bytes) -> None:
        self.down += len(part)
