"""All clients that wait for messages; `stream_answers.py` has what streams send."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from growd.bus.errors import ClosedError
from growd.server.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.api.operation import Limits
    from growd.bus.nodes import Node
    from growd.bus.topics import Subscription
    from growd.runtime.clock import Clock
    from growd.server.client_limits import Clients


class Streams:
    """All clients that wait for messages: streams, and requests for the next message.

    There may be `limits.streams`. A client that disconnects cancels its handler, which frees its place.
    `wall_time` is that of the messages; intervals are measured with `clock`.
    """

    def __init__(
        self, node: Node, limits: Limits, clients: Clients, clock: Clock, wall_time: Callable[[], float]
    ) -> None:
        self.node = node
        self.limits = limits
        self.clock = clock
        self.wall_time = wall_time
        self._clients = clients
        self._taken = 0
        self.waiting: set[Subscription] = set()
        """The subscriptions of all clients, shared ones too."""
        self._closed = False

    def __len__(self) -> int:
        """How many clients wait."""
        return self._taken

    @contextmanager
    def subscription(self, *topics: str, client: str | None, depth: int = 1) -> Iterator[Subscription]:
        """A subscription for one client that waits for messages. `ApiError` 429 if too many wait."""
        with self.place(client), self.node.subscribe(*topics, depth=depth) as subscription:
            self.waiting.add(subscription)
            try:
                yield subscription
            finally:
                self.waiting.discard(subscription)

    def close(self) -> None:
        """End all streams and refuse new ones."""
        self._closed = True
        for subscription in (*self.waiting,):
            subscription.close()

    @contextmanager
    def place(self, client: str | None) -> Iterator[None]:
        """The place of one client. `ApiError` 429 if too many wait."""
        if self._closed:
            raise ClosedError(self.node.name)
        if self._taken >= self.limits.streams:
            sentence = f"{self.limits.streams} clients wait for messages, which is the maximum"
            raise ApiError(429, "too_many_streams", sentence)
        with self._clients.stream(client):
            self._taken += 1
            try:
                yield
            finally:
                self._taken -= 1
