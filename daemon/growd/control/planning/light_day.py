"""The light of the rest of a day, in steps: pure functions of the plan."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DAY_S: Final = 86_400.0
UMOL: Final = 1e-6  # mol
_GRID_S: Final = 600.0
_HALVINGS: Final = 24


class Window(msgspec.Struct, frozen=True):
    """The time of day (seconds) of the lamp, over midnight if it ends before it begins, and its ramps."""

    begin: float = 0.0
    end: float = DAY_S
    ramp: float = 0.0

    def share(self, time_of_day: float) -> float:
        """The share of its level that the lamp has: 0 outside, less than 1 on a ramp."""
        length = (self.end - self.begin) % DAY_S or DAY_S
        since = (time_of_day - self.begin) % DAY_S
        if since >= length:
            return 0.0
        return min(1.0, since / self.ramp, (length - since) / self.ramp) if self.ramp else 1.0

    def steps(self, now: float) -> Iterator[tuple[float, float]]:
        """The middle and the length of each step from a time of day until midnight."""
        edges = {now, DAY_S, self.begin, self.end, self.begin + self.ramp, self.end - self.ramp}
        edges |= {number * _GRID_S for number in range(round(DAY_S / _GRID_S))}
        times = sorted(edge for edge in edges if now <= edge <= DAY_S)
        for begin, end in pairwise(times):
            yield (begin + end) / 2.0, end - begin


class LightStep(msgspec.Struct, frozen=True):
    """A step of the day: its length, the share of its level that the lamp has, and daylight (PPFD)."""

    seconds: float
    share: float
    daylight: float


def light_mol(steps: Sequence[LightStep], level: float) -> float:
    """The light (mol/m2) of the steps if the lamp fills daylight up to `level` (PPFD)."""
    return UMOL * sum(step.seconds * max(level * step.share, step.daylight) for step in steps)


def level_for(steps: Sequence[LightStep], missing_mol: float, most: float) -> float:
    """The level, 0 to `most`, with which the steps have the missing light."""
    if light_mol(steps, 0.0) >= missing_mol:
        return 0.0
    if light_mol(steps, most) <= missing_mol:
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if light_mol(steps, middle) < missing_mol else (low, middle)
    return high


def level_in_the_dark(steps: Sequence[LightStep], missing_mol: float) -> float:
    """The level that gives the missing light without any more daylight; infinite if no step has the lamp."""
    if missing_mol <= 0:
        return 0.0
    lit_s = sum(step.seconds * step.share for step in steps)
    return missing_mol / UMOL / lit_s if lit_s else math.inf
