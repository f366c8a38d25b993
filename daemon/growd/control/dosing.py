"""Doses: switches an on/off output so that its share of on-time follows a demand of 0 to 1."""

from __future__ import annotations

import math
from typing import Final

AT_ONCE_S: Final = 1e-6  # rounding error of a wait


class Doser:
    """Switches so that the share of on-time equals the demand. It has no clock.

    It accumulates the on-time that is due. It switches on when a dose of `minimum_on_s` is due, and off when
    the due time is used: a small demand makes short doses far apart, a large one long doses close together.
    Errors, such as a late edge, are carried into the next dose, within bounds. If the demand falls to 0
    during a dose, the rest is dropped.

    The minimum times hold except after `shut`. From one start to the next it takes at least
    `minimum_cycle_s`: contacts wear with each start. A dose that is held waits, and counts as a start when it
    begins.
    """

    def __init__(self, minimum_on_s: float, minimum_off_s: float, minimum_cycle_s: float = 0.0) -> None:
        self.minimum_on_s = minimum_on_s
        self.minimum_off_s = minimum_off_s
        self.minimum_cycle_s = minimum_cycle_s
        self.is_on = False
        self._is_held = False
        self.owed_s = 0.0  # on-time in seconds that is due; negative if it was on for too long
        self._since_s = math.inf  # since the last edge
        self._started_s = math.inf  # since the last start

    def advance(self, demand: float, seconds: float, *, is_held: bool = False) -> bool:
        """Advance by `seconds` with this demand (0..1). Returns whether the output is on from now on.

        `is_held` says that the output is off although it should be on.
        """
        self._is_held = is_held and self.is_on
        most = max(self.minimum_on_s + self.minimum_off_s, self.minimum_cycle_s * demand)
        owed = self.owed_s + (demand - (self.is_on and not self._is_held)) * seconds
        self.owed_s = max(-most, min(most, owed))
        if self.is_on and demand <= 0:
            self.owed_s = min(0.0, self.owed_s)
        self._since_s += seconds
        self._started_s += seconds
        if self._is_held:
            self._since_s = self._started_s = 0.0
        if self._wait_s(demand) <= AT_ONCE_S:
            self._switch(not self.is_on)
        return self.is_on

    def until_edge(self, demand: float) -> float:
        """Seconds until the next edge with a constant demand; infinity if there is none."""
        return max(0.0, self._wait_s(demand))

    def end(self) -> None:
        """Count as off from now on, and drop what is due."""
        self._switch(False)
        self.owed_s = 0.0

    def shut(self) -> None:
        """Switch off at once, and drop what is due. The next dose need not wait for the end of the cycle."""
        if self.is_on:
            self._switch(False)
        self.owed_s = 0.0
        self._started_s = math.inf

    def _switch(self, on: bool) -> None:  # noqa: FBT001  its name says it
        self.is_on, self._is_held, self._since_s = on, False, 0.0
        if on:
            self._started_s = 0.0

    def _wait_s(self, demand: float) -> float:
        if self._is_held:
            return math.inf if demand > 0 else 0.0
        if self.is_on:
            least = self.minimum_on_s - self._since_s
            return max(least, _time(self.owed_s, 1.0 - demand) if demand > 0 else 0.0)
        least = max(self.minimum_off_s - self._since_s, self.minimum_cycle_s - self._started_s)
        return max(least, _time(self.minimum_on_s - self.owed_s, demand))


def _time(amount: float, rate: float) -> float:
    """Seconds that an amount takes at a rate; infinity at a rate of 0."""
    if amount <= 0:
        return 0.0
    return amount / rate if rate > 0 else math.inf
