"""Outputs that work without an effect: something is empty, broken, stuck, or the sensor is elsewhere."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.control.interlocks.base import LatchedInterlock
from growd.runtime.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.on_times import OnTimes

SMOOTHED: Final = 3  # readings in the running median, against noise and spikes
PROVEN: Final = 4.0
MIN_READINGS: Final = 5  # before "no effect" is concluded


class Effect(msgspec.Struct, frozen=True):
    """The effect that outputs must have on `variable`: a rise, or a fall, of at least `change` in `unit`.

    A working controller stays within `margin`, or the share `margin_share`, of the set point. A met set point
    proves the effect above `proof_from` only. Elsewhere `held_share` of the time is credited meanwhile, and
    the limit is `held_limit` times as long. After `forget_s` off the count starts again. A plateau may drift
    by `drift_per_s`. What has moved needs no more proof while it `stays`, where use replaces losses.

    With `probe_s` the outputs are first off for this time: if the variable falls by `change`, they work, and
    are too weak. The limit is then `PROVEN` times as long.
    """

    variable: str
    change: float
    unit: str
    raises: bool = True
    margin: float = 0.0
    margin_share: float = 0.0
    proof_from: float = -math.inf
    proves_without_set_point: bool = True
    held_share: float = 0.5
    held_limit: float = 2.0
    forget_s: float = 900.0
    drift_per_s: float = 0.0
    stays: bool = True
    probe_s: float = 0.0


@dataclass(slots=True)
class _Watch:
    """The lowest value since the watch began, and how much the outputs were used meanwhile."""

    lowest: float = math.inf
    used: float = 0.0
    readings: int = 0


class NoEffect(LatchedInterlock):
    """A variable does not follow although the outputs were used up to `limit`: they are off until a reset.

    It adds up the time that the outputs were certainly on (or what else `used` counts) since the variable
    last moved by `change` from its extreme. See `Effect` for what starts the count again.
    """

    reset_hint = "find and remove the cause, then reset it"

    def __init__(
        self,
        name: str,
        holds: Iterable[str],
        times: OnTimes,
        effect: Effect,
        readings: SensorReadings,
        *,
        limit: float,
        used: Callable[[float], float] | None = None,
        unit: str = "s",
    ) -> None:
        moved = "rise" if effect.raises else "fall"
        super().__init__(name, holds, {"limit": (limit, unit), moved: (effect.change, effect.unit)})
        self.reads = self.follows = frozenset({effect.variable})
        self._times = times
        self._effect = effect
        self._sign = 1.0 if effect.raises else -1.0
        self._readings = readings
        self._limit = limit
        self._used = used or times.certain_total
        self._counted = self._used(0.0)
        self._recent: deque[float] = deque(maxlen=SMOOTHED)
        self._watch = _Watch()
        self._moved_to: float | None = None
        self._read_at = 0.0
        self._probe: tuple[float, float] | None = None  # since when, and from what value
        self._is_proven_by_probe = False
        self._is_held = False
        self._set_point: float | None = None
        self._way = moved

    def on_set_point(self, variable: str, value: float | None) -> None:  # noqa: ARG002  it follows one
        self._set_point = None if value is None else self._sign * value

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: ARG002
        if value is None or device:
            return
        self._recent.append(self._sign * value)
        level = median(self._recent)
        self._count(now)
        since, self._read_at = now - self._read_at, now
        effect = self._effect
        stays = self._moved_to is not None and level >= self._moved_to - effect.change
        if self._moved_to is not None and stays:
            self._moved_to = max(self._moved_to - effect.drift_per_s * since, level)
            if not effect.probe_s:
                self._watch = _Watch()
                return
        else:
            self._moved_to = None
        watch = self._watch
        watch.lowest = min(watch.lowest, level)
        watch.readings += 1
        has_moved = level >= watch.lowest + effect.change
        if has_moved:
            self._moved_to = level if effect.stays else None
            self._is_proven_by_probe = False
        if has_moved or self._is_proven(level):
            self._watch = _Watch(lowest=level)
        self._is_held = self._is_near_set_point(level)
        if self._is_held:
            watch.used = max(0.0, watch.used - effect.held_share * since)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        self._count(now)
        if self._probe is not None:
            self._end_probe(now, *self._probe)
            return
        limit = self._limit * (self._effect.held_limit if self._is_held else 1.0)
        limit *= PROVEN if self._is_proven_by_probe or self._moved_to is not None else 1.0
        if not self._is_restored or self.reason:
            return
        if self._watch.used >= limit and self._watch.readings >= MIN_READINGS:
            if self._effect.probe_s:
                self._probe = now, median(self._recent)
                self.reason = f"it is off for {self._effect.probe_s:g} s, to see whether it has an effect"
            else:
                self.reason = self._why(self._watch.used, now)

    @property
    def has_tripped(self) -> bool:
        return self._probe is None and super().has_tripped

    @property
    def needs_reset(self) -> bool:
        return self._probe is None and super().needs_reset

    def reset(self) -> None:
        super().reset()
        self._watch, self._moved_to = _Watch(), None

    def _why_it_must_hold(self, now: float) -> str:
        return self._readings.unseen(self._effect.variable, self._way, now)

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002
        return self._mark(as_reset=as_reset)

    def _end_probe(self, now: float, began: float, value: float) -> None:
        """End the probe when its time is over, or the variable is not known any more."""
        is_known = self._readings.combined(self._effect.variable, now) is not None
        if is_known and (now - began < self._effect.probe_s or self._times.is_on):
            return
        used, self._probe, self.reason = self._watch.used, None, ""
        if is_known and median(self._recent) > value - self._effect.change:
            self.reason = self._why(used, now)
            return
        self._is_proven_by_probe = is_known
        self._watch, self._moved_to = _Watch(), None

    def _why(self, used: float, now: float) -> str:  # noqa: ARG002  for subclasses
        """The reason of a trip after this much use."""
        return f"{self._effect.variable} did not follow"

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        self._restore_reason(saved)

    def _is_proven(self, level: float) -> bool:
        """Whether the value can come from the outputs only, and meets the set point if there is one."""
        if level < self._effect.proof_from:
            return False
        if self._set_point is None:
            return self._effect.proves_without_set_point
        return self._is_near_set_point(level)

    def _is_near_set_point(self, level: float) -> bool:
        wanted, effect = self._set_point, self._effect
        return wanted is not None and level >= wanted - max(effect.margin, effect.margin_share * abs(wanted))

    def _count(self, now: float) -> None:
        total = self._used(now)
        if self._readings.combined(self._effect.variable, now) is not None:  # an effect cannot be seen else
            self._watch.used += total - self._counted
        self._counted = total
        if self._times.rest(now) >= self._effect.forget_s:
            self._watch.used = 0.0


class Unmoved(NoEffect):
    """Any output that does not move its variable. `subject` names it, such as "the heater"."""

    def __init__(
        self,
        holds: Iterable[str],
        times: OnTimes,
        effect: Effect,
        readings: SensorReadings,
        *,
        limit: float,
        subject: str,
        causes: str,
        used: Callable[[float], float] | None = None,
        unit: str = "s",
    ) -> None:
        name = f"{effect.variable}_no_{'rise' if effect.raises else 'fall'}"
        super().__init__(name, holds, times, effect, readings, limit=limit, used=used, unit=unit)
        self.reset_hint = Sentence(f"check {subject} and the sensor, then reset it", "check_output")
        self._subject = subject
        self._causes = causes
        self._unit = unit

    def _why(self, used: float, now: float) -> str:  # noqa: ARG002
        effect = self._effect
        moved = f"{self._way} by {effect.change:g} {effect.unit}"
        work = f"was on for {used:.0f} s" if self._unit == "s" else f"gave {used:.0f} {self._unit}"
        return f"{self._subject} {work}, and {effect.variable} did not {moved}: {self._causes}"
