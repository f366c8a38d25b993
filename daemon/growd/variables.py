"""The table of environment variables: what is known of each, in one place."""

from __future__ import annotations

from math import inf
from typing import Final, Literal

import msgspec

from growd.runtime.text import most_like

ROOM_TEMPERATURE: Final = "room_temperature"
ROOM_HUMIDITY: Final = "room_humidity"
CARBON_DIOXIDE: Final = "air_carbon_dioxide"
TEMPERATURE: Final = "air_temperature"
HUMIDITY: Final = "air_humidity"
VAPOUR_PRESSURE_DEFICIT: Final = "air_vapour_pressure_deficit"
DEW_POINT: Final = "air_dew_point"
ABSOLUTE_HUMIDITY: Final = "air_absolute_humidity"
DEGREE_DAYS: Final = "air_growing_degree_days"
ILLUMINANCE: Final = "light_illuminance"
PPFD: Final = "light_ppfd"
AIR_PRESSURE: Final = "air_pressure"
DAILY_LIGHT_INTEGRAL: Final = "light_daily_integral"
EXPECTED_LIGHT_INTEGRAL: Final = "light_daily_integral_expected"
PHOTOPERIOD: Final = "light_photoperiod"
WATER_TEMPERATURE: Final = "water_temperature"
ACIDITY: Final = "water_potential_hydrogen"
CONDUCTIVITY: Final = "water_electrical_conductivity"
WATER_LEVEL: Final = "water_level"
DISSOLVED_OXYGEN: Final = "water_dissolved_oxygen"
SOIL_MOISTURE: Final = "soil_moisture"
CANOPY_COVER: Final = "canopy_cover"
CANOPY_GREENNESS: Final = "canopy_greenness"
VALVE: Final = "air_carbon_dioxide_valve_on"
FAN: Final = "air_flush_on"

AIR: Final = (TEMPERATURE, HUMIDITY)
"""What the state of the air is calculated from."""

SHARES: Final = (
    "air_heater", "air_cooler", "air_humidifier", "air_dehumidifier", "air_circulation",
    "water_heater", "water_cooler", "water_fill", "water_drain", "water_circulation", "water_aeration",
    "water_irrigation", *(f"auxiliary_{number}" for number in range(1, 9)),
)  # fmt: skip
"""The variables of outputs whose commands are shares of their full power, 0..1."""


class Variable(msgspec.Struct, frozen=True):
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
    ends: Literal["", "low", "high", "low high"] = ""
    """Of its range, where it can really be: "low" of light at night, "high" of the humidity of fog. At an
    end that is not named the sensor has reached its limit, or has no probe: there is no water of pH 0. Both
    are those of a calibration (dry and wet) or of a day; what is counted or weighed begins at 0."""

    derived_from: tuple[str, ...] = ()
    """The variables from which it is calculated, if nothing measures it."""

    @property
    def usual_band(self) -> float:
        """How far a steady value may wander, in `unit`."""
        return 5 * max(self.absolute_band, 10.0**-self.precision)

    @property
    def is_derived(self) -> bool:
        """Whether it is calculated from other variables, if nothing measures it."""
        return bool(self.derived_from)


def similar_variable(name: str) -> str:
    """The variable that was probably meant by an unknown name, "" for none."""
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    ending = [known for known in VARIABLES if known.endswith(f"_{name}")]
    return next(iter(ending or most_like(name, VARIABLES)), "")


SHORT_NAMES = {
    "co2": CARBON_DIOXIDE,
    "air_co2": CARBON_DIOXIDE,
    "temperature": TEMPERATURE,
    "humidity": HUMIDITY,
    "light": ILLUMINANCE,
    "lux": ILLUMINANCE,
    "vpd": VAPOUR_PRESSURE_DEFICIT,
    "dli": DAILY_LIGHT_INTEGRAL,
    "ppfd": PPFD,
    "ph": ACIDITY,
    "ec": CONDUCTIVITY,
}

