"""The section [mqtt]: the broker of sensors and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from growd.config.base import Port, Section
from growd.config.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


class Mqtt(Section, frozen=True):
    """The MQTT broker of sensors and outputs with the kind mqtt. They share one connection.

    With simulated hardware growd does not connect to it. Alerts by MQTT have a broker of their own, see
    [[notify]].
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
    """File with the password. A bare name is a systemd credential."""

    timeout_s: Annotated[float, Meta(ge=1, le=60)] = 5.0
    """Time limit of a connection, and of the acknowledgement of a message."""


def faults_of_mqtt(mqtt: Mqtt) -> Iterator[Finding]:
    """Options of [mqtt] that do not go together."""
    if mqtt.password_file and not mqtt.user:
        yield Finding(("mqtt", "password_file"), "has no effect without a user")
    if mqtt.ca_file and mqtt.security == "none":
        yield Finding(("mqtt", "ca_file"), 'has no effect without security = "tls"')
    if not mqtt.host:
        for option in ("user", "port", "ca_file"):
            if getattr(mqtt, option):
                yield Finding(("mqtt", option), "has no effect without a host")


def fault_of_topic(topic: str) -> str:
    """Why this is no topic for messages, or ""."""
    if not topic or set("#+\0") & set(topic) or topic.startswith("$"):
        return f"must not be empty, contain # or +, or begin with $, got {topic!r}"
    return ""
