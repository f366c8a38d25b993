"""Valid options that are probably a mistake. growd warns about them and starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from growd.config.chamber import chambers_of
from growd.config.control import InterlockOptions
from growd.config.findings import Finding
from growd.config.outputs import IN_THE_NETWORK, ON_A_PIN
from growd.device_kinds import SENSOR_KINDS
from growd.output_roles import ROLES, OutputClass
from growd.variables import (
    CARBON_DIOXIDE,
    FAN,
    TEMPERATURE,
    VALVE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
    hysteresis_of_band,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.devices import Sensor
    from growd.config.findings import Doubt, OptionPath, Source
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

_COOLERS: Final = ("air_cooler", "air_dehumidifier")
_FAN_NAME: Final = re.compile("exhaust|extract|vent|fan", re.IGNORECASE)

_LEAST_FOR_A_MEDIAN: Final = 3
_MOST_OF_A_BUS: Final = 0.5


def _high_limits(config: Config, _: Source) -> Iterator[Finding]:
    """Limits of interlocks far above their defaults, where there is an output that they protect from."""
    for chamber in chambers_of(config):
        limits = chamber.options.interlock
        doubtful = {"light_off_degc": _HOT_DEGC} if chamber.lamp_channels else {}
        if VALVE in chamber.own_variables:
            doubtful |= _DOUBTFUL_FROM
        for output in chamber.outputs:
            doubtful |= _DOUBTFUL_OF.get(output.first_moved, {})
        for option, most in doubtful.items():
            value, default = getattr(limits, option), getattr(InterlockOptions(), option)
            if value >= most:
                reason = f"{value:g} is far above the default of {default:g}; set it below {most:g}"
                yield Finding(chamber.path("interlock", option), reason)


def _unguarded_valves(config: Config, _: Source) -> Iterator[Finding]:
    """Valves for CO2 that may be open while CO2 is not known."""
    for chamber in chambers_of(config):
        for path, output in chamber.outputs_by_path.items():
            if not output.is_a(OutputClass.VALVE) or output.needs in (None, CARBON_DIOXIDE):
                continue
            if CARBON_DIOXIDE in chamber.measured:
                reason = f"{output.name} may be open while {CARBON_DIOXIDE} is not known; remove needs"
            else:
                reason = (
                    f"no sensor measures {CARBON_DIOXIDE}, so no ceiling closes {output.name}; add a "
                    "[[sensor]] for it, and remove needs"
                )
            yield Finding((*path, "needs"), reason)


def _without_timer(config: Config, _: Source) -> Iterator[Finding]:
    """Outputs of other packages or programs that stay on when growd hangs."""
    for chamber in chambers_of(config):
        for path, output in chamber.outputs_by_path.items():
            if output.kind in (*ON_A_PIN, *IN_THE_NETWORK) or output.has_timer or output.may_stay_on:
                continue
            reason = (
                f"{output.name} stays on if growd hangs, since its device has no timer; take a pin, a Shelly "
                "or Tasmota device, or a driver with timer_s or takes_valid_s, or set may_stay_on = true"
            )
            yield Finding((*path, "kind"), reason)


def _self_calibrations(config: Config, _: Source) -> Iterator[Finding]:
    """CO2 sensors that calibrate themselves, where a valve raises the CO2."""
    for chamber in chambers_of(config):
        for number, sensor in enumerate(chamber.options.sensor):
            if sensor.self_calibration and VALVE in chamber.own_variables:
                reason = (
                    f"{sensor.name} treats the lowest CO2 of a day or week as fresh air, which hides CO2 "
                    "from the interlocks in a closed chamber; set it to false"
                )
                yield Finding(chamber.path("sensor", number, "self_calibration"), reason)


def _odd_addresses(config: Config, _: Source) -> Iterator[Finding]:
    """I2C addresses that a sensor of this kind does not have."""
    for chamber in chambers_of(config):
        for number, sensor in enumerate(chamber.options.sensor):
            known = SENSOR_KINDS[sensor.kind].addresses
            if known and sensor.i2c_address not in known:
                usual = " or ".join(f"0x{address:02X}" for address in known)
                reason = f"{sensor.name} is at 0x{sensor.address:02X}, but a {sensor.kind} has {usual}"
                reason += "; correct it, unless the bus has an address translator"
                yield Finding(chamber.path("sensor", number, "address"), reason)


def _busy_lines(config: Config, _: Source) -> Iterator[Finding]:
    """Slow sensors that occupy a bus for most of the time, so that others on it are read late."""
    reads: dict[str, list[tuple[OptionPath, Sensor, float]]] = {}
    for chamber in chambers_of(config):
        for number, sensor in enumerate(chamber.options.sensor):
            if (read_s := SENSOR_KINDS[sensor.kind].read_s) > 0:
                path = chamber.path("sensor", number, "interval_s")
                reads.setdefault(sensor.line, []).append((path, sensor, read_s))
    for line, slow in reads.items():
        share = sum(read_s / sensor.interval_s for _, sensor, read_s in slow)
        if share > _MOST_OF_A_BUS:
            path, sensor, read_s = max(slow, key=lambda each: each[2] / each[1].interval_s)
            reason = (
                f"a reading of {sensor.name} takes {read_s:g} s, and the slow sensors on {line} take "
                f"{share:.0%} of its time; set their interval_s to 10 or more"
            )
            yield Finding(path, reason)


def _empty_chambers(config: Config, _: Source) -> Iterator[Finding]:
    """Further environments without a device."""
    for chamber in chambers_of(config)[1:]:
        if not (chamber.options.sensor or chamber.outputs or chamber.light.enabled):
            example = f"[[chamber.{chamber.environment}.sensor]]"
            reason = f"has no sensor, lamp or output; add one, such as {example}"
            yield Finding(("chamber", chamber.environment), reason)


def shared_pwm(config: Config, _: Source) -> Iterator[Finding]:
    """Pins that most models of the Pi can't dim independently; growd would not start there."""
    pins = {pin for chamber in chambers_of(config) for pin in chamber.pwm_pins}
    for pair in _ONE_PWM:
        if pair <= pins:
            both = " and ".join(f"GPIO {pin}" for pin in sorted(pair))
            reason = f"{both} share one PWM channel on a Raspberry Pi 1 to 4; move one of them to another pin"
            yield Finding(("light", "hardware_pwm"), reason)


