"""Alerts to any service that apprise knows: mail, ntfy, Telegram, Pushover, Signal and many more."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from growd.runtime.sentence import encode
from growd_alerts.dispatch import DeliveryError

if TYPE_CHECKING:
    from growd_alerts.messages import AlertMessage, Sender

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
