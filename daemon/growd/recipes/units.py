"""The units that recipes may use, and their conversion to growd's units."""

from __future__ import annotations

from typing import Any, Final

from growd.recipes.findings import is_number
from growd.variables import VARIABLES

Conversion = tuple[float, float]
"""Factor and offset: value in the variable's unit = factor * value + offset."""

_SAME: Final = (1.0, 0.0)
_CELSIUS: Final = ("degC", "C", "celsius", "celcius", "degrees C", "degrees celsius")
_FAHRENHEIT: Final = ("degF", "F", "fahrenheit", "degrees F", "degrees fahrenheit")
_CONVERSIONS: Final[dict[str, dict[str, Conversion]]] = {
    "degC": dict.fromkeys(_CELSIUS, _SAME)
    | dict.fromkeys(_FAHRENHEIT, (5 / 9, -160 / 9))
    | {"K": (1.0, -273.15)},
    "percent": dict.fromkeys(("percent", "%", "percent relative", "%RH"), _SAME) | {"fraction": (100.0, 0.0)},
    "fraction": dict.fromkeys(("fraction", "percent relative"), _SAME)
    | dict.fromkeys(("percent", "%"), (0.01, 0.0)),
    "switch": dict.fromkeys(("switch", "boolean", "bool", "logical"), _SAME),
    "ppm": {"ppm": _SAME},
    "lux": {"lux": _SAME, "lx": _SAME, "klux": (1000.0, 0.0)},
    "umol/m2/s": dict.fromkeys(("umol/m2/s", "umol m-2 s-1"), _SAME),
    "pH": {"pH": _SAME},
    "mS/cm": dict.fromkeys(("mS/cm", "dS/m"), _SAME) | {"uS/cm": (0.001, 0.0)},
    "mV": {"mV": _SAME},
    "mg/L": dict.fromkeys(("mg/L", "ppm"), _SAME),
    "ml/h": dict.fromkeys(("ml/h", "ml"), _SAME) | {"l/h": (1000.0, 0.0)},
    "kPa": {"kPa": _SAME, "Pa": (0.001, 0.0), "hPa": (0.1, 0.0)},
    "hPa": dict.fromkeys(("hPa", "mbar"), _SAME) | {"kPa": (10.0, 0.0)},
    "g/m3": {"g/m3": _SAME},
    "mol/m2": dict.fromkeys(("mol/m2", "mol/m2/d"), _SAME),
    "degC d": {"degC d": _SAME},
    "h": {"h": _SAME, "min": (1 / 60, 0.0)},
    "L": {"L": _SAME, "ml": (0.001, 0.0)},
    "index": {"index": _SAME},
    "CFM": {"CFM": _SAME},
    "number": {},
}
"""For each unit of growd, the units that a recipe may use. Those of openag_brain include "percent relative"
for a light channel from 0 to 1, and "ml" for a flow of nutrients."""

AS_IN_THE_SAMPLE: Final = ("light_illuminance", "percent_relative")
"""openag_brain's sample recipe has this unit for a value that openag_brain took in lux."""

UNLIKE_OPENAG: Final = {"water_electrical_conductivity": "uS/cm"}
"""Variables with another unit in openag_brain than in growd."""


def conversion(variable: str, unit: Any) -> Conversion | None:
    """The conversion from a unit to the variable's; None if there is none."""
    if (variable, unit) == AS_IN_THE_SAMPLE:
        return _SAME
    return _BY_NAME[VARIABLES[variable].unit].get(_plain(unit)) if isinstance(unit, str) else None


def converted(variable: str, value: Any, units: Any) -> Any:
    """A value in the variable's unit, by the `variable_units` of its phase.

    Returns values that are not numbers, or in an unknown unit, unchanged: the check refuses them.
    """
    if not isinstance(units, dict) or variable not in units or variable not in VARIABLES:
        return value
    found = conversion(variable, units[variable])
    if found is None or found == _SAME or not is_number(value):
        return value
    return round(found[0] * value + found[1], VARIABLES[variable].precision + 3)


def names_of(variable: str) -> list[str]:
    """The units that a recipe may name for a variable."""
    unit = VARIABLES[variable].unit
    return list(_CONVERSIONS[unit]) or [unit]


def _plain(unit: str) -> str:
    """A unit in a uniform spelling: without case, spaces and degree signs, with u for micro."""
    for found, plain in (("µ", "u"), ("μ", "u"), ("²", "2"), ("°", ""), (" ", ""), ("_", "")):
        unit = unit.replace(found, plain)
    return unit.casefold()


_BY_NAME: Final = {
    unit: {_plain(name): found for name, found in names.items()} for unit, names in _CONVERSIONS.items()
}
