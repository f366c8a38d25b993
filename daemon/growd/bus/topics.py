"""Topics: named channels of typed messages. Each remembers its last message."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, Self

from growd.bus.errors import ClosedError, NameTakenError, UnknownNameError
from growd.bus.messages import Message, MessageType, Quality
from growd.bus.names import normalise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from growd.runtime.clock import Clock

_OK: Final = Quality.OK  # looking up a member of an enum is slow, and each message needs it


class Topic:
    """A channel of messages of one type.

    Clients may publish on it while it `is_open`; otherwise only the nodes that advertise it. `note` says why
    a message on it has no effect; "" if it has one. If it `is_releasable`, a client may publish null, which
    takes back its last message.

    A node may set `keeper(message, who)`, which is awaited before a client gets its answer: the effect of the
    message is on the disk when it returns. It returns a hint for the client, or "", or raises `NotKeptError`.
    Each of the `remarks` returns such a hint at once. If it `takes_past`, a client may give its message a
    time in the past.
    """

    def __init__(
        self, name: str, message_type: MessageType, *, is_open: bool, note: str, is_releasable: bool
    ) -> None:
        self.name = name
        self.type = message_type
        self.is_open = is_open
        self.note = note
        self.is_releasable = is_releasable
        self.keeper: Callable[[Message, str], Awaitable[str]] | None = None
        self.remarks: list[Callable[[Message], str]] = []
        self.takes_past = False
        self.last: Message | None = None
        self.count = 0
        self._publishers: Counter[str] = Counter()
        self._subscriptions: tuple[Subscription, ...] = ()

    @property
    def known(self) -> Any:
        """The last value, None without one that is ok."""
        return None if self.last is None else self.last.known

    @property
    def publishers(self) -> list[str]:
        return sorted(self._publishers)

    @property
    def subscribers(self) -> list[str]:
        return sorted({subscription.node for subscription in self._subscriptions})

    def add_publisher(self, node: str) -> None:
        self._publishers[node] += 1

    def remove_publisher(self, node: str) -> None:
        self._publishers[node] -= 1
        self._publishers += Counter()  # removes those at 0

    def add_subscription(self, subscription: Subscription) -> None:
        self._subscriptions = (*self._subscriptions, subscription)

    def remove_subscription(self, subscription: Subscription) -> None:
        self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    async def answer(self, message: Message, who: str) -> str:
        """The hints for the client `who` after its message, or "". Raises `NotKeptError`."""
        words = "" if message.value is None else self.note  # a release has an effect
        if self.keeper is not None:
            words = await self.keeper(message, who) or words
        return "; ".join(filter(None, (words, *(remark(message) for remark in self.remarks))))

    def deliver(
        self,
        value: Any,
        time: float,
        quality: Quality,
        node: str,
        *,
        is_past: bool = False,
        valid_s: float | None = None,
    ) -> Message:
        """Give a checked value to every subscriber, without waiting.

        A message that `is_past` does not replace a last message with a later time.
        """
        self.count += 1
        message = Message(self.name, value, time, quality, node, self.count, valid_s)
        if not is_past or self.last is None or self.last.time <= time:
            self.last = message
        for subscription in self._subscriptions:
            subscription.put(message)
        return message


class Subscription:
    """The queue of one subscriber, of one topic or several, oldest message first.

    It holds at most `depth` messages; a further one removes the oldest, and `dropped` counts them. A slow
    subscriber thus loses its own messages and delays no other. Iterate over it, or `await get()`; close it,
    or use it as a context manager. It has one reader. Messages that wait when it is closed can still be read;
    then iteration ends. With `of_others` it gets no messages of its own node.
    """

    def __init__(self, node: str, topics: Iterable[Topic], depth: int, *, of_others: bool = False) -> None:
        if depth < 1:
            raise ValueError(f"a subscription holds at least 1 message, not {depth}")
        self.node = node
        self.dropped = 0
        self.is_resumed = False  # whether its reader failed and was restarted
        self.topics = tuple(dict.fromkeys(topics))
        self._depth = depth
        self._deaf_to = node if of_others else ""
        self._is_nudged = False
        self._waiting: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # looking it up is slow
        self._closed = False
        for topic in self.topics:
            topic.add_subscription(self)

    def put(self, message: Message) -> None:
        if message.node == self._deaf_to:
            return
        waiting = self._waiting
        if len(waiting) >= self._depth:
            waiting.popleft()
            self.dropped += 1
        waiting.append(message)
        if self._waiter is not None:
            self._wake()

    async def get(self) -> Message:
        """The oldest waiting message, or the next one. A reader that is cancelled loses none.

        Raises `ClosedError` when the subscription is closed and empty.
        """
        while not self._waiting:
            await self._next_arrival()
        return self._waiting.popleft()

    async def arrival(self) -> None:
        """Return when a message waits. Raises `ClosedError` when the subscription is closed and empty."""
        while not self._waiting:
            await self._next_arrival()

    async def turn(self) -> bool:
        """Return when a message waits or after a `nudge`: whether there was one. Raises `ClosedError`."""
        while not self.is_due:
            await self._next_arrival()
        was_nudged, self._is_nudged = self._is_nudged, False
        return was_nudged

    def nudge(self) -> None:
        """Let `turn` return now, or the next time."""
        self._is_nudged = True
        self._wake()

    def get_nowait(self) -> Message | None:
        """The oldest waiting message, or None."""
        return self._waiting.popleft() if self._waiting else None

    @property
    def is_due(self) -> bool:
        """Whether `turn` returns at once."""
        return bool(self._waiting) or self._is_nudged

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Stop receiving, and wake the reader."""
        self._closed = True
        for topic in self.topics:
            topic.remove_subscription(self)
        self._wake()

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # also when it is empty

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while not self._waiting:  # inlined `get`: this runs for each message of each reader
            if self._closed:
                raise StopAsyncIteration
            await self._next_arrival()
        return self._waiting.popleft()

    def _next_arrival(self) -> asyncio.Future[None]:
        """A future that is done when a message comes or the subscription is closed."""
        if self._closed:
            raise ClosedError(self.node)
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError(f"a subscription of the node {self.node} has two readers")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._waiter = self._loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Publisher:
    """A node's right to publish on one topic."""

    __slots__ = ("_check", "_deliver", "_node", "_now", "_topic")

    def __init__(self, node: str, topic: Topic, clock: Clock) -> None:
        self._node = node
        self._topic = topic
        self._check = topic.type.checker()
        self._deliver = topic.deliver
        self._now = clock.time
        topic.add_publisher(node)

    @property
    def topic(self) -> Topic:
        return self._topic

    def publish(
        self, value: Any, quality: Quality = _OK, time: float | None = None, *, valid_s: float | None = None
    ) -> Message:
        """Publish a value of the topic's type; `time` is in UNIX seconds, by default now.

        A message that is not `ok` may have no value. Raises `InvalidValueError`, and changes nothing then.
        """
        if value is not None or quality is _OK:
            value = self._check(value)
        moment = self._now() if time is None else time
        return self._deliver(value, moment, quality, self._node, valid_s=valid_s)

    def close(self) -> None:
        self._topic.remove_publisher(self._node)


class Topics:
    """All topics by name."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._names: list[str] = []
        self.changes = 0  # counts topics that were made or opened

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def declare(
        self,
        name: str,
        message_type: MessageType,
        *,
        is_open: bool = False,
        note: str = "",
        is_releasable: bool = False,
    ) -> Topic:
        """Make the topic, or return it if it exists with the same type.

        With `is_open`, clients may publish on it. Raises `NameTakenError` if it exists with another type or
        belongs to a node.
        """
        name = normalise(name)
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(
                name, message_type, is_open=is_open, note=note, is_releasable=is_releasable
            )
            insort(self._names, name)
            self.changes += 1
        elif topic.type != message_type or (is_open and not topic.is_open):
            raise NameTakenError("topic", name)
        return topic

    def open(self, name: str) -> None:
        """Let clients publish on a topic, and clear its `note`."""
        topic = self.get(name)
        topic.is_open, topic.note = True, ""
        self.changes += 1

    def get(self, name: str) -> Topic:
        """The topic of this name; `UnknownNameError` if there is none."""
        topic = self._topics.get(name)
        if topic is None:
            name = normalise(name)
            topic = self._topics.get(name)
        if topic is None:
            raise UnknownNameError("topic", name)
        return topic

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return self._names.copy()
