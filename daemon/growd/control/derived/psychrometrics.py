"""Water vapour in air: formulas without state.

The saturation pressure is the Magnus form of Alduchov and Eskridge (1996, J. Appl. Meteorol. 35:601) over
water, within 0.4 % from -40 to 50 degC. `growd_hwsim.chamber` uses the same. The deficit is that of the air:
leaves that are warmer or cooler than the air have another one.
"""

from __future__ import annotations

import math
from typing import Final

_PRESSURE_KPA: Final = 0.61094
_SLOPE: Final = 17.625
_OFFSET_DEGC: Final = 243.04
_ZERO_DEGC_K: Final = 273.15
_WATER_G_MOL: Final = 18.016
_GAS_CONSTANT: Final = 8.314  # J/(mol K)
_DRIEST_PERCENT: Final = 1e-6
_DRIEST_DEGC: Final = -100.0


def saturation_pressure_kpa(temperature_degc: float) -> float:
    """The vapour pressure of saturated air."""
    return _PRESSURE_KPA * math.exp(_SLOPE * temperature_degc / (temperature_degc + _OFFSET_DEGC))


def vapour_pressure_deficit_kpa(temperature_degc: float, humidity_percent: float) -> float:
    """The vapour pressure that the air lacks to saturation."""
    return saturation_pressure_kpa(temperature_degc) * (1.0 - humidity_percent / 100.0)


def dew_point_degc(temperature_degc: float, humidity_percent: float) -> float:
    """The temperature at which the vapour of this air condenses; the inverse of the Magnus form.

    Lawrence (2005, Bull. Am. Meteorol. Soc. 86:225), equation 8. It is -100 degC at least, since dry air has
    no dew point.
    """
    part = math.log(max(humidity_percent, _DRIEST_PERCENT) / 100.0)
    part += _SLOPE * temperature_degc / (temperature_degc + _OFFSET_DEGC)
    return max(_DRIEST_DEGC, _OFFSET_DEGC * part / (_SLOPE - part))


def absolute_humidity_g_m3(temperature_degc: float, humidity_percent: float) -> float:
    """The mass of vapour in a volume of air, by the gas law."""
    pressure_pa = 1_000.0 * saturation_pressure_kpa(temperature_degc) * humidity_percent / 100.0
    return _WATER_G_MOL * pressure_pa / (_GAS_CONSTANT * (temperature_degc + _ZERO_DEGC_K))


def humidity_for_deficit_percent(temperature_degc: float, deficit_kpa: float) -> float:
    """The relative humidity at which the air has this deficit; below 0 if no air of this temperature has."""
    return 100.0 * (1.0 - deficit_kpa / saturation_pressure_kpa(temperature_degc))
