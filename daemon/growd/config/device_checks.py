"""Checks of sensors, lamps and relays: conflicts between them, and options that do not go together."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from growd.config.chamber import chambers_of
from growd.config.conditions import faults_of_conditions
from growd.config.devices import Light, Sensor
from growd.config.findings import Finding, of_other_kinds, once
from growd.config.mqtt import fault_of_topic
from growd.config.output_checks import output_faults, output_names
from growd.config.outputs import PWM_PINS, SOFTWARE_PWM_HZ
from growd.device_kinds import SENSOR_KINDS, kinds_with, with_article
from growd.variables import FAN, ILLUMINANCE, PPFD, VALVE, VARIABLES, similar_variable
from growd_drivers.kinds import UnloadedKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd.config.chamber import Chamber
    from growd.config.findings import OptionPath
    from growd.config.root import Config

_I2C_PINS: Final = {0: (0, 1), 1: (2, 3)}
"""SDA and SCL (BCM) of the I2C buses on a Raspberry Pi's header."""

_UART_PINS: Final = (14, 15)
_UARTS: Final = ("/dev/serial0", "/dev/ttyAMA0", "/dev/ttyS0")
"""Names of the serial port on the header's pins (TXD and RXD, BCM), by model and settings."""

_DEFAULT_RANGE_PPM: Final = 10_000
"""As `growd_drivers.mhz19.DEFAULT_RANGE_PPM`."""

_KINDS_WITH: Final = {name: kinds_with(name) for name in Sensor.__struct_fields__ if kinds_with(name)}
_PLAIN: Final = Sensor(name="any", kind=next(iter(SENSOR_KINDS)))
_OF_DIMMING: Final = ("minimum_duty", "gamma", "ramp_s", "hardware_pwm")
_DIMMED: Final = Light()


def device_conflicts(config: Config) -> Iterator[Finding]:
    """Devices with one name or on one pin. The rest of the file may be wrong."""
    for chamber in chambers_of(config):
        yield from _names(chamber)
    yield from _pins(config)


def device_inconsistencies(config: Config) -> Iterator[Finding]:
    """Options of devices that do not go together, in a file where each is valid by itself."""
    for chamber in chambers_of(config):
        yield from _sensors(chamber)
        yield from _lamp(chamber)
        yield from output_faults(chamber)
        yield from _limits(chamber)
        yield from faults_of_conditions(chamber)
        yield from _combined(chamber)
        yield from _unmeasured(chamber)
    yield from _shared_places(config)
    known = {*VARIABLES, *(name.rpartition("/")[2] for name in config.topics)}
    for name in config.store.variable:
        if name not in known:
            yield Finding(("store", "variable", name), _no_variable(name))


def is_header_port(port: str) -> bool:
    """Whether a serial port, or a pattern of ports, can be the one on the header's pins 8 and 10."""
    return any(fnmatchcase(uart, port) for uart in _UARTS)


def _names(chamber: Chamber) -> Iterator[Finding]:
    """Names are unique, since topics have them. The lamp is "light"."""
    options = chamber.options
    yield from once(chamber.path("sensor"), "name", [sensor.name for sensor in options.sensor])
    channels = [channel.name for channel in chamber.light.channel]
    yield from once(chamber.path("light", "channel"), "name", channels)
    for number, sensor in enumerate(options.sensor):
        if sensor.name == "light":
            yield Finding(
                chamber.path("sensor", number, "name"), "light is the name of the lamp; choose another"
            )
    yield from output_names(chamber)


def _pins(config: Config) -> Iterator[Finding]:
    """Each pin has one device, across environments. A bus or port with a sensor takes its header pins."""
    taken: dict[int, str] = {}
    for chamber in chambers_of(config):
        for sensor in chamber.options.sensor:
            taken |= _pins_of(sensor, chamber.device(sensor.name))
    for chamber in chambers_of(config):
        for path, user, pin in (*_inputs(chamber), *_outputs(chamber)):
            if pin in taken:
                reason = f"{user} and {taken[pin]} are both on GPIO {pin}; give one of them another"
                yield Finding(path, reason)
            taken.setdefault(pin, user)


def _inputs(chamber: Chamber) -> Iterator[tuple[OptionPath, str, int]]:
    """The option, the name and the pin of each sensor on a pin."""
    for number, sensor in enumerate(chamber.options.sensor):
        if sensor.switch_pin is not None:
            yield chamber.path("sensor", number, "pin"), chamber.device(sensor.name), sensor.switch_pin


def _outputs(chamber: Chamber) -> Iterator[tuple[OptionPath, str, int]]:
    """The option, the name and the pin of each output."""
    for number, channel in enumerate(chamber.light.channel):
        path = chamber.path("light", "channel", number, "pin")
        yield path, f"channel {chamber.device(channel.name)}", channel.pin
    for output_path, output in (chamber.outputs_by_path | chamber.channels_by_path).items():
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


