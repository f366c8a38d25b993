"""The table of what outputs do: their classes for the interlocks, and what they drive."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    DISSOLVED_OXYGEN,
    FAN,
    HUMIDITY,
    SOIL_MOISTURE,
    TEMPERATURE,
    VALVE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

ON_FROM: Final = 0.5
"""A switch is on from this command on: it may come from a slider."""


class OutputClass(StrEnum):
    """What an output is for the interlocks."""

    HEATER = "heater"
    COOLER = "cooler"
    HUMIDIFIER = "humidifier"
    DEHUMIDIFIER = "dehumidifier"
    VALVE = "valve"
    FAN = "fan"
    PUMP = "pump"
    DOSING = "dosing"
    LIGHT = "light"
    OTHER = "other"


LASTING: Final = (OutputClass.VALVE, OutputClass.DOSING)
"""What these give stays in the air or the tank: they are tested only if somebody asks for it."""


class Lease(NamedTuple):
    """How long a level other than the safe one holds, and how often it is renewed, in s.

    With `renews_safe` the safe level is written again as well, for a device that may have missed it.
    """

    valid_s: float
    renewed_s: float = inf
    renews_safe: bool = False


HARMFUL: Final = Lease(2.0, 0.5)
"""For what does harm within seconds: valves, pumps, heaters, humidifiers."""

PATIENT: Final = Lease(30.0, 7.5)
"""For lamps and fans, and for compressors, which a short pause wears out."""


ON_A_BUS: Final = Lease(10.0, 2.5)
"""For outputs of other packages on a bus: each reading of a sensor there may take 2 s."""


def lease_of(output_class: OutputClass | None) -> Lease:
    """The lease of outputs of a class on pins."""
    patient = (OutputClass.LIGHT, OutputClass.FAN, OutputClass.COOLER, OutputClass.DEHUMIDIFIER)
    return PATIENT if output_class in patient else HARMFUL


class Role(msgspec.Struct, frozen=True):
    """What an output does, by its own variable, which is the one of its commands."""

    name: str
    """For people."""

    output_class: OutputClass

    drives: str = ""
    """The variable that it moves, "" for none."""

    raises: bool = True

    moves: str = ""
    """What it moves in a simulated chamber, of `SimulatedChamber.set_actuator`; "" for nothing."""

    needs: str = ""
    """The default of `needs`, if a sensor measures that variable."""

    must_be_safe_off: bool = False


def _dosing(name: str, drives: str, moves: str, *, raises: bool = True) -> Role:
    return Role(name, OutputClass.DOSING, drives, raises, moves, drives, must_be_safe_off=True)


def _active(name: str, of: OutputClass, drives: str, moves: str, *, raises: bool = True) -> Role:
    """An output that does harm while its variable is not known."""
    return Role(name, of, drives, raises, moves, drives, must_be_safe_off=True)


ROLES: Final[dict[str, Role]] = {
    VALVE: _active("valve for CO2", OutputClass.VALVE, CARBON_DIOXIDE, "valve"),
    FAN: Role("exhaust fan", OutputClass.FAN, CARBON_DIOXIDE, raises=False, moves="fan"),
    "air_heater": _active("heater", OutputClass.HEATER, TEMPERATURE, "heater"),
    "air_cooler": _active("cooler", OutputClass.COOLER, TEMPERATURE, "cooler", raises=False),
    "air_humidifier": _active("humidifier", OutputClass.HUMIDIFIER, HUMIDITY, "humidifier"),
    "air_dehumidifier": _active(
        "dehumidifier", OutputClass.DEHUMIDIFIER, HUMIDITY, "dehumidifier", raises=False
    ),
    "air_circulation": Role("circulation fan", OutputClass.OTHER, moves="circulation"),
    "water_heater": _active("water heater", OutputClass.HEATER, WATER_TEMPERATURE, "water_heater"),
    "water_cooler": _active(
        "water chiller", OutputClass.COOLER, WATER_TEMPERATURE, "water_cooler", raises=False
    ),
    "water_fill": _active("filling valve", OutputClass.PUMP, WATER_LEVEL, "fill"),
    "water_drain": _active("drain valve", OutputClass.PUMP, WATER_LEVEL, "drain", raises=False),
    "water_circulation": Role("circulation pump", OutputClass.PUMP, moves="water_pump"),
    "water_aeration": Role("air pump", OutputClass.OTHER, DISSOLVED_OXYGEN, moves="aeration"),
    "water_irrigation": Role(
        "irrigation pump", OutputClass.PUMP, SOIL_MOISTURE, moves="irrigation", must_be_safe_off=True
    ),
    "nutrient_a": _dosing("pump for nutrient A", CONDUCTIVITY, "nutrient_a"),
    "nutrient_b": _dosing("pump for nutrient B", CONDUCTIVITY, "nutrient_b"),
    "nutrient_c": _dosing("pump for nutrient C", CONDUCTIVITY, "nutrient_c"),
    "nutrient_ph_up": _dosing("pump for base", ACIDITY, "ph_up"),
    "nutrient_ph_down": _dosing("pump for acid", ACIDITY, "ph_down", raises=False),
    "nutrient_flora_duo_a": _dosing("pump for FloraDuo A", CONDUCTIVITY, "nutrient_a"),
    "nutrient_flora_duo_b": _dosing("pump for FloraDuo B", CONDUCTIVITY, "nutrient_b"),
    **{
        f"auxiliary_{number}": Role(f"auxiliary output {number}", OutputClass.OTHER) for number in range(1, 9)
    },
}
"""What outputs can do, the lamp apart: its channels are in `device_kinds.LAMP_CHANNELS`.

The interlocks of an output follow from its class and from what it drives. An auxiliary output has the role of
what its configuration says that it drives (`role_of`).
"""


def role_of(moved: Mapping[str, bool]) -> Role | None:
    """The role of an output that raises (True) or lowers these variables, None if no role does that."""
    roles = (role for role in ROLES.values() if moved.get(role.drives) is role.raises)
    heats = (_thermal(name, raises=raises) for name, raises in moved.items() if _is_temperature(name))
    return next(roles, None) or next(heats, None)


def _is_temperature(variable: str) -> bool:
    known = VARIABLES.get(variable)
    return known is not None and known.unit == "degC" and not known.is_derived


def _thermal(variable: str, *, raises: bool) -> Role:
    """A heater or cooler of something that has none in `ROLES`."""
    of = OutputClass.HEATER if raises else OutputClass.COOLER
    return _active(of.value, of, variable, "", raises=raises)
