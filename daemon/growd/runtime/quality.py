"""The quality of a value, for the daemon and its clients."""

from __future__ import annotations

from enum import StrEnum


class Quality(StrEnum):
    """The quality of a value. Only `ok` is stored as a measurement or drives an actuator."""

    OK = "ok"
    WARM_UP = "warm-up"
    STALE = "stale"
    FAULT = "fault"
