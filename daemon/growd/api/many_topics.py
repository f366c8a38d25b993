"""`stream`: the messages of many topics over one open response.

Unlike a `topic_stream`, each client has a task of its own, since throttle, heartbeat and ids differ. The JSON
of a message is shared. What a client misses is found by comparing what it had with the last messages of its
topics, so a throttled, slow or returning client gets the newest message of each topic that it has not had.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from growd.runtime.sentence import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from growd.api.stream_formats import TopicsFormat
    from growd.bus.messages import Message
    from growd.bus.topics import Subscription, Topic
    from growd.runtime.clock import Clock


SENT_AS_CHANGES: Final = frozenset({"status"})
"""Topics of which a client can have the whole value first, then what changed."""

Changes: TypeAlias = "list[Any] | dict[str, Changes]"
"""An array of one element is the new value. An object has the changed members, or elements by index."""


def changes(old: Any, new: Any) -> Changes:
    """The changes from one JSON value to another; an empty object if they are equal."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return {name: changes(old[name], value) for name, value in new.items() if old[name] != value}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return {str(index): changes(*pair) for index, pair in pairs if pair[0] != pair[1]}
    return {} if old == new else [new]


class _Last:
    """The last message of a topic; `text` is its JSON once it was needed."""

    __slots__ = ("number", "text", "version")

    def __init__(self, number: int, version: int) -> None:
        self.number = number
        self.version = version
        self.text = b""


class LastMessages:
    """The last messages of all topics that are streamed together, each encoded once.

    Each has a version. A newer message has a higher version than all messages that were looked at before it,
    on whatever topic, so the bus need not count its messages.
    """

    def __init__(self) -> None:
        self.run = secrets.token_bytes(16)
        """Differs after a restart of growd."""
        self.newest = 0
        self._found: dict[str, _Last] = {}
        self._changes: dict[str, tuple[int, int, bytes]] = {}  # by topic: from number, to number, JSON

    def version(self, topic: Topic) -> int:
        """The version of the topic's last message, 0 if there is none."""
        if topic.last is None:
            return 0
        found = self._found.get(topic.name)
        if found is not None and found.number == topic.last.number:
            return found.version
        self.newest += 1
        self._found[topic.name] = _Last(topic.last.number, self.newest)
        return self.newest

    def text(self, message: Message) -> bytes:
        """A message as JSON."""
        found = self._found.get(message.topic)
        if found is None or found.number != message.number:
            return encode(message)
        found.text = found.text or encode(message)
        return found.text

    def changes(self, had: Message, message: Message) -> bytes:
        """A message as JSON, with the changes since an earlier one in place of its value."""
        numbers = had.number, message.number
        found = self._changes.get(message.topic)
        if found is None or found[:2] != numbers:
            members = {**msgspec.structs.asdict(message), "changes": changes(had.value, message.value)}
            del members["value"], members["valid_s"]
            found = self._changes[message.topic] = (*numbers, encode(members))
        return found[2]


class TopicsProgress:
    """Which last messages of its topics a client has had, and the ids of events that say so.

    The id `KEY-VERSION-P-Q` says: the client had the last message of each topic up to this version, except
    those of the topics at the positions P and Q. The key stands for the run of growd and the topics; with
    another key the client has had nothing. Without `latest` it has had all, whatever its id says.
    """

    def __init__(
        self, topics: Sequence[Topic], last: LastMessages, seen: str | None, *, latest: bool = True
    ) -> None:
        self.topics = topics
        self.last = last
        names = "\n".join(topic.name for topic in topics)
        self._key = blake2s(names.encode(), key=last.run, digest_size=6).hexdigest()
        self._version, missing = _read_id(seen, self._key)
        self._versions: list[int] = []
        self.look()
        self._had = [
            version if not latest or (version <= self._version and position not in missing) else 0
            for position, version in enumerate(self._versions)
        ]

    def look(self) -> None:
        """Look at the topics for new messages."""
        self._versions = [self.last.version(topic) for topic in self.topics]

    def missing(self) -> list[int]:
        """The positions of the topics whose last message the client has not had, by version."""
        return sorted(self._missing(self.last.newest), key=self._versions.__getitem__)

    def sent(self, position: int, message: Message) -> str:
        """Note that the client gets this message of the topic at `position`. Returns the id of its event."""
        last = self.topics[position].last
        if last is not None and message.number == last.number:  # not if a newer one waits
            self._had[position] = self._versions[position]
            self._version = max(self._version, self._versions[position])
        return "-".join((self._key, str(self._version), *map(str, self._missing(self._version))))

    def _missing(self, version: int) -> list[int]:
        """The positions of topics whose last message is missing and has this version or a lower one."""
        pairs = zip(self._versions, self._had, strict=True)
        return [position for position, (last, had) in enumerate(pairs) if had != last <= version]


