"""Sections of what the whole daemon has: front door, database, replication, store, simulator."""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from growd.config.base import Name, Port, Seconds, Section
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
    """Whether set points by hand survive a restart; without it they are released by one."""


class Environment(SetPoints, frozen=True):
    """The growing chamber, the first where there are several."""

    id: Name = "environment_1"
    """Topics, services and parameters of the chamber begin with it."""

    time_zone: Annotated[str, Meta(max_length=64)] = ""
    """A name such as "Europe/Berlin", for all that goes by the time of day, in every environment; without one
    it is the machine's."""

    def zone(self) -> ZoneInfo | None:
        """The time zone, None for the machine's. Blocking: it reads a file. Raises `ConfigError`."""
        try:
            return ZoneInfo(self.time_zone) if self.time_zone else None
        except (OSError, ValueError, ZoneInfoNotFoundError):
            raise ConfigError(f"[environment] time_zone: {self.time_zone!r} is not known here") from None


class Http(Section, frozen=True):
    """The front door: one address for the API and the database."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """The address to listen on."""

    port: Port = 5984
    """The port to listen on; 0 takes any free one."""

    access: Literal["", "couchdb", "open"] = ""
    """Who may come in, to be decided where other machines reach `host`: "couchdb" is users of the database,
    by their roles (see [access]), "open" is everybody."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]*$", max_length=32)] = "svc"
    """The reserved word: the API stands beneath /_<name>, and the design documents are called _design/<name>,
    so that clients of an older system can be served under its name."""

    hosts: tuple[str, ...] = ()
    """Further names under which clients ask for growd, such as that of a proxy in front of it. Addresses,
    localhost, the machine's name, the same with .local, and `host` need not be named."""

    origins: tuple[str, ...] = ()
    """Whose pages may use the API and the database, such as "https://panel.example:8443", besides those that
    this address serves itself; "*" lets pages of every site read what takes no login."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies that are believed for whom they ask (X-Forwarded-For); those on this
    machine are without being named."""

    max_body_bytes: Annotated[int, Meta(ge=1024, le=4_194_304)] = 131_072
    """The largest body of a request to the API."""

    max_connections: Annotated[int, Meta(ge=1, le=100_000)] = 3_000
    """Beyond so many, the one that has waited longest for a request makes way for a new one."""

    max_connections_per_client: Annotated[int, Meta(ge=1, le=100_000)] = 200
    """Connections from one address, of IPv6 from one network of 64 bits; this machine's are not counted."""

    header_timeout_s: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    """The headers of a request must come within this."""

    keep_alive_s: Annotated[float, Meta(gt=0, le=86_400)] = 75.0
    """The next request on a connection must come within this of an answer."""

    max_streams: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    """Open streams of topics; each takes a connection, so the smaller of the two limits counts."""

    max_streams_per_client: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Open streams from one address; those of this machine are not counted."""

    max_requests_per_client_hz: Annotated[float, Meta(ge=1, le=100_000)] = 200.0
    """Requests a second to the API from one address, in the long run; this machine's are not counted."""

    stream_queue: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Messages that wait for a slow reader of a stream; beyond, the oldest are left out and counted."""

    heartbeat_s: Annotated[float, Meta(gt=0, le=3_600)] = 15.0
    """A stream of server-sent events on which nothing happens has a comment as often. Streams of lines have
    none: each line is a message."""

    topic_data_s: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    """How long topic_data waits for the next message at most."""


class Couchdb(Section, frozen=True):
    """The database. Without an address, growd runs its embedded one."""

    url: str = ""
    """Where CouchDB is, such as "http://127.0.0.1:5985"; user and password may stand in it."""

    credentials_file: str = ""
    """A file of two lines, user and password. A bare name is one of systemd's credentials."""

    prefix: Annotated[str, Meta(pattern=r"^[a-z0-9_]*$", max_length=32)] = ""
    """What the names of growd's databases begin with."""

    node: Annotated[str, Meta(min_length=1)] = "node"
    """The program Node.js, which the embedded database runs on."""

    client_design_documents: bool = False
    """Whether clients may write design documents into the embedded database. Their functions run with growd's
    rights, so whoever may write one can run programs on this machine."""


