"""`topic_stream`: a topic's messages over one open response, framed as the client accepts."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from aiohttp import web

from growd.bus.errors import ClosedError
from growd.bus.messages import Quality
from growd.http.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.bus.messages import Message
    from growd.bus.nodes import Node
    from growd.bus.topics import Subscription

RETRY_MS: Final = 2000  # how long an EventSource waits before it connects again


class Framing(Protocol):
    """How messages become bytes on the wire.

    `media` are the media types that ask for it, its own first; `start` and `heartbeat` may be empty.
    """

    media: tuple[str, ...]
    content_type: str
    start: bytes
    heartbeat: bytes

    def message(self, message: Message) -> bytes: ...
    def dropped(self, count: int) -> bytes: ...


class JsonLines:
    """One JSON document a line (jsonlines.org). An empty line is none, so there is no heartbeat."""

    # whoever asks for JSON, as many clients do unasked, is given it
    media: tuple[str, ...] = ("application/x-ndjson", "application/jsonl", "application/json")
    content_type = "application/x-ndjson"
    start = b""
    heartbeat = b""

    def message(self, message: Message) -> bytes:
        return document(message) + b"\n"

    def dropped(self, count: int) -> bytes:
        return b'{"dropped":%d}\n' % count


class EventStream:
    """Server-sent events (WHATWG HTML, section 9.2)."""

    media: tuple[str, ...] = ("text/event-stream",)
    content_type = "text/event-stream"
    start = b"retry: %d\n\n" % RETRY_MS
    heartbeat = b":\n\n"

    def message(self, message: Message) -> bytes:
        return b"id: %d\ndata: %b\n\n" % (message.number, document(message))

    def dropped(self, count: int) -> bytes:
        return b'event: dropped\ndata: {"dropped":%d}\n\n' % count


class PlainText:
    """One line a message with nothing but its value, as the predecessor's stream had it."""

    media: tuple[str, ...] = ("text/plain",)
    content_type = "text/plain; charset=utf-8"
    start = b""
    heartbeat = b""

    def message(self, message: Message) -> bytes:
        value = message.value
        if not isinstance(value, str):
            return msgspec.json.encode(value) + b"\n"
        return value.replace("\r", "\\r").replace("\n", "\\n").encode() + b"\n"

    def dropped(self, count: int) -> bytes:
        return b"# %d dropped\n" % count


FRAMINGS: Final[tuple[Framing, ...]] = (JsonLines(), EventStream(), PlainText())


def document(message: Message) -> bytes:
    """A message as a client sees it."""
    return msgspec.json.encode(
        {
            "value": message.value,
            "time": message.time,
            "quality": message.quality,
            "node": message.node,
            "number": message.number,
        }
    )


def negotiate(accept: str) -> Framing:
    """The framing that an Accept header (RFC 9110, section 12.5.1) prefers; JSON lines by default.

    Of two that weigh the same, the one that was asked for by its name goes before one that `*/*` allows.
    """
    ranges = dict(_media_range(part) for part in accept.split(","))
    return max(FRAMINGS, key=lambda framing: _preference(framing, ranges))  # the first of several


def _media_range(part: str) -> tuple[str, float]:
    """A media type, `text/*` or `*/*`, with its weight."""
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
    with suppress(ValueError):
        return media, min(max(float(weight), 0.0), 1.0)
    return media, 0.0


def _preference(framing: Framing, ranges: dict[str, float]) -> tuple[float, int]:
    """Weight, then how closely it was asked for: the closest range that matches gives the weight."""
    named = [ranges[media] for media in framing.media if media in ranges]
    if named:
        return max(named), 2
    for closeness, media in ((1, framing.media[0].partition("/")[0] + "/*"), (0, "*/*")):
        if media in ranges:
            return ranges[media], closeness
    return 0.0, 0


class Streams:
    """All clients that wait for messages: streams, and requests for the next message.

    Each has its own bounded queue on the bus (the oldest is dropped, and the client told); a client that
    goes away cancels its handler, which gives its subscription back.
    """

    def __init__(self, node: Node, *, limit: int, queue: int, heartbeat_s: float) -> None:
        self._node = node
        self._limit = limit
        self._queue = queue
        self._heartbeat = heartbeat_s
        self._open: set[Subscription] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def subscription(self, topic: str, depth: int) -> Iterator[Subscription]:
        """A subscription for one client. Refuses with 429 when too many are open."""
        if self._closed:
            raise ClosedError(self._node.name)
        if len(self._open) >= self._limit:
            sentence = f"{self._limit} clients wait for messages, which is the most"
            raise ApiError(429, "too_many_streams", sentence)
        with self._node.subscribe(topic, depth=depth) as subscription:
            self._open.add(subscription)
            try:
                yield subscription
            finally:
                self._open.discard(subscription)

    async def serve(self, request: web.BaseRequest, topic: str, *, latest: bool) -> web.StreamResponse:
        """Stream `topic` until the client goes; begin with its last message if `latest`.

        A client that comes back with the id it saw last (`Last-Event-ID`) is not sent that message again.
        """
        framing = negotiate(",".join(request.headers.getall("Accept", [])))
        response = web.StreamResponse(
            headers={
                "Content-Type": framing.content_type,
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # an nginx in front passes each message on at once
            }
        )
        with self.subscription(topic, self._queue) as subscription:
            last = subscription.topics[0].last if latest else None
            if last is not None and request.headers.get("Last-Event-ID") == str(last.number):
                last = None
            first = framing.start + (framing.message(last) if last is not None else b"")
            with suppress(ConnectionError):  # the client went as it was written to
                await response.prepare(request)
                if first:
                    await response.write(first)
                await self._pump(response, subscription, framing)
        return response

    def close(self) -> None:
        """End all of them, and open no more."""
        self._closed = True
        for subscription in self._open:
            subscription.close()

    async def _pump(self, response: web.StreamResponse, waiting: Subscription, framing: Framing) -> None:
        """Write messages until the subscription is closed."""
        interval = self._heartbeat if framing.heartbeat else None
        told = 0
        while True:
            try:
                async with asyncio.timeout(interval):
                    message = await waiting.get()
            except TimeoutError:
                await response.write(framing.heartbeat)
                continue
            except ClosedError:
                return
            lines = framing.message(message)
            if waiting.dropped > told:
                lines = framing.dropped(waiting.dropped - told) + lines
                told = waiting.dropped
            await response.write(lines)


def stream_schema() -> dict[str, Any]:
    """JSON Schema of one line of a stream."""
    message = {
        "value": {},
        "time": {"type": "number", "description": "UNIX seconds"},
        "quality": {"enum": list(Quality)},
        "node": {"type": "string"},
        "number": {"type": "integer", "description": "counts the topic's messages"},
    }
    return {
        "anyOf": [
            {"type": "object", "properties": message, "required": list(message)},
            {
                "type": "object",
                "properties": {"dropped": {"type": "integer", "minimum": 1}},
                "required": ["dropped"],
                "description": "so many messages were left out here, as the client was too slow",
            },
        ]
    }
