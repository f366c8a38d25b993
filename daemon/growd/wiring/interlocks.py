"""The interlocks of a chamber, as its configuration has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.control.interlocks.base import InputUnknown, Interlock, SensorReadings
from growd.control.interlocks.light import LightHours
from growd.control.interlocks.node import Interlocks
from growd.output_roles import OutputClass
from growd.variables import CARBON_DIOXIDE, TEMPERATURE
from growd.wiring.interlock_inputs import InterlockInputs, own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.bus import Bus
    from growd.config import Chamber
    from growd.control.hold import OutputHold
    from growd.control.interlocks.saved_states import Memory
    from growd.control.pumps import Pumps
    from growd.wiring.output_interlocks import OutputInterlocks
    from growd.wiring.valve_interlocks import ValveInterlocks

# A chamber imports only the interlocks of what it has.

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
    inputs = InterlockInputs(chamber, readings, pumps)
    outputs, valves = _of_outputs(inputs), _of_valves(inputs)
    made: list[Interlock] = [] if outputs is None else [*outputs.first()]
    made += [] if valves is None else valves.of_doses()
    made += _of_lamp(inputs, zone)
    made += [] if outputs is None else outputs.others()
    made += [InputUnknown(readings, variable, several) for variable, several in needed.items()]
    # the last, since its command for the fan overrides the others
    made += [] if valves is None else valves.ceiling()
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
        outputs=(*chamber.lamp_channels, *chamber.own_variables),
        drives=_raised(chamber),
        hold=hold,
        pumps=pumps,
    )
    inputs.track(interlocks)
    if valves is not None:
        valves.judge_calibrations(interlocks, bus.clock)
    return interlocks


def _of_outputs(inputs: InterlockInputs) -> OutputInterlocks | None:
    if not (inputs.chamber.outputs or inputs.chamber.options.condition):
        return None
    from growd.wiring.output_interlocks import OutputInterlocks  # noqa: PLC0415

    return OutputInterlocks(inputs)


def _of_valves(inputs: InterlockInputs) -> ValveInterlocks | None:
    """Those of valves and of all else that raises CO2, and of exhaust fans."""
    outputs = inputs.chamber.outputs
    raising = own(each for each in outputs if each.effects.get(CARBON_DIOXIDE))
    fans = own(each for each in outputs if each.is_a(OutputClass.FAN))
    if not raising | fans:
        return None
    from growd.wiring.valve_interlocks import ValveInterlocks  # noqa: PLC0415

    return ValveInterlocks(inputs, raising, fans)


def _raised(chamber: Chamber) -> dict[str, set[str]]:
    """The variables whose set points an own variable of outputs raises."""
    return {
        each.own_variable: {variable for variable, raises in each.effects.items() if raises}
        for each in chamber.outputs
    }


def _of_lamp(inputs: InterlockInputs, zone: tzinfo | None) -> Iterator[Interlock]:
    limits, channels = inputs.limits, inputs.chamber.lamp_channels
    if channels and TEMPERATURE in inputs.chamber.measured:
        from growd.control.interlocks.heat import OverTemperature  # noqa: PLC0415

        yield OverTemperature(
            "light_over_temperature",
            channels,
            inputs.readings,
            TEMPERATURE,
            limit_degc=limits.light_off_degc,
            hysteresis_degc=_LIGHT_HYSTERESIS_DEGC,
            subject="light",
            by_any=False,
        )
    if channels:
        yield LightHours(inputs.times(channels), channels, limits.light_hours, zone)
