"""Checks across options: conflicts, and options that depend on others."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from growd.config.access import faults_of_access
from growd.config.devices import Light
from growd.config.findings import Finding, of_other_kinds
from growd.config.services import StorageRule
from growd.config.tls import faults_of_tls
from growd.config.web import faults_of_web, without_login

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from growd.config.devices import RelayOptions, Sensor
    from growd.config.findings import OptionPath
    from growd.config.root import ChamberOptions, Config
    from growd.config.services import Replication

_I2C_PINS = {0: (0, 1), 1: (2, 3)}
"""SDA and SCL (BCM) of the I2C buses on a Raspberry Pi's header."""

_UART_PINS = (14, 15)
_UARTS = ("/dev/serial0", "/dev/ttyAMA0", "/dev/ttyS0")
"""Device names of the serial port on the header (TXD and RXD, BCM), by model and settings."""

_DATABASE_NAME = re.compile(r"[a-z][a-z0-9_$()+/-]*")
"""docs.couchdb.org/en/3.5.x/api/database/common.html#put--db"""

_PWM_PINS = (12, 13, 18, 19)
"""Header pins (BCM) that the PWM chip of some Raspberry Pi can drive."""

_ON_SERIAL_LINES = ("mhz19", "mhz16")
_KINDS_WITH = {
    "ambient_pressure_hpa": ("scd30",),
    "altitude_m": ("scd30",),
    "temperature_offset_degc": ("scd30",),
    "self_calibration": ("scd30", *_ON_SERIAL_LINES),
    "port": _ON_SERIAL_LINES,
    "range_ppm": _ON_SERIAL_LINES,
    "stuck_after_s": _ON_SERIAL_LINES,
}
"""The options that not every kind of sensor has."""

_OF_DIMMING = ("minimum_duty", "gamma", "ramp_s", "hardware_pwm")
_DIMMED = Light()

RESERVED = frozenset(
    {
        "environments",  # older clients use this word for all environments
        *("alerts", "configuration", "database", "http", "machine", "recorder", "replication", "simulator"),
        *("status", "store"),  # nodes of the daemon itself
    }
)

_VALVE = "air_carbon_dioxide_valve_on"
_HELD_BY_CEILING = (_VALVE, "air_flush_on")
"""What the ceiling of CO2 acts through; without it there is none."""


def conflicts(config: Config) -> Iterator[Finding]:
    """Duplicate names and pins. Also for the valid part of a faulty file."""
    for environment in config.chambers():
        yield from _names(config, environment)
    yield from _pins(config)


def inconsistencies(config: Config) -> Iterator[Finding]:
    """Options that do not fit together, in a file whose options are valid one by one."""
    yield from _ids(config)
    yield from _of_the_daemon(config)
    for environment in config.chambers():
        yield from _of_chamber(config, environment)


def _ids(config: Config) -> Iterator[Finding]:
    for path, name in (
        (("environment", "id"), config.environment.id),
        *((("chamber", name), name) for name in config.chamber),
    ):
        if name in RESERVED:
            yield Finding(path, f"{name} is reserved, choose another")
    if config.environment.id in config.chamber:
        path = ("chamber", config.environment.id)
        yield Finding(path, "is the id of the first environment; choose another")


def _of_the_daemon(config: Config) -> Iterator[Finding]:
    yield from _intervals(config)
    if config.store.batch > config.store.max_batch:
        yield Finding(
            ("store", "batch"), f"{config.store.batch} is above max_batch, {config.store.max_batch}"
        )
    yield from _address(config.couchdb.url, "couchdb")
    yield from faults_of_access(config.http.host, config.http.access, config.couchdb.url)
    yield from faults_of_web(config.http)
    yield from faults_of_tls(config.tls)
    known = config.chambers()
    for name in config.replication.environments:
        if name not in known:
            unknown = f"there is no environment {name}; there is {', '.join(known)}"
            yield Finding(("replication", "environments"), unknown)
    if config.replication.url:
        yield from _replication(config.replication)
    simulator = config.simulator
    if not simulator.enabled and simulator.speed != 1:
        yield Finding(("simulator", "speed"), "only simulated hardware can run at another speed")
    if not simulator.enabled and simulator.replay:
        yield Finding(("simulator", "replay"), "only simulated hardware can replay a recording")
    if not simulator.enabled and simulator.faults:
        yield Finding(("simulator", "faults"), "only simulated hardware has faults from a file")


