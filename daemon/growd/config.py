"""Configuration: one TOML file into frozen structs, with the range of each option where it stands.

Whatever is wrong (an unknown section or option, a wrong type, a value out of its range, two sensors of one
name) raises `ConfigError`, whose sentence names the file, the section, the option and the reason.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Pin = Annotated[int, Meta(ge=0, le=27, description="BCM number of a header pin")]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Patience = Annotated[float, Meta(ge=2, le=86_400, description="controllers speak each second")]


MessageTypeName = Literal[
    "std_msgs/Float64",
    "std_msgs/Int64",
    "std_msgs/Bool",
    "std_msgs/String",
    "geometry_msgs/Vector3",
    "diagnostic_msgs/DiagnosticStatus",
]


class ConfigError(ValueError):
    """The configuration can't be used."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One section of the file; an option that is not declared is an error."""


class Environment(Section, frozen=True):
    """The growing chamber, the first where there are several.

    `time_zone` is a name such as "Europe/Berlin", for all that goes by the time of day, in every environment;
    without one it is the machine's.
    """

    id: Name = "environment_1"
    time_zone: Annotated[str, Meta(max_length=64)] = ""

    def zone(self) -> ZoneInfo | None:
        """The time zone, None for the machine's. Blocking: it reads a file. Raises `ConfigError`."""
        try:
            return ZoneInfo(self.time_zone) if self.time_zone else None
        except (OSError, ValueError, ZoneInfoNotFoundError):
            raise ConfigError(f"[environment] time_zone: {self.time_zone!r} is not known here") from None


