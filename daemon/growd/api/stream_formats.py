"""The media types of a stream, and how messages are encoded in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from growd.bus.errors import shown
from growd.runtime.sentence import encode
from growd.server.client_request import weights
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.bus.messages import Message

F = TypeVar("F", bound="StreamFormat")

RETRY_MS: Final = 2000  # how long an EventSource waits before it connects again


class StreamFormat(Protocol):
    """How messages are encoded.

    `media` are the media types that ask for it, its own first; `start` and `heartbeat` may be empty.
    """

    media: tuple[str, ...]
    content_type: str
    start: bytes
    heartbeat: bytes

    def message(self, message: Message) -> bytes: ...
    def dropped(self, count: int) -> bytes: ...


class TopicsFormat(StreamFormat, Protocol):
    """How messages of many topics are encoded: each event holds a JSON text with the topic."""

    def event(self, text: bytes, identifier: str) -> bytes: ...
    def beat(self, time: float) -> bytes: ...


class JsonLines:
    """One JSON document a line (jsonlines.org). An empty line is not JSON, so `heartbeat` is empty."""

    # many clients send application/json by default
    media: tuple[str, ...] = ("application/x-ndjson", "application/jsonl", "application/json")
    content_type = "application/x-ndjson"
    start = b""
    heartbeat = b""

    def message(self, message: Message) -> bytes:
        return document(message) + b"\n"

    def dropped(self, count: int) -> bytes:
        return b'{"dropped":%d}\n' % count

    def event(self, text: bytes, _: str) -> bytes:
        return text + b"\n"

    def beat(self, time: float) -> bytes:
        return b'{"heartbeat":%b}\n' % encode(time)


class EventStream:
    """Server-sent events (WHATWG HTML, section 9.2)."""

    media: tuple[str, ...] = ("text/event-stream",)
    content_type = "text/event-stream"
    start = b"retry: %d\n\n" % RETRY_MS
    heartbeat = b":\n\n"

    def message(self, message: Message) -> bytes:
        return self.event(document(message), event_id(message))

    def dropped(self, count: int) -> bytes:
        return b'event: dropped\ndata: {"dropped":%d}\n\n' % count

    def event(self, text: bytes, identifier: str) -> bytes:
        return b"id: %b\ndata: %b\n\n" % (identifier.encode(), text)

    def beat(self, time: float) -> bytes:
        return b'event: heartbeat\ndata: {"time":%b}\n\n' % encode(time)


class PlainText:
    """One line with the value for each message, as in openag_brain."""

    media: tuple[str, ...] = ("text/plain",)
    content_type = "text/plain; charset=utf-8"
    start = b""
    heartbeat = b""

    def message(self, message: Message) -> bytes:
        value = message.value
        if not isinstance(value, str):
            return encode(value) + b"\n"
        return value.replace("\r", "\\r").replace("\n", "\\n").encode() + b"\n"

    def dropped(self, count: int) -> bytes:
        return b"# %d dropped\n" % count


FORMATS: Final[tuple[StreamFormat, ...]] = (JsonLines(), EventStream(), PlainText())
TOPICS_FORMATS: Final[tuple[TopicsFormat, ...]] = (EventStream(), JsonLines())


def event_id(message: Message) -> str:
    """The id of a message that a client sends when it reconnects, also after a restart of growd.

    It contains the time, since numbers begin again after a restart.
    """
    return f"{message.number}-{message.time * 1000:.0f}"


def document(message: Message) -> bytes:
    """A message as a client sees it."""
    return encode(
        {
            "value": message.value,
            "time": message.time,
            "quality": message.quality,
            "node": message.node,
            "number": message.number,
        }
    )


def negotiate(accept: str, forms: Sequence[F]) -> F:
    """The format that an Accept header (RFC 9110, section 12.5.1) prefers, by default the first.

    At equal weight a named type precedes one that `*/*` allows. `ApiError` 406 if none is allowed.
    """
    ranges = {name: weight for name, weight in weights(accept).items() if "/" in name} or {"*/*": 1.0}
    best = max(forms, key=lambda form: _preference(form, ranges))  # the first of several
    if not _preference(best, ranges)[0]:
        known = ", ".join(form.media[0] for form in forms)
        raise ApiError(406, "not_acceptable", f"Accept must be one of {known}, not {shown(accept)}")
    return best


def _preference(form: StreamFormat, ranges: dict[str, float]) -> tuple[float, int]:
    """Weight, then precision of the range; the most precise matching range gives the weight."""
    named = [ranges[media] for media in form.media if media in ranges]
    if named:
        return max(named), 2
    for closeness, media in ((1, form.media[0].partition("/")[0] + "/*"), (0, "*/*")):
        if media in ranges:
            return ranges[media], closeness
    return 0.0, 0
