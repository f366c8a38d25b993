"""The answers of growd. Times are UNIX seconds in UTC. Members that growd adds later are ignored."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec


class Quality(StrEnum):
    """The quality of a value. Only an `ok` value is a measurement."""

    OK = "ok"
    WARM_UP = "warm-up"
    STALE = "stale"
    FAULT = "fault"


class TopicMessage(msgspec.Struct, frozen=True):
    """A message on a topic, from `node`; `number` counts the messages of a topic, None if it is unknown.

    `value` is a number, text, flag or object, as the type of the topic says. It is None if it is unknown, and
    `quality` says why. A released set point is None with the quality "stale".
    """

    topic: str
    value: Any
    time: float
    quality: Quality
    node: str
    number: int | None = None

    @property
    def moment(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.time, UTC)


class TopicInfo(msgspec.Struct, frozen=True):
    """A topic: its message type, such as "std_msgs/Float64", and the nodes at it."""

    type: str
    publishers: list[str] = msgspec.field(name="pubs")
    subscribers: list[str] = msgspec.field(name="subs")


class ServiceInfo(msgspec.Struct, frozen=True):
    """A service: its request type, the node that offers it, and the names of its arguments in order."""

    request_type: str
    node: str
    arguments: list[str] = msgspec.field(name="args")


class NodeInfo(msgspec.Struct, frozen=True):
    """A node: its topics, services and parameters by name."""

    name: str = msgspec.field(name="node_name")
    publishes: list[str] = msgspec.field(name="pubs")
    subscribes: list[str] = msgspec.field(name="subs")
    services: list[str] = msgspec.field(name="srvs")
    parameters: list[str] = msgspec.field(name="params")


class Posted(msgspec.Struct, frozen=True):
    """The answer to a published message. `hint` says why it has not its whole effect, or is empty."""

    message: str
    hint: str = ""


class SessionInfo(msgspec.Struct, frozen=True):
    """Who the client is: `role` is "reader", "operator", "admin", or empty without any permission.

    `access` is "local" (only this machine reaches growd), "open" (no login needed) or "couchdb".
    """

    access: str
    user: str
    role: str


class VariableInfo(msgspec.Struct, frozen=True):
    """A variable of an environment.

    `names` are by language, `precision` is in decimals. `reach` are the least and the greatest set point that
    the chamber can reach, None if unknown. `outputs` are the variables of the outputs that control it.
    """

    variable: str
    unit: str
    minimum: float
    maximum: float
    names: dict[str, str]
    group: str
    precision: int
    measured: bool
    derived: bool
    controlled: bool
    manual: bool
    reach: Any = None
    outputs: list[str] = []


class EnvironmentInfo(msgspec.Struct, frozen=True):
    """An environment: the time zone of its set points by time of day, its variables and its devices.

    docs/clients.md has the members of a device.
    """

    environment: str
    time_zone: str
    variables: list[VariableInfo]
    devices: list[dict[str, Any]]


class ValueAt(msgspec.Struct, frozen=True):
    """A value and its time; None is a released set point."""

    time: float
    value: float | None


class BucketColumns(msgspec.Struct, frozen=True):
    """Statistics of buckets, in columns of equal length; buckets without points are left out.

    `time` are the starts of the buckets, `before` is the last value before the range. A None is a released
    value, which `count` does not include.
    """

    before: ValueAt | None
    time: list[int]
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]
    last: list[float | None]
    count: list[int]


class VariableHistory(msgspec.Struct, frozen=True):
    """The past of one variable. A measurement holds for `holds_s` seconds at most.

    It was no longer known from each of the `breaks` on, and known again from the `resumes` on.
    """

    variable: str
    unit: str
    holds_s: float
    breaks: list[float]
    resumes: list[float]
    measured: BucketColumns
    desired: BucketColumns
    commanded: BucketColumns


class StoredPoint(msgspec.Struct, frozen=True):
    """A stored value. None is a released set point or command.

    `by` is the author of a note or a measurement by hand; set points and commands are stored without one.
    """

    environment: str
    variable: str
    time: float = msgspec.field(name="timestamp")
    value: Any
    is_manual: bool = False
    by: Any = ""

    @property
    def moment(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.time, UTC)


class StoredEvent(msgspec.Struct, frozen=True):
    """An event: `kind` is "fault", "recovery", "interlock", "recipe", "note", "restart" ...

    `source` and `by` are empty if they are unknown. `details` are the fields of a calibration.
    """

    time: float
    kind: str
    source: str
    message: str
    by: str
    details: dict[str, Any] = {}


class PastRange(msgspec.Struct, frozen=True):
    """The answer of `history`: buckets of `bucket_s` seconds from `start` to `end`.

    Points before `retired_until` are retired, so no bucket is narrower than 300 s; 0 if none are. With
    `events_truncated` there are older events.
    """

    environment: str
    start: int
    end: int
    bucket_s: int
    retired_until: int
    series: list[VariableHistory]
    events: list[StoredEvent]
    events_truncated: bool

    def variable(self, name: str) -> VariableHistory | None:
        """The past of a variable, None if it was not asked for or has no points."""
        return next((one for one in self.series if one.variable == name), None)


class RunSummary(msgspec.Struct, frozen=True):
    """A run of a recipe. `ended`, `end_reason` and `elapsed` are None while it runs.

    `offset` and `elapsed` are the seconds of the recipe at the start and at the end, `revisions` is how often
    another recipe took over.
    """

    id: str
    short_id: str
    environment: str
    started: float
    recipe_id: str = ""
    recipe_rev: str = ""
    revisions: int = 0
    started_by: str = ""
    offset: float = 0.0
    ended: float | None = None
    ended_by: str | None = None
    end_reason: str | None = None
    elapsed: float | None = None
    growd: str = ""


class RunList(msgspec.Struct, frozen=True):
    """Runs, the newest first. With `more` there are older ones: ask again with `before`."""

    environment: str
    runs: list[RunSummary]
    more: bool


class RunNote(msgspec.Struct, frozen=True):
    """A note of a run; `photos` are names, `corrects` is the id of the note whose text this one replaces."""

    id: str
    time: float
    by: str
    text: str
    measurements: dict[str, Any]
    corrects: str = ""
    photos: list[str] = []


class RunMeasurement(msgspec.Struct, frozen=True):
    """A measurement by hand of a variable that no sensor measures."""

    id: str
    time: float
    variable: str
    value: float | None
    unit: str
    by: str


class RunRecord(msgspec.Struct, frozen=True):
    """All of a run: the stored document, notes, measurements by hand and events.

    Notes and measurements belong to the run until `until`.
    """

    run: dict[str, Any]
    short_id: str
    until: float
    notes: list[RunNote]
    measurements: list[RunMeasurement]
    events: list[StoredEvent]
    events_truncated: bool


class PhotoInfo(msgspec.Struct, frozen=True):
    """A photo of an entry: `size` in bytes; `waiting` if the database does not have it yet."""

    name: str
    address: str
    type: str
    size: int
    waiting: bool = False


class EarlierText(msgspec.Struct, frozen=True):
    """The text of an entry before a correction."""

    text: str
    by: str
    written: float


class SavedEntry(msgspec.Struct, frozen=True):
    """An entry of the journal: `time` is when it happened, `written` when it came.

    It is on growd's disk, and `waiting` for the database. `refused` says why the database refused it or a
    part of it, or is empty. `earlier` are the texts before its corrections, the oldest first.
    """

    id: str
    time: float
    written: float
    by: str
    text: str
    measurements: dict[str, Any]
    photos: list[PhotoInfo]
    waiting: bool = False
    refused: str = ""
    earlier: list[EarlierText] = []


class EntryList(msgspec.Struct, frozen=True):
    """Entries, the newest first. With `more`, older ones follow: ask with the time of the last as `end`.

    `missing` says why stored entries are missing, or is empty.
    """

    environment: str
    entries: list[SavedEntry]
    more: bool = False
    missing: str = ""