class Http(Section, frozen=True):
    """The front door. `name` is the reserved word: the API stands beneath `/_<name>`, and the design
    documents are called `_design/<name>`, so that clients of an older system can be served under its name.

    Of `max_connections`, the one that has waited longest for a request makes way for a new one. The headers
    of a request must come within `header_timeout_s`, the next request within `keep_alive_s` of an answer.
    Each stream takes a connection, so the smaller of `max_streams` and `max_connections` bounds streams.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 5984
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]*$", max_length=32)] = "svc"
    max_body_bytes: Annotated[int, Meta(ge=1024, le=4_194_304)] = 131_072
    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = 3_000
    header_timeout_s: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    keep_alive_s: Annotated[float, Meta(gt=0, le=86_400)] = 75.0
    max_streams: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    stream_queue: Annotated[int, Meta(ge=1, le=10_000)] = 64
    heartbeat_s: Annotated[float, Meta(gt=0, le=3_600)] = 15.0
    topic_data_s: Annotated[float, Meta(gt=0, le=3_600)] = 10.0


class Couchdb(Section, frozen=True):
    """The database. Without `url`, growd runs its embedded one.

    Credentials stand in the address or in a file of two lines, user and password.
    """

    url: str = ""
    credentials_file: str = ""
    prefix: Annotated[str, Meta(pattern=r"^[a-z0-9_]*$", max_length=32)] = ""
    node: Annotated[str, Meta(min_length=1)] = "node"


class Replication(Section, frozen=True):
    """What CouchDB copies to and from another server, for as long as both are there; without `url`, nothing.

    `url` is that server, without a database and without a login, which stands in `credentials_file`: two
    lines, user and password, that others can't read. Points go up. Recipes come down, or both ways; down is
    the default, so that no device changes what all others get. Of several `environments` (none named: all)
    only the points of those go.

    In `points_database`, `{device}` stands for the device's id: with it each device has a database of its
    own, without it they share one, which may be partitioned.

    Over https the server is believed where its certificate is good for the certificate authorities of
    `ca_file` (PEM), else of this machine. With `verify_tls` off, nothing is checked by growd, and by CouchDB
    what its own settings say.
    """

    url: str = ""
    credentials_file: str = ""
    ca_file: str = ""
    verify_tls: bool = True
    points: Literal["up", "off"] = "up"
    recipes: Literal["down", "both", "off"] = "down"
    environments: tuple[Name, ...] = ()
    points_database: Annotated[str, Meta(max_length=128)] = "environmental_data_point"
    recipes_database: Annotated[str, Meta(max_length=128)] = "recipes"


class StorageRule(Section, frozen=True):
    """When values of one variable are stored, where that is not as `store` and the table of variables say.

    At most one each minimum interval, at least one each maximum interval, and between them one that moved by
    more than the larger of the bands: absolute in the variable's unit, relative to the last stored value.
    """

    absolute_band: Annotated[float, Meta(ge=0)] | None = None
    relative_band: Annotated[float, Meta(ge=0, le=1)] | None = None
    minimum_interval_s: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    maximum_interval_s: Annotated[float, Meta(gt=0, le=604_800)] | None = None


class Store(Section, frozen=True):
    """When points are stored, committed and shipped.

    A batch leaves for the database when it has `batch` points or its oldest is `max_age_s` old: each costs
    the card about the same, whatever is in it. While somebody reads the points through the front door it
    leaves after `watched_age_s`. `budget_mb` is how much may wait on the disk while the database is away.
    """

    commit_interval_s: Annotated[float, Meta(gt=0, le=60)] = 1.0
    batch: Annotated[int, Meta(ge=1, le=10_000)] = 500
    max_batch: Annotated[int, Meta(ge=1, le=10_000)] = 500
    max_age_s: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    watched_age_s: Annotated[float, Meta(gt=0, le=3_600)] = 5.0
    budget_mb: Annotated[float, Meta(ge=10, le=1_000_000)] = 256.0
    minimum_interval_s: Annotated[float, Meta(ge=0, le=86_400)] = 5.0
    maximum_interval_s: Annotated[float, Meta(gt=0, le=604_800)] = 600.0
    variable: dict[Name, StorageRule] = {}


class Simulator(Section, frozen=True):
    """Hardware that is simulated, and how fast its time runs.

    `faults` is a file of what fails and when. `replay` is a recording (CSV) that drives the chamber instead
    of the model: a reading holds for `replay_gap_s`, and with `replay_loop` it begins again after its end.
    The door opens at `door_hours` of each day. Of several environments each has a chamber of its own, in one
    room: the first is the one that is replayed, and the doors of all of them open.
    """

    enabled: bool = True
    speed: Annotated[float, Meta(ge=0.01, le=10_000)] = 1.0
    seed: int = 1
    faults: str = ""
    replay: str = ""
    replay_loop: bool = False
    replay_gap_s: Seconds = 900.0
    door_hours: tuple[Annotated[float, Meta(ge=0, lt=24)], ...] = ()


class Sensor(Section, frozen=True):
    """One sensor, on an I2C bus or a serial line. `address` 0 means the chip's usual one.

    What follows `interval_s` only some kinds have (`_KINDS_WITH`). An SCD30 corrects its reading for the
    pressure of the air, given as such or by the altitude, and takes `temperature_offset_degc` off for the
    heat of the parts around it; without a value, altitude and offset stay as the chip has them. Its
    self-calibration wants fresh air once a day, which a chamber does not have.

    An MH-Z19 or MH-Z16 is on the serial line `port`. For a USB adapter that may come back under another name
    that is its path in /dev/serial/by-id, or a pattern with `*`. Without a port it is behind an SC16IS750
    bridge, which `bus` and `address` are of. Its self-calibration is the automatic baseline. A value that has
    not changed for `stuck_after_s` is a fault. `range_ppm` ends above [interlock] ceiling_ppm, for its end is
    no reading.
    """

    name: Name
    kind: Literal["scd30", "bh1750", "tsl2591", "mhz19", "mhz16"]
    bus: Annotated[int, Meta(ge=0, le=32)] = 1
    address: Annotated[int, Meta(ge=0, le=0x77)] = 0
    interval_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 2.0
    ambient_pressure_hpa: Annotated[int, Meta(ge=700, le=1_400)] | None = None
    altitude_m: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    temperature_offset_degc: Annotated[float, Meta(ge=0, le=655.35)] | None = None
    self_calibration: bool = False
    port: Annotated[str, Meta(pattern=r"^/dev/[A-Za-z0-9_./:*+-]+$", max_length=256)] | None = None
    range_ppm: Literal[2_000, 5_000, 10_000] = 10_000
    stuck_after_s: Annotated[float, Meta(ge=600, le=604_800)] = 14_400.0


_I2C_PINS = {0: (0, 1), 1: (2, 3)}
"""SDA and SCL (BCM) of the buses that a Raspberry Pi has on its header by default."""

_UART_PINS = (14, 15)
_UARTS = ("/dev/serial0", "/dev/ttyAMA0", "/dev/ttyS0")
"""The names that the serial port on the header's pins (TXD and RXD, BCM) has, by model and settings."""

