"""What a fan can reach with the air that it draws in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from growd.bus.messages import Quality
from growd.control.derived.psychrometrics import saturation_pressure_kpa
from growd.control.topics import measured
from growd.loops import FRESH_AIR_PPM
from growd.variables import CARBON_DIOXIDE, HUMIDITY, ROOM_HUMIDITY, ROOM_TEMPERATURE, TEMPERATURE

if TYPE_CHECKING:
    from growd.bus import Bus


class FreshAir:
    """The lowest values that an exchange of air reaches, from the measured air of the room.

    Without a sensor there the temperature and humidity of the room are not known, and a fan may run in vain.
    """

    def __init__(self, bus: Bus, environment: str) -> None:
        self._bus = bus
        self._environment = environment

    def floor(self, variable: str) -> float:
        """The lowest value of `variable` that fans can reach; minus infinity if it is not known."""
        if variable == CARBON_DIOXIDE:
            return FRESH_AIR_PPM
        room = self._value(ROOM_TEMPERATURE)
        if room is None or variable not in (TEMPERATURE, HUMIDITY):
            return -math.inf
        if variable == TEMPERATURE:
            return room
        humidity, inside = self._value(ROOM_HUMIDITY), self._value(TEMPERATURE)
        if humidity is None or inside is None:
            return -math.inf
        return humidity * saturation_pressure_kpa(room) / saturation_pressure_kpa(inside)

    def helps(self, variable: str) -> bool:
        """Whether a fan can lower `variable` now, as far as that is known."""
        value = self._value(variable)
        return value is None or value > self.floor(variable)

    def _value(self, variable: str) -> float | None:
        last = self._bus.topics.get(measured(self._environment, variable)).last
        return None if last is None or last.quality is not Quality.OK else float(last.value)
