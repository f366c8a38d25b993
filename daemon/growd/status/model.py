"""The status of a running daemon, as its node `status` gives it over HTTP and `growd status` reads it."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from growd.control.health import State
from growd.host.hold import Hold  # noqa: TC001  msgspec reads it
from growd.host.machine import MachineStatus  # noqa: TC001  msgspec reads it
from growd.store.database_node import DatabaseStatus  # noqa: TC001  likewise
from growd.store.replication_status import ReplicationStatus  # noqa: TC001  likewise
from growd.store.retention.budget import RetentionStatus  # noqa: TC001  likewise
from growd.store.store_node import StoreStatus  # noqa: TC001  likewise


class CloudStatus(msgspec.Struct, frozen=True):
    """How the reports to the cloud at `server` go; `reported_at` in UNIX seconds of the machine, 0 for never.

    `state`: "starting", "reporting", "away" (no answer), "refused", or "none" if the server takes no reports.
    `fault` says why none is taken, "" if the last one was. `clock` says that the clocks of the machine and of
    the cloud differ, "" if they agree.
    """

    server: str
    state: Literal["starting", "reporting", "away", "refused", "none"] = "starting"
    reported_at: float = 0.0
    fault: str = ""
    clock: str = ""


class BridgeStatus(msgspec.Struct, frozen=True):
    """The bridge to the broker at `host` and `port`; `reason` says why it `is_connected` not, "" if unknown.

    All topics begin with `topic`. `published` counts messages, `accepted` and `refused` commands.
    """

    host: str
    port: int
    is_connected: bool
    reason: str
    topic: str
    takes_commands: bool
    published: int
    accepted: int
    refused: int


DATABASE_STARTS_S: Final = 15.0
"""How long a database may take to answer after a start of growd. The embedded one takes some seconds."""

LITTLE_DISK_BYTES: Final = 500_000_000
"""Less free space than this, or than `LITTLE_DISK_SHARE` of the disk if that is less, is a warning."""

LITTLE_DISK_SHARE: Final = 0.1

Hardware = Literal["real", "simulated"]
Stage = Literal["starting", "running", "stopping"]
Severity = Literal["failure", "warning", "note"]
VariableState = Literal["at_set_point", "approaching", "off", "unknown", "free"]


class Counters(msgspec.Struct, frozen=True):
    """What a device did since growd started; `last_error_time` in UNIX seconds, 0 for never."""

    successes: int
    failures: int
    outages: int
    outage_seconds: float
    last_error: str
    last_error_time: float


class DeviceStatus(msgspec.Struct, frozen=True):
    """The state of a device, `since` when (UNIX seconds), and why.

    `variables` are what it measures, `line` is its bus or serial line; empty for an output. `code` is that of
    its last error.
    """

    name: str
    state: str
    since: float
    message: str
    counters: Counters
    variables: list[str] = []
    line: str = ""
    code: str = ""

    @property
    def has_failed(self) -> bool:
        """The device does not work."""
        return self.state == State.FAILED


class OutputStatus(msgspec.Struct, frozen=True):
    """An output with its counters, from `since` (UNIX seconds) on.

    `level` (0..1) is what was written last, None if it is not known. Energy and volume are None unless the
    configuration has the power and the flow, and until the counters of earlier runs are read; so are
    `life_left`, the share of `rated_starts` that is left, and `days_left` at the mean rate since then.
    """

    environment: str
    name: str
    part: str
    variable: str
    output_class: str
    kind: str
    power_w: float | None
    flow_ml_min: float | None
    rated_starts: int | None
    level: float | None
    since: float
    cycles: int
    on_s: float
    energy_kwh: float | None
    volume_l: float | None
    life_left: float | None
    days_left: float | None


class LineStatus(msgspec.Struct, frozen=True):
    """A bus or serial line: how often it was recovered, and how many hung threads were abandoned."""

    name: str
    recoveries: int
    threads_left_behind: int


class Limit(msgspec.Struct, frozen=True):
    """A configured limit of an interlock."""

    name: str
    value: float
    unit: str


class InterlockStatus(msgspec.Struct, frozen=True):
    """The state of an interlock, `since` when (UNIX seconds), and why; and its limits.

    One that `is_expected` is part of normal operation. `reason` of one that has not tripped is a pause, such
    as that of a compressor, which may hold an output. One that `is_failure` has found something that growd
    cannot end; with `stays_on` it is an output that stays on. One that `is_quiet` has tripped only because
    growd has just started. `holds`: the outputs that it may hold, by name, or by their own variables.
    `reads`: the variables that it judges. `code` and `fields` say the reason in any language. `remedy`, with
    `code`, `fields` and `text`: what to do before a reset.
    """

    name: str
    tripped: bool
    reason: str
    needs_reset: bool
    since: float
    limits: list[Limit] = []
    is_expected: bool = False
    is_failure: bool = False
    is_quiet: bool = False
    stays_on: bool = False
    holds: list[str] = []
    reads: list[str] = []
    code: str = ""
    fields: dict[str, Any] = {}
    remedy: dict[str, Any] = {}

    @property
    def advice(self) -> str:
        """The remedy of one that needs a reset."""
        text = self.remedy.get("text", "") if self.needs_reset else ""
        return f"{text[:1].upper()}{text[1:]}." if text else ""


class Reading(msgspec.Struct, frozen=True):
    """The last message on a topic: its value (None for a fault or a release) and its age.

    `by` is the author: "recipe" or "hand" of a set point, "control" or "hand" of a command, "hand" of a
    value measured by hand, else the name of the node.
    """

    value: float | None
    quality: str
    age_s: float
    by: str


class VariableStatus(msgspec.Struct, frozen=True):
    """A variable of an environment: measured value and set point in `unit`, and command; None without one.

    `commanded` is a share of the actuator's full power. A command by hand holds for `hand_left_s` more
    seconds. `held_by` is the interlock that holds the output against the command, "" for none; `written` is
    the level that was written then, if known. `is_sensed`: a sensor of growd measures the variable.
    `low` and `high` are the least and the greatest value that counts as at the set point, None for no limit.
    `state`: "free" has no set point; "off" does not reach it, "approaching" may still.
    """

    environment: str
    variable: str
    unit: str
    measured: Reading | None
    desired: Reading | None
    commanded: Reading | None
    hand_left_s: float
    held_by: str = ""
    written: float | None = None
    is_sensed: bool = False
    state: VariableState = "free"
    low: float | None = None
    high: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether a set point is in force."""
        return self.desired is not None and self.desired.value is not None

    @property
    def has_set_point(self) -> bool:
        """Whether a set point is to be reached, also while the value is unknown."""
        is_planned = self.desired is not None and "/planners/" in self.desired.by  # that of its source counts
        return not is_planned and (self.is_set if self.state == "unknown" else self.state != "free")

    @property
    def is_known(self) -> bool:
        """Whether there is a message about it, or an interlock holds it."""
        return any(each is not None for each in (self.measured, self.desired, self.commanded)) or bool(
            self.held_by
        )


