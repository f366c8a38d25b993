"""The section [mqtt]: the broker of sensors and outputs, of alerts and of home automation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from growd.config.base import Port, Section
from growd.config.findings import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.findings import Fault, Finding


MQTT_ROOT: Final = "growd"
"""What all topics at the broker begin with; the id of the device follows."""


class Mqtt(Section, frozen=True):
    """The MQTT broker of sensors, outputs and alerts of the kind mqtt, which share one connection.

    With simulated hardware growd connects only for `publish` and alerts.
    """

    host: str = ""
    """Host name or address of the broker."""

    port: Port = 0
    """Port; 0 is the default: 1883, or 8883 with tls."""

    security: Literal["tls", "none"] = "none"
    """Encryption. With tls the certificate is always checked."""

    ca_file: str = ""
    """Trusted certificate authorities (PEM) for tls; default: those of the machine."""

    user: str = ""
    """User; empty: no login."""

    password_file: str = ""
    """File with the password."""

    publish: bool = False
    """Publish readings, set points, outputs, recipes and alerts, below growd/<device>."""

    commands: bool = False
    """`publish`: take set points, commands and recipes from everybody who may publish at the broker."""


def faults_of_mqtt(mqtt: Mqtt) -> Iterator[Finding]:
    """Options of [mqtt] that do not go together."""
    return at(("mqtt",), _faults(mqtt))


def _faults(mqtt: Mqtt) -> Iterator[Fault]:
    if mqtt.password_file and not mqtt.user:
        yield "password_file", "has no effect without a user"
    if mqtt.ca_file and mqtt.security == "none":
        yield "ca_file", 'has no effect without security = "tls"'
    for option in ("user", "port", "ca_file", "publish") if not mqtt.host else ():
        if getattr(mqtt, option):
            yield option, "has no effect without a host"
    if mqtt.commands and not mqtt.publish:
        yield "commands", "has no effect without publish = true"


def fault_of_topic(topic: str) -> str:
    """Why this is no topic for messages, or ""."""
    if not topic or set("#+\0") & set(topic) or topic.startswith("$"):
        return f"must not be empty, contain # or +, or begin with $, got {topic!r}"
    return ""
