"""The channels of alerts, built from the configuration and the secrets and certificates it names."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from growd.config import ConfigError
from growd.config.secrets import read_line
from growd.wiring.files import trusting

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.alerts.dispatch import AlertChannel
    from growd.alerts.messages import Sender
    from growd.config import Config
    from growd.config.alerts import Notify
    from growd.host.mqtt import MqttLink


def read_channels(
    config: Config, sender: Sender, now: Callable[[], float], mqtt: MqttLink | None
) -> dict[str, AlertChannel]:
    """The channels by name. Raises `ConfigError`.

    Blocking: reads secrets and certificates, and imports the modules of these kinds.
    """
    return {each.name: _channel(config, each, sender, now, mqtt) for each in config.notify}


def _channel(
    config: Config, settings: Notify, sender: Sender, now: Callable[[], float], mqtt: MqttLink | None
) -> AlertChannel:
    if settings.kind == "apprise":
        from growd.alerts.channels.apprise import AppriseAlerts  # noqa: PLC0415  imported only if configured

        trusted = settings.ca_file or ssl.get_default_verify_paths().cafile or ""
        return AppriseAlerts(read_address(settings), sender, trusted)
    from growd.alerts.channels.mqtt import MqttAlerts  # noqa: PLC0415  likewise

    if mqtt is None:
        raise ConfigError(f"[notify] kind: {settings.name}: restart growd, which connects to the broker then")
    return MqttAlerts(mqtt, f"{config.mqtt.topic}/{sender.device}/alerts/event", sender, now)


def read_address(settings: Notify) -> str:
    """The address of a service, "" for MQTT; checks its certificates too. Blocking. Raises `ConfigError`."""
    trusting(f"[notify] ca_file: {settings.name}: {settings.ca_file}", settings.ca_file)
    where = f"[notify] url_file: {settings.name}"
    address = read_line(where, settings.url_file)
    if address and "://" not in address:
        raise ConfigError(f"{where}: {settings.url_file} must have an address such as ntfys://topic")
    return address