class HandStatus(msgspec.Struct, frozen=True):
    """A set point by hand: its author, its time (UNIX seconds), and the recipe it overrides ("" for none).

    One that `is_idle` is recorded, and nothing acts on it. It ends at `until` (UNIX seconds), when the recipe
    next changes the variable; 0 if it has no known end.
    """

    environment: str
    variable: str
    value: float
    unit: str
    by: str
    since: float
    over: str
    is_idle: bool = False
    until: float = 0.0


class RecipeStatus(msgspec.Struct, frozen=True):
    """The recipe of an environment: `state` is "idle", "waiting", "running" or "paused".

    Times are of the recipe. `revision` is the one that runs or waits; `changed` is that of the document in
    the database, if it differs. `updates` counts the states that the recipe runner has published. While it
    waits, `starts_at` is the UNIX time of its start, else 0. `revised_at` is the UNIX time at which the
    recipe took over from another one in its run, 0 if none did. `started` is the UNIX time of the start, 0
    before, and `by` who ordered it ("" if they did not say).
    """

    environment: str
    state: str
    recipe_id: str
    phase: str
    elapsed_s: float
    remaining_s: float
    revision: str = ""
    changed: str = ""
    updates: int = 0
    starts_at: float = 0.0
    revised_at: float = 0.0
    started: float = 0.0
    by: str = ""


