"""Chemistry of a nutrient solution: pH from alkalinity, phosphate and dissolved carbon; oxygen.

Alkalinity is in equivalents of base above H2PO4- and CO2. Constants are those at 25 degC (Stumm and Morgan
1996, Aquatic Chemistry); the ionic strength is left out. Concentrations are in mmol/l or meq/l.
"""

from __future__ import annotations

import math
from typing import Final

MEQ_PER_MS_CM: Final = 10.0
"""EC = cations / 10 (Sonneveld and Voogt 2009, Plant Nutrition of Greenhouse Crops)."""
HENRY_MMOL_L_PPM: Final = 0.034e-3
"""CO2 in water for each ppm in the air (Sander 2015, Atmos. Chem. Phys. 15:4399)."""

_CARBONIC, _BICARBONATE = 10**-6.35, 10**-10.33
_PHOSPHORIC, _PHOSPHATE = 10**-2.15, 10**-7.20
_WATER = 1e-14
_ACCURACY = 1e-6


def potential_hydrogen(alkalinity: float, phosphate: float, carbon: float, near: float = 7.0) -> float:
    """The pH, by Newton's method within brackets, from a first guess `near`."""
    low, high, ph = 0.0, 14.0, near
    while True:
        excess, slope = _charge(ph, phosphate, carbon)
        excess -= alkalinity
        low, high = (low, ph) if excess > 0 else (ph, high)
        following = ph - excess / slope
        if not low < following < high:
            following = (low + high) / 2.0
        if abs(following - ph) < _ACCURACY:
            return following
        ph = following


def alkalinity(ph: float, phosphate: float, carbon: float) -> float:
    """The alkalinity at a pH."""
    return _charge(ph, phosphate, carbon)[0]


def free_carbon_dioxide(ph: float) -> float:
    """The share of the dissolved carbon that is CO2."""
    hydrogen = math.pow(10.0, -ph)
    return 1.0 / (1.0 + _CARBONIC / hydrogen * (1.0 + _BICARBONATE / hydrogen))


def saturated_oxygen_mg_l(temperature_degc: float) -> float:
    """Oxygen in water with air above it (within 1.5 % of Benson and Krause 1984 at 0 to 40 degC)."""
    return 468.0 / (31.6 + temperature_degc)


def _charge(ph: float, phosphate: float, carbon: float) -> tuple[float, float]:
    """The alkalinity at a pH, and how it rises with pH."""
    hydrogen = math.pow(10.0, -ph)
    hydroxide = _WATER / hydrogen
    total, spread = 1000.0 * (hydroxide - hydrogen), 1000.0 * (hydroxide + hydrogen)
    acids = ((carbon, _CARBONIC), (carbon, _BICARBONATE), (phosphate, _PHOSPHORIC), (phosphate, _PHOSPHATE))
    for amount, constant in acids:  # their steps are far apart, so that each is an acid of its own
        share = constant / (constant + hydrogen)
        total += amount * share
        spread += amount * share * (1.0 - share)
    return total - phosphate, math.log(10.0) * spread