_DATABASE_NAME = re.compile(r"[a-z][a-z0-9_$()+/-]*")
"""Of CouchDB: docs.couchdb.org/en/3.5.x/api/database/common.html#put--db."""

_PWM_PINS = (12, 13, 18, 19)
"""Those of the header (BCM) that some Raspberry Pi's PWM chip can drive."""

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

_HELD_BY_CEILING = ("air_carbon_dioxide_valve_on", "air_flush_on")
"""What the ceiling of CO2 acts through; without it there is none."""


class Channel(Section, frozen=True):
    """One colour of the lamp: its PWM pin, and its level when the whole lamp is asked for full light."""

    name: Literal["white", "red", "blue"]
    pin: Pin
    mix: Fraction = 1.0


class Light(Section, frozen=True):
    """The lamp, with one to three channels.

    A level of 0 is off; one above it becomes the duty minimum_duty + (1 - minimum_duty) x level ^ `gamma`.
    With gamma 1 light is proportional to the level, which the control of illuminance counts on; with 2.2
    equal steps of the level look equal to the eye. `ramp_s` is how long the way from dark to full takes.
    Without a light sensor that can be believed, illuminance is not trimmed any more, or with `needs_sensor`
    not commanded any more: the lamp is dark then, but for channels with a set point of their own.

    With `hardware_pwm` the pins that the processor's PWM chip can drive (12, 13, 18 and 19) are dimmed by it,
    as far as the lamp has them; the others go on by software, whose limit `frequency_hz` keeps to on all of
    them. The chip is /sys/class/pwm/pwmchip`pwm_chip`.
    """

    enabled: bool = True
    channel: tuple[Channel, ...] = (
        Channel(name="white", pin=12),
        Channel(name="red", pin=13, mix=0.5),
        Channel(name="blue", pin=18, mix=0.5),
    )
    frequency_hz: Annotated[float, Meta(ge=1, le=10_000)] = 200.0
    minimum_duty: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    gamma: Annotated[float, Meta(ge=0.2, le=5)] = 1.0
    ramp_s: Annotated[float, Meta(ge=0, le=3_600)] = 0.0
    inverted: bool = False
    hardware_pwm: bool = False
    pwm_chip: Annotated[int, Meta(ge=0, le=32)] = 0
    full_scale_lux: Annotated[float, Meta(ge=1, le=200_000)] = 20_000.0
    needs_sensor: bool = False
    stale_after_s: Patience = 10.0
    override_s: Seconds = 600.0


class Relay(Section, frozen=True):
    """A relay on a pin, for a valve or a fan: on while the command for `variable` is one half or more.

    `active` is the level of the pin that switches it on. It is in its `safe` state without a command that is
    younger than `stale_after_s`, and when growd does not run.

    It is safe too, whoever commands it, while the variable in `needs` is not known: a valve must not stay
    open when nobody can say what the air is like. For a valve that is air_carbon_dioxide where a sensor
    measures it, and for a fan nothing, unless said otherwise; "" is nothing. A valve is safe when it is off.
    """

    name: Name
    pin: Pin
    variable: Literal["air_carbon_dioxide_valve_on", "air_flush_on"]
    active: Literal["high", "low"] = "high"
    safe: Literal["off", "on"] = "off"
    needs: str | None = None
    stale_after_s: Patience = 10.0
    override_s: Seconds = 600.0


class Filter(Section, frozen=True):
    """From `raw` to `measured`: the weight of a new sample, and when silence makes the value stale."""

    weight: Annotated[float, Meta(ge=0.001, le=1)] = 0.3
    stale_after_s: Seconds = 30.0


