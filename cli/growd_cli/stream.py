"""The messages of a topic for the commands, with what happens to the stream on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from growd_cli.terminal import echo_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd_client.answers import TopicMessage
    from growd_client.connection import DaemonClient
    from growd_client.following import StreamEvent

_RETRY_S: Final = 0.5
_LONGEST_S: Final = 2.0
_HEARTBEAT_S: Final = 10.0


def follow(client: DaemonClient, topic: str) -> Iterator[TopicMessage]:
    """Each message, the latest one first. Endless.

    Reconnects with one message on standard error. Raises `GrowdError` if the first connection fails, or a
    later one is refused permanently.
    """
    from growd_client.blocking import messages_of  # noqa: PLC0415  other commands need none of this
    from growd_client.following import Disconnected, Dropped, Following  # noqa: PLC0415
    from growd_client.pauses import Pauses  # noqa: PLC0415

    def report(event: StreamEvent) -> None:
        if isinstance(event, Dropped):
            notify(f"dropped {event.count} messages of {topic}: they were read too slowly")
        elif isinstance(event, Disconnected):
            notify(f"lost the connection to growd at {client.address}; reconnecting")
        else:
            notify("reconnected")

    pauses = Pauses(_RETRY_S, _LONGEST_S)
    return messages_of(client, Following([topic], 0.0, _HEARTBEAT_S, pauses, report, latest=True))


def document(message: TopicMessage) -> bytes:
    """A message as one line of JSON, as `topic_stream` sends it."""
    members = ("value", "time", "quality", "node", "number")
    return msgspec.json.encode({name: getattr(message, name) for name in members})


def notify(sentence: str) -> None:
    """Print a message on standard error."""
    echo_text(f"growd: {sentence}", err=True)
