"""The interlocks of a chamber, as its configuration has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from growd.control.interlocks.base import InputUnknown, Interlock, SensorReadings
from growd.control.interlocks.carbon_dioxide import (
    CarbonDioxideCeiling,
    DosePerHour,
    NoRise,
    valve_open_too_long,
)
from growd.control.interlocks.light import LightHours, LightOverTemperature
from growd.control.interlocks.node import PATIENCE_S, Interlocks
from growd.control.interlocks.on_times import OnTimes
from growd.control.interlocks.sensor_calibrations import SensorCalibrations
from growd.variables import CARBON_DIOXIDE, FAN, TEMPERATURE, VALVE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.hold import OutputHold
    from growd.control.interlocks.saved_states import Memory


def interlocks_of(
    chamber: Chamber, bus: Bus, memory: Memory, zone: tzinfo | None, hold: OutputHold | None = None
) -> Interlocks:
    """All interlocks of a chamber. `memory` keeps them over a restart; days begin in `zone` (None: local)."""
    needed = chamber.needed()
    used = {CARBON_DIOXIDE, TEMPERATURE, *needed} if chamber.lamp_channels or chamber.own_variables else set()
    judged = [variable for variable in chamber.measured if variable in used]
    # a needed variable may have no sensor, if the driver of its sensor is not loaded
    readings = SensorReadings({variable: chamber.stale_after_s(variable) for variable in {*judged, *needed}})
    valves, fans, lamps = OnTimes(), OnTimes(), OnTimes()
    made = [*_of_valve(chamber, valves, fans, readings), *_of_lamp(chamber, lamps, readings, zone)]
    made += [InputUnknown(readings, variable, outputs) for variable, outputs in needed.items()]
    made += _ceiling(chamber, readings)  # the last, since its command for the fan overrides the others
    interlocks = Interlocks(
        bus,
        chamber.environment,
        made,
        readings,
        sensors={name: chamber.sensor_names(name) if name in chamber.shared else () for name in judged},
        memory=memory,
        patience_s=chamber.scaled(PATIENCE_S),
        outputs=(*chamber.lamp_channels, *chamber.own_variables),
        hold=hold,
    )
    interlocks.track(valves, [VALVE])
    interlocks.track(fans, [FAN])
    interlocks.track(lamps, chamber.lamp_channels)
    ceiling = next((each for each in made if isinstance(each, CarbonDioxideCeiling)), None)
    doses = next((each for each in made if isinstance(each, DosePerHour)), None)
    if ceiling is not None:
        interlocks.calibrations = SensorCalibrations(interlocks, bus.clock, ceiling, doses)
    return interlocks


def _of_valve(
    chamber: Chamber, times: OnTimes, fans: OnTimes, readings: SensorReadings
) -> Iterator[Interlock]:
    limits = chamber.options.interlock
    if VALVE not in chamber.own_variables:
        return
    yield valve_open_too_long(times, limits.valve_open_s, limits.valve_rest_s)
    yield DosePerHour(times, limits.dose_limit_s, limits.valve_flow_l_min)
    if CARBON_DIOXIDE in chamber.measured:
        yield NoRise(times, readings, open_s=limits.no_rise_open_s, rise_ppm=limits.no_rise_ppm, fans=fans)


def _of_lamp(
    chamber: Chamber, times: OnTimes, readings: SensorReadings, zone: tzinfo | None
) -> Iterator[Interlock]:
    limits, channels = chamber.options.interlock, chamber.lamp_channels
    if channels and TEMPERATURE in chamber.measured:
        yield LightOverTemperature(readings, channels, limits.light_off_degc, limits.light_hysteresis_degc)
    if channels:
        yield LightHours(times, channels, limits.light_hours, zone)


def _ceiling(chamber: Chamber, readings: SensorReadings) -> Iterator[Interlock]:
    limits = chamber.options.interlock
    held = chamber.own_variables & ({VALVE, FAN} if limits.ceiling_starts_fan else {VALVE})
    if CARBON_DIOXIDE in chamber.measured and held:
        sensors = chamber.sensor_names(CARBON_DIOXIDE)
        yield CarbonDioxideCeiling(readings, held, limits.ceiling_ppm, limits.ceiling_hysteresis_ppm, sensors)
