"""Doses: a demand of 0 to 1 as an output that is only on or off, in pieces of a length that it can take."""

from __future__ import annotations

import math
from typing import Final

AT_ONCE_S: Final = 1e-6  # what is left of a wait after rounding


class Doser:
    """Switches so that the share of time on is the demand.

    It keeps account of the seconds on that the demand has asked for and that were not given yet. When they
    have come to a dose of `minimum_on_s` it switches on, and when they are given it switches off: a small
    demand makes short doses far apart, a large one long doses close together. What it gave too much or too
    little, as by an edge that came late, is carried into the next dose. What is carried is never more than
    the two least times together, so that no demand is made up for long after it. Where the demand is over
    (0) during a dose, the rest of what is owed is dropped, and the dose ends as soon as it may.

    It has no clock: `advance` is told how long ago it was called last. It is on for `minimum_on_s` at least
    and off for `minimum_off_s`, but for `shut`.
    """

    def __init__(self, minimum_on_s: float, minimum_off_s: float) -> None:
        self.minimum_on_s = minimum_on_s
        self.minimum_off_s = minimum_off_s
        self.is_on = False
        self._owed_s = 0.0
        self._since_s = math.inf  # how long it is as it is

    @property
    def owed_s(self) -> float:
        """Seconds on that were asked for and not given; below 0 where it was on for longer."""
        return self._owed_s

    def advance(self, demand: float, seconds: float) -> bool:
        """Whether it is on from now on, after `seconds` with this demand (0..1)."""
        most = self.minimum_on_s + self.minimum_off_s
        owed = self._owed_s + (demand - self.is_on) * seconds
        self._owed_s = max(-most, min(most, owed))
        if self.is_on and demand <= 0:
            self._owed_s = min(0.0, self._owed_s)
        self._since_s += seconds
        if self._wait_s(demand) <= AT_ONCE_S:
            self.is_on = not self.is_on
            self._since_s = 0.0
        return self.is_on

    def until_edge(self, demand: float) -> float:
        """Seconds until it switches if the demand stays as it is; infinity if it never does."""
        return max(0.0, self._wait_s(demand))

    def shut(self) -> None:
        """Be off at once, and owe nothing."""
        if self.is_on:
            self.is_on = False
            self._since_s = 0.0
        self._owed_s = 0.0

    def _wait_s(self, demand: float) -> float:
        if self.is_on:
            least = self.minimum_on_s - self._since_s
            return max(least, _time(self._owed_s, 1.0 - demand) if demand > 0 else 0.0)
        least = self.minimum_off_s - self._since_s
        return max(least, _time(self.minimum_on_s - self._owed_s, demand))


def _time(amount: float, rate: float) -> float:
    """How long an amount takes at a rate; nothing for none, for ever at none."""
    if amount <= 0:
        return 0.0
    return amount / rate if rate > 0 else math.inf
