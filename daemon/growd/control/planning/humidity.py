"""The set point of humidity that gives the air its vapour pressure deficit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.bus.messages import Quality
from growd.control.derived.psychrometrics import humidity_for_deficit_percent, saturation_pressure_kpa
from growd.control.planning.planner import Planner
from growd.control.topics import measured
from growd.variables import HUMIDITY, TEMPERATURE, VAPOUR_PRESSURE_DEFICIT

if TYPE_CHECKING:
    from growd.bus import Bus
    from growd.bus.messages import Message

PERIOD_S: Final = 15.0
STEP_PERCENT: Final = 0.25
"""0.01 kPa at 30 degC."""


class HumidityPlanner(Planner):
    """Moves the set point of humidity so that the air has the set point of its vapour pressure deficit.

    It follows the measured temperature. Without one that is ok and younger than `stale_after_s`, humidity has
    no set point.
    """

    def __init__(self, bus: Bus, environment: str, *, stale_after_s: float = 30.0) -> None:
        sources = [VAPOUR_PRESSURE_DEFICIT]
        super().__init__(bus, environment, HUMIDITY, sources, step=STEP_PERCENT, period_s=PERIOD_S)
        self._temperature = bus.topics.get(measured(environment, TEMPERATURE))
        self._stale_after = stale_after_s
        self._seen: tuple[Message | None, float] = (None, 0.0)  # the last reading, and when it was new

    def _degc(self) -> float | None:
        last, now = self._temperature.last, self._clock.monotonic()
        if last is not self._seen[0]:
            self._seen = last, now
        if last is None or last.quality is not Quality.OK or now - self._seen[1] > self._stale_after:
            return None
        return float(last.value)

    def _set_point(self) -> float | None:
        deficit, degc = self._wanted.get(VAPOUR_PRESSURE_DEFICIT), self._degc()
        if deficit is None or degc is None:
            return None
        return min(100.0, max(0.0, humidity_for_deficit_percent(degc, deficit)))

    def _trouble(self) -> str:
        deficit, degc = self._wanted[VAPOUR_PRESSURE_DEFICIT], self._degc()
        wanted = self._shown(VAPOUR_PRESSURE_DEFICIT, deficit)
        if degc is None:
            return f"{VAPOUR_PRESSURE_DEFICIT} cannot follow its set point {wanted}: no temperature is known"
        if (most := saturation_pressure_kpa(degc)) < deficit:
            return (
                f"{VAPOUR_PRESSURE_DEFICIT} cannot reach its set point {wanted}: "
                f"dry air of {degc:.1f} degC has {self._shown(VAPOUR_PRESSURE_DEFICIT, most)}"
            )
        return ""
