"""Constants and formulas that several parts of the simulated chamber use."""

from __future__ import annotations

import math
from typing import Final

GAS_CONSTANT: Final = 8.314  # J/(mol K)
PRESSURE_PA: Final = 101_325.0
ZERO_DEGC_K: Final = 273.15
AIR_J_M3_K: Final = 1.2 * 1005.0
"""Density times heat capacity of air at 20 degC."""
LATENT_J_G: Final = 2450.0
"""Heat of evaporation of water at 20 degC (Allen et al. 1998, FAO irrigation paper 56, eq. 3-1)."""
WATER_J_G_K: Final = 4.186
"""Heat capacity of water."""

_SLOW = 1e-6  # of a rate times the step: below it the difference has too few digits


def saturation_vapour_g_m3(temperature_degc: float) -> float:
    """Density of saturated water vapour (Magnus form of Alduchov and Eskridge 1996, then the gas law)."""
    pressure_pa = 610.94 * math.exp(17.625 * temperature_degc / (temperature_degc + 243.04))
    return 18.016 * pressure_pa / (GAS_CONSTANT * (temperature_degc + ZERO_DEGC_K))


def balance(value: float, inflow: float, rate: float, seconds: float) -> float:
    """The exact solution of dx/dt = inflow - rate x after `seconds`, for any `rate` from 0."""
    return value + (inflow - rate * value) * _lasting_s(rate, seconds)


def exactly(value: float, inflow: float, rate: float, seconds: float) -> tuple[float, float]:
    """The end of a balance, and its mean until then."""
    end = balance(value, inflow, rate, seconds)
    if rate * seconds > _SLOW:
        return end, (inflow - (end - value) / seconds) / rate
    return end, (value + end) / 2.0


def _lasting_s(rate: float, seconds: float) -> float:
    """The seconds for which the initial net flow would have to last to give the change of a balance."""
    return -math.expm1(-rate * seconds) / rate if rate > 0 else seconds