class CarbonDioxide(Section, frozen=True):
    """How the set point of CO2 is kept, where a sensor measures it and a relay has a valve for it.

    By a PID with doses, or `on_off`: the valve is open from `band_ppm` below the set point up to it. From
    `fan_band_ppm` above the set point on an exhaust fan helps, where a relay has one. Doses are no shorter
    than the least times, nor are the pauses between them. The gains are for the simulated chamber; the
    service autotune finds those of another, with a dose of `autotune_open_s` at most, and they are kept.
    """

    method: Literal["pid", "on_off"] = "pid"
    kp_per_ppm: Annotated[float, Meta(ge=0, le=100)] = 0.003
    ti_s: Annotated[float, Meta(ge=1, le=864_000)] = 2_400.0
    td_s: Annotated[float, Meta(ge=0, le=3_600)] = 20.0
    set_point_weight: Fraction = 1.0
    band_ppm: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    fan_band_ppm: Annotated[float, Meta(ge=0, le=10_000)] = 30.0
    minimum_on_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0
    minimum_off_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 2.0
    fan_minimum_on_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    fan_minimum_off_s: Annotated[float, Meta(ge=0.1, le=3_600)] = 10.0
    autotune_open_s: Annotated[float, Meta(ge=1, le=600)] = 120.0
    override_s: Seconds = 600.0


class Interlock(Section, frozen=True):
    """What no recipe, client or controller passes; docs/control.md tells what each interlock is for.

    From `ceiling_ppm` on the valve for CO2 is shut and the exhaust fan runs (unless `ceiling_starts_fan` is
    off), until it is lower by the hysteresis. The valve is open for `valve_open_s` at a stretch at most, and
    then shut for `valve_rest_s`; and for `dose_s` of an hour, or with the flow of a valve for `dose_litres`
    (3600 s: no limit). When it was open for `no_rise_open_s` and CO2 did not rise by `no_rise_ppm`, it stays
    shut until someone has looked.

    The lamp is off from `light_off_degc` of the air on, until that is lower by the hysteresis, and for the
    rest of a day on which it was on for `light_hours` (24: no limit).
    """

    ceiling_ppm: Annotated[float, Meta(ge=1_000, le=30_000)] = 5_000.0
    ceiling_hysteresis_ppm: Annotated[float, Meta(ge=10, le=900)] = 500.0
    ceiling_starts_fan: bool = True
    valve_open_s: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    valve_rest_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    dose_s: Annotated[float, Meta(ge=1, le=3_600)] = 1_800.0
    dose_litres: Annotated[float, Meta(gt=0, le=10_000)] | None = None
    valve_flow_l_min: Annotated[float, Meta(gt=0, le=1_000)] | None = None
    no_rise_open_s: Annotated[float, Meta(ge=30, le=86_400)] = 180.0
    no_rise_ppm: Annotated[float, Meta(ge=20, le=5_000)] = 40.0
    light_off_degc: Annotated[float, Meta(ge=0, le=85)] = 35.0
    light_hysteresis_degc: Annotated[float, Meta(ge=0.1, le=20)] = 2.0
    light_hours: Annotated[float, Meta(gt=0, le=24)] = 24.0

    @property
    def dose_limit_s(self) -> float:
        """The dose per hour, in seconds that a valve is open."""
        if self.dose_litres is None or self.valve_flow_l_min is None:
            return self.dose_s
        return self.dose_litres / self.valve_flow_l_min * 60.0


_SENSORS = (
    Sensor(name="scd30_1", kind="scd30"),
    Sensor(name="bh1750_1", kind="bh1750", interval_s=1.0),
)


class Recipe(Section, frozen=True):
    """How recipes run. `after_outage` is where one goes on after growd or the machine did not run: where it
    would be now, or where it stopped.
    """

    after_outage: Literal["where_it_would_be", "where_it_stopped"] = "where_it_would_be"


