"""On and off, sides and doses of a control loop, as pure calculations without a clock."""

from __future__ import annotations

import math
from typing import Final

IN_FLIGHT_S: Final = 120.0
"""What was just given may still raise readings for this long: six response times of an SCD30."""

RAISED_S: Final = 60.0
"""What was given to raise a value may still overshoot for this long."""

LOWERED_S: Final = 300.0
"""What was given to lower it: a compressor runs for two minutes at least, and the air recovers."""

NOT_GIVEN_S: Final = 10.0
"""Pause after a dose that no output gave, such as one that an interlock held."""

TURN_S: Final = 3600.0
"""Acid and base, or nutrients and fresh water, are this far apart: they must not take turns."""

DRIFTS_S: Final = 2 * TURN_S
"""A turn that comes so late follows the plants and the water, and not the last dose."""

LEAST_SCALE: Final = 0.125
"""Doses are halved three times at most."""

DOSE_SHARE: Final = 0.7
"""Share of an error that one dose removes, so that an error of the gain by 40 % does not overshoot."""


class Hysteresis:
    """On and off: 1 from `band` below the set point up to it, -1 from `lowers_band` above what is reachable.

    An overshoot of its own does not count as too much if it goes by itself (`overshoot_goes`).
    """

    def __init__(self, *, can_lower: bool, overshoot_goes: bool = True) -> None:
        self._can_lower = can_lower
        self._overshoot_goes = overshoot_goes
        self._state = 0.0
        self._raised_at = -math.inf  # when it last was 1
        self._overshoot = 0.0  # the peak after that

    def step(self) -> None:
        """Another set point: what it leaves above is no overshoot."""
        self._raised_at, self._overshoot = -math.inf, 0.0

    def stop(self) -> None:
        """Begin from 0."""
        self._state = 0.0

    def update(
        self, desired: float, reachable: float, value: float, bands: tuple[float, float], now: float
    ) -> float:
        """1, 0 or -1 for this measured value; `reachable` is the lowest that the outputs can reach."""
        band, lowers_band = bands
        self._watch_overshoot(reachable + lowers_band / 2, value, now)
        if value < desired - band:
            self._state = 1.0
        elif value > max(reachable, self._overshoot) + lowers_band and self._can_lower:
            self._state = -1.0
        elif (self._state > 0 and value >= desired) or (
            self._state < 0 and value <= reachable + lowers_band / 2
        ):
            self._state = 0.0
        return self._state

    def _watch_overshoot(self, much: float, value: float, now: float) -> None:
        """Track the peak of what was last given, until the value is down to `much`."""
        if self._state > 0:
            self._raised_at = now
        if self._overshoot_goes and now - self._raised_at <= IN_FLIGHT_S:
            self._overshoot = max(self._overshoot, value)
        elif value <= much:
            self._overshoot = 0.0


class Sides:
    """Which outputs of a two-sided loop may work: those that raise (1) or those that lower (-1).

    It changes when the value is beyond the band on the other side and nothing was asked of this side for a
    while, so that outputs do not work against each other, nor against what they have just given. What lowers
    the value may also run for another loop: so it changes as well when the value has been too low for long.
    """

    def __init__(self, *, can_raise: bool, can_lower: bool) -> None:
        self._can_raise = can_raise
        self._can_lower = can_lower
        self.side = 1 if can_raise else -1
        self._worked_at = -math.inf  # when this side was last asked
        self._short_since = math.inf  # since when the value has been too low for lowering
        self._is_useful = False

    def can_work(self, side: int) -> bool:
        """Whether there is an output for this side; none for 0."""
        return self._can_raise if side > 0 else side < 0 and self._can_lower

    def asked(self, demand: float, now: float) -> None:
        """What the outputs are asked for from now on."""
        if demand * self.side > 0:
            self._worked_at = now

    def update(self, desired: float, floor: float, value: float, band: float, now: float) -> int:
        """1, -1, or 0 while lowering cannot help: the value is at the `floor`."""
        is_short = value < desired - band
        self._short_since = min(self._short_since, now) if is_short else math.inf
        is_idle = now - self._worked_at > (RAISED_S if self.side > 0 else LOWERED_S)
        is_idle |= self.side < 0 and now - self._short_since > LOWERED_S
        if self.side > 0 and is_idle and self._can_lower and value > max(desired, floor) + band:
            self.side = -1
        elif self.side < 0 and is_idle and self._can_raise and is_short:
            self.side = 1
        if self.side > 0:
            return 1
        self._is_useful = value > floor + (band / 2 if self._is_useful else band)
        return -1 if self._is_useful else 0


class DosePlan:
    """Doses with a pause for mixing between them. Times are monotonic seconds.

    A dose removes `DOSE_SHARE` of the error. No dose begins before the water has mixed since an output was
    last on. After a dose the other direction begins only `TURN_S` later, and from a larger error. A value
    that is past the set point that far before `DRIFTS_S` was given too much: then doses are half as large.
    """

    def __init__(self) -> None:
        self._direction = 0
        self._end = self._ready = -math.inf
        self._is_step = False  # since the last dose
        self._scale = 1.0  # share of the usual volume of a dose

    def stop(self, now: float) -> None:
        """End a dose now."""
        self._end = min(self._end, now)

    def gave(self, now: float, mixing_s: float) -> None:
        """An output is on now, so the water has to mix."""
        self._ready = max(self._ready, now + mixing_s)

    def direction(self, now: float) -> int:
        """1 or -1 during a dose, else 0."""
        return self._direction if now < self._end else 0

    def is_due(self, now: float, error: float, bands: tuple[float, float]) -> int:
        """The direction of a dose that may begin now, else 0. `bands`: of the last one and the other."""
        if now < max(self._end + NOT_GIVEN_S, self._ready):
            return 0
        direction = 1 if error > 0 else -1
        is_turn = self._is_turn(direction)
        if is_turn and now < self._end + TURN_S:
            return 0
        return direction if abs(error) > bands[is_turn] else 0

    def step(self) -> None:
        """Another set point: what is beyond it was not given too much."""
        self._is_step = True

    def begin(self, now: float, direction: int, seconds: float) -> None:
        """Give a dose of this length, or a share of it."""
        if self._is_turn(direction) and now < self._end + DRIFTS_S:
            self._scale = max(LEAST_SCALE, self._scale / 2)
        self._is_step = False
        self._direction, self._end = direction, now + self._scale * seconds

    def until_end(self, now: float) -> float:
        """Seconds until the dose ends; infinity without one."""
        return self._end - now if now < self._end else math.inf

    def _is_turn(self, direction: int) -> bool:
        """Whether a dose would undo the last one, and not follow a new set point."""
        return direction == -self._direction and not self._is_step
