"""Sections of what the whole daemon has: front door, database, replication, store, simulator."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from growd.config.base import Name, NameOrNone, Port, Section
from growd.config.devices import SensorKindName
from growd.config.findings import ConfigError

MessageTypeName = Literal[
    "std_msgs/Float64",
    "std_msgs/Int64",
    "std_msgs/Bool",
    "std_msgs/String",
    "geometry_msgs/Vector3",
    "diagnostic_msgs/DiagnosticStatus",
]


class SetPoints(Section, frozen=True):
    """Set points by hand in an environment."""

    keep_set_points: bool = True
    """Keep set points by hand over a restart; false releases them."""


class Environment(SetPoints, frozen=True):
    """The first environment."""

    id: Name = "environment_1"
    """Topics, services and parameters of the environment begin with it."""

    time_zone: Annotated[str, Meta(max_length=64)] = ""
    """Such as "Europe/Berlin", for times of day in all environments. Default: the zone of the machine."""

    def zone(self) -> ZoneInfo | None:
        """The time zone, None for the machine's. Blocking: it reads a file. Raises `ConfigError`."""
        try:
            return ZoneInfo(self.time_zone) if self.time_zone else None
        except (OSError, ValueError, ZoneInfoNotFoundError):
            raise ConfigError(f"[environment] time_zone: {self.time_zone!r} is not known here") from None


class Http(Section, frozen=True):
    """The front door: one address for the API and the database."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on."""

    port: Port = 5984
    """Port to listen on; 0 takes a free one."""

    access: Literal["", "couchdb", "open"] = ""
    """Who may use growd; required if other machines reach `host`. "couchdb": users of the database, by their
    roles (see [access]). "open": everybody."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]*$", max_length=32)] = "svc"
    """The API is at /_<name>, the design documents are _design/<name>."""

    hosts: tuple[str, ...] = ()
    """Further names by which clients reach growd, such as that of a proxy."""

    origins: tuple[str, ...] = ()
    """Other sites whose pages may use the API and the database, such as "https://panel.example:8443". "*"
    lets pages of every site read what needs no login."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For growd trusts. It always trusts those on this
    machine."""


class Couchdb(Section, frozen=True):
    """The database. Without `url` growd runs its embedded database."""

    url: str = ""
    """Address of the CouchDB, such as "http://127.0.0.1:5985"; may contain user and password."""

    credentials_file: str = ""
    """File with two lines, user and password."""

    prefix: Annotated[str, Meta(pattern=r"^[a-z0-9_]*$", max_length=32)] = ""
    """Prefix of the names of growd's databases."""

    client_design_documents: bool = False
    """Let clients write design documents into the embedded database. Their functions run with growd's rights,
    so anyone who may write one can run programs on this machine."""


class Replication(Section, frozen=True):
    """Continuous copies to and from a remote CouchDB server. Without `url` nothing is replicated."""

    url: str = ""
    """The remote server, without a database and without a login."""

    credentials_file: str = ""
    """File with two lines, user and password, not readable for others."""

    ca_file: str = ""
    """Trusted certificate authorities (PEM); default: those of the machine."""

    points: Literal["up", "off"] = "up"
    """Copy measured and desired points to the remote server."""

    events: Literal["up", "off"] = "up"
    """Copy commands, qualities and events to the remote server."""

    photos: Literal["up", "off"] = "off"
    """Copy the photos of cameras to the remote server. They take their room a second time in the database."""

    recipes: Literal["down", "both", "off"] = "down"
    """Copy recipes from the remote server, or in both directions."""

    environments: tuple[Name, ...] = ()
    """Copy only the points, events and photos of these environments; empty is all."""

    prefix: Annotated[str, Meta(pattern="^([a-z][a-z0-9_]*)?$", max_length=32)] = ""
    """The names of the databases on the remote server begin with it."""

    group: NameOrNone = ""
    """The group of the device in its fleet. Recipes that are published to this group are copied too."""


class StorageRuleOptions(Section, frozen=True):
    """Which values of one variable are stored, if different from [store] and the table of variables."""

    absolute_band: Annotated[float, Meta(ge=0)] | None = None
    """Dead band of measured values, in the unit of the variable: smaller changes are not stored before
    maximum_interval_s."""

    minimum_interval_s: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """At most one value in this time."""

    maximum_interval_s: Annotated[float, Meta(gt=0, le=604_800)] | None = None
    """At least one value in this time."""


class Store(Section, frozen=True):
    """When points are stored and sent to the database. New points are safe on disk within a second."""

    max_age_s: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """Points are sent when the oldest has this age, or 500 wait."""

    budget_mb: Annotated[float, Meta(ge=10, le=1_000_000)] = 256.0
    """Space on disk for points that wait while the database is away."""

    minimum_interval_s: Annotated[float, Meta(ge=0, le=86_400)] = 5.0
    """At most one value of each variable is stored in this time."""

    maximum_interval_s: Annotated[float, Meta(gt=0, le=604_800)] = 600.0
    """At least one value of each variable is stored in this time."""

    variable: dict[Name, StorageRuleOptions] = msgspec.field(default_factory=dict)
    """Rules of single variables."""

    def rule_of(self, variable: str) -> StorageRuleOptions:
        """The rule of a variable; options that it does not set are those of the section, if it has them."""
        own = self.variable.get(variable, StorageRuleOptions())
        general = {name: getattr(self, name, None) for name in own.__struct_fields__}
        given = {name: value for name in general if (value := getattr(own, name)) is not None}
        return StorageRuleOptions(**(general | given))

    def holds_s(self, variable: str) -> float:
        """How long a stored measurement holds: a tenth more than the longest interval, at least a minute."""
        return max(60.0, 1.1 * (self.rule_of(variable).maximum_interval_s or 0))


class Gpio(Section, frozen=True):
    """The pins of the header."""

    library: Literal["gpiod", "RPi.GPIO"] = "gpiod"
    """The package that drives them. docs/hardware.md compares them."""

    pwm_chip: Annotated[int, Meta(ge=0, le=32)] = 0
    """Number of the chip for hardware PWM in /sys/class/pwm."""


class Simulator(Section, frozen=True):
    """Simulated hardware, and the speed of its time.

    Each environment has its own chamber. A recording drives the first one.
    """

    enabled: bool = True
    """Simulated hardware in place of this machine's."""

    speed: Annotated[float, Meta(ge=0.01)] = 1.0
    """How many times as fast as real the time runs at most."""

    seed: int = 1
    """Seed of the random numbers: the same seed gives the same noise."""

    faults: str = ""
    """File with faults and their times."""

    unconfigured: tuple[SensorKindName, ...] = ()
    """Kinds of sensors that are wired and have no section [[sensor]] yet: the page finds them by a scan."""

    replay: str = ""
    """Recording in place of the model: a CSV file, or a run that `growd run export` wrote."""


LEAST_DAYS: Final = 7.0
"""Points younger than this are never deleted, even if room is short."""


class Retention(Section, frozen=True):
    """How long points are kept, and how much room the database may take. Rollups of five minutes, hours and
    days stay for ever, and so do set points, events, notes and manual measurements.
    """

    keep_days: Annotated[float, Meta(ge=0, le=36_500)] = 90.0
    """Measured values and commands older than this are deleted, once they are rolled up and confirmed by the
    remote server of a replication. 0 keeps all for ever."""

    budget_mb: Annotated[float, Meta(ge=0, le=100_000_000)] = 0.0
    """Room for the database with its compaction. 0: what the disk allows (docs/retention.md)."""