def _read_id(seen: str | None, key: str) -> tuple[int, frozenset[int]]:
    """The version in an id, and the positions; (0, none) if it has not this key."""
    if seen is not None and seen.startswith(f"{key}-"):
        with suppress(ValueError):
            version, *missing = (int(part) for part in seen.split("-")[1:])
            return version, frozenset(missing)
    return 0, frozenset()


class TopicsStream:
    """What one client gets of its topics. It begins with the last messages that `progress` has as missing.

    With a `throttle` in its query a client gets of each topic the newest message, at most one in so many
    seconds. Without one it gets all messages. If it reads so slowly that the subscription dropped some, it
    gets their number and the newest message of each topic. After `heartbeat` seconds without a message there
    is a heartbeat. With `changes`, topics of `SENT_AS_CHANGES` are sent whole first, then what changed.
    """

    def __init__(
        self,
        subscription: Subscription,
        form: TopicsFormat,
        progress: TopicsProgress,
        query: Mapping[str, Any],
        *,
        clock: Clock,
        wall_time: Callable[[], float],
    ) -> None:
        self._subscription = subscription
        self._form = form
        self._progress = progress
        self._last = progress.last
        self._throttle: float = query["throttle"]
        self._heartbeat: float = query["heartbeat"]
        self._as_changes = SENT_AS_CHANGES if query["changes"] else frozenset()
        self._clock = clock
        self._wall_time = wall_time
        self._positions = {topic.name: position for position, topic in enumerate(progress.topics)}
        self._due = [clock.monotonic()] * len(self._positions)  # when the topic may be sent again
        self._reported = 0  # messages that the subscription dropped
        self._had: dict[str, Message] = {}  # the last message of each topic that is sent as changes

    async def run(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write until the subscription is closed, which raises `ClosedError`.

        `write` returns when the connection takes more.
        """
        text = self._form.start + self._skip_to_newest()
        beat_due = self._clock.monotonic() + self._heartbeat
        while True:
            if text:
                await write(text)
                beat_due = self._clock.monotonic() + self._heartbeat
            await self._wait(beat_due)
            text = self._skip_to_newest() if self._throttle else self._all()
            if not text and self._clock.monotonic() >= beat_due:
                text = self._form.beat(self._wall_time())

    def _read(self) -> list[Message]:
        """The messages that wait in the subscription."""
        self._progress.look()
        return [*iter(self._subscription.get_nowait, None)]

    def _skip_to_newest(self) -> bytes:
        self._read()
        return self._newest()

    def _all(self) -> bytes:
        waiting = self._read()
        dropped = self._subscription.dropped - self._reported
        if not dropped:
            return b"".join([self._event(message) for message in waiting])
        self._reported += dropped
        dropped += len(waiting) - len(self._progress.missing())  # these are sent
        return (self._form.dropped(dropped) if dropped else b"") + self._newest()

    def _newest(self) -> bytes:
        """The last message of each topic that is due and has news."""
        now = self._clock.monotonic()
        events = []
        for position in self._progress.missing():
            message = self._progress.topics[position].last
            if message is not None and self._due[position] <= now:
                self._due[position] = now + self._throttle
                events.append(self._event(message))
        return b"".join(events)

    def _event(self, message: Message) -> bytes:
        position = self._positions[message.topic]
        return self._form.event(self._text(message), self._progress.sent(position, message))

    def _text(self, message: Message) -> bytes:
        """The message, or what changed since the last one if that is an object too."""
        if message.topic not in self._as_changes:
            return self._last.text(message)
        had, self._had[message.topic] = self._had.get(message.topic), message
        if had is None or had.value is None or message.value is None:
            return self._last.text(message)
        return self._last.changes(had, message)

    async def _wait(self, beat_due: float) -> None:
        """Return when there may be something to send. Raises `ClosedError`."""
        wake = min((beat_due, *(self._due[position] for position in self._progress.missing())))
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                seconds = wake - self._clock.monotonic()
                timer = self._clock.call_later(seconds, lambda: limit.reschedule(0.0))
                try:
                    await self._subscription.arrival()
                finally:
                    timer.cancel()
