"""A connection to a server that a test can interrupt; with TLS towards the clients if requested."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from support.stand_in import StandIn


class Line(StandIn):
    """Forwards to the server at `url`. Its own `url` stays the same over `down` and `up`."""

    def __init__(self, url, tls=None):
        parts = urlsplit(url)
        self._far = (parts.hostname, parts.port)
        super().__init__(self._forward, tls)

    @property
    def url(self):
        return super().url.replace("127.0.0.1", "localhost")  # which the certificate names

    async def _forward(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pass_on(reader, far_writer), name="line: there")
                    group.create_task(_pass_on(far_reader, writer), name="line: back")
            finally:
                far_writer.transport.abort()
        except* OSError:
            pass  # only this connection ends
        finally:
            writer.transport.abort()


async def _pass_on(reader, writer):
    while chunk := await reader.read(65_536):
        writer.write(chunk)
        await writer.drain()
    with suppress(OSError, NotImplementedError):  # TLS can't close one direction
        writer.write_eof()
