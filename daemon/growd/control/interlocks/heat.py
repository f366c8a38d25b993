"""Interlocks against heat: air or water that is too warm, and heaters that cannot be switched off."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.base import Interlock, LatchedInterlock
from growd.runtime.sentence import Sentence
from growd.runtime.text import told_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.on_times import OnTimes

CONFIRMED: Final = 2  # readings above the limit: a single spike does not switch an output off
SMOOTHED: Final = 3  # readings in the running median, against noise and spikes
THINNED_S: Final = 10.0  # at most one reading in this time is remembered
MARGIN_DEGC: Final = 1.0
"""A temperature above its set point by more than this is too warm."""
LONG_S: Final = 60.0
"""After a cooler worked for longer than this, the temperature rises by itself when it stops.

After the end of a lamp it rises no longer than this."""
SETTLES_S: Final = 300.0
"""It settles in this time."""
STRONG: Final = 0.5  # level of a cooler that counts as working
IDLE_S: Final = 3_600.0
"""A cooler that works for so long without lamp and heater is a problem to tell."""


class OverTemperature(Interlock):
    """Air or water is too warm for an output: it is off until the temperature fell by the hysteresis.

    `by_any`: one sensor above the limit is enough, and all must be below to release; else the combined value
    of all sensors counts. Each counts after `CONFIRMED` readings in a row.
    """

    def __init__(
        self,
        name: str,
        holds: Iterable[str],
        readings: SensorReadings,
        variable: str,
        *,
        limit_degc: float,
        hysteresis_degc: float,
        subject: str,
        by_any: bool = True,
    ) -> None:
        limits = {"limit": (limit_degc, "degC"), "hysteresis": (hysteresis_degc, "degC")}
        super().__init__(name, holds, limits)
        self.reads = frozenset({variable})
        self._readings = readings
        self._variable = variable
        self._limit = limit_degc
        self._release = limit_degc - hysteresis_degc
        self._subject = subject
        self._by_any = by_any
        self._recent: dict[str, deque[float]] = {}

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: ARG002
        if value is None:
            self._recent.pop(device, None)  # a reading before a fault does not confirm one after it
        elif self._by_any or not device:
            self._recent.setdefault(device, deque(maxlen=CONFIRMED)).append(value)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        known = self._readings.known(self._variable, now)
        for device in self._recent.keys() - known.keys():
            del self._recent[device]
        confirmed = [recent for recent in self._recent.values() if len(recent) == CONFIRMED]
        if not confirmed:
            return  # unchanged: a failed sensor must not heat what was too warm
        lowest = max(min(recent) for recent in confirmed)
        if lowest >= self._limit and not self.reason:
            value = max(recent[-1] for recent in confirmed)
            shown, limit = told_apart(value, self._limit, 1)
            text = (
                f"{self._variable} was {shown} degC at the trip; the limit for {self._subject} is "
                f"{limit} degC; releases below {self._release:g} degC"
            )
            fields = {"value": float(shown), "limit": self._limit, "release": self._release}
            self.reason = Sentence(text, "over_limit", variable=self._variable, unit="degC", **fields)
        elif max(max(recent) for recent in confirmed) < self._release:
            self.reason = ""


class StillRising(LatchedInterlock):
    """A temperature rises although the heater is off: its relay may be welded.

    It trips if all heaters were off for `window_s`, the temperature rose by `rise_degc` in that time and is
    above its set point (without one, above `warm_degc`). While a lamp is on, it must have been for twice that
    time; in the dark only the rise from `LONG_S` after its end counts. After a cooler (`cooling`) stops, the
    course begins anew. It trips at once if one of `suspects` returns a name: the feedback of a heater that
    stays on. Until a reset, the heaters are held off and everything that
    cools runs, while the temperature is too high. A cooler (`chilling`, without fans) that has to work for
    `IDLE_S` in the dark is a problem, since it may hide the heat.
    """

    reset_hint = Sentence("unplug the heater, replace its relay, then reset it", "replace_heater_relay")

    def __init__(
        self,
        variable: str,
        heaters: Iterable[str],
        coolers: Iterable[str],
        times: OnTimes,
        readings: SensorReadings,
        *,
        lamps: OnTimes,
        cooling: OnTimes,
        chilling: OnTimes,
        window_s: float,
        rise_degc: float,
        warm_degc: float = -math.inf,
        suspects: Sequence[Callable[[], str]] = (),
    ) -> None:
        self._coolers = frozenset(coolers)
        limits = {"limit": (window_s, "s"), "rise": (rise_degc, "degC")}
        super().__init__(f"{variable}_still_rising", {*heaters, *self._coolers}, limits)
        self.reads = self.follows = frozenset({variable})
        self._variable = variable
        self._times = times
        self._lamps = lamps
        self._cooling = cooling
        self._chilling = chilling
        self._chills_since: float | None = None
        self._is_chilled_in_vain = False
        self._cools_since: float | None = None
        self._settled_at = -math.inf
        self._readings = readings
        self._window = window_s
        self._rise = rise_degc
        self._warm = warm_degc
        self._suspects = tuple(suspects)
        self._set_point: float | None = None
        self._recent: deque[float] = deque(maxlen=SMOOTHED)
        self._course: deque[tuple[float, float]] = deque(maxlen=max(2, int(window_s / THINNED_S)))
        self._cool_to = -math.inf
        self._is_hot = False

    def on_set_point(self, variable: str, value: float | None) -> None:  # noqa: ARG002  it follows one
        self._set_point = value

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: ARG002
        if device:
            return
        if value is None:
            self._recent.clear()
            self._course.clear()
            return
        self._recent.append(value)
        if now >= self._settled_at and (not self._course or now - self._course[-1][0] >= THINNED_S):
            self._course.append((now, median(self._recent)))

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        if not self._is_restored:
            return
        self._follow_cooling(now)
        value = self._value(now)
        suspect = self._suspect() if self._suspects else ""
        if suspect and not self.reason:
            self._cool_to = -math.inf if value is None else value
            self.reason = f"{suspect} is written off and reads on: its relay may be welded"
        if value is not None and not self.reason:
            self._judge(value, now)
        elif value is not None and math.isinf(self._cool_to):
            self._cool_to = value  # tripped without a reading: do not cool below the first one
        self._is_hot = bool(self.reason) and self._is_too_warm(value, is_suspected=bool(suspect))

    def held_level(self, output: str, level: float, safe: float) -> float:  # noqa: ARG002
        if not self._is_restored:
            return level  # the other interlocks hold the heaters meanwhile
        if not self._is_hot:
            return level
        return 1.0 if output in self._coolers else 0.0

    def reset(self) -> None:
        super().reset()
        self._is_hot = False
        self._course.clear()

    @property
    def stays_on(self) -> bool:
        return bool(self.reason) and not self.is_assumed

    @property
    def problem(self) -> str:
        if not self._is_chilled_in_vain:
            return ""
        text = (
            f"a cooler of {self._variable} works for more than an hour while heater and lamp are off: the "
            "relay of the heater may be welded, or the room is warmer than the set point: unplug the heater, "
            "to see which"
        )
        return Sentence(text, "cooler_works_in_vain", variable=self._variable)

    def _why_it_must_hold(self, now: float) -> str:  # noqa: ARG002
        suspect = self._suspect()
        return f"{suspect} still reads on" if suspect else ""

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002
        return [self._mark(as_reset=as_reset), None if math.isinf(self._cool_to) else self._cool_to]

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        reason, cool_to = saved
        self._cool_to = -math.inf if cool_to is None else float(cool_to)
        self._restore_reason(reason)

    def _suspect(self) -> str:
        return next((name for suspected in self._suspects if (name := suspected())), "")

    def _value(self, now: float) -> float | None:
        known = self._readings.combined(self._variable, now) is not None and bool(self._recent)
        return median(self._recent) if known else None

    def _follow_cooling(self, now: float) -> None:
        """Begin the course anew when a cooler stops that worked for long."""
        if self._chilling.level() < STRONG:
            self._chills_since = None
        elif self._chills_since is None:
            self._chills_since = now
        chilled_s = 0.0 if self._chills_since is None else now - self._chills_since
        idle_s = min(chilled_s, self._times.rest(now), self._lamps.rest(now))
        self._is_chilled_in_vain = idle_s >= IDLE_S
        if self._cooling.level() >= STRONG:
            self._cools_since = now if self._cools_since is None else self._cools_since
        elif self._cools_since is not None:
            if now - self._cools_since > LONG_S:
                self._course.clear()
                self._settled_at = now + SETTLES_S
            self._cools_since = None

    def _judge(self, value: float, now: float) -> None:
        """Trip if the temperature rose while the heaters were off."""
        is_steady = self._lamps.stretch(now) >= 2 * self._window
        seen_s = self._window if is_steady else min(self._window, self._lamps.rest(now) - LONG_S)
        if self._times.rest(now) < self._window or seen_s <= 0:
            return
        lowest = min((at for since, at in self._course if now - since <= seen_s), default=value)
        least = self._warm if self._set_point is None else self._set_point + MARGIN_DEGC
        if value - lowest >= self._rise and value >= least:
            self._cool_to = lowest + MARGIN_DEGC
            self.reason = (
                f"{self._variable} rose from {lowest:.1f} to {value:.1f} degC while the heater was off for "
                f"{self._window:g} s: its relay may be welded, or something else heats"
            )

    def _is_too_warm(self, value: float | None, *, is_suspected: bool) -> bool:
        """Whether to cool now; unchanged between the limits, and without a reading."""
        if value is None:
            return self._is_hot or is_suspected
        if self._set_point is not None:
            limit = self._set_point + MARGIN_DEGC
        else:
            limit = -math.inf if is_suspected else self._cool_to + MARGIN_DEGC
        return value >= limit or (self._is_hot and value >= limit - MARGIN_DEGC)
