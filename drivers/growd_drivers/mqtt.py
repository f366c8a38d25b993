"""What drivers need of a connection to an MQTT broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class MqttClient(Protocol):
    """A connection to a broker, which is restored after an outage."""

    @property
    def problem(self) -> str:
        """Why there is no connection, or ""."""

    def subscribe(self, topic: str, receive: Callable[[bytes, bool], None]) -> None:
        """Call `receive` on the event loop with the body of each message on a topic without wildcards.

        Its second argument is whether the broker had retained the message, so that its age is not known.
        """

    def of_output(self, topic: str) -> MqttClient:
        """The connection for the output at a topic, whose last will makes it safe; else this one."""

    def send(self, topic: str, body: bytes, *, retain: bool = False) -> None:
        """Publish, and wait for the acknowledgement. Blocking, for worker threads. Raises OSError."""
