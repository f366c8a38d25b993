"""The true values that sensors of any variable measure in a simulated chamber."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from growd.variables import AIR_PRESSURE, CARBON_DIOXIDE, HUMIDITY, ILLUMINANCE, TEMPERATURE
from growd_hwsim.chips.bme280 import PRESSURE_HPA

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.config import Chamber, Sensor
    from growd_hwsim.chamber import SimulatedChamber
    from growd_hwsim.hardware import SimulatedHardware, Truth

_LOW_PERCENT: Final = 20.0
_HIGH_PERCENT: Final = 90.0

TRUTHS: Final[dict[str, Callable[[SimulatedChamber], float]]] = {
    CARBON_DIOXIDE: lambda chamber: chamber.air().carbon_dioxide_ppm,
    TEMPERATURE: lambda chamber: chamber.air().temperature_degc,
    HUMIDITY: lambda chamber: chamber.air().humidity_percent,
    AIR_PRESSURE: lambda _: PRESSURE_HPA,
    "room_temperature": lambda chamber: chamber.parameters.ambient_temperature_degc,
    "room_humidity": lambda chamber: chamber.parameters.ambient_humidity_percent,
    ILLUMINANCE: lambda chamber: chamber.illuminance_lux(),
    "light_ppfd": lambda chamber: chamber.ppfd_umol_m2_s(),
    "water_temperature": lambda chamber: chamber.water().temperature_degc,
    "water_potential_hydrogen": lambda chamber: chamber.water().potential_hydrogen,
    "water_electrical_conductivity": lambda chamber: chamber.water().conductivity_ms_cm,
    "water_dissolved_oxygen": lambda chamber: chamber.water().dissolved_oxygen_mg_l,
    "water_level": lambda chamber: chamber.water().level_percent,
    "water_level_low": lambda chamber: chamber.water().level_percent < _LOW_PERCENT,
    "water_level_high": lambda chamber: chamber.water().level_percent > _HIGH_PERCENT,
    "water_volume": lambda chamber: chamber.water().volume_l,
    "soil_moisture": lambda chamber: chamber.soil_moisture_percent(),
    "door_open": lambda chamber: chamber.is_door_open(),
}
"""The true value of each variable that a simulated chamber has."""


def truth_of(sensor: Sensor, chamber: Chamber) -> Truth:
    """The true value of the variable of a sensor, 0 for one that the chamber does not have.

    For a sensor that confirms an output: the level at which its part of the chamber really works, with its
    faults, or else the level of its pin.
    """
    for output in chamber.outputs:
        if output.name == sensor.confirms and output.role is not None and output.role.moves:
            return partial(_works, output.role.moves)
        if output.name == sensor.confirms and output.pin is not None:
            return partial(_state, output.pin, output.active == "high")
    (variable,) = sensor.fields.values()
    return truth_at(variable)


def truth_at(variable: str) -> Truth:
    """The true value of a variable, 0 for one that the chamber does not have."""
    return partial(_truth, variable)


def _truth(variable: str, _: SimulatedHardware, chamber: SimulatedChamber) -> float:
    return float(TRUTHS[variable](chamber)) if variable in TRUTHS else 0.0


def _works(part: str, _: SimulatedHardware, chamber: SimulatedChamber) -> float:
    """Whether a part of the chamber works, with its faults, as a contact or a current sensor sees it."""
    return float(chamber.level(part) > 0)


def _state(pin: int, active_high: bool, machine: SimulatedHardware, _: SimulatedChamber) -> float:  # noqa: FBT001
    return float((machine.pins.high(pin) > 0) == active_high)
