"""The channels of alerts, built from the configuration and the secrets and certificates it names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from growd.config.secrets import read_line
from growd.wiring.files import trusting

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from growd.alerts.dispatch import AlertChannel
    from growd.alerts.messages import Alert, Sender
    from growd.config.alerts import Notify

_PORTS: Final = {
    ("email", "tls"): 465,
    ("email", "starttls"): 587,
    ("email", "none"): 25,
    ("mqtt", "none"): 1_883,
}
_MQTT_TLS_PORT: Final = 8_883


def read_channels(
    wanted: Iterable[Notify],
    sender: Sender,
    now: Callable[[], float],
    open_on: Callable[[str], list[Alert]],
) -> dict[str, AlertChannel]:
    """The channels by name. `open_on` returns the open alerts of a channel. Raises `ConfigError`.

    Blocking: reads secrets and certificates, and imports the modules of these kinds.
    """
    return {each.name: _channel(each, sender, now, open_on) for each in wanted}


def _channel(
    settings: Notify, sender: Sender, now: Callable[[], float], open_on: Callable[[str], list[Alert]]
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
    password = secret_of(settings, "password_file")
    if settings.kind == "email":
        from growd.alerts.channels.email import Email, MailServer  # noqa: PLC0415  likewise

        server = MailServer(
            settings.host,
            _port(settings),
            settings.security,
            read_trusted(settings),
            settings.timeout_s,
            settings.user,
            password,
        )
        return Email(server, settings.sender, settings.recipients, sender, now)
    from growd.alerts.channels.mqtt import MqttAlerts  # noqa: PLC0415  likewise
    from growd.host.mqtt_connection import Broker  # noqa: PLC0415  likewise

    context = None if settings.security == "none" else read_trusted(settings)
    broker = Broker(settings.host, _port(settings), context, settings.timeout_s, settings.user, password)
    topic = settings.topic.replace("{device}", sender.device)
    return MqttAlerts(broker, topic, sender, now, functools.partial(open_on, settings.name))


def _port(settings: Notify) -> int:
    return settings.port or _PORTS.get((settings.kind, settings.security), _MQTT_TLS_PORT)


def secret_of(settings: Notify, option: str) -> str:
    """The secret in the file that an option names, "" without one. Blocking. Raises `ConfigError`."""
    return read_line(f"[notify] {option}: {settings.name}", getattr(settings, option))


def read_trusted(settings: Notify) -> ssl.SSLContext:
    """The certificates used to verify the server. Blocking: reads files. Raises `ConfigError`."""
    return trusting(f"[notify] ca_file: {settings.name}: {settings.ca_file}", settings.ca_file)
