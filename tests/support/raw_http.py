"""HTTP over bare sockets, byte for byte."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from support.stand_in import StandIn

READ_LIMIT = 1 << 20


class Peer:
    """One end of a connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def head(self):
        """The bytes up to and including the empty line."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def exactly(self, count):
        return await self.reader.readexactly(count)

    async def until(self, end):
        return await self.reader.readuntil(end)

    async def gone(self):
        """Wait until the other end closes."""
        with suppress(ConnectionError):
            while await self.reader.read(READ_LIMIT):
                pass

    async def close(self):
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    def reset(self):
        """Reset the connection."""
        self.writer.transport.abort()


@dataclass(frozen=True)
class RawAnswer:
    """An answer. `headers` has names and values in order; `body` is without framing."""

    status_line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def status(self):
        return int(self.status_line.split(b" ")[1])

    def values(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name):
        return next(iter(self.values(name)), None)


class RawClient(Peer):
    """A client that sends raw bytes and parses answers itself."""

    @classmethod
    async def connect(cls, port, host="127.0.0.1", context=None):
        return cls(*await asyncio.open_connection(host, port, limit=READ_LIMIT, ssl=context))

    async def answer(self, method="GET"):
        """The next whole answer; `asyncio.IncompleteReadError` if it is cut."""
        status_line, headers = take_apart(await self.head())
        found = RawAnswer(status_line, headers, b"")
        if method == "HEAD" or found.status in {204, 304} or found.status < 200:
            return found
        return RawAnswer(status_line, headers, await self._body(found))

    async def _body(self, head):
        if head.values(b"transfer-encoding") == [b"chunked"]:
            return b"".join([piece async for piece in self.chunks()])
        length = head.value(b"content-length")
        if length is not None:
            return await self.exactly(int(length))
        return await self.reader.read(-1)

    async def chunks(self):
        """The chunks of a body, one by one."""
        while size := int(await self.until(b"\r\n"), 16):
            data = await self.exactly(size + 2)
            assert data.endswith(b"\r\n")
            yield data[:-2]
        assert await self.until(b"\r\n") == b"\r\n"


def take_apart(head):
    """The first line, and the headers in order."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    fields = [line.partition(b":") for line in lines]
    return first, [(name, value.strip()) for name, _, value in fields]


@asynccontextmanager
async def raw_client(port, host="127.0.0.1", context=None):
    """A client, with TLS if `context` is given."""
    client = await RawClient.connect(port, host, context)
    try:
        yield client
    finally:
        await client.close()


class RawUpstream(StandIn):
    """A server that runs `script` for each connection; `peers` are the connections so far."""

    def __init__(self, script):
        super().__init__(self._play, limit=READ_LIMIT)
        self.script = script
        self.peers = []

    async def _play(self, reader, writer):
        self.peers.append(Peer(reader, writer))
        await self.script(self.peers[-1])


def answering(*answers):
    """A script that answers each request with the next answer, and then waits for the close."""

    async def script(peer):
        for answer in answers:
            await peer.head()
            await peer.send(answer)
        await peer.gone()

    return script