def _median_of_two(config: Config, _: Source) -> Iterator[Finding]:
    """A median of two sensors, of which neither can outvote the other: the first one counts."""
    for chamber in chambers_of(config):
        for variable, method in chamber.options.combine.items():
            if method == "median" and len(chamber.sensors_of(variable)) < _LEAST_FOR_A_MEDIAN:
                reason = 'with two sensors the first one counts; add a third for a median, or set "first"'
                yield Finding(chamber.path("combine", variable), reason)


def _fans_as_coolers(config: Config, _: Source) -> Iterator[Finding]:
    """Exhaust fans that are taken for coolers or dehumidifiers, the usual outputs that lower a variable."""
    for chamber in chambers_of(config):
        for path, output in chamber.outputs_by_path.items():
            is_fan = CARBON_DIOXIDE in output.drives or _FAN_NAME.search(output.name)
            if output.variable is None and output.own_variable in _COOLERS and is_fan:
                reason = (
                    f"is missing, so {output.name} is a {ROLES[output.own_variable].name}, and no exhaust "
                    f'fan for the interlocks of CO2; set variable = "{FAN}", or "{output.own_variable}"'
                )
                yield Finding((*path, "variable"), reason)


def _unmixed_doses(config: Config, source: Source) -> Iterator[Finding]:
    """Dosing pumps for a tank whose water no pump moves, with the usual mixing pause."""
    for chamber in chambers_of(config):
        path = chamber.path("interlock", "mixing_pause_s")
        dosing = chamber.outputs_of(OutputClass.DOSING)
        if dosing and "water_circulation" not in chamber.own_variables and not _is_given(source, path):
            pause_s = chamber.options.interlock.mixing_pause_s
            reason = (
                f"no output circulates the water, so a dose of {dosing[0].name} may need longer than the "
                f"default of {pause_s:g} s to mix, and the next one comes too soon; add an output for "
                "water_circulation, or set it, such as to 1800"
            )
            yield Finding(path, reason)


def _unknown_filling(config: Config, _: Source) -> Iterator[Finding]:
    """Filling valves whose volume growd cannot count, so that the room in the tank does not limit them."""
    for chamber in chambers_of(config):
        for path, output in chamber.outputs_by_path.items():
            fills = output.effects.get(WATER_LEVEL) and WATER_LEVEL in chamber.measured
            if fills and output.flow_ml_min is None:
                reason = (
                    f"is missing, so {output.name} fills without regard to the room in the tank until the "
                    "level sensor says that it is full; set it, such as to 2000"
                )
                yield Finding((*path, "flow_ml_min"), reason)


def _chattering_conditions(config: Config, _: Source) -> Iterator[Finding]:
    """Conditions with a hysteresis that a steady value may pass."""
    for chamber in chambers_of(config):
        for number, each in enumerate(chamber.options.condition):
            usual = hysteresis_of_band(each.variable, each.below, each.above)
            if each.hysteresis is not None and each.hysteresis < usual:
                reason = (
                    f"{each.hysteresis:g} is less than a steady value may wander, {usual:.3g} "
                    f"{VARIABLES[each.variable].unit}, so it may begin and end all the time"
                )
                yield Finding(chamber.path("condition", number, "hysteresis"), reason)


def _is_given(source: Source, path: OptionPath) -> bool:
    """Whether the file or an environment variable sets an option."""
    values: Any = source.values
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return False
        values = values[part]
    return True


DOUBTS: Final[tuple[Doubt, ...]] = (
    _high_limits,
    _unguarded_valves,
    _without_timer,
    _self_calibrations,
    _odd_addresses,
    _busy_lines,
    _empty_chambers,
    shared_pwm,
    _median_of_two,
    _fans_as_coolers,
    _unmixed_doses,
    _unknown_filling,
    _chattering_conditions,
)
