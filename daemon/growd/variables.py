"""The table of environment variables: what is known of each, in one place."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from math import inf
from typing import Final

CARBON_DIOXIDE: Final = "air_carbon_dioxide"
TEMPERATURE: Final = "air_temperature"
HUMIDITY: Final = "air_humidity"
ILLUMINANCE: Final = "light_illuminance"
VALVE: Final = "air_carbon_dioxide_valve_on"
FAN: Final = "air_flush_on"


@dataclass(frozen=True)
class Variable:
    """One environment variable; `is_output` where it is what an actuator does, which nobody measures.

    `minimum` and `maximum` bound what is physically possible and what a client may ask for, in `unit`.
    `precision` is the number of decimals worth storing. A measured point is stored between the minimum and
    maximum interval (seconds) only when it moved by more than `absolute_band` (in `unit`) or `relative_band`
    (a fraction of the last stored value), whichever is larger.

    A sample further from the last one than `jump` (in `unit`) and than `relative_jump` (a fraction of it) is
    not believed before the next one confirms it. The air of a chamber has no way to move so far between two
    samples, but for a door or a valve; light has.
    """

    name: str
    unit: str
    minimum: float
    maximum: float
    precision: int = 2
    absolute_band: float = 0.0
    relative_band: float = 0.01
    jump: float = inf
    relative_jump: float = 0.0
    is_output: bool = False


def similar_variable(name: str) -> str:
    """The variable that was probably meant by an unknown name, "" for none."""
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    ending = [known for known in VARIABLES if known.endswith(f"_{name}")]
    return next(iter(ending or difflib.get_close_matches(name, VARIABLES, 1)), "")


SHORT_NAMES = {
    "co2": CARBON_DIOXIDE,
    "air_co2": CARBON_DIOXIDE,
    "temperature": TEMPERATURE,
    "humidity": HUMIDITY,
    "light": ILLUMINANCE,
    "lux": ILLUMINANCE,
    "ph": "water_potential_hydrogen",
    "ec": "water_electrical_conductivity",
}

VARIABLES: dict[str, Variable] = {
    variable.name: variable
    for variable in (
        Variable(CARBON_DIOXIDE, "ppm", 0, 40_000, 0, absolute_band=2, jump=150, relative_jump=0.2),
        Variable(TEMPERATURE, "degC", -40, 85, 2, absolute_band=0.1, jump=3),
        Variable(HUMIDITY, "percent", 0, 100, 1, absolute_band=0.5, jump=15),
        Variable(VALVE, "switch", 0, 1, 0, is_output=True),
        Variable(FAN, "switch", 0, 1, 0, is_output=True),
        Variable(ILLUMINANCE, "lux", 0, 200_000, 1, absolute_band=1, jump=500, relative_jump=0.5),
        Variable("light_ppfd", "umol/m2/s", 0, 5_000, 1, absolute_band=1),
        Variable("light_intensity_white", "fraction", 0, 1, 3, is_output=True),
        Variable("light_intensity_red", "fraction", 0, 1, 3, is_output=True),
        Variable("light_intensity_blue", "fraction", 0, 1, 3, is_output=True),
        Variable("water_temperature", "degC", -5, 60, 2, absolute_band=0.1),
        Variable("water_potential_hydrogen", "pH", 0, 14, 2, absolute_band=0.02),
        Variable("water_electrical_conductivity", "mS/cm", 0, 20, 2, absolute_band=0.02),
        Variable("water_oxidation_reduction_potential", "mV", -2_000, 2_000, 0, absolute_band=2),
        Variable("water_dissolved_oxygen", "mg/L", 0, 50, 2, absolute_band=0.05),
        Variable("water_level_low", "switch", 0, 1, 0),
        Variable("water_level_high", "switch", 0, 1, 0),
        Variable("nutrient_flora_duo_a", "ml/h", 0, 10_000, 2, is_output=True),
        Variable("nutrient_flora_duo_b", "ml/h", 0, 10_000, 2, is_output=True),
        # names of openag_brain, for its recipes and clients: nothing in growd measures or drives them
        Variable("air_flush", "CFM", 0, 10_000, 1, is_output=True),
        Variable("air_oxygen", "percent", 0, 100, 2, absolute_band=0.05),
        # what a grower counts, measures and weighs: no sensor does
        Variable("plant_height", "cm", 0, 1_000, 1),
        Variable("plant_count", "plants", 0, 100_000, 0),
        Variable("leaf_count", "leaves", 0, 100_000, 0),
        Variable("water_added", "L", 0, 10_000, 3),
        Variable("harvest_fresh_mass", "g", 0, 100_000, 2),
        Variable("harvest_dry_mass", "g", 0, 100_000, 3),
        Variable("marker", "number", -1e9, 1e9, 3, is_output=True),
    )
}
