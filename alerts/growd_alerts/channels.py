"""The channels to operators, as configured."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from growd.config import ConfigError
from growd.config.secrets import read_line
from growd.runtime.sentence import encode
from growd.wiring.files import trusting
from growd_alerts.apprise import AppriseAlerts

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.config import Config
    from growd.config.alerts import Notify
    from growd.host.mqtt import MqttLink
    from growd_alerts.dispatch import Send
    from growd_alerts.messages import AlertMessage, Sender


def read_channels(
    config: Config, sender: Sender, now: Callable[[], float], mqtt: MqttLink | None
) -> dict[str, Send]:
    """What sends on each channel, by its name. Blocking: reads secrets. Raises `ConfigError`."""
    topic = f"{config.mqtt.topic}/{sender.device}/alerts/event"
    return {
        each.name: (
            _on_mqtt(each, mqtt, topic, sender, now) if each.kind == "mqtt" else _by_apprise(each, sender)
        )
        for each in config.notify
    }


def read_address(settings: Notify) -> str:
    """The address of a service, "" for MQTT; checks its certificates too. Blocking. Raises `ConfigError`."""
    trusting(f"[notify] ca_file: {settings.name}: {settings.ca_file}", settings.ca_file)
    where = f"[notify] url_file: {settings.name}"
    address = read_line(where, settings.url_file)
    if address and "://" not in address:
        raise ConfigError(f"{where}: {settings.url_file} must have an address such as ntfys://topic")
    return address


def _by_apprise(settings: Notify, sender: Sender) -> Send:
    trusted = settings.ca_file or ssl.get_default_verify_paths().cafile or ""
    return AppriseAlerts(read_address(settings), sender, trusted).send


def _on_mqtt(
    settings: Notify, link: MqttLink | None, topic: str, sender: Sender, now: Callable[[], float]
) -> Send:
    if link is None:
        raise ConfigError(f"[notify] kind: {settings.name}: restart growd, which connects to the broker then")

    async def send(message: AlertMessage) -> None:
        await link.publish(topic, encode(sender.document(message, now())))

    return send