def _names(config: Config, environment: str) -> Iterator[Finding]:
    """Each device has topics by its name. The lamp is "light"."""
    chamber = config.chambers()[environment]
    sensors, light, relays = (config.path(environment, part) for part in ("sensor", "light", "relay"))
    yield from _once((*sensors,), "name", [sensor.name for sensor in chamber.sensor])
    if chamber.light.enabled:
        yield from _once((*light, "channel"), "name", [channel.name for channel in chamber.light.channel])
    for number, sensor in enumerate(chamber.sensor):
        if sensor.name == "light":
            yield Finding((*sensors, number, "name"), "light is the name of the lamp")
    yield from _once((*relays,), "name", [relay.name for relay in chamber.relay])
    others = {sensor.name for sensor in chamber.sensor} | {"light"}
    for number, relay in enumerate(chamber.relay):
        if relay.name in others:
            yield Finding((*relays, number, "name"), f"{relay.name} is the name of another device")


def _of_chamber(config: Config, environment: str) -> Iterator[Finding]:
    chamber = config.chambers()[environment]
    sensors = config.path(environment, "sensor")
    yield from _kinds(sensors, chamber.sensor)
    yield from _lamp(config.path(environment, "light"), chamber.light)
    yield from _relays_of_one_variable(config.path(environment, "relay"), chamber.relay)
    limits = chamber.interlock
    if limits.dose_litres is not None and limits.valve_flow_l_min is None:
        path = (*config.path(environment, "interlock"), "dose_litres")
        yield Finding(path, "takes valve_flow_l_min, the flow of an open valve")
    yield from _autotune(config.path(environment, "carbon_dioxide"), chamber)
    if any(relay.variable in _HELD_BY_CEILING for relay in chamber.relay):
        yield from _ranges(sensors, chamber.sensor, limits.ceiling_ppm)


def _lamp(path: OptionPath, light: Light) -> Iterator[Finding]:
    if light.enabled and not light.channel:
        yield Finding((*path, "channel"), "is missing; without a lamp, set enabled = false")
    elif light.hardware_pwm and not any(channel.pin in _PWM_PINS for channel in light.channel):
        pins = ", ".join(map(str, _PWM_PINS))
        yield Finding((*path, "hardware_pwm"), f"is for GPIO {pins}, and the lamp is on other pins")
    for option in _OF_DIMMING if light.switched else ():
        if getattr(light, option) != getattr(_DIMMED, option):
            yield Finding((*path, option), "is for a dimmed lamp, not for one with switched = true")


def _autotune(path: OptionPath, chamber: ChamberOptions) -> Iterator[Finding]:
    """The dose of autotune must end before an interlock ends it."""
    open_s = chamber.carbon_dioxide.autotune_open_s
    if not any(relay.variable == _VALVE for relay in chamber.relay):
        return
    for option in ("valve_open_s", "no_rise_open_s"):
        most = getattr(chamber.interlock, option)
        if open_s > most:
            yield Finding((*path, "autotune_open_s"), f"{open_s:g} is above [interlock] {option}, {most:g}")


def _ranges(path: OptionPath, sensors: Sequence[Sensor], ceiling_ppm: float) -> Iterator[Finding]:
    """Every CO2 sensor must be able to measure the ceiling: the end of its range is a fault."""
    for number, sensor in enumerate(sensors):
        if sensor.kind in _KINDS_WITH["range_ppm"] and sensor.range_ppm - 1 < ceiling_ppm:
            yield Finding(
                (*path, number, "range_ppm"),
                f"{sensor.name} ends at {sensor.range_ppm}, so it cannot measure [interlock] ceiling_ppm, "
                f"{ceiling_ppm:g}; choose a larger range (10000 is the largest) or a lower ceiling",
            )


def _intervals(config: Config) -> Iterator[Finding]:
    """The minimum interval of each variable must not be above its maximum."""
    store = config.store
    own = [(("variable", name), rule) for name, rule in store.variable.items()]
    for place, rule in [((), StorageRule()), *own]:
        minimum = store.minimum_interval_s if rule.minimum_interval_s is None else rule.minimum_interval_s
        maximum = store.maximum_interval_s if rule.maximum_interval_s is None else rule.maximum_interval_s
        if minimum > maximum:
            path = ("store", *place, "minimum_interval_s")
            yield Finding(path, f"{minimum:g} is above maximum_interval_s, {maximum:g}")


def _kinds(path: OptionPath, sensors: Sequence[Sensor]) -> Iterator[Finding]:
    """No sensor has an option of another kind."""
    for number, sensor in enumerate(sensors):
        yield from of_other_kinds((*path, number), sensor, _KINDS_WITH)
        if sensor.kind in _ON_SERIAL_LINES:
            yield from _line((*path, number), sensor)


def _line(path: OptionPath, sensor: Sensor) -> Iterator[Finding]:
    """A sensor with a serial line is at a port, or behind a bridge."""
    if sensor.port is None and not sensor.address:
        where = "on a serial line such as /dev/serial0; behind an SC16IS750 bridge it has its address instead"
        owner = f"{sensor.name} is a {sensor.kind}"
        yield Finding((*path, "port"), f"is missing; {owner}, {where}, such as 0x4D")
    for option, default in (("bus", 1), ("address", 0)):
        if sensor.port is not None and getattr(sensor, option) != default:
            where = f"{sensor.name} is at {sensor.port}, and not behind a bridge on an I2C bus"
            yield Finding((*path, option), where)


