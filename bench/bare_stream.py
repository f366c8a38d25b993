"""The reference of `streams`: asyncio alone, which writes a line, encoded once, to each open connection.

It takes every GET for a stream and every POST for a message, each in one piece and well-formed, and runs on
the event loop that growd runs on. Prints its port once it listens; ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import cast

import msgspec
from serving import ended, on_beat

from growd.runtime.event_loop import run_on_loop

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
POSTED = b'{"message":"Posted message to topic"}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


class Topic:
    """Open streams, and a number for each message."""

    def __init__(self) -> None:
        self.streams: set[asyncio.Transport] = set()
        self._number = 0

    def publish(self, value: float) -> None:
        self._number += 1
        message = {"value": value, "time": time.time(), "quality": "ok", "node": "http"}
        line = msgspec.json.encode(message | {"number": self._number}) + b"\n"
        chunk = b"%x\r\n%b\r\n" % (len(line), line)
        for stream in self.streams:
            stream.write(chunk)


class Connection(asyncio.Protocol):
    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            self._transport.write(STREAM)
            self._topic.streams.add(self._transport)
            return
        (value,) = msgspec.json.decode(data.partition(b"\r\n\r\n")[2])
        self._topic.publish(value)
        self._transport.write(ANSWER % (len(POSTED), POSTED))

    def connection_lost(self, _: Exception | None) -> None:
        self._topic.streams.discard(self._transport)


async def serve(rate: float) -> None:
    topic = Topic()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(topic), "127.0.0.1", 0, backlog=512
    )
    publishing = asyncio.create_task(on_beat(lambda: topic.publish(410.25), rate)) if rate else None
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended()
    if publishing is not None:
        publishing.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--publish", type=float, default=0.0, metavar="HZ")
    run_on_loop(serve(parser.parse_args().publish))
