"""Valid options that are probably a mistake. growd warns about them and starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from growd.config.chamber import chambers_of
from growd.config.control import InterlockOptions
from growd.config.findings import Finding, at
from growd.config.outputs import IN_THE_NETWORK, ON_A_PIN
from growd.device_kinds import SENSOR_KINDS, with_article
from growd.output_roles import ROLES, OutputClass
from growd.variables import (
    CARBON_DIOXIDE,
    FAN,
    HUMIDITY,
    TEMPERATURE,
    VALVE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
    hysteresis_of_band,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber
    from growd.config.conditions import Condition
    from growd.config.devices import Sensor
    from growd.config.findings import Fault, OptionPath, Source
    from growd.config.outputs import Output
    from growd.config.reading import Doubt
    from growd.config.root import Config

_DOUBTFUL_FROM: Final = {
    "ceiling_ppm": 10_000.0,
    "valve_open_s": 1_200.0,
    "dose_s": 3_600.0,
    "no_rise_open_s": 1_800.0,
}
"""From these values on, a limit of the valve gives hardly any protection."""

_DOUBTFUL_OF: Final = {
    (TEMPERATURE, "raises"): {"heater_off_degc": 55.0},
    (WATER_TEMPERATURE, "raises"): {"water_heater_off_degc": 45.0},
}
"""The same by what an output drives."""

_HOT_DEGC: Final = 50.0  # no crop grows there

_ONE_PWM: Final = ({12, 18}, {13, 19})
"""Pins that share one PWM channel on a Raspberry Pi 1 to 4 (BCM2711 ARM Peripherals, section 5.3)."""

_FAN_NAME: Final = re.compile("exhaust|extract|vent|fan", re.IGNORECASE)

_LEAST_FOR_A_MEDIAN: Final = 3
_MOST_OF_A_BUS: Final = 0.5


def _of_chambers(config: Config, source: Source) -> Iterator[Finding]:
    for number, chamber in enumerate(chambers_of(config)):
        if number and not (chamber.options.sensor or chamber.outputs or chamber.light.enabled):
            name = chamber.environment
            reason = f"has no sensor, lamp or output; add one, such as [[chamber.{name}.sensor]]"
            yield Finding(("chamber", name), reason)
        yield from at(chamber.path("interlock"), _of_limits(chamber, source))
        for place, sensor in enumerate(chamber.options.sensor):
            yield from at(chamber.path("sensor", place), _of_sensor(chamber, sensor))
        for path, output in chamber.outputs_by_path.items():
            yield from at(path, _of_output(chamber, output))
        for place, condition in enumerate(chamber.options.condition):
            yield from at(chamber.path("condition", place), _of_condition(condition))
        for variable, method in chamber.options.combine.items():
            if method == "median" and len(chamber.sensors_of(variable)) < _LEAST_FOR_A_MEDIAN:
                reason = 'with two sensors the first one counts; add a third for a median, or set "first"'
                yield Finding(chamber.path("combine", variable), reason)


def _of_limits(chamber: Chamber, source: Source) -> Iterator[Fault]:
    """Limits far above their defaults, where there is an output from which they protect."""
    limits = chamber.options.interlock
    doubtful = {"light_off_degc": _HOT_DEGC} if chamber.lamp_channels else {}
    if VALVE in chamber.own_variables:
        doubtful |= _DOUBTFUL_FROM
    for output in chamber.outputs:
        doubtful |= _DOUBTFUL_OF.get(output.first_moved, {})
    for option, most in doubtful.items():
        value, default = getattr(limits, option), getattr(InterlockOptions(), option)
        if value >= most:
            yield option, f"{value:g} is far above the default of {default:g}; set it below {most:g}"
    pumps, is_still = chamber.outputs_of(OutputClass.DOSING), "water_circulation" not in chamber.own_variables
    if pumps and is_still and not _is_given(source, chamber.path("interlock", "mixing_pause_s")):
        reason = (
            f"no output circulates the water, so a dose of {pumps[0].name} may need longer than the "
            f"default of {limits.mixing_pause_s:g} s to mix, and the next one comes too soon; add an output "
            "for water_circulation, or set it, such as to 1800"
        )
        yield "mixing_pause_s", reason


def _of_sensor(chamber: Chamber, sensor: Sensor) -> Iterator[Fault]:
    if sensor.self_calibration and VALVE in chamber.own_variables:
        reason = (
            f"{sensor.name} treats the lowest CO2 of a day or week as fresh air, which hides CO2 "
            "from the interlocks in a closed chamber; set it to false"
        )
        yield "self_calibration", reason
    known = SENSOR_KINDS[sensor.kind].addresses
    if known and sensor.i2c_address not in known:
        usual = " or ".join(f"0x{address:02X}" for address in known)
        reason = f"{sensor.name} is at 0x{sensor.address:02X}, but {with_article(sensor.kind)} has {usual}"
        yield "address", f"{reason}; correct it, unless the bus has an address translator"


def _of_output(chamber: Chamber, output: Output) -> Iterator[Fault]:
    if output.is_a(OutputClass.VALVE) and output.needs not in (None, CARBON_DIOXIDE):
        reason = f"{output.name} may be open while {CARBON_DIOXIDE} is not known; remove needs"
        if CARBON_DIOXIDE not in chamber.measured:
            reason = (
                f"no sensor measures {CARBON_DIOXIDE}, so no ceiling closes {output.name}; add a "
                "[[sensor]] for it, and remove needs"
            )
        yield "needs", reason
    is_known = output.kind in (*ON_A_PIN, *IN_THE_NETWORK)
    if not (is_known or output.has_timer or output.may_stay_on):  # of another package or program
        reason = (
            f"{output.name} stays on if growd hangs, since its device has no timer; take a pin, a Shelly "
            "or Tasmota device, or a driver with timer_s or takes_valid_s, or set may_stay_on = true"
        )
        yield "kind", reason
    is_fan = CARBON_DIOXIDE in output.drives or _FAN_NAME.search(output.name)
    cools = output.is_a(OutputClass.COOLER, OutputClass.DEHUMIDIFIER)
    of_air = not {TEMPERATURE, HUMIDITY}.isdisjoint(output.effects)
    if output.variable is None and cools and of_air and is_fan:
        reason = (
            f"is missing, so {output.name} is a {ROLES[output.own_variable].name}, and no exhaust "
            f'fan for the interlocks of CO2; set variable = "{FAN}", or "{output.own_variable}"'
        )
        yield "variable", reason
    fills = output.effects.get(WATER_LEVEL) and WATER_LEVEL in chamber.measured
    if fills and output.flow_ml_min is None:
        reason = (
            f"is missing, so {output.name} fills without regard to the room in the tank until the "
            "level sensor says that it is full; set it, such as to 2000"
        )
        yield "flow_ml_min", reason


def _of_condition(condition: Condition) -> Iterator[Fault]:
    """A hysteresis that a steady value may pass."""
    usual = hysteresis_of_band(condition.variable, condition.below, condition.above)
    if condition.hysteresis is not None and condition.hysteresis < usual:
        reason = (
            f"{condition.hysteresis:g} is less than a steady value may wander, {usual:.3g} "
            f"{VARIABLES[condition.variable].unit}, so it may begin and end all the time"
        )
        yield "hysteresis", reason


def _busy_lines(config: Config, _: Source) -> Iterator[Finding]:
    """Slow sensors that occupy a bus for most of the time, so that others on it are read late."""
    reads: dict[str, list[tuple[float, OptionPath, Sensor]]] = {}
    for chamber in chambers_of(config):
        for number, sensor in enumerate(chamber.options.sensor):
            path, read_s = chamber.path("sensor", number, "interval_s"), SENSOR_KINDS[sensor.kind].read_s
            if read_s > 0:
                reads.setdefault(sensor.line, []).append((read_s / sensor.interval_s, path, sensor))
    for line, slow in reads.items():
        share = sum(each for each, _, _ in slow)
        if share > _MOST_OF_A_BUS:
            path, sensor = max(slow, key=lambda each: each[0])[1:]
            reason = (
                f"a reading of {sensor.name} takes {SENSOR_KINDS[sensor.kind].read_s:g} s, and the slow "
                f"sensors on {line} take {share:.0%} of its time; set their interval_s to 10 or more"
            )
            yield Finding(path, reason)


def shared_pwm(config: Config, _: Source) -> Iterator[Finding]:
    """Pins that most models of the Pi can't dim independently; growd would not start there."""
    pins = {pin for chamber in chambers_of(config) for pin in chamber.pwm_pins}
    for pair in _ONE_PWM:
        if pair <= pins:
            both = " and ".join(f"GPIO {pin}" for pin in sorted(pair))
            reason = f"{both} share one PWM channel on a Raspberry Pi 1 to 4; move one of them to another pin"
            yield Finding(("light", "kind"), reason)


def _is_given(source: Source, path: OptionPath) -> bool:
    """Whether the file or an environment variable sets an option."""
    values: Any = source.values
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


DOUBTS: Final[tuple[Doubt, ...]] = (_of_chambers, _busy_lines, shared_pwm)
