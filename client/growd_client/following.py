"""A stream of many topics, without the network: events, the id of the last one, and when to connect again."""

from __future__ import annotations

import logging
import random
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlencode

import msgspec

from growd_client.answers import TopicMessage
from growd_client.connection import LINE_BYTES
from growd_client.errors import GrowdError, NotReachedError, RefusedError, UsageError
from growd_client.request import target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EVENT_STREAM: Final = "text/event-stream"
_PASSING: Final = {HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_MOST_REFUSALS: Final = 20  # in a row: after a restart the topics may come later
_log = logging.getLogger("growd_client")


class Pauses(msgspec.Struct, frozen=True):
    """Pauses between attempts: `first_s` seconds, twice as long after each failure, up to `longest_s`.

    Each is shortened at random, at most to the share `least` of it, so that many devices do not try at the
    same moment. A `first_s` above `longest_s` is not shortened to it.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    least: float = 0.5

    def after(self, failures: int) -> float:
        """The pause after this number of failures in a row, from 1."""
        whole = min(self.first_s * 2.0 ** min(failures - 1, 30), max(self.first_s, self.longest_s))
        return whole * random.uniform(self.least, 1.0)  # noqa: S311  no secret


class Disconnected(msgspec.Struct, frozen=True):
    """The connection of a stream broke, or heartbeats are missing; the client connects again."""

    why: str


class Reconnected(msgspec.Struct, frozen=True):
    """The stream goes on. Of each topic only the newest of the messages that came meanwhile follows."""


class Dropped(msgspec.Struct, frozen=True):
    """The client read too slowly and missed `count` messages. The newest of each topic follows."""

    count: int


StreamEvent: TypeAlias = Disconnected | Reconnected | Dropped


class _Count(msgspec.Struct):
    dropped: int


class Following:
    """The state of a stream. `report` is called with what happens to it; by default that is logged."""

    def __init__(
        self,
        topics: Sequence[str],
        throttle_s: float,
        heartbeat_s: float,
        pauses: Pauses,
        report: Callable[[StreamEvent], None] | None,
        *,
        latest: bool = True,
    ) -> None:
        if not topics:
            raise UsageError("expected at least one topic")
        query = {"topic": topics, "throttle": throttle_s, "heartbeat": heartbeat_s}
        if not latest:
            query["latest"] = "false"
        self.target: Final = target("stream", "", urlencode(query, doseq=True))
        self.heartbeat_s: Final = heartbeat_s
        self._pauses = pauses
        self._report = report or _log_event
        self._id = ""
        self._failures = 0
        self._refusals = 0
        self._had_connection = False
        self._had_event = False
        self._is_lost = False

    @property
    def headers(self) -> dict[str, str]:
        """Of the next request."""
        return {"Last-Event-ID": self._id} if self._id else {}

    def opened(self) -> None:
        """Note that growd has accepted the request."""
        self._had_connection = True
        self._refusals = 0
        if self._is_lost:
            self._is_lost = False
            self._report(Reconnected())

    def message(self, event: EventLines, line: bytes) -> TopicMessage | None:
        """The message that ends with this line, if one does."""
        if not event.add(line):
            return None
        try:
            return self._take(event.finish())
        except msgspec.DecodeError as error:
            self._had_connection = self._had_event  # without an event, it never was one to growd
            raise NotReachedError(f"a program other than growd streams there ({error})") from None

    def ended(self) -> float:
        """Note that the connection broke. Returns the pause before the next one in seconds."""
        return self._lost("the connection to growd broke")

    def failed(self, error: GrowdError) -> float:
        """As `ended`, after an error. Raises it if it will not pass, and if there never was a connection."""
        if not self._had_connection:
            raise error
        if isinstance(error, RefusedError):
            self._refusals += 1
            if error.status not in _PASSING or self._refusals == _MOST_REFUSALS:
                raise error
        elif not isinstance(error, NotReachedError):
            raise error
        return self._lost(str(error))

    def _take(self, event: tuple[str, str, bytes]) -> TopicMessage | None:
        name, identifier, data = event
        self._id = identifier or self._id
        if not data:
            return None
        message = msgspec.json.decode(data, type=TopicMessage) if name == "message" else None
        if name == "dropped":
            self._report(Dropped(msgspec.json.decode(data, type=_Count).dropped))
        self._had_event = True
        self._failures = 0
        return message

    def _lost(self, why: str) -> float:
        self._failures += 1
        if not self._is_lost:
            self._is_lost = True
            self._report(Disconnected(why))
        return self._pauses.after(self._failures)


class EventLines:
    """One server-sent event, line by line (WHATWG HTML, section 9.2.6)."""

    def __init__(self) -> None:
        self._fields: dict[str, bytes] = {}

    def add(self, line: bytes) -> bool:
        """Whether this line ends an event."""
        line = line.removesuffix(b"\r")
        if not line:
            return bool(self._fields)
        name, _, value = line.partition(b":")
        if name:  # else a comment
            self._fields[name.decode(errors="replace")] = value.removeprefix(b" ")
        return False

    def finish(self) -> tuple[str, str, bytes]:
        """Name, id and data of the event; the next one begins."""
        fields, self._fields = self._fields, {}
        name, identifier = fields.get("event", b"message"), fields.get("id", b"")
        return name.decode(errors="replace"), identifier.decode(errors="replace"), fields.get("data", b"")


class Lines:
    """Cuts a stream into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def cut(self, data: bytes) -> list[bytes]:
        """The lines that end in `data`. Raises `NotReachedError` for a line above the limit."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES:
            raise NotReachedError("a program other than growd streams there (a line is too long)")
        return lines


def _log_event(event: StreamEvent) -> None:
    if isinstance(event, Disconnected):
        _log.warning("%s; reconnecting", event.why)
    elif isinstance(event, Dropped):
        _log.warning("read too slowly: dropped %d messages", event.count)
    else:
        _log.info("reconnected")