class Chamber(Section, frozen=True):
    """All that belongs to one environment. A `light` that is mentioned is there.

    `combine` says of a variable that several sensors measure what it is: what the first of them in the file
    says that can be believed, or the median of those (which takes three: of two nobody can tell who lies).
    """

    sensor: tuple[Sensor, ...] = ()
    light: Light = Light(enabled=False)
    relay: tuple[Relay, ...] = ()
    filter: Filter = Filter()
    combine: dict[str, Literal["first", "median"]] = {}
    carbon_dioxide: CarbonDioxide = CarbonDioxide()
    interlock: Interlock = Interlock()
    recipe: Recipe = Recipe()


class Config(Chamber, frozen=True):
    """The whole file, whose sections of a chamber are those of the first environment.

    `chamber` has the further ones by their id, each with such sections of its own beneath its name:
    `[[chamber.shelf_2.sensor]]`, `[chamber.shelf_2.light]`. Device names are unique within an environment;
    an I2C bus may have sensors of several.
    """

    environment: Environment = Environment()
    http: Http = Http()
    couchdb: Couchdb = Couchdb()
    replication: Replication = Replication()
    store: Store = Store()
    simulator: Simulator = Simulator()
    sensor: tuple[Sensor, ...] = _SENSORS
    light: Light = Light()
    topics: dict[str, MessageTypeName] = {}
    chamber: dict[Name, Chamber] = {}

    def chambers(self) -> dict[str, Chamber]:
        """What each environment has, by its id, the first (`environment.id`) first."""
        return {self.environment.id: self, **self.chamber}

    def place(self, environment: str, section: str) -> str:
        """A section of an environment as the file has it: "[light]", or "[chamber.shelf_2.light]"."""
        return f"[{section}]" if environment == self.environment.id else f"[chamber.{environment}.{section}]"

    def device(self, environment: str, name: str) -> str:
        """The name of a device for a person, with its environment where there are several."""
        return f"{environment}/{name}" if self.chamber else name


def load(path: Path | None, settings: tuple[str, ...] = ()) -> Config:
    """The configuration of a file (none: all defaults), with `section.option=value` settings on top."""
    source = str(path) if path is not None else "the command line"
    tree = _read(path) if path is not None else {}
    for setting in settings:
        _apply(tree, setting)
    _check_sections(tree, Config, source)
    _check_chambers(tree, source)
    config = _convert(tree, Config, source)
    _check_together(config, source)
    for environment in config.chambers():
        _check_chamber(config, environment, source)
    _check_pins(config, source)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(f"{path}: is not TOML: {error}") from None


def _apply(tree: dict[str, Any], setting: str) -> None:
    """Put one `section.option=value` into the tree; the value is TOML, or text where it is not."""
    place, separator, text = setting.partition("=")
    section, dot, option = place.strip().partition(".")
    if not separator or not dot or not section or not option:
        raise ConfigError(f"--set {setting}: must have the form section.option=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    place_of = tree.setdefault(section, {})
    if not isinstance(place_of, dict):
        raise ConfigError(f"--set {setting}: [{section}] is a list and can't be set so; use a file")
    *inner, last = option.split(".")
    for name in inner:
        place_of = place_of.setdefault(name, {})
        if not isinstance(place_of, dict):
            raise ConfigError(f"--set {setting}: {name} in [{section}] has no options beneath it")
    place_of[last] = value


def _check_sections(tree: dict[str, Any], kind: type[Section], source: str, within: str = "") -> None:
    known = [field.name for field in msgspec.structs.fields(kind)]
    for name in tree:
        if name not in known:
            raise ConfigError(f"{source}: [{within}{name}]: unknown section; known are {', '.join(known)}")


def _check_chambers(tree: dict[str, Any], source: str) -> None:
    """Each further environment on its own: of the members of a table msgspec does not say which is wrong."""
    chambers = tree.get("chamber")
    if not isinstance(chambers, dict):
        return  # none, or what the conversion refuses
    first = tree.get("environment", {})
    taken = first.get("id", Environment().id) if isinstance(first, dict) else ""
    for name, chamber in chambers.items():
        _convert(name, Name, source, "chamber")
        if name == taken:
            raise ConfigError(
                f"{source}: [chamber.{name}]: is the id of the first environment; choose another"
            )
        _check_id(name, f"{source}: [chamber.{name}]")
        if isinstance(chamber, dict):
            _check_sections(chamber, Chamber, source, f"chamber.{name}.")
        _convert(chamber, Chamber, source, f"chamber.{name}")


def _check_id(environment: str, place: str) -> None:
    if environment == "environments":
        # older clients begin their names for every environment with this word
        raise ConfigError(f"{place}: environments is reserved, choose another")


def _convert(tree: Any, kind: type[T], source: str, within: str = "") -> T:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explain(str(error), tree, within)}") from None


