"""How one variable goes while an output is off, on and off again: whether the output moves it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from growd.runtime.sentence import Sentence
from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    HUMIDITY,
    TEMPERATURE,
    WATER_TEMPERATURE,
)
from growd_commissioning.fits import line_through

WATCHING: Final = Sentence("watching before the test", "watching_before")
EFFECT: Final = Sentence("watching the effect", "watching_effect")
"""Stages of a test."""

WINDOW_S: Final = 60.0  # of the readings before
LEAST_S: Final = 30.0
LEAST_READINGS: Final = 10
NOISES: Final = 4.0  # standard deviations that noise does not reach
MOST_HALVES: Final = 4.0  # in times of half the window; a drift fades
AVERAGED: Final = 3  # readings at the end of the window
SETTLED_S: Final = 20.0
CONFIRMED: Final = 2  # readings in a row that show the effect, against spikes
CEASED: Final = 0.3  # share of the change that may still come in a time as long as the output was on
RUNAWAY: Final = 6.0  # times the change at which the output was switched off

_Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Range:
    """What a test does to a variable: the change that ends a time on, the least that counts, its limits."""

    enough: float
    least: float
    lowest: float
    highest: float
    """From here on the test raises it no more."""
    rest_s: float = 0.0
    """The longest time off in an autotune."""


RANGES: Final = {
    CARBON_DIOXIDE: Range(100.0, 40.0, 0.0, 2_500.0, 660.0),  # its loss shows only after some minutes
    TEMPERATURE: Range(3.0, 1.0, 5.0, 32.0, 180.0),
    HUMIDITY: Range(8.0, 3.0, 5.0, 85.0, 180.0),
    WATER_TEMPERATURE: Range(0.8, 0.3, 5.0, 28.0, 600.0),
    ACIDITY: Range(0.3, 0.08, 4.0, 9.0),
    CONDUCTIVITY: Range(0.2, 0.05, 0.0, 4.0),
}
"""Of the autotune, and of the self-test of outputs."""


@dataclass(frozen=True)
class Watched:
    """A variable that an output raises or lowers.

    The output has an effect if it moves the variable by `least`, in its unit. One that `returns` goes back
    when the output is off, as light does; others stay or fade. Beyond `limit` there may be no room for more.
    """

    variable: str
    raises: bool
    least: float
    limit: float | None = None
    returns: bool = False

    def has_room(self, value: float) -> bool:
        """Whether it can go on in the direction of the output."""
        return self.limit is None or (value < self.limit if self.raises else value > self.limit)


class EffectCourse:
    """The readings of one variable around a time for which an output is on. Times are seconds of one clock.

    The readings before give a line, which says how the variable would go on by itself; a drift that fades
    ends between this line and the last value. The change is what is beyond both. It counts if it exceeds
    `least`, the noise of the sensor, and by how much the line through the first half of these readings missed
    their end, for each time of this half since.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.is_seen = False
        """Whether the output moved the variable its way."""
        self.is_reversed = False
        """Whether the output moved the variable the other way."""
        self.moved = 0.0
        """The last change, above 0 in the direction of the output."""
        self.most = 0.0
        self._sign = 1.0 if watched.raises else -1.0
        self._first: float | None = None
        self._before: _Points = []
        self._after: _Points = []
        self._on_at: float | None = None
        self._line = line_through([(0.0, 0.0)])
        self._in_a_row = 0
        self._off_at: float | None = None
        self._at_off = 0.0

    def take(self, at: float, value: float) -> None:
        """Take a reading."""
        if self._on_at is None:
            self._first = value if self._first is None else self._first
            self._before.append((at, value))
            while len(self._before) > LEAST_READINGS and at - self._before[1][0] >= WINDOW_S:
                del self._before[0]
            return
        drifting, steady = (self._sign * (value - self._line(time)) for time in (at, self._on_at))
        self.moved = max(0.0, min(drifting, steady)) + min(0.0, max(drifting, steady))
        self.most = max(self.most, self.moved)
        if self._off_at is not None:
            self._after.append((at, self.moved))
        self._judge(at)

    def is_known(self) -> bool:
        """Whether there are enough readings before."""
        begin = self._before[0][0] if self._before else 0.0
        return len(self._before) >= LEAST_READINGS and self._before[-1][0] - begin >= LEAST_S

    def is_steady(self) -> bool:
        """Whether the readings before say how the variable goes on by itself, and it does not go far."""
        if not self.is_known() or self._missed()[0] > self.watched.least / 2:
            return False
        line = line_through(self._before)
        return abs(line(WINDOW_S) - line(0.0)) <= self.watched.least

    @property
    def has_room(self) -> bool:
        """Whether it could go on in the direction of the output."""
        return self.watched.has_room(self._before[-1][1])

    @property
    def drifts_along(self) -> bool:
        """Whether it moved in the direction of the output while that was off."""
        if self._first is None:
            return False
        (began, _), (ended, last) = self._before[0], self._before[-1]
        line = line_through(self._before)
        drift = max(last - self._first, line(ended) - line(began), key=lambda each: self._sign * each)
        return self._sign * drift >= self.watched.least

    def switched_on(self, at: float) -> None:
        """The output is on from now on."""
        self._line = line_through(self._before)
        self._on_at = at

    def switched_off(self, at: float) -> None:
        """The output is off from now on."""
        self._off_at, self._at_off = at, max(self.moved, self.watched.least)

    @property
    def has_ceased(self) -> bool:
        """Whether the effect has ended, after the output was switched off."""
        if self.watched.returns:
            return self.moved < self.most / 2
        if self._on_at is None or self._off_at is None or not self._after:
            return False
        since = self._after[-1][0] - max(SETTLED_S, self._off_at - self._on_at)
        earlier = [moved for at, moved in self._after if at <= since]
        return bool(earlier) and self.moved - earlier[-1] < CEASED * self._at_off

    @property
    def runs_away(self) -> bool:
        """Whether the change has become far larger than when the output was switched off."""
        return self._off_at is not None and self.moved > RUNAWAY * self._at_off

    def _judge(self, at: float) -> None:
        needed = self._needed(at)
        self._in_a_row = self._in_a_row + 1 if self.moved >= needed else 0
        self.is_seen = self.is_seen or self._in_a_row >= CONFIRMED
        self.is_reversed = not self.is_seen and self.moved <= -needed

    def _needed(self, at: float) -> float:
        """The change that counts, so long after the output was switched on."""
        assert self._on_at is not None  # noqa: S101
        missed, half_s = self._missed()
        noise = stdev(value - self._line(time) for time, value in self._before)
        return max(self.watched.least, NOISES * noise) + missed * min(
            MOST_HALVES, (at - self._on_at) / half_s
        )

    def _missed(self) -> tuple[float, float]:
        """By how much the first half of the readings before missed their end, and its length in seconds."""
        half = len(self._before) // 2
        line, last = line_through(self._before[:half]), self._before[-AVERAGED:]
        missed = abs(fmean(value - line(time) for time, value in last))
        return missed, self._before[-1][0] - self._before[half][0]
