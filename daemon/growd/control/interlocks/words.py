"""How messages of interlocks name an output and its states."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """An output, such as "the valve", and what it is when it works and when not."""

    subject: str
    on: str = "on"
    off: str = "off"
    advice: str = "switch off its power"
    """What to do about an output that may be on."""


VALVE_WORDS = Words("the valve", "open", "closed", "close the bottle")