class RecipeEnd(msgspec.Struct, frozen=True):
    """The end of a recipe at `time` (UNIX seconds); `number` counts those of the environment."""

    environment: str
    recipe_id: str
    time: float
    number: int


class AttainmentStatus(msgspec.Struct, frozen=True):
    """Whether a controlled variable reaches its set point.

    `state` is "idle", "settling", "reached" or "missed"; `text` gives the reason. `value` and `set_point` are
    None unless the set point is missed; `is_lasting`: missed since `since` (UNIX seconds), for
    so long that it is a problem; `is_failure`: and several times too far. `reason` has the reason with its
    code and fields. `band` has the
    least and the greatest value that counts as at the set point (None: no limit), None if it is not judged.
    """

    environment: str
    variable: str
    state: str
    text: str
    value: float | None
    set_point: float | None
    is_lasting: bool = False
    is_failure: bool = False
    since: float = 0.0
    reason: dict[str, Any] | None = None
    band: tuple[float, float | None] | None = None


class ExperimentStatus(msgspec.Struct, frozen=True):
    """A running autotune, calibration or self-test: its progress in words, the variable that it drives.

    `code` and `fields` are those of `name`; `stage` has those of `text`.
    """

    environment: str
    name: str
    text: str
    variable: str = ""
    code: str = ""
    fields: dict[str, Any] = {}
    stage: dict[str, Any] = {}


class Problem(msgspec.Struct, frozen=True):
    """A current problem in one sentence, with the remedy if there is one: a failure, or else a warning.

    Each node lists its own in the detail `problems`. `is_note`: it needs no action. `name` says what it is
    about, `service` what helps.
    """

    text: str
    is_failure: bool = False
    is_note: bool = False
    code: str = ""
    fields: dict[str, Any] = {}
    remedy: str = ""
    name: str = ""
    service: str = ""

    @property
    def key(self) -> str:
        """What identifies it: its code with what it is about, or its text."""
        about = self.name or str(self.fields.get("environment", ""))
        return ":".join(filter(None, (self.code, about))) if self.code else self.text


class CalibrationDue(msgspec.Struct, frozen=True):
    """Whether a device should be calibrated again, in words."""

    environment: str
    device: str
    is_due: bool
    text: str


class SensorsApart(msgspec.Struct, frozen=True):
    """Whether the sensors of a variable drift apart. Without `is_known` there are too few readings to say."""

    environment: str
    variable: str
    is_known: bool
    is_apart: bool
    text: str


class OpenAlert(msgspec.Struct, frozen=True):
    """An alert that has not ended: `since` in ISO 8601; `acknowledged_by` is None until somebody does.

    `about`: the kind and the name of the notice that says the same, if there is one. `value` and `limit` are
    in `unit`.
    """

    id: str
    rule: str
    severity: Literal["info", "warning", "critical"]
    text: str
    since: str
    acknowledged_by: str | None
    kind: str = ""
    about: tuple[str, str] = ("alert", "")
    variable: str = ""
    device: str = ""
    value: float | None = None
    limit: float | None = None
    unit: str = ""


