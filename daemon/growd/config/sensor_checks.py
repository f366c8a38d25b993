"""Checks of sensors: options that do not go together, and sensors at one place."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from growd.config.chamber import chambers_of
from growd.config.devices import Sensor
from growd.config.findings import Finding, at, did_you_mean, of_other_kinds
from growd.config.mqtt import fault_of_topic
from growd.config.outputs import OwnOutput
from growd.device_kinds import SENSOR_KINDS, kinds_with, with_article
from growd.variables import PPFD, VARIABLES
from growd_drivers.kinds import UnloadedKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.config.chamber import Chamber
    from growd.config.findings import Fault
    from growd.config.root import Config

KINDS_WITH: Final = {name: kinds_with(name) for name in Sensor.__struct_fields__ if kinds_with(name)}
"""The kinds that have each option which not all have."""

PULLED_UP_PINS: Final = (2, 3)
"""With 1.8 kOhm to 3.3 V on the board, for I2C: raspberrypi.com, "GPIO pads control" and the schematics."""

_ADS1115_V: Final = 6.144  # the widest of `growd_drivers.ads1115.RANGES_MV`
_PLAIN: Final = Sensor(name="any", kind=next(iter(SENSOR_KINDS)))


def sensor_faults(chamber: Chamber) -> Iterator[Finding]:
    """No sensor has an option of another kind, and a serial sensor is at a port or behind a bridge."""
    for number, sensor in enumerate(chamber.options.sensor):
        if not isinstance(SENSOR_KINDS[sensor.kind], UnloadedKind):
            yield from at(chamber.path("sensor", number), _faults(chamber, sensor))
        if sensor.kind == "mqtt" and not chamber.config.mqtt.host:
            reason = f"is missing; sensor {chamber.device(sensor.name)} is on this broker"
            yield Finding(("mqtt", "host"), reason)


def _faults(chamber: Chamber, sensor: Sensor) -> Iterator[Fault]:
    kind = SENSOR_KINDS[sensor.kind]
    yield from of_other_kinds(
        sensor, {name: kinds for name, kinds in KINDS_WITH.items() if name not in kind.options}
    )
    for option in kind.needs:
        if getattr(sensor, option) in (None, "", ()):
            yield option, f"is missing; {sensor.name} is {with_article(sensor.kind)}, which needs it"
    yield from _beyond(sensor)
    if sensor.switch_pin in PULLED_UP_PINS and sensor.pull != "up":
        reason = f"has no effect on GPIO {sensor.pin}, which has a resistor to 3.3 V on the board"
        yield "pull", f'{sensor.pull} {reason}: take another pin, or pull = "up"'
    if "variable" in kind.options:
        yield from _confirmed(chamber, sensor) if sensor.confirms else _measured(sensor)
    if sensor.points:
        yield from _points(sensor)
    if kind.opens == "messages":
        yield from _received(sensor)
    yield from _serial(sensor) if kind.opens == "serial" else _off_the_bus(sensor)


def shared_places(config: Config) -> Iterator[Finding]:
    """Sensors of any environment at one address of a bus, or at one serial port."""
    taken: dict[tuple[int, int], str] = {}
    lines: list[tuple[str, str, str]] = []
    chips: dict[tuple[tuple[int, int], str], dict[str, str]] = {}
    for chamber in chambers_of(config):
        for number, sensor in enumerate(chamber.options.sensor):
            path, name = chamber.path("sensor", number), chamber.device(sensor.name)
            if sensor.port is not None:
                yield from at(path, _shared_line(name, "port", sensor.port, lines))
            if sensor.one_wire_pin is not None:
                yield from at(path, _shared_line(name, "device", sensor.device, lines))
            if not sensor.is_on_i2c:
                continue
            place = (sensor.bus, sensor.i2c_address)
            part = SENSOR_KINDS[sensor.kind].part_of_chip
            if part and (place, sensor.kind) in chips:
                yield from at(path, _shared_chip(name, getattr(sensor, part), chips[place, sensor.kind]))
                continue
            chips[place, sensor.kind] = {getattr(sensor, part): name} if part else {}
            if place in taken:
                both = f"{taken[place]} and {name} are both at {place[1]:#04x} on bus {place[0]}"
                yield Finding((*path, "address"), both)
            taken.setdefault(place, name)
    for chamber in chambers_of(config):
        yield from _outputs_at(chamber, taken)


def _outputs_at(chamber: Chamber, taken: dict[tuple[int, int], str]) -> Iterator[Finding]:
    """Outputs of other packages at a taken address: a driver writes the state of its whole chip."""
    for number, output in enumerate(chamber.options.output):
        if not isinstance(output, OwnOutput) or not {"bus", "address"} <= output.own.keys():
            continue
        bus, address = output.own["bus"], output.own["address"]
        if (bus, address) in taken:
            both = f"{taken[bus, address]} and {chamber.device(output.name)} are both at {address:#04x}"
            yield Finding((*chamber.path("output", number), "address"), f"{both} on bus {bus}")
        taken.setdefault((bus, address), chamber.device(output.name))


def no_variable(name: str) -> str:
    """The reason of a finding about an unknown variable."""
    return f"there is no variable of this name{did_you_mean(name)}"


def _off_the_bus(sensor: Sensor) -> Iterator[Fault]:
    for option in ("bus", "address") if not sensor.is_on_i2c else ():
        if getattr(sensor, option) != getattr(_PLAIN, option):
            yield option, f"{sensor.name} is {with_article(sensor.kind)}, which is not on an I2C bus"


def _serial(sensor: Sensor) -> Iterator[Fault]:
    if sensor.port is None and not sensor.address:
        where = "on a serial line such as /dev/serial0; behind an SC16IS750 bridge set its address"
        yield (
            "port",
            f"is missing; {sensor.name} is {with_article(sensor.kind)}, {where} instead, such as 0x4D",
        )
    for option, default in (("bus", 1), ("address", 0)):
        if sensor.port is not None and getattr(sensor, option) != default:
            yield option, f"{sensor.name} is at {sensor.port}, and not behind a bridge on an I2C bus"


def _points(sensor: Sensor) -> Iterator[Fault]:
    """Two different points, within the ranges of the chip and of the variable."""
    if len(sensor.points) != 2:  # noqa: PLR2004  of a line
        yield "points", f"must be two points, got {len(sensor.points)}"
        return
    (volts, first), (other_volts, last) = sensor.points
    if volts == other_volts or first == last:
        yield "points", "must differ in volts and in value"
    for number in (volts, other_volts):
        if not abs(number) <= _ADS1115_V:
            yield "points", f"{number:g} V is beyond the range of the chip, {_ADS1115_V:g} V"
    variable = VARIABLES.get(sensor.variable)
    for value in (first, last) if variable else ():
        if variable and not variable.minimum <= value <= variable.maximum:
            limits = f"{variable.minimum:g} to {variable.maximum:g} {variable.unit}"
            yield "points", f"{value:g} is beyond the range of {variable.name}, {limits}"


def _received(sensor: Sensor) -> Iterator[Fault]:
    if sensor.interval_s != _PLAIN.interval_s:
        reason = "is not read, but sent by others; stale_after_s says how long a value counts"
        yield "interval_s", f"{sensor.name} {reason}"
    if not sensor.scale:
        yield "scale", f"must not be 0; {sensor.name} would always have one value"
    if sensor.kind == "mqtt" and sensor.topic and (fault := fault_of_topic(sensor.topic)):
        yield "topic", fault


def _measured(sensor: Sensor) -> Iterator[Fault]:
    """A sensor of any variable measures one that fits it."""
    (name,) = sensor.fields.values()
    variable, units = VARIABLES.get(name), SENSOR_KINDS[sensor.kind].units
    reason = ""
    if not name:
        reason = f"is missing; {sensor.name} needs the variable that it measures, or confirms = an output"
    elif variable is None:
        reason = no_variable(name)
    elif variable.is_output:
        reason = f"{name} is what an output does, which no sensor measures; to watch an output, set confirms"
    elif variable.is_derived and name != PPFD:
        reason = f"growd calculates {name} from other variables"
    elif units and variable.unit not in units:
        reason = (
            f"{name} is in {variable.unit}, and {with_article(sensor.kind)} measures {' or '.join(units)}"
        )
    if reason:
        yield "variable", reason


def _confirmed(chamber: Chamber, sensor: Sensor) -> Iterator[Fault]:
    known = chamber.output_names
    if sensor.variable:
        yield "variable", f"{sensor.name} confirms {sensor.confirms} instead: remove one"
    if sensor.confirms not in known:
        there = f"there is {', '.join(known)}" if known else "there is none"
        yield "confirms", f"there is no output {sensor.confirms}; {there}"
    elif sensor is not chamber.confirming(sensor.confirms)[0]:
        yield "confirms", f"another sensor confirms {sensor.confirms}: remove one of them"
    for output in chamber.all_outputs:
        if sensor.kind == "mqtt" and sensor.topic and sensor.topic in output.command_topics:
            reason = f"has growd's own commands for {output.name}; take the topic of the device's state"
            yield "topic", reason


def _beyond(sensor: Sensor) -> Iterator[Fault]:
    """Options beyond what this kind of sensor takes, where others take more."""
    kind = SENSOR_KINDS[sensor.kind]
    part = with_article(kind.part)
    if sensor.calibrate_every_days is not None and not kind.calibrations:
        yield "calibrate_every_days", f"{part} has no calibration that growd could record"
    if sensor.stuck_after_s is not None and not kind.same_for_s:
        yield "stuck_after_s", f"{part} never repeats a measurement: remove it"
    for option, (minimum, maximum) in kind.limits.items():
        value = getattr(sensor, option)
        if value is not None and not minimum <= value <= maximum:
            yield option, f"{value:g} is not between {minimum:g} and {maximum:g}, the range of {part}"


def _shared_chip(name: str, part: str, taken: dict[str, str]) -> Iterator[Fault]:
    """Sensors of one chip are on different inputs of it."""
    if part in taken:
        yield "channel", f"{taken[part]} and {name} are both on input {part}"
    taken.setdefault(part, name)


def _shared_line(name: str, option: str, value: str, others: list[tuple[str, str, str]]) -> Iterator[Fault]:
    """A pattern opens the first port that it matches, so no other sensor may be at one of those."""
    for other_name, other_option, other in others:
        if option == other_option and (fnmatchcase(other, value) or fnmatchcase(value, other)):
            shared = value if fnmatchcase(value, other) else other
            yield option, f"{other_name} and {name} are both at {shared}"
    others.append((name, option, value))
