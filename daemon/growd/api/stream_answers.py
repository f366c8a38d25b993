"""What open streams send.

`broadcast.py` has what a `topic_stream` sends, `many_topics.py` what a `stream` sends.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from growd.api.broadcast import (
    AT_ONCE,
    BURST,
    LATEST_S,
    Broadcast,
    BroadcastClient,
    bound_buffers,
    transport_of,
)
from growd.api.many_topics import LastMessages, TopicsProgress, TopicsStream
from growd.api.stream_formats import FORMATS, TOPICS_FORMATS, negotiate
from growd.bus.errors import ClosedError
from growd.server.client_request import add_own_headers, client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from typing import Any

    from growd.api.stream_formats import StreamFormat
    from growd.api.streams import Streams


class StreamAnswers:
    """Answers with streams, each of which has a place among `streams`."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._broadcasts: dict[tuple[str, StreamFormat], Broadcast] = {}
        self._last = LastMessages()
        self._of_many = 0  # streams of many topics

    async def serve(self, request: web.BaseRequest, topic: str, *, latest: bool) -> web.StreamResponse:
        """Stream `topic` until the client disconnects; begin with its last message if `latest`.

        A client that sends the id of this message (`Last-Event-ID`) does not get it again. `ApiError` 429 if
        too many clients wait.
        """
        form = negotiate(_accepted(request), FORMATS)
        response = _response(request, form)
        with self._streams.place(client_of(request)):
            async with self._broadcast(topic, form) as broadcast:
                seen = request.headers.get("Last-Event-ID") if latest else None
                with suppress(ConnectionError):  # the client went
                    client = BroadcastClient(request, form, self._streams.limits.stream_queue)
                    with broadcast.joined(client, latest=latest, seen=seen):
                        await response.prepare(request)
                        await client.run()
        return response

    async def serve_many(
        self, request: web.BaseRequest, topics: Sequence[str], query: Mapping[str, Any]
    ) -> web.StreamResponse:
        """Stream the messages of `topics` as `TopicsStream` does, until the client disconnects.

        With `latest` in the query, begin with the last messages, without those that the client has had by
        its `Last-Event-ID`. `ApiError` 429 if too many clients wait.
        """
        form = negotiate(_accepted(request), TOPICS_FORMATS)
        response = _response(request, form)
        streams = self._streams
        depth = streams.limits.stream_queue + len(topics)
        with streams.subscription(*topics, client=client_of(request), depth=depth) as subscription:
            seen = request.headers.get("Last-Event-ID")
            progress = TopicsProgress(subscription.topics, self._last, seen, latest=query["latest"])
            stream = TopicsStream(
                subscription, form, progress, query, clock=streams.clock, wall_time=streams.wall_time
            )
            self._of_many += 1
            try:
                await response.prepare(request)
                bound_buffers(transport_of(request))
                await stream.run(partial(self._write, request, response))
            except (ConnectionError, ClosedError):
                pass  # the client went, or the stream has come to its end
            finally:
                self._of_many -= 1
        return response

    async def _write(self, request: web.BaseRequest, response: web.StreamResponse, text: bytes) -> None:
        """Write to a stream of many topics, and return when its connection takes more."""
        await response.write(text)
        await request.writer.drain()
        if self._of_many > AT_ONCE:
            await self._streams.clock.sleep(LATEST_S)

    @asynccontextmanager
    async def _broadcast(self, topic: str, form: StreamFormat) -> AsyncIterator[Broadcast]:
        """The broadcast of a topic in a format, from its first client to its last."""
        broadcast = self._broadcasts.get((topic, form))
        if broadcast is None or broadcast.subscription.is_closed:
            subscription = self._streams.node.subscribe(topic, depth=BURST)
            heartbeat_s = self._streams.limits.heartbeat_s
            broadcast = self._broadcasts[topic, form] = Broadcast(subscription, form, heartbeat_s)
            self._streams.waiting.add(subscription)
        broadcast.users += 1
        try:
            yield broadcast
        finally:
            broadcast.users -= 1
            if not broadcast.users:
                if self._broadcasts.get((topic, form)) is broadcast:
                    del self._broadcasts[topic, form]
                self._streams.waiting.discard(broadcast.subscription)
                await broadcast.close()


def _accepted(request: web.BaseRequest) -> str:
    return ",".join(request.headers.getall(hdrs.ACCEPT, []))


def _response(request: web.BaseRequest, form: StreamFormat) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={
            "Content-Type": form.content_type,
            "X-Accel-Buffering": "no",  # an nginx in front passes each message on at once
        }
    )
    add_own_headers(request, response.headers)
    return response
