"""How a running daemon is: what it tells in one answer, and what `growd status` makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from growd.control.health import State
from growd.host.machine import MachineStatus  # noqa: TC001  msgspec reads it
from growd.store.database_node import DatabaseStatus  # noqa: TC001  likewise
from growd.store.replication_health import ReplicationStatus  # noqa: TC001  likewise
from growd.store.store_node import StoreStatus  # noqa: TC001  likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

LITTLE_DISK_BYTES: Final = 500_000_000
"""Less free space than this, or than `LITTLE_DISK_SHARE` of the disk where that is less, is told."""

LITTLE_DISK_SHARE: Final = 0.1


class Counters(msgspec.Struct, frozen=True):
    """What a device did since growd started; `last_error_time` in UNIX seconds, 0 for never."""

    successes: int
    failures: int
    outages: int
    outage_seconds: float
    last_error: str
    last_error_time: float


class DeviceStatus(msgspec.Struct, frozen=True):
    """The state of a device, `since` when (UNIX seconds), and why."""

    name: str
    state: str
    since: float
    message: str
    counters: Counters

    @property
    def has_failed(self) -> bool:
        """It does not do what it is asked for."""
        return self.state == State.FAILED


class InterlockStatus(msgspec.Struct, frozen=True):
    """The state of an interlock, `since` when (UNIX seconds), and why."""

    name: str
    tripped: bool
    reason: str
    needs_reset: bool
    since: float


class Reading(msgspec.Struct, frozen=True):
    """The last message on a topic: the value (None where it says that there is none) and how old it is.

    `by` is who gave it: "recipe" or "hand" for a set point, "control" or "hand" for a command, "hand" for
    what was measured by hand, else the node.
    """

    value: float | None
    quality: str
    age_s: float
    by: str


class VariableStatus(msgspec.Struct, frozen=True):
    """One variable of an environment, in `unit`: as it is, as it is wanted, and what is done about it.

    `commanded` is a share of the actuator's full power. None where nobody has said anything yet.
    `hand_left_s` is for how many seconds more a command by hand holds. `held_by` is the interlock that holds
    the output against the command, "" for none, and `written` the level that was written then, if known.
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

    @property
    def is_known(self) -> bool:
        """Whether somebody has said anything of it."""
        return any(each is not None for each in (self.measured, self.desired, self.commanded)) or bool(
            self.held_by
        )


class HandStatus(msgspec.Struct, frozen=True):
    """A set point by hand, `by` whom and `since` when (UNIX seconds); `over` is the recipe, "" for none."""

    environment: str
    variable: str
    value: float
    unit: str
    by: str
    since: float
    over: str


class RecipeStatus(msgspec.Struct, frozen=True):
    """The recipe of an environment: `state` is "idle", "running" or "paused"; times are of the recipe.

    `revision` is the one that runs, `changed` is that of the document in the database where it differs.
    """

    environment: str
    state: str
    recipe_id: str
    phase: str
    elapsed_s: float
    remaining_s: float
    revision: str = ""
    changed: str = ""


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong now, in one sentence that says what to do where there is a remedy.

    Each node lists its own in the detail `problems`. A failure ends `growd status` with exit status 1; a
    warning does not.
    """

    text: str
    is_failure: bool = False


class ComponentStatus(msgspec.Struct, frozen=True):
    """A part of growd that has failed and goes on: how often since growd started, and why the last time."""

    name: str
    failures: int
    last_error: str


class ChannelStatus(msgspec.Struct, frozen=True):
    """A way to tell operators of alerts: `waiting` are to be told, `error` says why it fails, if it does."""

    name: str
    kind: str
    state: str
    error: str
    waiting: int


class Status(msgspec.Struct, frozen=True):
    """All of it at `time`, in UNIX seconds of the daemon's clock, which may run fast where it simulates.

    Replications go by `machine_time`, that of the machine's clock.
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
    hardware: Literal["real", "simulated"] = "real"

    @property
    def failures(self) -> list[str]:
        """What does not do what it is there for, in sentences."""
        return [*self._failures()]

    @property
    def warnings(self) -> list[str]:
        """What is not as it should be, though everything works still, in sentences."""
        return [*self._warnings()]

    def _failures(self) -> Iterator[str]:
        for device in self.devices:
            if device.has_failed:
                yield f"{device.name} has failed: {device.counters.last_error or device.message}"
        for interlock in self.interlocks:
            if interlock.needs_reset:
                yield f"{interlock.name} has tripped and holds until it is reset: {interlock.reason}"
        if self.store is not None and self.store.saving:
            yield f"points can't be kept: {self.store.saving}"
        if self.store is not None and self.store.has_lost(self.time):
            yield "points were lost for want of room"
        yield from (problem.text for problem in self.problems if problem.is_failure)

    def _warnings(self) -> Iterator[str]:
        for interlock in self.interlocks:
            if interlock.tripped and not interlock.needs_reset:
                yield f"{interlock.name} has tripped: {interlock.reason}"
        if self.database is not None and not self.database.reachable:
            yield f"the database is not reachable: {self.database.reason}"
        for replication in self.replications:
            if replication.has_failed:
                yield f"the replication of {replication.name} fails: {replication.last_error}"
        for channel in self.channels:
            if channel.error:
                yield f"alerts can't be told by {channel.name}: {channel.error}"
        yield from (problem.text for problem in self.problems if not problem.is_failure)
        if self.machine is not None:
            yield from _of_machine(self.machine)


def _of_machine(machine: MachineStatus) -> Iterator[str]:
    if has_little_disk(machine):
        yield "the disk of the data folder is nearly full"
    for trouble in machine.troubles or []:
        yield f"the machine tells of {trouble}"
    if not machine.clock_synchronised:
        yield "the machine's clock is not synchronised"


def has_little_disk(machine: MachineStatus) -> bool:
    """Whether the disk of the data folder is nearly full."""
    total, free = machine.disk_bytes, machine.disk_free_bytes
    return total is not None and free is not None and free < min(LITTLE_DISK_BYTES, LITTLE_DISK_SHARE * total)
