"""The interlocks of a chamber, as its configuration has them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from growd.control.interlocks.base import InputUnknown, Interlock, SensorReadings
from growd.control.interlocks.carbon_dioxide import (
    CarbonDioxideCeiling,
    DosePerHour,
    NoRise,
    StaysHigh,
    valve_open_too_long,
)
from growd.control.interlocks.conditions import Threshold, WhileBeyond
from growd.control.interlocks.heat import OverTemperature
from growd.control.interlocks.light import LightHours
from growd.control.interlocks.node import PATIENCE_S, Interlocks
from growd.control.interlocks.on_times import OnTimes
from growd.control.interlocks.sensor_calibrations import SensorCalibrations
from growd.output_roles import OutputClass
from growd.variables import CARBON_DIOXIDE, TEMPERATURE
from growd.wiring.output_interlocks import OutputInterlocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.hold import OutputHold
    from growd.control.interlocks.saved_states import Memory
    from growd.control.pumps import Pumps

_LEAST_PPM: Final = 150.0
"""Plants in light seldom leave less. A sensor that reads a tenth of 1000 ppm does."""
_LITTLE_S: Final = 60.0
_CEILING_HYSTERESIS_PPM: Final = 500.0
_VALVE_REST_S: Final = 60.0
_RISE_PPM: Final = 40.0
"""The smallest rise that an SCD30 shows beyond its noise (30 ppm + 3 %)."""
_LIGHT_HYSTERESIS_DEGC: Final = 2.0


def interlocks_of(
    chamber: Chamber,
    bus: Bus,
    memory: Memory,
    zone: tzinfo | None,
    *,
    hold: OutputHold | None,
    pumps: Pumps,
) -> Interlocks:
    """All interlocks of a chamber. `memory` keeps them over a restart; days begin in `zone` (None: local)."""
    needed = chamber.needed()
    conditional = {condition.variable for condition in chamber.options.condition}
    derived = sorted(conditional.intersection(chamber.derived))
    # a needed variable may have no sensor, if the driver of its sensor is not loaded
    known = {*chamber.measured, *needed, *conditional}
    readings = SensorReadings({variable: chamber.stale_after_s(variable) for variable in known})
    valves, fans, lamps = OnTimes(), OnTimes(), OnTimes()
    channels = {channel: OnTimes() for channel in chamber.lamp_channels}
    outputs = OutputInterlocks(chamber, readings, channels, lamps, pumps)
    made = [*outputs.first(), *_of_valve(chamber, valves, fans, readings)]
    made += [*_of_lamp(chamber, lamps, readings, zone), *outputs.others()]
    made += [InputUnknown(readings, variable, several) for variable, several in needed.items()]
    # the last, since its command for the fan overrides the others
    made += _ceiling(chamber, valves, readings)
    used = {variable for each in made for variable in each.reads}
    judged = [variable for variable in chamber.measured if variable in used]
    interlocks = Interlocks(
        bus,
        chamber.environment,
        made,
        readings,
        sensors={name: chamber.sensor_names(name) if name in chamber.shared else () for name in judged},
        derived=derived,
        memory=memory,
        patience_s=PATIENCE_S,
        outputs=(*chamber.lamp_channels, *chamber.own_variables),
        drives=_raised(chamber),
        hold=hold,
        pumps=pumps,
    )
    interlocks.track(valves, _that_raise_carbon_dioxide(chamber))
    interlocks.track(fans, _fans(chamber))
    interlocks.track(lamps, chamber.lamp_channels)
    for channel, times in channels.items():
        interlocks.track(times, [channel])
    outputs.track(interlocks)
    ceiling = next((each for each in made if isinstance(each, CarbonDioxideCeiling)), None)
    doses = next((each for each in made if isinstance(each, DosePerHour)), None)
    if ceiling is not None:
        interlocks.calibrations = SensorCalibrations(interlocks, bus.clock, ceiling, doses)
    return interlocks


def _raised(chamber: Chamber) -> dict[str, set[str]]:
    """The variables whose set points an own variable of outputs raises."""
    return {
        each.own_variable: {variable for variable, raises in each.effects.items() if raises}
        for each in chamber.outputs
    }


def _that_raise_carbon_dioxide(chamber: Chamber) -> frozenset[str]:
    """The own variables of valves, and of all else that raises CO2."""
    raising = (each for each in chamber.outputs if each.effects.get(CARBON_DIOXIDE))
    return frozenset(each.own_variable for each in raising)


def _fans(chamber: Chamber) -> frozenset[str]:
    """The own variables of exhaust fans."""
    return frozenset(each.own_variable for each in chamber.outputs_of(OutputClass.FAN))


def _of_valve(
    chamber: Chamber, times: OnTimes, fans: OnTimes, readings: SensorReadings
) -> Iterator[Interlock]:
    limits, holds = chamber.options.interlock, _that_raise_carbon_dioxide(chamber)
    if not holds:
        return
    yield valve_open_too_long(times, limits.valve_open_s, _VALVE_REST_S, holds)
    yield DosePerHour(times, limits.dose_s, limits.valve_flow_l_min, holds)
    if CARBON_DIOXIDE in chamber.measured:
        open_s = limits.no_rise_open_s
        yield NoRise(times, readings, open_s=open_s, rise_ppm=_RISE_PPM, fans=fans, holds=holds)
        yield _too_little(readings, holds)


def _too_little(readings: SensorReadings, holds: frozenset[str]) -> Interlock:
    """A sensor that reads less CO2 than plants leave is not in order."""
    little = Threshold(
        CARBON_DIOXIDE,
        partial(readings.combined, CARBON_DIOXIDE),
        below=_LEAST_PPM,
        hysteresis=_LEAST_PPM / 5,
        unit="ppm",
    )
    return WhileBeyond(
        "carbon_dioxide_too_low",
        holds,
        [little],
        after_s=_LITTLE_S,
        holds_unknown=False,
        failure="let fresh air in, which has 420 ppm; if it still reads less, check the sensor",
    )


def _of_lamp(
    chamber: Chamber, times: OnTimes, readings: SensorReadings, zone: tzinfo | None
) -> Iterator[Interlock]:
    limits, channels = chamber.options.interlock, chamber.lamp_channels
    if channels and TEMPERATURE in chamber.measured:
        yield OverTemperature(
            "light_over_temperature",
            channels,
            readings,
            TEMPERATURE,
            limit_degc=limits.light_off_degc,
            hysteresis_degc=_LIGHT_HYSTERESIS_DEGC,
            subject="light",
            by_any=False,
        )
    if channels:
        yield LightHours(times, channels, limits.light_hours, zone)


def _ceiling(chamber: Chamber, valves: OnTimes, readings: SensorReadings) -> Iterator[Interlock]:
    limits = chamber.options.interlock
    fans, raising = _fans(chamber), _that_raise_carbon_dioxide(chamber)
    limit = limits.ceiling_ppm, _CEILING_HYSTERESIS_PPM
    if CARBON_DIOXIDE in chamber.measured and raising:
        yield StaysHigh(readings, valves, raising, *limit)
    if CARBON_DIOXIDE in chamber.measured and raising | fans:
        sensors = chamber.sensor_names(CARBON_DIOXIDE)
        yield CarbonDioxideCeiling(readings, raising, *limit, sensors=sensors, fans=fans)
