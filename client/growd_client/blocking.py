"""The blocking client."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING, Self, TypeVar

from growd_client.address import given_address, given_login, given_trust
from growd_client.connection import TIMEOUT_S, DaemonClient
from growd_client.errors import GrowdError
from growd_client.following import EVENT_STREAM, EventLines, Following, Pauses
from growd_client.methods import ClientMethods, Waiting
from growd_client.points import PointPages, refuses_a_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from growd_client.answers import StoredPoint, TopicMessage
    from growd_client.following import StreamEvent
    from growd_client.methods import Time
    from growd_client.request import ClientCall

T = TypeVar("T")


class Growd(ClientMethods, Waiting):
    """A blocking client of one growd. Close it, or use it in `with`.

    Every method raises `GrowdError`: `UsageError` for invalid arguments, `NotReachedError` without an answer
    of growd within `timeout_s` seconds, `RefusedError` with growd's sentence if it refuses. A client is for
    one thread at a time; streams of `follow` have connections of their own.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        ca: str | Path | None = None,
        timeout_s: float = TIMEOUT_S,
        pauses: Pauses | None = None,
    ) -> None:
        """`url` is GROWD_URL by default, else growd on this machine.

        `user` and `password` are those of the URL by default, else GROWD_USER and GROWD_PASSWORD. `ca` is a
        file of certificates to trust. `pauses` are those before a stream connects again.
        """
        address = given_address(url)
        login = given_login(address, user, password)
        self._connection = DaemonClient(address, login, given_trust(address, ca), timeout_s)
        self._pauses = pauses or Pauses()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens it again."""
        self._connection.close()

    def follow(
        self,
        *topics: str,
        throttle_s: float = 0.0,
        latest: bool = True,
        heartbeat_s: float = 10.0,
        on_event: Callable[[StreamEvent], None] | None = None,
    ) -> Iterator[TopicMessage]:
        """The messages of topics, with `latest` beginning with the newest of each. Endless.

        With `throttle_s` the newest message of each topic, at most one in this time. The stream connects
        again if the connection breaks, or if neither a message nor a heartbeat comes. `on_event` then gets
        `Disconnected` and `Reconnected`, and `Dropped` if this client is too slow; without it they are
        logged. Raises `GrowdError` if the first connection fails, or a later one is refused for good.
        """
        stream = Following(topics, throttle_s, heartbeat_s, self._pauses, on_event, latest=latest)
        yield from messages_of(self._connection, stream)

    def points(
        self,
        environment: str,
        variable: str,
        *,
        category: str = "measured",
        start: Time | None = None,
        end: Time | None = None,
        prefix: str = "",
    ) -> Iterator[StoredPoint]:
        """The stored points of a variable in a range of time, the oldest first, read page by page.

        `category` is "measured", "desired", "commanded", "quality" or "event"; for events `variable` is the
        kind. `prefix` is growd's `[couchdb] prefix`. A login needs the right to read the database. Raises
        `RefusedError` if growd does not know the name of a series without any point.
        """
        pages = PointPages((environment, category, variable), start, end, prefix)
        while not pages.done:
            yield from self._send(pages.call())
        if pages.has_none:
            try:
                self._send(pages.names())
            except GrowdError as error:
                if refuses_a_name(error):
                    raise

    def _send(self, call: ClientCall[T]) -> T:
        return self._connection.send(call)


def messages_of(connection: DaemonClient, stream: Following) -> Iterator[TopicMessage]:
    """The messages of a stream, as `Growd.follow`."""
    silence_s = stream.heartbeat_s + connection.server.timeout_s
    while True:
        try:
            with connection.lines(stream.target, EVENT_STREAM, stream.headers, silence_s) as lines:
                stream.opened()
                event = EventLines()
                for line in lines:
                    if (message := stream.message(event, line)) is not None:
                        yield message
            pause_s = stream.ended()
        except GrowdError as error:
            pause_s = stream.failed(error)
        sleep(pause_s)
