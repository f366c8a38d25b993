"""The quality of a value."""

from __future__ import annotations

from enum import StrEnum


class Quality(StrEnum):
    """The quality of a value. Only an `ok` value is a measurement."""

    OK = "ok"
    WARM_UP = "warm-up"
    STALE = "stale"
    FAULT = "fault"
