"""Checks of sensors, lamps and relays: conflicts between them, and options that do not go together."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from growd.config.chamber import chambers_of
from growd.config.control_checks import faults_of_conditions, loop_faults
from growd.config.devices import Light, Sensor
from growd.config.findings import Finding, at, once
from growd.config.outputs import PWM_PINS, SOFTWARE_PWM_HZ
from growd.config.sensor_checks import KINDS_WITH, no_variable, sensor_faults, shared_places
from growd.output_roles import ON_FROM
from growd.variables import FAN, ILLUMINANCE, VALVE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber
    from growd.config.findings import Fault, OptionPath
    from growd.config.root import Config

_I2C_PINS: Final = {0: (0, 1), 1: (2, 3)}
"""SDA and SCL (BCM) of the I2C buses on a Raspberry Pi's header."""

_UART_PINS: Final = (14, 15)
_UARTS: Final = ("/dev/serial0", "/dev/ttyAMA0", "/dev/ttyS0")
"""Names of the serial port on the header's pins (TXD and RXD, BCM), by model and settings."""

_DEFAULT_RANGE_PPM: Final = 10_000
"""As `growd_drivers.mhz19.DEFAULT_RANGE_PPM`."""

_OF_DIMMING: Final = ("frequency_hz", "minimum_duty", "gamma", "ramp_s")
_DIMMED: Final = Light()


def device_conflicts(config: Config) -> Iterator[Finding]:
    """Devices with one name or on one pin. The rest of the file may be wrong."""
    for chamber in chambers_of(config):
        yield from _names(chamber)
    yield from _pins(config)


def device_inconsistencies(config: Config) -> Iterator[Finding]:
    """Options of devices that do not go together, in a file where each is valid by itself."""
    for chamber in chambers_of(config):
        yield from sensor_faults(chamber)
        yield from at(chamber.path("light"), _lamp(chamber))
        if chamber.options.output:
            from growd.config.output_checks import output_faults  # noqa: PLC0415  only with outputs

            yield from output_faults(chamber)
        yield from loop_faults(chamber)
        yield from _limits(chamber)
        yield from faults_of_conditions(chamber)
        yield from _combined(chamber)
    yield from shared_places(config)
    if any(chamber.options.output for chamber in chambers_of(config)):
        from growd.config.output_checks import shared_devices  # noqa: PLC0415  only with outputs

        yield from shared_devices(config)
    known = {*VARIABLES, *(name.rpartition("/")[2] for name in config.topics)}
    for name in config.store.variable:
        if name not in known:
            yield Finding(("store", "variable", name), no_variable(name))


def is_header_port(port: str) -> bool:
    """Whether a serial port, or a pattern of ports, can be the one on the header's pins 8 and 10."""
    return any(fnmatchcase(uart, port) for uart in _UARTS)


def _names(chamber: Chamber) -> Iterator[Finding]:
    """Names are unique, since topics have them. The lamp is "light"."""
    options = chamber.options
    yield from once(chamber.path("sensor"), "name", [sensor.name for sensor in options.sensor])
    yield from once(chamber.path("camera"), "name", [each.name for each in options.camera])
    channels = [channel.name for channel in chamber.light.channel]
    yield from once(chamber.path("light", "channel"), "name", channels)
    for number, sensor in enumerate(options.sensor):
        if sensor.name == "light":
            path = chamber.path("sensor", number, "name")
            yield Finding(path, "light is the name of the lamp; choose another")
    if options.output:
        from growd.config.output_checks import output_names  # noqa: PLC0415  only with outputs

        yield from output_names(chamber)


def _pins(config: Config) -> Iterator[Finding]:
    """Each pin has one device, across environments. A bus or port with a sensor takes its header pins."""
    taken: dict[int, str] = {}
    for chamber in chambers_of(config):
        for sensor in chamber.options.sensor:
            taken |= _pins_of(sensor, chamber.device(sensor.name))
    for chamber in chambers_of(config):
        for path, user, pin in _users(chamber):
            if pin in taken:
                reason = f"{user} and {taken[pin]} are both on GPIO {pin}; give one of them another"
                yield Finding(path, reason)
            taken.setdefault(pin, user)


