"""When an alert begins, is repeated and ends: pure functions of what was seen and of the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Level(StrEnum):
    """How it is with what a rule watches.

    `between` is good enough to begin nothing, and not good enough to end what has begun. `unknown` begins
    nothing and ends nothing.
    """

    CLEAR = "clear"
    BETWEEN = "between"
    RAISED = "raised"
    UNKNOWN = "unknown"


class AlertPhase(StrEnum):
    """What is told of an alert. `over`: it ended before it could be told. `notice`: it has no end."""

    START = "start"
    REPEAT = "repeat"
    END = "end"
    OVER = "over"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Terms:
    """For how long it must be so until it is told, and how often it is told again (0: never), in seconds."""

    for_s: float
    repeat_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AlertTrack:
    """One thing that a rule watches: since when it is raised, and when it was told last (monotonic)."""

    raised_at: float | None = None
    is_open: bool = False
    told_at: float = 0.0


def advance(
    track: AlertTrack, terms: Terms, level: Level, now: float, *, is_silenced: bool = False
) -> tuple[AlertTrack, AlertPhase | None]:
    """The track after a look at the monotonic time `now`, and what is to be told of it.

    A time in which nothing is known does not interrupt one in which it was raised, but only a look that finds
    it raised begins an alert. One that is silenced is not repeated; its end is told.
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
    """Where a value is: raised outside of `low` to `high`, clear where it is inside by the hysteresis."""
    if (low is not None and value < low) or (high is not None and value > high):
        return Level.RAISED
    is_near_low = low is not None and value < low + hysteresis
    is_near_high = high is not None and value > high - hysteresis
    return Level.BETWEEN if is_near_low or is_near_high else Level.CLEAR
