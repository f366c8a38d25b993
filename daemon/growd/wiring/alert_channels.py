"""The channels of alerts, built from the configuration and the secrets and certificates it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.config import ConfigError
from growd.config.secrets import read_line
from growd.wiring.files import trusting

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from growd.alerts.dispatch import AlertChannel
    from growd.alerts.messages import Sender
    from growd.config import Config
    from growd.config.alerts import Notify
    from growd.host.mqtt import MqttLink

_PORTS: Final = {
    ("email", "tls"): 465,
    ("email", "starttls"): 587,
    ("email", "none"): 25,
}


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
    if settings.kind == "webhook":
        from growd.alerts.channels.webhook import Webhook  # noqa: PLC0415  imported only if configured

        return Webhook(
            settings.url,
            sender,
            now,
            context=read_trusted(settings),
            secret=secret_of(settings, "secret_file"),
            token=secret_of(settings, "token_file"),
        )
    if settings.kind == "email":
        from growd.alerts.channels.email import Email, MailServer  # noqa: PLC0415  likewise

        server = MailServer(
            settings.host,
            _port(settings),
            settings.security,
            read_trusted(settings),
            settings.timeout_s,
            settings.user,
            secret_of(settings, "password_file"),
        )
        return Email(server, settings.sender, settings.recipients, sender, now)
    from growd.alerts.channels.mqtt import MqttAlerts  # noqa: PLC0415  likewise

    if mqtt is None:
        raise ConfigError(f"[notify] kind: {settings.name}: restart growd, which connects to the broker then")
    return MqttAlerts(mqtt, f"{config.mqtt.topic}/{sender.device}/alerts/event", sender, now)


def _port(settings: Notify) -> int:
    return settings.port or _PORTS[settings.kind, settings.security]


def secret_of(settings: Notify, option: str) -> str:
    """The secret in the file that an option names, "" without one. Blocking. Raises `ConfigError`."""
    return read_line(f"[notify] {option}: {settings.name}", getattr(settings, option))


def read_trusted(settings: Notify) -> ssl.SSLContext:
    """The certificates used to verify the server. Blocking: reads files. Raises `ConfigError`."""
    return trusting(f"[notify] ca_file: {settings.name}: {settings.ca_file}", settings.ca_file)
