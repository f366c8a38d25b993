"""Volumes that a tank has room for: no dose and no filling goes past a limit of what is measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from growd.control.interlocks.base import Interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.control.interlocks.on_times import OnTimes
    from growd.control.pumps import Volumes

LEAST_S: Final = 0.2
"""A dose that would have to end sooner does not begin."""
EDGE_S: Final = 1e-3
"""So much earlier than exactly a dose ends."""


class TankRoom(Interlock):
    """Outputs give no more at a time than there is room for, as measured before they began.

    `room` is the volume in ml until a limit by the variables that it `reads`, None while it is not known.
    After `pause_s` off, when what was given shows in the readings, the room counts anew.
    """

    is_routine = True

    def __init__(
        self,
        name: str,
        holds: Iterable[str],
        times: OnTimes,
        volumes: Volumes,
        *,
        room: Callable[[float], float | None],
        reads: Iterable[str],
        pause_s: float,
        words: str,
    ) -> None:
        super().__init__(name, holds, {"pause": (pause_s, "s")})
        self.reads = frozenset(reads)
        self._times = times
        self._volumes = volumes
        self._room = room
        self._pause = pause_s
        self._words = words
        self._most = math.inf  # total volume at which the room is used up

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        given, room = self._volumes.total(now), self._room(now)
        if self._times.rest(now) >= self._pause:
            self._most = math.inf
        if room is not None:
            self._most = min(self._most, given + room)
        least_s = EDGE_S if self._times.is_on else LEAST_S
        self.reason = self._words if self._most - given <= least_s * self._volumes.full_ml_s else ""

    def due_s(self, now: float) -> float:
        if self.reason or not self._times.is_on or (flow := self._volumes.ml_s(now)) <= 0:
            return math.inf
        return (self._most - self._volumes.total(now)) / flow


class StillWater(Interlock):
    """No dose begins in water that its pump has not moved for the time that mixing takes."""

    is_expected = True

    def __init__(self, holds: Iterable[str], circulation: OnTimes, mixing_s: float) -> None:
        super().__init__("still_water", holds, {"mixing": (mixing_s, "s")})
        self._circulation = circulation
        self._mixing = mixing_s
        self._words = (
            f"doses need water that its pump has moved for {mixing_s:g} s: switch the circulation on"
        )

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self.reason = "" if self._circulation.stretch(now) >= self._mixing else self._words
