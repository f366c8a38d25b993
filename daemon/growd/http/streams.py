"""`topic_stream`: a topic's messages over one open response, framed as the client accepts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from aiohttp import web

from growd.http.errors import ApiError

if TYPE_CHECKING:
    from growd.bus.messages import Message
    from growd.bus.nodes import Node
    from growd.bus.topics import Subscription

RETRY_MS: Final = 2000  # how long an EventSource waits before it connects again


class Framing(Protocol):
    """How messages become bytes on the wire."""

    content_type: str

    def start(self) -> bytes: ...
    def message(self, message: Message) -> bytes: ...
    def dropped(self, count: int) -> bytes: ...
    def heartbeat(self) -> bytes: ...


class JsonLines:
    """One JSON document a line (jsonlines.org)."""

    content_type = "application/x-ndjson"

    def start(self) -> bytes:
        return b""

    def message(self, message: Message) -> bytes:
        return document(message) + b"\n"

    def dropped(self, count: int) -> bytes:
        return msgspec.json.encode({"dropped": count}) + b"\n"

    def heartbeat(self) -> bytes:
        return b""  # an empty line is not a JSON document


class EventStream:
    """Server-sent events (WHATWG HTML, section 9.2)."""

    content_type = "text/event-stream"

    def start(self) -> bytes:
        return b"retry: %d\n\n" % RETRY_MS

    def message(self, message: Message) -> bytes:
        return b"id: %d\ndata: %b\n\n" % (message.number, document(message))

    def dropped(self, count: int) -> bytes:
        return b'event: dropped\ndata: {"dropped":%d}\n\n' % count

    def heartbeat(self) -> bytes:
        return b":\n\n"


class PlainText:
    """One line a message with nothing but its value, as the predecessor's stream had it."""

    content_type = "text/plain"

    def start(self) -> bytes:
        return b""

    def message(self, message: Message) -> bytes:
        value = message.value
        text = str(value) if not isinstance(value, dict) else msgspec.json.encode(value).decode()
        return text.replace("\r", "\\r").replace("\n", "\\n").encode() + b"\n"

    def dropped(self, count: int) -> bytes:
        return b"# %d dropped\n" % count

    def heartbeat(self) -> bytes:
        return b""


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
    """The framing that an Accept header (RFC 9110, section 12.5.1) prefers; JSON lines by default."""
    best, best_weight = FRAMINGS[0], 0.0
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = _weight(parameters)
        for framing in FRAMINGS:
            if media == framing.content_type and weight > best_weight:
                best, best_weight = framing, weight
    return best


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


class Streams:
    """All open streams.

    Each has its own bounded queue on the bus (the oldest is dropped, and the client told); a client that
    goes away cancels its handler, which gives its subscription back.
    """

    def __init__(self, node: Node, *, limit: int, queue: int, heartbeat_s: float) -> None:
        self._node = node
        self._limit = limit
        self._queue = queue
        self._heartbeat = heartbeat_s
        self._open = 0

    def __len__(self) -> int:
        return self._open

    async def serve(self, request: web.BaseRequest, topic: str, *, latest: bool) -> web.StreamResponse:
        """Stream `topic` until the client goes; begin with its last message if `latest`.

        A client that comes back with the id it saw last (`Last-Event-ID`) is not sent that message again.
        """
        if self._open >= self._limit:
            raise ApiError(429, "too_many_streams", f"{self._limit} streams are open, which is the most")
        framing = negotiate(request.headers.get("Accept", ""))
        response = web.StreamResponse(
            headers={
                "Content-Type": framing.content_type,
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # an nginx in front passes each message on at once
            }
        )
        self._open += 1
        try:
            with self._node.subscribe(topic, depth=self._queue) as subscription:
                last = subscription.topics[0].last if latest else None
                if last is not None and request.headers.get("Last-Event-ID") == str(last.number):
                    last = None
                await response.prepare(request)
                first = framing.start() + (framing.message(last) if last is not None else b"")
                if first:
                    await response.write(first)
                await self._pump(response, subscription, framing)
        finally:
            self._open -= 1
        return response

    async def _pump(self, response: web.StreamResponse, waiting: Subscription, framing: Framing) -> None:
        told = 0
        while True:
            try:
                async with asyncio.timeout(self._heartbeat):
                    message = await waiting.get()
            except TimeoutError:
                beat = framing.heartbeat()
                if beat:
                    await response.write(beat)
                continue
            lines = framing.message(message)
            if waiting.dropped > told:
                lines = framing.dropped(waiting.dropped - told) + lines
                told = waiting.dropped
            await response.write(lines)


def stream_schema() -> dict[str, Any]:
    """JSON Schema of one line of a stream."""
    return {
        "type": "object",
        "properties": {
            "value": {},
            "time": {"type": "number", "description": "UNIX seconds"},
            "quality": {"enum": ["ok", "warm-up", "stale", "fault"]},
            "node": {"type": "string"},
            "number": {"type": "integer"},
            "dropped": {"type": "integer"},
        },
    }