def _relays_of_one_variable(path: OptionPath, relays: Sequence[RelayOptions]) -> Iterator[Finding]:
    """Relays of one variable share a controller, so they share these options."""
    first: dict[str, RelayOptions] = {}
    for number, relay in enumerate(relays):
        if relay.variable == _VALVE and relay.safe == "on":
            reason = f"{relay.name} is a valve for CO2, which is safe when it is off"
            yield Finding((*path, number, "safe"), reason)
        other = first.setdefault(relay.variable, relay)
        for option in ("needs", "override_s"):
            if getattr(relay, option) != getattr(other, option):
                both = f"{other.name} and {relay.name} are both for {relay.variable}"
                yield Finding((*path, number, option), f"{both}, and must have the same")


def _pins(config: Config) -> Iterator[Finding]:
    """Each pin has one device across all environments. A sensor takes the pins of its bus or serial port."""
    taken: dict[int, str] = {}
    for environment, chamber in config.chambers().items():
        for sensor in chamber.sensor:
            taken |= _pins_of(sensor, config.device(environment, sensor.name))
    for environment, chamber in config.chambers().items():
        for path, user, pin in _outputs_of(config, environment, chamber):
            if pin in taken:
                yield Finding(
                    path, f"{user} and {taken[pin]} are both on GPIO {pin}; give one of them another"
                )
            taken.setdefault(pin, user)


def _outputs_of(
    config: Config, environment: str, chamber: ChamberOptions
) -> Iterator[tuple[OptionPath, str, int]]:
    """The option, the name and the pin of each output of an environment."""
    if chamber.light.enabled:
        for number, channel in enumerate(chamber.light.channel):
            path = (*config.path(environment, "light"), "channel", number, "pin")
            yield path, f"channel {config.device(environment, channel.name)}", channel.pin
    for number, relay in enumerate(chamber.relay):
        path = (*config.path(environment, "relay"), number, "pin")
        yield path, config.device(environment, relay.name), relay.pin


def _pins_of(sensor: Sensor, name: str) -> dict[int, str]:
    """The pins of the bus or line of a sensor, with their user."""
    if sensor.port is None:
        return dict.fromkeys(_I2C_PINS.get(sensor.bus, ()), f"I2C bus {sensor.bus}")
    is_on_header = any(fnmatchcase(uart, sensor.port) for uart in _UARTS)
    return dict.fromkeys(_UART_PINS if is_on_header else (), f"sensor {name} at {sensor.port}")


def _once(path: OptionPath, option: str, values: Sequence[object]) -> Iterator[Finding]:
    """Duplicate values."""
    for number, value in enumerate(values):
        if value in values[:number]:
            yield Finding((*path, number, option), f"{value} is given {values.count(value)} times")


def _replication(replication: Replication) -> Iterator[Finding]:
    where = "replication"
    faults = list(_address(replication.url, where))
    yield from faults
    if faults:
        return
    parts = urlsplit(replication.url)
    if parts.username is not None:
        shown = without_login(replication.url)
        reason = f"a login stands in credentials_file, not in the address of {shown}"
        yield Finding((where, "url"), reason)
    if parts.query or parts.fragment:
        shown = without_login(replication.url).partition("?")[0].partition("#")[0]
        reason = f"is the address of a server, without what stands behind {shown}"
        yield Finding((where, "url"), reason)
    if {replication.points, replication.events, replication.recipes} == {"off"}:
        yield Finding(
            (where, "points"), "is off, as are events and recipes; with nothing to copy, remove url"
        )
    if replication.ca_file and parts.scheme != "https":
        yield Finding((where, "ca_file"), f"is for an https url, got {without_login(replication.url)}")
    if replication.ca_file and not replication.verify_tls:
        yield Finding((where, "ca_file"), "has no effect with verify_tls = false; choose one of them")
    for option in ("points_database", "events_database", "recipes_database"):
        name = getattr(replication, option)
        if not _DATABASE_NAME.fullmatch(name.replace("{device}", "0" * 12)):
            yield Finding(
                (where, option),
                "must begin with one of a-z and go on with a-z, 0-9 and _$()+/-, "
                f"or {{device}}, got {name!r}",
            )


def _address(url: str, section: str) -> Iterator[Finding]:
    """The address may hold a password, so the sentence shows it without the login."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        user = unquote(parts.username or "")
    except ValueError:  # a port that is no number
        sound, user = False, ""
    if not sound:
        yield Finding(
            (section, "url"), f"must be http://host:port or https://host:port, got {without_login(url)}"
        )
    if ":" in user:  # which ends the user in Basic authentication (RFC 7617)
        reason = f"a user name cannot contain a colon, in the address of {without_login(url)}"
        yield Finding((section, "url"), reason)