def _users(chamber: Chamber) -> Iterator[tuple[OptionPath, str, int]]:
    """The option, the name and the pin of each device on a pin."""
    for number, sensor in enumerate(chamber.options.sensor):
        if sensor.switch_pin is not None:
            yield chamber.path("sensor", number, "pin"), chamber.device(sensor.name), sensor.switch_pin
    for number, channel in enumerate(chamber.light.channel):
        path = chamber.path("light", "channel", number, "pin")
        yield path, f"channel {chamber.device(channel.name)}", channel.pin
    for output_path, output in chamber.all_by_path.items():
        if output.pin is not None:
            yield (*output_path, "pin"), chamber.device(output.name), output.pin


def _pins_of(sensor: Sensor, name: str) -> dict[int, str]:
    """The header pins of the bus or port of a sensor, and who uses them."""
    if sensor.is_on_i2c:
        return dict.fromkeys(_I2C_PINS.get(sensor.bus, ()), f"I2C bus {sensor.bus}")
    if sensor.one_wire_pin is not None:
        return {sensor.one_wire_pin: "the 1-wire bus"}
    pins = _UART_PINS if sensor.port is not None and is_header_port(sensor.port) else ()
    return dict.fromkeys(pins, f"sensor {name} at {sensor.port}")


def _lamp(chamber: Chamber) -> Iterator[Fault]:
    light, pins = chamber.options.light, ", ".join(map(str, PWM_PINS))
    by_hardware = light.kind == "hardware_pwm"
    if light.enabled and not light.channel and not chamber.channels_by_path:
        yield "channel", "has no entry; without a lamp, set enabled = false"
    elif by_hardware and not any(channel.pin in PWM_PINS for channel in light.channel):
        yield "kind", f"hardware_pwm is for GPIO {pins}, and the lamp is on other pins"
    is_fast = light.enabled and not light.is_switched and light.frequency_hz > SOFTWARE_PWM_HZ
    for channel in light.channel if is_fast else ():
        if not (by_hardware and channel.pin in PWM_PINS):
            reason = (
                f"{channel.name} on GPIO {channel.pin} has software PWM, of at most {SOFTWARE_PWM_HZ:g} Hz; "
                f"take a lower frequency, or kind = hardware_pwm for lamps on GPIO {pins}"
            )
            yield "frequency_hz", reason
    for option in _OF_DIMMING if light.is_switched else ():
        if getattr(light, option) != getattr(_DIMMED, option):
            yield option, "has no effect on a lamp of the kind relay"
    for channel in light.channel if light.is_switched else ():
        if channel.mix < ON_FROM:
            reason = f"{channel.name} never lights: a relay is on from {ON_FROM:g} on, got {channel.mix:g}"
            yield "channel.mix", reason
    if light.needs_sensor and ILLUMINANCE not in chamber.measured:
        yield "needs_sensor", f"no sensor measures {ILLUMINANCE}"


def _limits(chamber: Chamber) -> Iterator[Finding]:
    """The limits of interlocks fit the ranges of the sensors."""
    ceiling_ppm = chamber.options.interlock.ceiling_ppm
    for number, sensor in enumerate(chamber.options.sensor if chamber.own_variables & {VALVE, FAN} else ()):
        range_ppm = sensor.range_ppm or _DEFAULT_RANGE_PPM
        if sensor.kind in KINDS_WITH["range_ppm"] and range_ppm - 1 < ceiling_ppm:
            reason = (
                f"{sensor.name} ends at {range_ppm}, so it cannot measure [interlock] ceiling_ppm, "
                f"{ceiling_ppm:g}; choose a larger range (10000 is the largest) or a lower ceiling"
            )
            yield Finding(chamber.path("sensor", number, "range_ppm"), reason)


def _combined(chamber: Chamber) -> Iterator[Finding]:
    for section, done in (("combine", "combined"), ("drift", "compared")):
        for variable in getattr(chamber.options, section):
            path = chamber.path(section, variable)
            if variable not in VARIABLES:
                yield Finding(path, no_variable(variable))
            elif variable not in chamber.shared:
                yield Finding(path, f"only a variable with two or more sensors can be {done}")