class Replication(Section, frozen=True):
    """What CouchDB copies to and from another server, for as long as both are there; without an address,
    nothing.

    Over https the server is believed where its certificate is good for the authorities of ca_file, else
    for those of this machine.
    """

    url: str = ""
    """The other server, without a database and without a login."""

    credentials_file: str = ""
    """A file of two lines, user and password, that others can't read. A bare name is one of systemd's
    credentials."""

    ca_file: str = ""
    """Certificates of the authorities that are believed (PEM)."""

    verify_tls: bool = True
    """Without it nothing is checked by growd, and by CouchDB what its own settings say."""

    points: Literal["up", "off"] = "up"
    """Points go up to the other server."""

    events: Literal["up", "off"] = "up"
    """Commands, qualities and events go up to the other server."""

    recipes: Literal["down", "both", "off"] = "down"
    """Recipes come down, or go both ways; down, so that no device changes what all others get."""

    environments: tuple[Name, ...] = ()
    """Only the points and events of these go up; with none named, all."""

    points_database: Annotated[str, Meta(max_length=128)] = "environmental_data_point"
    """The database there. "{device}" stands for the device's id: with it each device has a database of its
    own, without it they share one, which may be partitioned."""

    events_database: Annotated[str, Meta(max_length=128)] = "environmental_event"
    """The database there of commands, qualities and events, named in the same way."""

    recipes_database: Annotated[str, Meta(max_length=128)] = "recipes"
    """The database of recipes there."""


class StorageRule(Section, frozen=True):
    """When values of one variable are stored, where that is not as [store] and the table of variables say."""

    absolute_band: Annotated[float, Meta(ge=0)] | None = None
    """A value that moved by more than the larger of the bands is stored: this one is in its unit."""

    relative_band: Annotated[float, Meta(ge=0, le=1)] | None = None
    """And this one a share of the last value that was stored."""

    minimum_interval_s: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """At most one value in this time."""

    maximum_interval_s: Annotated[float, Meta(gt=0, le=604_800)] | None = None
    """At least one value in this time."""


class Store(Section, frozen=True):
    """When points are stored, committed and shipped. Each batch costs the card about the same, however many
    points are in it.
    """

    commit_interval_s: Annotated[float, Meta(gt=0, le=60)] = 1.0
    """New points are safe on the disk within this."""

    batch: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """A batch leaves for the database when it has so many points."""

    max_batch: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """When many wait, so many leave at a time."""

    max_age_s: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """A batch leaves when its oldest point is as old."""

    watched_age_s: Annotated[float, Meta(gt=0, le=3_600)] = 5.0
    """The same, while somebody reads the points through the front door."""

    budget_mb: Annotated[float, Meta(ge=10, le=1_000_000)] = 256.0
    """So much may wait on the disk while the database is away."""

    minimum_interval_s: Annotated[float, Meta(ge=0, le=86_400)] = 5.0
    """Of each variable at most one value in this time is stored."""

    maximum_interval_s: Annotated[float, Meta(gt=0, le=604_800)] = 600.0
    """And at least one in this time."""

    variable: dict[Name, StorageRule] = msgspec.field(default_factory=dict)
    """Variables with rules of their own."""


class Simulator(Section, frozen=True):
    """Hardware that is simulated, and how fast its time runs.

    Of several environments each has a chamber of its own, in one room: the first is the one that is
    replayed, and the doors of all of them open.
    """

    enabled: bool = True
    """Simulated hardware, in place of this machine's."""

    speed: Annotated[float, Meta(ge=0.01, le=10_000)] = 1.0
    """How many times as fast as real its time runs."""

    seed: int = 1
    """Of its random numbers: the same seed, the same noise."""

    faults: str = ""
    """A file of what fails and when."""

    replay: str = ""
    """A recording (CSV) that drives the chamber in place of the model."""

    replay_loop: bool = False
    """It begins again after its end."""

    replay_gap_s: Seconds = 900.0
    """A reading of the recording holds for as long."""

    door_hours: tuple[Annotated[float, Meta(ge=0, lt=24)], ...] = ()
    """The hours of each day at which the door is opened."""
