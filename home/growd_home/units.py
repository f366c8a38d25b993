"""How Home Assistant names units and kinds of values."""

from __future__ import annotations

from typing import Final

from growd.variables import DEGREE_DAYS, SOIL_MOISTURE, VARIABLES

SWITCH: Final = "switch"

_UNITS: Final = {
    "degC": "°C",
    "percent": "%",
    "lux": "lx",
    "g/m3": "g/m³",
    "degC d": "°C·d",
    "umol/m2/s": "μmol/m²/s",
    "mol/m2": "mol/m²",
    "index": "UV index",
    "pH": "",
    "fraction": "",
    "switch": "",
    "number": "",
}
_CLASSES: Final = {
    "degC": "temperature",
    "ppm": "carbon_dioxide",
    "lux": "illuminance",
    "hPa": "atmospheric_pressure",
    "pH": "ph",
    "mS/cm": "conductivity",
    "mV": "voltage",
    "h": "duration",
}
_OF_VARIABLES: Final = {
    "air_humidity": "humidity",
    "room_humidity": "humidity",
    SOIL_MOISTURE: "moisture",
    "water_volume": "volume_storage",
}
_OF_SWITCHES: Final = {"door_open": "door"}


def unit_of(variable: str) -> str:
    """The unit as Home Assistant writes it, "" for none."""
    unit = VARIABLES[variable].unit
    return _UNITS.get(unit, unit)


def device_class_of(variable: str) -> str:
    """The device class of a sensor of this variable, "" for none. One without could be shown in any unit.

    VPD has none: Home Assistant would show a pressure in psi where people use that.
    """
    return _OF_VARIABLES.get(variable) or _CLASSES.get(VARIABLES[variable].unit, "")


def switch_class_of(variable: str) -> str:
    """The device class of a binary sensor of a switch, "" for none."""
    return _OF_SWITCHES.get(variable, "")


def state_class_of(variable: str) -> str:
    """What Home Assistant's statistics make of it."""
    return "total_increasing" if variable == DEGREE_DAYS else "measurement"


def step_of(variable: str) -> float:
    """The step of a set point: a hundredth of a small unit, a whole one of a large one."""
    return {0: 1.0, 1: 0.1}.get(VARIABLES[variable].precision, 0.01)
