"""Outputs whose state a sensor reads back: what is written must be what it reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from growd.control.interlocks.base import Interlock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from growd.control.interlocks.on_times import OnTimes


CONFIRM_S: Final = 10.0
"""The time after which the sensor of an output must read what was written."""

CONFIRM_ABOVE: Final = 0.5
"""Above this reading an output is on: a switch reads 0 or 1, other sensors are scaled to that."""


class NotConfirmed(Interlock):
    """An output was written on or off for `CONFIRM_S`, and its feedback differs.

    One that stays on although it was written off is a failure. `counter` are the own variables of outputs
    that work against it, which run meanwhile. A reading older than `stale_after_s` proves nothing.
    """

    def __init__(
        self,
        device: str,
        topic: str,
        times: OnTimes,
        *,
        stale_after_s: float,
        counter: Iterable[str] = (),
    ) -> None:
        limits = {"confirm": (CONFIRM_S, "s"), "above": (CONFIRM_ABOVE, "")}
        super().__init__(f"{device}_not_confirmed", counter, limits)
        self.listens = frozenset({topic})
        self._device = device
        self._times = times
        self._stale_after = stale_after_s
        self._value: float | None = None
        self._came = -math.inf
        self._differs_since: float | None = None
        self._is_stuck = False

    def on_message(self, topic: str, value: float | None, now: float) -> None:  # noqa: ARG002  it has one
        self._value, self._came = value, now

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        reads_on = self._reads_on(now)
        is_on = self._times.is_on
        if reads_on is None or not self._times.is_certain or reads_on == is_on:
            self._differs_since, self._is_stuck = None, False
            self.reason = ""
            return
        if self._differs_since is None or self._is_stuck != reads_on:
            self._differs_since, self._is_stuck = now, reads_on
        lasted = self._times.stretch(now) if is_on else self._times.rest(now)
        if min(lasted, now - self._differs_since) < CONFIRM_S:
            self.reason = ""
        elif reads_on:
            self.reason = (
                f"{self._device} is written off, and its feedback says that it is on: switch off its power"
            )
        else:
            self.reason = f"{self._device} is written on, and its feedback says that it is off"

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        return 1.0 if self._is_stuck else level

    @property
    def stuck(self) -> str:
        """The name of the output if it stays on, else ""."""
        return self._device if self.reason and self._is_stuck else ""

    @property
    def stays_on(self) -> bool:
        return bool(self.stuck)

    def _reads_on(self, now: float) -> bool | None:
        if self._value is None or now - self._came > self._stale_after:
            return None
        return self._value > CONFIRM_ABOVE
