"""A TCP server for tests, which leaves no task and no socket behind."""

import asyncio
from contextlib import ExitStack, suppress

from support.ports import held_port

READ_LIMIT = 2**16
_TURNS_OF_A_CONNECTION = 3
"""Of the event loop, until a connection that the system has accepted comes to `_accept`."""


class StandIn:
    """Listens on a port of 127.0.0.1 and runs `serve` for each connection; with TLS if `tls` is given.

    Connections stay open until `down` ends them. `connections` counts them.
    """

    def __init__(self, serve, tls=None, *, limit=READ_LIMIT):
        self._serve = serve
        self._tls = tls
        self._limit = limit
        self._held = ExitStack()
        self._server = None
        self._tasks = []
        self._writers = []
        self.port = 0
        self.connections = 0

    @property
    def url(self):
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    async def __aenter__(self):
        self.port = self._held.enter_context(held_port())
        await self.up()
        return self

    async def __aexit__(self, *_):
        with self._held:
            await self.down()

    async def up(self):
        """Listen, always on the same port."""
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._tls, limit=self._limit
        )

    async def down(self):
        """Refuse connections and cut open ones. Raises assertions that failed in `serve`."""
        if self._server is not None:
            self._server.close()
            self._server = None
            for _ in range(_TURNS_OF_A_CONNECTION):
                await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
        self._tasks.clear()
        self._writers.clear()
        for failure in ended:
            if isinstance(failure, AssertionError):
                raise failure

    async def finished(self):
        """Wait until `serve` has ended on each connection so far."""
        await asyncio.gather(*self._tasks)

    def _accept(self, reader, writer):
        self._writers.append(writer)
        if self._server is None:  # it came during `down`
            return
        self.connections += 1
        play = self._serve(reader, writer)
        self._tasks.append(asyncio.create_task(play, name=f"stand-in {self.connections}"))
