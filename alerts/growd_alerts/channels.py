"""The channels to operators, as configured: MQTT, and the services that apprise knows, such as ntfy."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from growd.config import ConfigError
from growd.config.mqtt import MQTT_ROOT
from growd.config.secrets import read_line
from growd.runtime.sentence import encode
from growd.wiring.files import trusting
from growd_alerts.dispatch import DeliveryError

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
    topic = f"{MQTT_ROOT}/{sender.device}/alerts/event"
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


_PROGRAM: Final = "growd_alerts.apprise_program"
_TRUST: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")  # read by ssl, and by requests
_TYPES: Final = {"": "success", "info": "info", "warning": "warning", "critical": "failure"}
_log = logging.getLogger(__name__)


class AppriseAnswer(msgspec.Struct):
    """What the program says: whether somebody has the message, and what failed."""

    is_taken: bool
    words: str = ""


class AppriseAlerts:
    """Sends each message by a process of its own, to an address of apprise.

    The process gives back the memory of apprise, 40 MB, and is killed after the time limit of the message.
    `ca_file` has the trusted certificate authorities.
    """

    def __init__(self, address: str, sender: Sender, ca_file: str) -> None:
        self._address = address
        self._sender = sender
        packages = os.pathsep.join(filter(None, sys.path))  # an installed growd adds its own
        trust = dict.fromkeys(_TRUST, ca_file) if ca_file else {}
        self._environment = {**os.environ, "PYTHONPATH": packages, **trust}

    async def send(self, batch: AlertMessage) -> None:
        """Send a message. Raises `DeliveryError` or OSError."""
        order = {
            "url": self._address,
            "title": self._sender.subject(batch),
            "body": self._sender.text(batch),
            "notify_type": _TYPES[batch.severity],
        }
        answer = await self._said(encode(order))
        if not answer.is_taken:
            raise DeliveryError(answer.words)
        if answer.words:
            _log.warning("not all recipients have an alert: %s", answer.words)

    async def _said(self, order: bytes) -> AppriseAnswer:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-s",
            "-P",
            "-m",
            _PROGRAM,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self._environment,
        )
        try:
            printed, complaint = await process.communicate(order)
        finally:
            if process.returncode is None:  # after the time limit, or at the end of growd
                process.kill()
                await process.wait()
        try:
            return msgspec.json.decode(printed, type=AppriseAnswer)
        except msgspec.DecodeError:
            last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
            raise DeliveryError(f"the program that sends alerts has failed: {last}") from None