def _sensors(chamber: Chamber) -> Iterator[Finding]:
    """No sensor has an option of another kind, and a serial sensor is at a port or behind a bridge."""
    for number, sensor in enumerate(chamber.options.sensor):
        path = chamber.path("sensor", number)
        kind = SENSOR_KINDS[sensor.kind]
        if isinstance(kind, UnloadedKind):
            continue
        yield from of_other_kinds(
            path, sensor, {name: each for name, each in _KINDS_WITH.items() if name not in kind.options}
        )
        yield from _missing(path, sensor)
        yield from _beyond(path, sensor)
        if "variable" in kind.options:
            yield from _purpose(chamber, path, sensor)
        for option in ("bus", "address") if kind.opens not in ("i2c", "serial") else ():
            if getattr(sensor, option) != getattr(_PLAIN, option):
                yield Finding(
                    (*path, option), f"{sensor.name} is a {sensor.kind}, which is not on an I2C bus"
                )
        if kind.opens == "messages":
            yield from _received(chamber, path, sensor)
        if kind.opens == "serial":
            yield from _on_a_line(path, sensor)


def _on_a_line(path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    if sensor.port is None and not sensor.address:
        where = "on a serial line such as /dev/serial0; behind an SC16IS750 bridge set its address"
        reason = f"is missing; {sensor.name} is a {sensor.kind}, {where} instead, such as 0x4D"
        yield Finding((*path, "port"), reason)
    for option, default in (("bus", 1), ("address", 0)):
        if sensor.port is not None and getattr(sensor, option) != default:
            reason = f"{sensor.name} is at {sensor.port}, and not behind a bridge on an I2C bus"
            yield Finding((*path, option), reason)


def _missing(path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    for option in SENSOR_KINDS[sensor.kind].needs:
        if getattr(sensor, option) in (None, "", ()):
            yield Finding((*path, option), f"is missing; {sensor.name} is a {sensor.kind}, which needs it")


def _received(chamber: Chamber, path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    if sensor.interval_s != _PLAIN.interval_s:
        reason = f"{sensor.name} is not read, but sent by others; stale_after_s says how long a value counts"
        yield Finding((*path, "interval_s"), reason)
    if not sensor.scale:
        yield Finding((*path, "scale"), f"must not be 0; {sensor.name} would always have one value")
    if sensor.kind != "mqtt":
        return
    if sensor.topic and (fault := fault_of_topic(sensor.topic)):
        yield Finding((*path, "topic"), fault)
    if not chamber.config.mqtt.host:
        yield Finding(("mqtt", "host"), f"is missing; sensor {chamber.device(sensor.name)} is on this broker")


def _purpose(chamber: Chamber, path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    """A sensor of any variable measures one that fits it, or confirms an output."""
    if sensor.confirms:
        yield from _confirmed(chamber, path, sensor)
        return
    (name,) = sensor.fields.values()
    variable, units = VARIABLES.get(name), SENSOR_KINDS[sensor.kind].units
    if not name:
        reason = f"is missing; {sensor.name} needs the variable that it measures, or confirms = an output"
        yield Finding((*path, "variable"), reason)
    elif variable is None:
        yield Finding((*path, "variable"), _no_variable(name))
    elif variable.is_output:
        reason = f"{name} is what an output does, which no sensor measures; to watch an output, set confirms"
        yield Finding((*path, "variable"), reason)
    elif variable.is_derived and name != PPFD:
        yield Finding((*path, "variable"), f"growd calculates {name} from other variables")
    elif units and variable.unit not in units:
        reason = f"{name} is in {variable.unit}, and a {sensor.kind} measures {' or '.join(units)}"
        yield Finding((*path, "variable"), reason)


def _confirmed(chamber: Chamber, path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    known = chamber.output_names
    if sensor.variable:
        yield Finding((*path, "variable"), f"{sensor.name} confirms {sensor.confirms} instead: remove one")
    if sensor.confirms not in known:
        there = f"there is {', '.join(known)}" if known else "there is none"
        yield Finding((*path, "confirms"), f"there is no output {sensor.confirms}; {there}")
    elif sensor is not chamber.confirming(sensor.confirms)[0]:
        yield Finding((*path, "confirms"), f"another sensor confirms {sensor.confirms}: remove one of them")


def _beyond(path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    """Options beyond what this kind of sensor takes, where others take more."""
    kind = SENSOR_KINDS[sensor.kind]
    for option, (minimum, maximum) in kind.limits.items():
        value = getattr(sensor, option)
        if value is not None and not minimum <= value <= maximum:
            part = with_article(kind.part)
            reason = f"{value:g} is not between {minimum:g} and {maximum:g}, the range of {part}"
            yield Finding((*path, option), reason)


def _shared_places(config: Config) -> Iterator[Finding]:
    """Sensors of any environment at one address of a bus, or at one serial port."""
    taken: dict[tuple[int, int], str] = {}
    ports: list[tuple[str, str]] = []
    ids: list[tuple[str, str]] = []
    for chamber in chambers_of(config):
        for number, sensor in enumerate(chamber.options.sensor):
            path, name = chamber.path("sensor", number), chamber.device(sensor.name)
            if sensor.port is not None:
                yield from _shared_port(path, name, sensor.port, ports)
                ports.append((name, sensor.port))
            if sensor.one_wire_pin is not None:
                yield from _shared_port(path, name, sensor.device, ids, "device")
                ids.append((name, sensor.device))
            if not sensor.is_on_i2c:
                continue
            place = (sensor.bus, sensor.i2c_address)
            if place in taken:
                both = f"{taken[place]} and {name} are both at {place[1]:#04x} on bus {place[0]}"
                yield Finding((*path, "address"), both)
            taken.setdefault(place, name)


def _shared_port(
    path: OptionPath, name: str, port: str, others: Sequence[tuple[str, str]], option: str = "port"
) -> Iterator[Finding]:
    """A pattern opens the first port that it matches, so no other sensor may be at one of those."""
    for other_name, other in others:
        if fnmatchcase(other, port) or fnmatchcase(port, other):
            shared = port if fnmatchcase(port, other) else other
            yield Finding((*path, option), f"{other_name} and {name} are both at {shared}")


def _lamp(chamber: Chamber) -> Iterator[Finding]:
    light = chamber.options.light
    if light.enabled and not light.channel and not chamber.channels_by_path:
        reason = "has no entry; without a lamp, set enabled = false"
        yield Finding(chamber.path("light", "channel"), reason)
    elif light.hardware_pwm and not any(channel.pin in PWM_PINS for channel in light.channel):
        pins = ", ".join(map(str, PWM_PINS))
        yield Finding(
            chamber.path("light", "hardware_pwm"), f"is for GPIO {pins}, and the lamp is on other pins"
        )
    if light.frequency_hz > SOFTWARE_PWM_HZ and not light.switched:
        yield from _too_fast(chamber.path("light", "frequency_hz"), light)
    for option in _OF_DIMMING if light.switched else ():
        if getattr(light, option) != getattr(_DIMMED, option):
            reason = "has no effect on a lamp with switched = true"
            yield Finding(chamber.path("light", option), reason)


def _too_fast(path: OptionPath, light: Light) -> Iterator[Finding]:
    for channel in light.channel if light.enabled else ():
        if not (light.hardware_pwm and channel.pin in PWM_PINS):
            reason = (
                f"{channel.name} on GPIO {channel.pin} has software PWM, of at most "
                f"{SOFTWARE_PWM_HZ:g} Hz; take a lower frequency, or set hardware_pwm for lamps on "
                f"GPIO {', '.join(map(str, PWM_PINS))}"
            )
            yield Finding(path, reason)


def _limits(chamber: Chamber) -> Iterator[Finding]:
    """The limits of interlocks fit each other, the autotune dose and the ranges of the sensors."""
    limits, open_s = chamber.options.interlock, chamber.options.carbon_dioxide.autotune_open_s
    if limits.dose_litres is not None and limits.valve_flow_l_min is None:
        path = chamber.path("interlock", "dose_litres")
        yield Finding(path, "needs valve_flow_l_min, the flow of the open valve")
    for option in ("valve_open_s", "no_rise_open_s") if VALVE in chamber.own_variables else ():
        most = getattr(limits, option)
        if open_s > most:
            path = chamber.path("carbon_dioxide", "autotune_open_s")
            yield Finding(path, f"{open_s:g} is above [interlock] {option}, {most:g}")
    for number, sensor in enumerate(chamber.options.sensor if chamber.own_variables & {VALVE, FAN} else ()):
        range_ppm = sensor.range_ppm or _DEFAULT_RANGE_PPM
        if sensor.kind in _KINDS_WITH["range_ppm"] and range_ppm - 1 < limits.ceiling_ppm:
            yield Finding(
                chamber.path("sensor", number, "range_ppm"),
                f"{sensor.name} ends at {range_ppm}, so it cannot measure [interlock] ceiling_ppm, "
                f"{limits.ceiling_ppm:g}; choose a larger range (10000 is the largest) or a lower ceiling",
            )


def _combined(chamber: Chamber) -> Iterator[Finding]:
    for variable in chamber.options.combine:
        path = chamber.path("combine", variable)
        if variable not in VARIABLES:
            yield Finding(path, _no_variable(variable))
        elif variable not in chamber.shared:
            yield Finding(path, "only a variable with two or more sensors can be combined")


def _unmeasured(chamber: Chamber) -> Iterator[Finding]:
    """Options of the lamp that imply a variable that no sensor measures."""
    if chamber.options.light.needs_sensor and ILLUMINANCE not in chamber.measured:
        yield Finding(chamber.path("light", "needs_sensor"), f"no sensor measures {ILLUMINANCE}")


def _no_variable(name: str) -> str:
    meant = similar_variable(name)
    return "there is no variable of this name" + (f"; did you mean {meant}?" if meant else "")
