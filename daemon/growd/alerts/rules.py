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
class Terms:
    """How long a condition must last to start an alert, and the period of repeats (0: none), in seconds."""

    for_s: float
    repeat_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlertTrack:
    """One subject of a rule: since when it is raised, and when it was reported last (monotonic)."""

    raised_at: float | None = None
    is_open: bool = False
    told_at: float = 0.0


def advance(
    track: AlertTrack, terms: Terms, level: Level, now: float, *, is_silenced: bool = False
) -> tuple[AlertTrack, AlertPhase | None]:
    """The track after an observation at the monotonic time `now`, and what to report.

    Only a raised observation starts an alert. A silenced alert is not repeated, but its end is reported.
    """
    if track.is_open:
        return _advance_open(track, terms, level, now, is_silenced=is_silenced)
    if level is Level.UNKNOWN:
        return track, None
    if level is not Level.RAISED:
        return AlertTrack(), None
    since = now if track.raised_at is None else track.raised_at
    if now - since < terms.for_s:
        return replace(track, raised_at=since), None
    return AlertTrack(since, is_open=True, told_at=now), AlertPhase.START


def _advance_open(
    track: AlertTrack, terms: Terms, level: Level, now: float, *, is_silenced: bool
) -> tuple[AlertTrack, AlertPhase | None]:
    if level is Level.CLEAR:
        return AlertTrack(), AlertPhase.END
    if terms.repeat_s and not is_silenced and now - track.told_at >= terms.repeat_s:
        return replace(track, told_at=now), AlertPhase.REPEAT
    return track, None


def band_level(value: float, low: float | None, high: float | None, hysteresis: float) -> Level:
    """Raised outside of `low` to `high`, clear inside by at least the hysteresis, else between."""
    if (low is not None and value < low) or (high is not None and value > high):
        return Level.RAISED
    is_near_low = low is not None and value < low + hysteresis
    is_near_high = high is not None and value > high - hysteresis
    return Level.BETWEEN if is_near_low or is_near_high else Level.CLEAR
