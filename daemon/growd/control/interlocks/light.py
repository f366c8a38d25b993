"""The interlock of the hours of light."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from growd.control.interlocks.base import SAVED_SHARE, STATE_LOST, PersistentInterlock
from growd.control.interlocks.wall_time import OnTimeOfDay
from growd.runtime.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from growd.control.interlocks.on_times import OnTimes

DAY_HOURS: Final = 24.0


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
        self._lit = 0.0
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
            text = (
                f"the light was on for {self._hours:g} h today, which is the limit; it can be on again "
                "tomorrow"
            )
            self.reason = self._assumed or Sentence(text, "light_hours_used", limit=self._hours, unit="h")

    def needs_saving(self) -> bool:
        is_limited = self._hours < DAY_HOURS
        return is_limited and self._lit - self._saved >= SAVED_SHARE * self._hours * 3600.0

    def _mark(self, *, as_reset: bool = False) -> Any:  # noqa: ARG002  releases by itself
        return self._lit

    def _state(self, now: float, *, as_reset: bool) -> Any:  # noqa: ARG002  releases by itself
        return self._day.state()

    def _restore(self, saved: Any, now: float, away: float, *, was_clean: bool) -> None:  # noqa: ARG002
        self._day.restore(saved)
        if not was_clean:
            self._day.add(SAVED_SHARE * self._hours * 3600.0, 0.0)

    def _assume_worst(self, now: float, why: str) -> None:  # noqa: ARG002
        self._day.add(self._hours * 3600.0, 0.0)
        text = (
            f"how long the light was on today is unknown ({why}), so all {self._hours:g} h count as used; "
            "it can be on again tomorrow"
        )
        self._assumed = Sentence(text, STATE_LOST, reason=why)
