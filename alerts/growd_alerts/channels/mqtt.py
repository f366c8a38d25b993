"""Alerts on the connection to the MQTT broker of the section [mqtt]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.runtime.sentence import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.host.mqtt import MqttLink
    from growd_alerts.messages import AlertMessage, Sender


class MqttAlerts:
    """Publishes each message on a topic, with quality of service 1."""

    def __init__(self, link: MqttLink, topic: str, sender: Sender, now: Callable[[], float]) -> None:
        self._link = link
        self._topic = topic
        self._sender = sender
        self._now = now

    async def send(self, batch: AlertMessage) -> None:
        """See `AlertChannel`."""
        await self._link.publish(self._topic, encode(self._sender.document(batch, self._now())))
