"""When an alert starts, is repeated and ends: pure functions of observations and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Level(StrEnum):
    """The result of a condition. `between` (hysteresis) and `unknown` start nothing and end nothing.

    `between` interrupts a condition that has not started an alert yet; `unknown` does not.
    """

    CLEAR = "clear"
    BETWEEN = "between"
    RAISED = "raised"
    UNKNOWN = "unknown"


class AlertPhase(StrEnum):
    """What a message reports of an alert. `over`: it ended before it was reported. `notice`: without end."""

    START = "start"
    REPEAT = "repeat"
    END = "end"
    OVER = "over"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class AlertTrack:
    """One subject of a rule: since when it is raised, and when it was reported last (monotonic)."""

    raised_at: float | None = None
    is_open: bool = False
    told_at: float = 0.0


def advance(
    track: AlertTrack, level: Level, now: float, for_s: float, repeat_s: float
) -> tuple[AlertTrack, AlertPhase | None]:
    """The track after an observation at the monotonic time `now`, and what to report.

    A condition must last for `for_s` seconds to start an alert, which is repeated every `repeat_s` (0:
    never). Only a raised observation starts one.
    """
    if track.is_open:
        if level is Level.CLEAR:
            return AlertTrack(), AlertPhase.END
        if repeat_s and now - track.told_at >= repeat_s:
            return replace(track, told_at=now), AlertPhase.REPEAT
        return track, None
    if level is not Level.RAISED:
        return track if level is Level.UNKNOWN else AlertTrack(), None
    since = now if track.raised_at is None else track.raised_at
    if now - since < for_s:
        return replace(track, raised_at=since), None
    return AlertTrack(since, is_open=True, told_at=now), AlertPhase.START


def band_level(value: float, low: float | None, high: float | None, hysteresis: float) -> Level:
    """Raised outside of `low` to `high`, clear inside by at least the hysteresis, else between."""
    if (low is not None and value < low) or (high is not None and value > high):
        return Level.RAISED
    is_near_low = low is not None and value < low + hysteresis
    is_near_high = high is not None and value > high - hysteresis
    return Level.BETWEEN if is_near_low or is_near_high else Level.CLEAR