def _explain(sentence: str, tree: Any, within: str) -> str:
    """Msgspec's "reason - at `$.section.option`" as "[section] option: reason", `within` a table."""
    reason, _, place = sentence.partition(" - at ")
    path = [part for part in re.split(r"[.\[\]`$]+", place) if part]
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", reason)
    if unknown:
        path.append(unknown[1])
        reason = "unknown option"
    missing = re.fullmatch(r"Object missing required field `(.*)`", reason)
    if missing:
        path.append(missing[1])
        reason = "is missing"
    if not path and not within:
        return reason
    if reason not in {"unknown option", "is missing"}:
        reason += f" (got {_at(tree, path)!r})"
    section = ".".join(filter(None, (within, *path[:1])))
    return f"{' '.join(filter(None, (f'[{section}]', '.'.join(path[1:]))))}: {reason}"


def _at(tree: Any, path: list[str]) -> Any:
    for part in path:
        tree = tree[int(part)] if isinstance(tree, list) else tree.get(part, "")
    return tree


def _check_together(config: Config, source: str) -> None:
    """What no single option can tell."""
    _check_intervals(config.store, source)
    if config.store.batch > config.store.max_batch:
        raise ConfigError(f"{source}: [store] batch: is above max_batch")
    _check_id(config.environment.id, f"{source}: [environment] id")
    _check_address(config.couchdb.url, source, "couchdb")
    known = config.chambers()
    for name in config.replication.environments:
        if name not in known:
            unknown = f"there is no environment {name}; there is {', '.join(known)}"
            raise ConfigError(f"{source}: [replication] environments: {unknown}")
    if config.replication.url:
        _check_replication(config.replication, source)
    if not config.simulator.enabled and config.simulator.speed != 1:
        raise ConfigError(f"{source}: [simulator] speed: only simulated hardware can run at another speed")
    if not config.simulator.enabled and config.simulator.replay:
        raise ConfigError(f"{source}: [simulator] replay: only simulated hardware can replay a recording")
    if not config.simulator.enabled and config.simulator.faults:
        raise ConfigError(f"{source}: [simulator] faults: only simulated hardware has faults from a file")


def _check_chamber(config: Config, environment: str, source: str) -> None:
    """What no single option of an environment can tell."""
    chamber = config.chambers()[environment]
    sensors, light, channels = chamber.sensor, chamber.light, chamber.light.channel
    of_sensors, of_light, of_relays = (
        f"{source}: {config.place(environment, section)}" for section in ("sensor", "light", "relay")
    )
    _check_once(f"{of_sensors} name", [sensor.name for sensor in sensors])
    _check_kinds(of_sensors, sensors)
    if light.enabled and not channels:
        raise ConfigError(f"{of_light} channel: there is none; with no lamp, set enabled = false")
    _check_once(f"{of_light} channel.pin", [channel.pin for channel in channels])
    _check_once(f"{of_light} channel.name", [channel.name for channel in channels])
    if light.hardware_pwm and not any(channel.pin in _PWM_PINS for channel in channels):
        pins = ", ".join(map(str, _PWM_PINS))
        raise ConfigError(f"{of_light} hardware_pwm: is for GPIO {pins}, none of which the lamp has")
    if any(sensor.name == "light" for sensor in sensors):
        raise ConfigError(f"{of_sensors} name: light is the name of the lamp")
    _check_relay_names(of_relays, chamber)
    _check_relays_of_one_variable(of_relays, chamber.relay)
    limits = chamber.interlock
    if limits.dose_litres is not None and limits.valve_flow_l_min is None:
        where = f"{source}: {config.place(environment, 'interlock')} dose_litres"
        raise ConfigError(f"{where}: takes valve_flow_l_min, the flow of an open valve")
    _check_autotune(f"{source}: {config.place(environment, 'carbon_dioxide')}", chamber)
    if any(relay.variable in _HELD_BY_CEILING for relay in chamber.relay):
        _check_ranges(of_sensors, sensors, limits.ceiling_ppm)


