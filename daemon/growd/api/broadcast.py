"""One topic in one format, read once and written to all its clients.

A `Broadcast` encodes each message once. It writes directly to clients that keep up, and fills a bounded queue
for others, which their handlers empty as the connection allows. A message to a thousand streams costs a
thousand writes and wakes no tasks.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.api.stream_formats import event_id
from growd.bus.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

    from growd.api.stream_formats import StreamFormat
    from growd.bus.topics import Subscription

# Most of the cost of a stream is the kernel's work for each write. With few clients each message is written
# at once. With more, the topic pauses in proportion to the CPU time of the writes, and uses a fifth of a core
# at most. Messages that come during a pause share the next write. With more streams of many topics, each
# pauses for `LATEST_S`.
AT_ONCE: Final = 16  # clients
PAUSE: Final = 4.0  # seconds for each second of CPU
LATEST_S: Final = 0.1  # the longest pause
BURST: Final = 4096  # messages of a topic that may wait for the next write
# Data in the kernel or the transport uses memory and can't be dropped for newer messages.
SEND_BUFFER: Final = 16 * 1024  # bytes


class Broadcast:
    """Reads a topic and hands each message, encoded once, to all clients."""

    def __init__(self, subscription: Subscription, form: StreamFormat, heartbeat_s: float) -> None:
        self.users = 0
        self.subscription = subscription
        self._form = form
        self._heartbeat = heartbeat_s if form.heartbeat else None
        self._clients: set[BroadcastClient] = set()
        self._reported = 0  # messages that the subscription dropped
        name = f"stream {subscription.topics[0].name} as {form.content_type}"
        self._task = asyncio.create_task(self._run(), name=name)

    @contextmanager
    def joined(self, client: BroadcastClient, *, latest: bool, seen: str | None) -> Iterator[None]:
        """Hand messages to the client from now on, the last one first if `latest` and it was not `seen`."""
        self._hand_on()  # these messages are older
        last = self.subscription.topics[0].last if latest else None
        if last is not None and seen == event_id(last):
            last = None
        client.begin(self._form.message(last) if last is not None else b"")
        self._clients.add(client)
        try:
            yield
        finally:
            self._clients.discard(client)

    async def close(self) -> None:
        self.subscription.close()
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while True:
                has_come = await self._something_came()
                began = time.thread_time()
                if has_come:
                    self._hand_on()
                else:
                    self._beat()
                if len(self._clients) > AT_ONCE:
                    await asyncio.sleep(min((time.thread_time() - began) * PAUSE, LATEST_S))
        except ClosedError:
            pass  # the stream has come to its end
        finally:
            self.subscription.close()  # new clients need another broadcast
            for client in self._clients:
                client.close()

    async def _something_came(self) -> bool:
        """Wait for a message. False if it is time for a heartbeat."""
        try:
            async with asyncio.timeout(self._heartbeat):
                await self.subscription.arrival()
        except TimeoutError:
            return False
        return True

    def _beat(self) -> None:
        beat = _Line(self._form.heartbeat, 0)
        for client in self._clients:
            if client.keeps_up:
                client.take([beat], _chunk(beat.text))

    def _hand_on(self) -> None:
        """Send new messages to all clients."""
        lines = []
        while (message := self.subscription.get_nowait()) is not None:
            lines.append(_Line(self._form.message(message), 1))
        if not lines:
            return
        dropped = self.subscription.dropped - self._reported
        if dropped:
            self._reported += dropped
            lines[0] = _Line(self._form.dropped(dropped) + lines[0].text, dropped + 1)
        chunk = _chunk(b"".join([line.text for line in lines]))
        for client in self._clients:
            client.take(lines, chunk)


class _Line(NamedTuple):
    """Bytes for one write, and the number of messages in them."""

    text: bytes
    messages: int


class BroadcastClient:
    """One open stream. Unwritten messages wait; beyond `depth` the oldest is dropped."""

    __slots__ = (
        "_behind",
        "_chunked",
        "_closed",
        "_depth",
        "_dropped",
        "_form",
        "_is_closing",
        "_protocol",
        "_transport",
        "_waiting",
        "_wake",
        "_write",
        "_writer",
    )

    def __init__(self, request: web.BaseRequest, form: StreamFormat, depth: int) -> None:
        self._writer = request.writer
        self._protocol = request.protocol
        self._transport = transport_of(request)
        self._write, self._is_closing = self._transport.write, self._transport.is_closing  # for `take`
        self._chunked = request.version >= (1, 1)
        self._form = form
        self._depth = depth
        self._waiting: deque[_Line] = deque()
        self._dropped = 0
        self._behind = True  # until the response's head was sent
        self._closed = False
        self._wake = asyncio.Event()

    @property
    def keeps_up(self) -> bool:
        return not (self._behind or self._protocol.writing_paused)

    def begin(self, last: bytes) -> None:
        """Queue the start of the format, and the last message unless it is empty."""
        text = self._form.start + last
        if text:
            self._waiting.append(_Line(text, 1 if last else 0))

    def take(self, lines: list[_Line], chunk: bytes) -> None:
        """Write or queue these lines. `chunk` is all of them as an HTTP/1.1 chunk.

        This runs for each message and client, so it must be fast.
        """
        if self._behind or self._protocol.writing_paused:
            self._keep(lines)
        elif not self._is_closing():
            self._write(chunk if self._chunked else b"".join([line.text for line in lines]))

    def close(self) -> None:
        """End the stream after the queued lines."""
        self._closed = True
        self._wake.set()

    async def run(self) -> None:
        """Write queued lines as the connection allows, until the stream is closed.

        Raises `ConnectionError` when the client has disconnected.
        """
        bound_buffers(self._transport)
        while True:
            await self._writer.drain()
            if self._waiting:
                self._write_next()
            elif self._closed:
                return
            else:
                self._behind = False
                self._wake.clear()
                await self._wake.wait()

    def _keep(self, lines: list[_Line]) -> None:
        self._behind = True
        self._wake.set()
        self._waiting.extend(lines)
        while len(self._waiting) > self._depth:
            self._dropped += self._waiting.popleft().messages

    def _write_next(self) -> None:
        line = self._waiting.popleft().text
        if self._dropped:
            line = self._form.dropped(self._dropped) + line
            self._dropped = 0
        self._transport.write(_chunk(line) if self._chunked else line)


def _chunk(data: bytes) -> bytes:
    """RFC 9112, section 7.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def transport_of(request: web.BaseRequest) -> asyncio.Transport:
    if request.transport is None:
        raise ConnectionError("the client has gone")
    return request.transport


def bound_buffers(transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(high=SEND_BUFFER)
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