VARIABLES: dict[str, Variable] = {
    variable.name: variable
    for variable in (
        Variable(CARBON_DIOXIDE, "ppm", 0, 40_000, 0, absolute_band=2, jump=150, relative_jump=0.2),
        Variable(TEMPERATURE, "degC", -40, 85, 2, absolute_band=0.1, jump=3),
        Variable(HUMIDITY, "percent", 0, 100, 1, absolute_band=0.5, jump=15, ends="high"),
        # the air that fans draw in
        Variable(ROOM_TEMPERATURE, "degC", -40, 85, 2, absolute_band=0.1, jump=3),
        Variable(ROOM_HUMIDITY, "percent", 0, 100, 1, absolute_band=0.5, jump=15, ends="high"),
        Variable(VALVE, "switch", 0, 1, 0, is_output=True),
        Variable(FAN, "switch", 0, 1, 0, is_output=True),
        Variable(ILLUMINANCE, "lux", 0, 200_000, 1, absolute_band=1, jump=500, relative_jump=0.5, ends="low"),
        Variable(AIR_PRESSURE, "hPa", 300, 1_100, 1, absolute_band=0.5, jump=5),
        Variable(VAPOUR_PRESSURE_DEFICIT, "kPa", 0, 60, 3, absolute_band=0.02, derived_from=AIR, ends="low"),
        Variable(DEW_POINT, "degC", -100, 85, 2, absolute_band=0.1, derived_from=AIR),
        Variable(ABSOLUTE_HUMIDITY, "g/m3", 0, 400, 2, absolute_band=0.1, derived_from=AIR),
        Variable(
            DEGREE_DAYS, "degC d", 0, 100_000, 2, absolute_band=0.1, derived_from=(TEMPERATURE,), ends="low"
        ),
        Variable(
            PPFD,
            "umol/m2/s",
            0,
            5_000,
            1,
            absolute_band=1,
            jump=10,
            relative_jump=0.5,
            ends="low",
            derived_from=(ILLUMINANCE,),
        ),
        *(
            Variable(name, "mol/m2", 0, 500, 2, absolute_band=band, derived_from=(PPFD,), ends="low")
            for name, band in ((DAILY_LIGHT_INTEGRAL, 0.05), (EXPECTED_LIGHT_INTEGRAL, 0.1))
        ),
        Variable(PHOTOPERIOD, "h", 0, 24, 2, absolute_band=0.05, derived_from=(PPFD,), ends="low high"),
        Variable("light_ultraviolet_index", "index", 0, 30, 1, absolute_band=0.1, ends="low"),
        Variable("door_open", "switch", 0, 1, 0),
        Variable(SOIL_MOISTURE, "percent", 0, 100, 1, absolute_band=0.5, ends="low high"),
        # what a camera sees of the leaves
        Variable(CANOPY_COVER, "percent", 0, 100, 1, absolute_band=0.2),
        Variable(CANOPY_GREENNESS, "fraction", 0, 1, 3, absolute_band=0.002),
        Variable("light_intensity_white", "fraction", 0, 1, 3, is_output=True),
        Variable("light_intensity_red", "fraction", 0, 1, 3, is_output=True),
        Variable("light_intensity_blue", "fraction", 0, 1, 3, is_output=True),
        Variable(WATER_TEMPERATURE, "degC", -5, 60, 2, absolute_band=0.1, jump=3),
        Variable(ACIDITY, "pH", 0, 14, 2, absolute_band=0.02),
        Variable(CONDUCTIVITY, "mS/cm", 0, 20, 2, absolute_band=0.02, ends="low"),
        Variable("water_oxidation_reduction_potential", "mV", -2_000, 2_000, 0, absolute_band=2),
        Variable(DISSOLVED_OXYGEN, "mg/L", 0, 50, 2, absolute_band=0.05, ends="low"),
        Variable("water_level_low", "switch", 0, 1, 0),
        Variable("water_level_high", "switch", 0, 1, 0),
        Variable(WATER_LEVEL, "percent", 0, 100, 1, absolute_band=0.5, ends="low high"),
        Variable("water_volume", "L", 0, 10_000, 2, absolute_band=0.05, ends="low high"),
        *(
            Variable(f"nutrient_{name}", "ml/h", 0, 10_000, 2, is_output=True)
            for name in ("a", "b", "c", "ph_up", "ph_down")
        ),
        Variable("nutrient_flora_duo_a", "ml/h", 0, 10_000, 2, is_output=True),
        Variable("nutrient_flora_duo_b", "ml/h", 0, 10_000, 2, is_output=True),
        # what else an output does, as a share of its full power
        *(Variable(name, "fraction", 0, 1, 3, is_output=True) for name in SHARES),
        # names of openag_brain, for its recipes and clients: nothing in growd measures or drives them
        Variable("air_flush", "CFM", 0, 10_000, 1, is_output=True),
        Variable("air_oxygen", "percent", 0, 100, 2, absolute_band=0.05, ends="low"),
        # what a grower counts, measures and weighs: no sensor does
        Variable("plant_height", "cm", 0, 1_000, 1, ends="low"),
        Variable("plant_count", "plants", 0, 100_000, 0, ends="low"),
        Variable("leaf_count", "leaves", 0, 100_000, 0, ends="low"),
        Variable("water_added", "L", 0, 10_000, 3, ends="low"),
        Variable("harvest_fresh_mass", "g", 0, 100_000, 2, ends="low"),
        Variable("harvest_dry_mass", "g", 0, 100_000, 3, ends="low"),
        Variable("marker", "number", -1e9, 1e9, 3, is_output=True),
    )
}


def usual_hysteresis(name: str, limit: float, *, is_upper: bool) -> float:
    """The hysteresis of a limit by default, in the unit of the variable; 0 for switches and outputs.

    It is what a steady value may wander, and at most half of the way to the end of the range, so that a value
    can return by it.
    """
    known = VARIABLES.get(name)
    if known is None or known.is_output or known.unit == "switch":
        return 0.0
    room = limit - known.minimum if is_upper else known.maximum - limit
    return max(0.0, min(max(known.usual_band, known.relative_band * abs(limit)), room / 2))


def hysteresis_of_band(name: str, low: float | None, high: float | None) -> float:
    """The same for limits on both sides: the smaller one, and at most a quarter of the band."""
    usual = [
        *([] if low is None else [usual_hysteresis(name, low, is_upper=False)]),
        *([] if high is None else [usual_hysteresis(name, high, is_upper=True)]),
        *([] if low is None or high is None else [max(0.0, high - low) / 4]),
    ]
    return min(usual, default=0.0)