def _check_autotune(place: str, chamber: Chamber) -> None:
    """The one dose of autotune is over before an interlock ends it."""
    open_s = chamber.carbon_dioxide.autotune_open_s
    for option in ("valve_open_s", "no_rise_open_s"):
        most = getattr(chamber.interlock, option)
        if open_s > most and any(relay.variable == "air_carbon_dioxide_valve_on" for relay in chamber.relay):
            raise ConfigError(f"{place} autotune_open_s: {open_s:g} is above [interlock] {option}, {most:g}")


def _check_ranges(place: str, sensors: Sequence[Sensor], ceiling_ppm: float) -> None:
    """Every sensor of CO2 can measure the ceiling: the end of its range is a fault, and no reading."""
    for sensor in sensors:
        if sensor.kind in _KINDS_WITH["range_ppm"] and sensor.range_ppm - 1 < ceiling_ppm:
            raise ConfigError(
                f"{place} range_ppm: {sensor.name} ends at {sensor.range_ppm}, so it can't measure "
                f"[interlock] ceiling_ppm, {ceiling_ppm:g}; choose a larger range (10000 is the largest) "
                "or a lower ceiling"
            )


def _check_intervals(store: Store, source: str) -> None:
    """For each variable the minimum is not above the maximum, whichever of them is its own."""
    own = [(f"variable.{name}.", rule) for name, rule in store.variable.items()]
    for place, rule in [("", StorageRule()), *own]:
        minimum = store.minimum_interval_s if rule.minimum_interval_s is None else rule.minimum_interval_s
        maximum = store.maximum_interval_s if rule.maximum_interval_s is None else rule.maximum_interval_s
        if minimum > maximum:
            where = f"{source}: [store] {place}minimum_interval_s"
            raise ConfigError(f"{where}: {minimum:g} is above maximum_interval_s, {maximum:g}")


