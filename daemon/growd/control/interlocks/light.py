"""The interlocks of the lamp."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.base import SAVED_SHARE, Interlock, PersistentInterlock
from growd.control.interlocks.wall_time import OnTimeOfDay
from growd.variables import TEMPERATURE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from growd.control.interlocks.base import SensorReadings
    from growd.control.interlocks.on_times import OnTimes

DAY_HOURS: Final = 24.0
CONFIRMED: Final = 2  # readings above the limit: a single spike does not switch the light off


class LightOverTemperature(Interlock):
    """The air is too warm for light: the lamp is off until the air has cooled by the hysteresis."""

    def __init__(
        self, readings: SensorReadings, holds: Iterable[str], limit_degc: float, hysteresis_degc: float
    ) -> None:
        limits = {"limit": (limit_degc, "degC"), "hysteresis": (hysteresis_degc, "degC")}
        super().__init__("light_over_temperature", holds, limits)
        self.reads = frozenset({TEMPERATURE})
        self._readings = readings
        self._limit = limit_degc
        self._release = limit_degc - hysteresis_degc
        self._recent: deque[float] = deque(maxlen=CONFIRMED)

    def on_reading(self, variable: str, device: str, value: float | None, now: float) -> None:  # noqa: ARG002
        if value is not None and not device:
            self._recent.append(value)

    def update(self, now: float, wall: float) -> None:  # noqa: ARG002
        value = self._readings.combined(TEMPERATURE, now)
        if value is None:
            self._recent.clear()  # a reading before an outage does not confirm one after it
        if value is None or len(self._recent) < CONFIRMED:
            return  # unchanged: a failed sensor must not light a lamp that was too warm
        if min(self._recent) >= self._limit and not self.reason:
            self.reason = (
                f"{TEMPERATURE} was {value:.1f} degC at the trip; "
                f"the limit for light is {self._limit:g} degC; releases below {self._release:g} degC"
            )
        elif max(self._recent) < self._release:
            self.reason = ""


class LightHours(PersistentInterlock):
    """The light was on for its maximum number of hours today, in `zone`. 24 means no limit."""

    def __init__(
        self, times: OnTimes, holds: Iterable[str], hours: float, zone: tzinfo | None = None
    ) -> None:
        super().__init__("light_hours", holds, {"limit": (hours, "h")})
        self._times = times
        self._hours = hours
        self._day = OnTimeOfDay(zone)
        self._updated = -math.inf
        self._lit = self._lit_in_state = self._lit_when_saved = 0.0
        self._assumed = ""
        if hours >= DAY_HOURS:
            self._is_restored, self.reason, self.is_quiet = True, "", False

    def update(self, now: float, wall: float) -> None:
        if self._hours >= DAY_HOURS:
            return
        lit = min(now - self._updated, self._times.stretch(now))
        self._updated = now
        self._lit += lit
        self._day.add(lit, wall)
        if not self._is_restored:
            return
        is_over = self._day.seconds(wall) >= self._hours * 3600.0
        if not is_over:
            self.reason = self._assumed = ""
        elif not self.reason:
            self.reason = self._assumed or (
                f"the light was on for {self._hours:g} h today, which is the limit; it can be on again "
                "tomorrow"
            )

    def state(self, now: float, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        self._lit_in_state = self._lit
        return self._day.state()

    def mark_saved(self) -> None:
        self._lit_when_saved = self._lit_in_state

    def needs_saving(self) -> bool:
        is_limited = self._hours < DAY_HOURS
        return is_limited and self._lit - self._lit_when_saved >= SAVED_SHARE * self._hours * 3600.0

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        self._day.restore(saved)
        if not was_clean:
            self._day.add(SAVED_SHARE * self._hours * 3600.0, 0.0)

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._day.add(self._hours * 3600.0, 0.0)
        self._assumed = (
            f"how long the light was on today is unknown ({why}), so all {self._hours:g} h count as used; "
            "it can be on again tomorrow"
        )
