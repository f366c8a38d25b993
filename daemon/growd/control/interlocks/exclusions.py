"""Outputs that must not work at the same time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.base import Interlock, PersistentInterlock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd.control.interlocks.on_times import OnTimes

NEVER: Final = -1.0  # the saved age of the last dose, if there was none
JOIN_S: Final = 60.0
"""Pumps that move one variable, such as nutrients A and B, may begin within this time of each other."""


class NeverTogether(Interlock):
    """Two outputs, such as a heater and a cooler, are never on together, nor within a pause.

    The one that is on goes on. `times` are those of both own variables. A permitted output counts as on
    before it is written, since actuators ask in any order.
    """

    is_routine = True

    def __init__(self, name: str, times: Mapping[str, OnTimes], pause_s: float) -> None:
        super().__init__(name, times, {"pause": (pause_s, "s")})
        self._times = dict(times)
        self._pause = pause_s
        self._permitted: set[tuple[str, str]] = set()  # own variables, each with the device
        self._now = -math.inf
        pause = f", with a pause of {pause_s:g} s" if pause_s else ""
        self._words = f"{' and '.join(times)} are never on together{pause}"

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._now = now
        self.reason = self._words if any(self._is_active(output) for output in self._times) else ""

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        others = (other for other in self._times if other != output)
        return 0.0 if any(self._is_active(other) for other in others) else level

    def on_permitted(self, device: str, output: str, level: float, now: float) -> None:  # noqa: ARG002
        if level > 0:
            self._permitted.add((output, device))
            self.reason = self._words
        elif not self._times[output].is_on:
            self._permitted.discard((output, device))

    def _is_active(self, output: str) -> bool:
        times = self._times[output]
        is_permitted = any(permitted == output for permitted, _ in self._permitted)
        return is_permitted or times.is_on or times.rest(self._now) < self._pause


class MixingPause(PersistentInterlock):
    """After a dose no dosing pump of the tank runs until the tank has mixed, also over a restart.

    Pumps of one group, which move one variable in one direction, may begin within `JOIN_S` of each other. A
    dose ends after `longest_s`. After an unclean end the pause begins at the start.
    """

    is_routine = True
    is_of_tank = True

    def __init__(
        self,
        times: Mapping[str, OnTimes],
        groups: Mapping[str, tuple[str, ...]],
        *,
        pause_s: float,
        longest_s: float,
    ) -> None:
        limits = {"pause": (pause_s, "s"), "limit": (longest_s, "s")}
        super().__init__("mixing_pause", times, limits)
        self._times = dict(times)
        self._groups = dict(groups)
        self._pause = pause_s
        self._longest = longest_s
        self._now = -math.inf
        self._began: dict[str, float] = {}  # own variables of pumps that dose now
        self._permitted: set[tuple[str, str]] = set()  # own variables, each with the device
        self._dosed: set[str] = set()  # in this round
        self._round_began = -math.inf
        self._ended = -math.inf
        self._words = f"after a dose of at most {longest_s:g} s the tank mixes for {pause_s:g} s"

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._now = now
        if any(times.is_on for times in self._times.values()):
            self._ended = now
        if self._is_restored:
            self.reason = self._words if self._is_mixing else ""

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        if not self._is_restored:
            return 0.0
        if output in self._began:
            return level if self._now - self._began[output] < self._longest else 0.0
        return level if not self._is_mixing or self._may_join(output) else 0.0

    def on_permitted(self, device: str, output: str, level: float, now: float) -> None:
        if level <= 0:
            self._permitted.discard((output, device))
            is_permitted = any(permitted == output for permitted, _ in self._permitted)
            if output in self._began and not is_permitted and not self._times[output].is_on:
                del self._began[output]
                self._ended = now
            return
        self._permitted.add((output, device))
        if output in self._began:
            return
        if not self._is_mixing:
            self._dosed.clear()
            self._round_began = now
        self._began[output] = now
        self._dosed.add(output)
        self.reason = self._words

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002  releases by itself
        return NEVER if math.isinf(self._ended) else now - self._ended

    @property
    def _is_mixing(self) -> bool:
        return bool(self._began) or self._now - self._ended < self._pause

    def _may_join(self, output: str) -> bool:
        """Whether the round began just now, with another pump of the same group."""
        same = all(self._groups[output] == self._groups[dosed] for dosed in self._dosed)
        is_new = self._now - self._round_began < JOIN_S
        return bool(self._dosed) and same and is_new and output not in self._dosed

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:
        age = float(saved)
        if age != NEVER and not 0 <= age < math.inf:
            raise ValueError("the age of the last dose is out of range")
        if not was_clean:
            self._ended = now
        elif age != NEVER:
            self._ended = now - away - age

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._ended = now