def _check_kinds(place: str, sensors: Sequence[Sensor]) -> None:
    """No sensor has an option of another kind."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(Sensor)}
    for sensor in sensors:
        for option, kinds in _KINDS_WITH.items():
            if sensor.kind not in kinds and getattr(sensor, option) != defaults[option]:
                owner = f"{sensor.name} is a {sensor.kind}"
                raise ConfigError(f"{place} {option}: {owner}; it is for {', '.join(kinds)} only")
        if sensor.kind in _ON_SERIAL_LINES:
            _check_line(place, sensor, defaults)


def _check_line(place: str, sensor: Sensor, defaults: Mapping[str, object]) -> None:
    """A sensor with a serial line is at a port, or behind a bridge."""
    if sensor.port is None and not sensor.address:
        where = "on a serial line such as /dev/serial0; behind an SC16IS750 bridge it has its address instead"
        raise ConfigError(
            f"{place} port: is missing; {sensor.name} is a {sensor.kind}, {where}, such as 0x4D"
        )
    for option in ("bus", "address"):
        if sensor.port is not None and getattr(sensor, option) != defaults[option]:
            where = f"{sensor.name} is at {sensor.port}, and not behind a bridge on an I2C bus"
            raise ConfigError(f"{place} {option}: {where}")


def _check_relay_names(place: str, chamber: Chamber) -> None:
    """Each device has topics by its name. The lamp is "light"."""
    _check_once(f"{place} name", [relay.name for relay in chamber.relay])
    others = {sensor.name for sensor in chamber.sensor} | {"light"}
    for relay in chamber.relay:
        if relay.name in others:
            raise ConfigError(f"{place} name: {relay.name} is the name of another device")


def _check_relays_of_one_variable(place: str, relays: Sequence[Relay]) -> None:
    """They have one controller, so what that goes by is the same for all of them."""
    first: dict[str, Relay] = {}
    for relay in relays:
        if relay.variable == "air_carbon_dioxide_valve_on" and relay.safe == "on":
            raise ConfigError(f"{place} safe: {relay.name} is a valve for CO2, which is safe when it is off")
        other = first.setdefault(relay.variable, relay)
        for option in ("needs", "override_s"):
            if getattr(relay, option) != getattr(other, option):
                both = f"{other.name} and {relay.name} are both for {relay.variable}"
                raise ConfigError(f"{place} {option}: {both}, and must have the same")


def _check_pins(config: Config, source: str) -> None:
    """A pin has one device, whatever environment that belongs to.

    Those of an I2C bus or of the serial port are taken where a sensor is on it.
    """
    taken: dict[int, str] = {}
    for environment, chamber in config.chambers().items():
        for sensor in chamber.sensor:
            taken |= _pins_of(sensor, config.device(environment, sensor.name))
    for environment, chamber in config.chambers().items():
        for place, user, pin in _outputs_of(config, environment, chamber):
            if pin in taken:
                raise ConfigError(f"{source}: {place}: {user} and {taken[pin]} are both on GPIO {pin}")
            taken[pin] = user


def _outputs_of(config: Config, environment: str, chamber: Chamber) -> Iterator[tuple[str, str, int]]:
    """The option, the name and the pin of each output of an environment."""
    if chamber.light.enabled:
        for channel in chamber.light.channel:
            name = f"channel {config.device(environment, channel.name)}"
            yield f"{config.place(environment, 'light')} channel.pin", name, channel.pin
    for relay in chamber.relay:
        yield f"{config.place(environment, 'relay')} pin", config.device(environment, relay.name), relay.pin


def _pins_of(sensor: Sensor, name: str) -> dict[int, str]:
    """The pins that the bus or line of a sensor of that name takes, with their user."""
    if sensor.port is None:
        return dict.fromkeys(_I2C_PINS.get(sensor.bus, ()), f"I2C bus {sensor.bus}")
    is_on_header = any(fnmatchcase(uart, sensor.port) for uart in _UARTS)
    return dict.fromkeys(_UART_PINS if is_on_header else (), f"sensor {name} at {sensor.port}")


def _check_once(place: str, values: Sequence[object]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ConfigError(f"{place}: {value} is given {count} times")


def _check_replication(replication: Replication, source: str) -> None:
    where = f"{source}: [replication]"
    _check_address(replication.url, source, "replication")
    parts = urlsplit(replication.url)
    if parts.username is not None:
        shown = re.sub(r"//.*@", "//", replication.url)
        raise ConfigError(f"{where} url: a login stands in credentials_file, not in the address of {shown}")
    if parts.query or parts.fragment:
        raise ConfigError(f"{where} url: is the address of a server, without ? and #, got {replication.url}")
    if (replication.points, replication.recipes) == ("off", "off"):
        raise ConfigError(f"{where} points: is off as recipes is; with nothing to copy, leave url out")
    if replication.ca_file and parts.scheme != "https":
        raise ConfigError(f"{where} ca_file: is for an https url, got {replication.url}")
    if replication.ca_file and not replication.verify_tls:
        raise ConfigError(f"{where} ca_file: is of no use with verify_tls = false; choose one of them")
    for option in ("points_database", "recipes_database"):
        name = getattr(replication, option)
        if not _DATABASE_NAME.fullmatch(name.replace("{device}", "0" * 12)):
            raise ConfigError(
                f"{where} {option}: must begin with one of a-z and go on with a-z, 0-9 and _$()+/-, "
                f"or {{device}}, got {name!r}"
            )


def _check_address(url: str, source: str, section: str) -> None:
    """The address may hold a password, so the sentence shows it without the login."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        sound = False
    shown = re.sub(r"//.*@", "//", url)
    if not sound:
        raise ConfigError(
            f"{source}: [{section}] url: must be http://host:port or https://host:port, got {shown}"
        )
    if ":" in unquote(parts.username or ""):  # which ends the user in Basic authentication (RFC 7617)
        raise ConfigError(f"{source}: [{section}] url: a user can't have a colon, in the address of {shown}")
