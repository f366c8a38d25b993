"""Clients of streams that cost little: bare sockets, read in one thread and made sense of afterwards."""

from __future__ import annotations

import select
import time
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Self

import msgspec
from raw_client import PIECE, Connection

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from measuring import Process


class Line(msgspec.Struct):
    """What is looked at of a line: a message's number and its UNIX time in seconds."""

    number: int = 0
    time: float = 0.0


_decode = msgspec.json.Decoder(Line).decode


@dataclass(frozen=True)
class Delivery:
    """What came on all streams together of the messages that were published within `seconds`.

    `lost` counts those that a stream did not get though some stream did, and those that came twice; `ages_s`
    tells how long after its publication each came.
    """

    published: int
    seconds: float
    lost: int
    ages_s: list[float]

    @property
    def rate(self) -> float:
        """Messages a second, on all streams together."""
        return len(self.ages_s) / self.seconds


class Listeners:
    """Open streams of one topic. What comes is kept with its time of arrival; `delivered` makes sense of it.

    Use it as a context manager.
    """

    def __init__(self, server: Process, path: str, number: int) -> None:
        self._poll = select.epoll()
        self._streams: dict[int, _Stream] = {}
        for _ in range(number):
            connection = Connection(server.port)
            connection.send("GET", path)
            connection.socket.setblocking(False)
            self._poll.register(connection.socket, select.EPOLLIN)
            self._streams[connection.socket.fileno()] = _Stream(connection.socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._poll.close()
        for stream in self._streams.values():
            stream.socket.close()

    def settle(self) -> None:
        """Listen until a message came on every stream."""
        self._listen_until(lambda: all(stream.pieces for stream in self._streams.values()))
        self._listen_until(lambda: all(stream.numbers() for stream in self._streams.values()))

    def listen(self, seconds: float) -> None:
        end = time.time() + seconds
        while (left := end - time.time()) > 0:
            self.read(left)

    def read(self, wait_s: float = 0.0) -> None:
        """Read what has come, and wait so long for something if there is nothing."""
        for descriptor, _ in self._poll.poll(wait_s):
            self._streams[descriptor].receive()

    def delivered(self, begin: float, end: float) -> Delivery:
        """What was published after the newest message that had come at `begin`, to the newest at `end`.

        Both in UNIX seconds. Listens on until each stream has the last one.
        """
        before, last = self._newest(begin), self._newest(end)
        self._listen_until(lambda: all(last.number in stream.numbers() for stream in self._streams.values()))
        published = last.number - before.number
        lost, ages = 0, []
        for stream in self._streams.values():
            arrived = [
                (at, line) for at, line in stream.arrivals() if before.number < line.number <= last.number
            ]
            different = len({line.number for _, line in arrived})
            lost += published - different + len(arrived) - different
            ages += [at - line.time for at, line in arrived]
        return Delivery(published, last.time - before.time, lost, ages)

    def _newest(self, until: float) -> Line:
        """The last message that had come on any stream."""
        lines = (line for stream in self._streams.values() for at, line in stream.arrivals() if at <= until)
        return max(lines, key=lambda line: line.number, default=Line())

    def _listen_until(self, is_so: Callable[[], bool]) -> None:
        """Listen on until it is so, but for no more than 10 s: what is then missing is missing."""
        for _ in range(40):
            if is_so():
                return
            self.listen(0.25)


class _Stream:
    """What came on one stream: pieces as the kernel gave them, and when."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.pieces: list[bytes] = []
        self._times: list[float] = []

    def receive(self) -> None:
        piece = self.socket.recv(PIECE)
        if not piece:
            raise ConnectionError("the server ended a stream")
        self.pieces.append(piece)
        self._times.append(time.time())

    def numbers(self) -> set[int]:
        return {line.number for _, line in self.arrivals()}

    def arrivals(self) -> Iterator[tuple[float, Line]]:
        """The messages, each with the time at which it was there in whole."""
        ends = list(accumulate(map(len, self.pieces)))
        for end, chunk in _chunks(b"".join(self.pieces)):
            at = self._times[bisect_left(ends, end)]
            for line in chunk.splitlines():
                yield at, _decode(line)


def _chunks(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """The chunks (RFC 9112, section 7.1) of an answer, each with where it ends in `stream`."""
    head, mark, _ = stream.partition(b"\r\n\r\n")
    if not mark:
        return
    if not head.startswith(b"HTTP/1.1 200") or b"chunked" not in head:
        raise ConnectionError(f"no stream: {head!r}")
    at = len(head) + len(mark)
    while (mark_at := stream.find(b"\r\n", at)) >= 0:
        begin = mark_at + 2
        end = begin + int(stream[at:mark_at], 16)
        if end + 2 > len(stream):
            return
        yield end, stream[begin:end]
        at = end + 2
