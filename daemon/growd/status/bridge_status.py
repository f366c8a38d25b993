"""The state of the bridge to home automation."""

from __future__ import annotations

import msgspec


class BridgeStatus(msgspec.Struct, frozen=True):
    """The bridge to the broker at `host` and `port`; `reason` says why it `is_connected` not, "" if unknown.

    All topics begin with `topic`. `published` counts messages, `accepted` and `refused` commands.
    """

    host: str
    port: int
    is_connected: bool
    reason: str
    topic: str
    takes_commands: bool
    published: int
    accepted: int
    refused: int
