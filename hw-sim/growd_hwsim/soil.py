"""The substrate of plants in pots: water in, by irrigation, and out, by drainage and roots."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SoilParameters:
    """Pots with a substrate of peat and perlite, watered from the mains."""

    volume_l: float = 3.0
    """Volume of the substrate in l."""
    start_percent: float = 35.0
    """Water in it at the start, in percent of its volume."""
    field_capacity_percent: float = 40.0
    """Water that stays in it, in percent; the rest drains (peat: 40 to 60 %, Raviv and Lieth 2008)."""
    saturated_percent: float = 70.0
    """Its pores in percent. More water runs off at once."""
    wilting_percent: float = 8.0
    """Water that roots cannot take, in percent."""
    drainage_s: float = 600.0
    """Time constant of the drainage in s."""
    irrigation_ml_min: float = 200.0
    """Flow of the irrigation in ml/min."""


class Soil:
    """The water in the substrate."""

    def __init__(self, parameters: SoilParameters) -> None:
        self.water_g = parameters.start_percent * parameters.volume_l * 10.0
        self.drained_g = 0.0
        """Water that ran out of it."""

    def percent(self, p: SoilParameters) -> float:
        """Water in percent of the volume."""
        return self.water_g / (p.volume_l * 10.0)

    def stress(self, p: SoilParameters) -> float:
        """How far roots can take water, 0..1: less in the drier half of its range (FAO paper 56)."""
        available = (self.percent(p) - p.wilting_percent) / (p.field_capacity_percent - p.wilting_percent)
        return min(max(2.0 * available, 0.0), 1.0)

    def supplied_m3_s(self, vapour_g_m3: float, seconds: float) -> float:
        """The largest conductance for vapour that a third of the water supplies for a step."""
        return self.water_g / 3.0 / (vapour_g_m3 * seconds)

    def advance(self, p: SoilParameters, irrigation: float, seconds: float, transpired_g: float) -> None:
        """A step with irrigation at a level (0..1), in which the plants took water."""
        self.water_g += irrigation * p.irrigation_ml_min / 60.0 * seconds - transpired_g
        most = p.field_capacity_percent * p.volume_l * 10.0
        if self.water_g > most:
            stays = most + (self.water_g - most) * math.exp(-seconds / p.drainage_s)
            stays = min(stays, p.saturated_percent * p.volume_l * 10.0)
            self.drained_g += self.water_g - stays
            self.water_g = stays
