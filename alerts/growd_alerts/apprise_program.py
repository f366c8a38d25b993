"""The program that sends one message over apprise: an order on its standard input, the result as JSON.

It runs as a process of its own, see `AppriseAlerts`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, Final
from urllib.parse import unquote

import apprise

_CAUSE: Final = " Exception: "  # in what apprise logs for its developers, and often the only reason
_SENT: Final = "Sent "  # how all its services begin when one recipient has the message
_LEAST_SECRET: Final = 6
_MOST_WORDS: Final = 500


class _Log(logging.Handler):
    """What apprise logs: why it failed, and whether one of several recipients has the message."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.found: list[str] = []
        self.is_sent = False

    def emit(self, record: logging.LogRecord) -> None:
        """As `logging.Handler`."""
        text = record.getMessage()
        self.is_sent |= record.levelno == logging.INFO and text.startswith(_SENT)
        if record.levelno >= logging.WARNING:
            self.found.append(text)
        elif _CAUSE in text:
            self.found.append(_without_secrets(text.partition(_CAUSE)[2], self._url))


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """Send, and return the members of `AppriseAnswer`.

    What has reached one recipient is not sent again to all.
    """
    url = order.pop("url")
    log, logger = _Log(url), logging.getLogger("apprise")
    logger.addHandler(log)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="growd"))
    if not service.add(url):
        words = _without_secrets("; ".join(log.found), url)
        return {"is_taken": False, "words": f"apprise does not take the address: {words}"}
    is_taken = bool(service.notify(**order, body_format="text")) or log.is_sent
    return {"is_taken": is_taken, "words": "; ".join(dict.fromkeys(log.found))[:_MOST_WORDS]}


def _without_secrets(words: str, url: str) -> str:
    """A cause may repeat the address, which has tokens and passwords in all its parts."""
    for part in re.split(r"[/:@?&=,+]+", url):
        for secret in (part, unquote(part)):
            if len(secret) >= _LEAST_SECRET:
                words = words.replace(secret, "***")
    return words


if __name__ == "__main__":
    print(json.dumps(carry_out(json.load(sys.stdin.buffer))))  # noqa: T201  the result