class Notice(msgspec.Struct, frozen=True):
    """What a person should know, in one sentence, and the service that helps, "" for none.

    `kind` and `name` say what it is about, such as "device" and "environment_1/scd30_1". `since` is in UNIX
    seconds, 0 if unknown. `code` and `fields` are for clients that make the sentence in another language;
    `remedy` says what to do. `alerts` has the ids of the open alerts about it, `effects` what it causes.
    """

    severity: Severity
    kind: str
    text: str
    name: str = ""
    since: float = 0.0
    service: str = ""
    arguments: dict[str, str] = {}
    code: str = ""
    fields: dict[str, Any] = {}
    remedy: str = ""
    environment: str = ""
    variables: list[str] = []
    alerts: list[str] = []
    effects: list[Notice] = []


class ComponentStatus(msgspec.Struct, frozen=True):
    """A component that has failed and was restarted; `failures` counts since growd started.

    `is_failing`: it failed more than twice in the last ten minutes.
    """

    name: str
    failures: int
    last_error: str
    is_failing: bool = False


class ChannelStatus(msgspec.Struct, frozen=True):
    """A channel of alerts: `waiting` alerts are not delivered yet; `error` is empty while it works."""

    name: str
    kind: str
    state: str
    error: str
    waiting: int


class HttpStatus(msgspec.Struct, frozen=True):
    """What the HTTP server did: answers by class of status ("2xx"); open connections and streams."""

    answered: dict[str, int]
    connections: int
    streams: int


class Status(msgspec.Struct, frozen=True):
    """A snapshot at `time`, in UNIX seconds of the daemon's clock, which may run fast in a simulation.

    Times of replications are of the machine's clock, as `machine_time` is. `stuck` names the loops that have
    not advanced in time. `recipe_ends` lists the last recipe ends since growd started, oldest first. While
    there are `holds`, all outputs are safe but those of the actuators in `unsafe`. `speed`: how many times
    faster than real time a simulation ran in the last seconds.
    """

    time: float
    machine_time: float
    machine: MachineStatus | None
    database: DatabaseStatus | None
    variables: list[VariableStatus]
    recipes: list[RecipeStatus]
    devices: list[DeviceStatus]
    interlocks: list[InterlockStatus]
    store: StoreStatus | None
    replications: list[ReplicationStatus]
    set_points: list[HandStatus] = []
    channels: list[ChannelStatus] = []
    problems: list[Problem] = []
    components: list[ComponentStatus] = []
    hardware: Hardware = "real"
    stage: Stage = "running"
    stuck: list[str] = []
    attainment: list[AttainmentStatus] = []
    recipe_ends: list[RecipeEnd] = []
    http: HttpStatus | None = None
    holds: list[Hold] = []
    experiments: list[ExperimentStatus] = []
    lines: list[LineStatus] = []
    alerts: list[OpenAlert] = []
    unsafe: list[str] = []
    speed: float = 1.0
    retention: RetentionStatus | None = None
    outputs: list[OutputStatus] = []
    calibrations_due: list[CalibrationDue] = []
    sensors_apart: list[SensorsApart] = []
    cloud: CloudStatus | None = None
    bridge: BridgeStatus | None = None

    @property
    def awaits_database(self) -> bool:
        """Whether the database has not answered yet, and may still be starting."""
        is_away = self.database is not None and not self.database.reachable
        return is_away and self.machine is not None and self.machine.growd_uptime_s < DATABASE_STARTS_S

    @property
    def held(self) -> list[str]:
        """The holds in sentences."""
        return [hold.sentence(is_safe=not self.unsafe) for hold in self.holds]

    @property
    def has_unsafe_output(self) -> bool:
        """Whether an output may be on that growd wants off."""
        is_unknown = self.stage == "running" and any(output.level is None for output in self.outputs)
        stays_on = any(lock.tripped and lock.stays_on for lock in self.interlocks)
        return bool(self.unsafe) or is_unknown or stays_on


def has_little_disk(machine: MachineStatus) -> bool:
    """Whether the disk of the data folder is nearly full."""
    total, free = machine.disk_bytes, machine.disk_free_bytes
    return total is not None and free is not None and free < min(LITTLE_DISK_BYTES, LITTLE_DISK_SHARE * total)
