"""The report of a device to its cloud: the status in at most 64 kB, and how the reports go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from growd.runtime.text import duration
from growd.status.notices import notices_of
from growd.store.points import Value  # noqa: TC001  msgspec reads the types

if TYPE_CHECKING:
    from growd.status.model import RecipeStatus, Status, VariableStatus

MOST_REPORT: Final = 64 * 1024
"""Bytes of JSON that the receiver reads."""

MOST_BYTES: Final = 64_000
"""Bytes of JSON that a device sends."""

MOST_NAME: Final = 200  # characters
Name = Annotated[str, Meta(max_length=MOST_NAME)]
Text = Annotated[str, Meta(max_length=1_000)]
Count = Annotated[int, Meta(ge=0)]
Time = Annotated[float, Meta(ge=0, le=253_402_300_799)]  # UNIX seconds, up to the year 9999

Severity = Literal["info", "warning", "critical"]
_SEVERITIES: Final[dict[str, Severity]] = {"failure": "critical", "warning": "warning"}  # notes are left out
_MOST_ALERTS: Final = 50
_MOST_TEXT: Final = 300  # characters of an alert
_MOST_ENVIRONMENTS: Final = 64
_SIZES: Final = (  # values of each environment, alerts, and characters of recipes and phases
    (64, _MOST_ALERTS, MOST_NAME),
    (16, _MOST_ALERTS, MOST_NAME),
    (4, _MOST_ALERTS, MOST_NAME),
    (0, _MOST_ALERTS, MOST_NAME),
    (0, 10, 20),
)
_DISK_STEP: Final = 10_000_000  # bytes; a report is sent early if something in it changes


CLOCK_S: Final = 120.0
"""A clock that is farther off is wrong, not a report late."""


CLOCK: Final = "the clock of the device is"
"""The begin of the sentence about it, which the device reports too once it knows."""


def clock_fault(device: float, cloud: float) -> str:
    """The difference of two clocks at the same moment, in UNIX seconds; "" if a report may take so long."""
    off = device - cloud
    if abs(off) <= CLOCK_S:
        return ""
    way = "ahead of" if off > 0 else "behind"
    return (
        f"{CLOCK} {duration(abs(off))} {way} that of the cloud, so its points have wrong "
        "times and may be in another month; set the clock"
    )


class ReportedValue(Struct, frozen=True, omit_defaults=True):
    """The newest value of a variable, and its set point if it has one."""

    value: Value
    quality: Name = "ok"
    unit: Name = ""
    set_point: Value = None


class ReportedEnvironment(Struct, frozen=True, omit_defaults=True):
    """An environment: its recipe with the phase and the seconds that remain, and the values by variable.

    `state` is that of the recipe: "idle", "waiting", "running" or "paused".
    """

    recipe: Name = ""
    state: Name = ""
    phase: Name = ""
    remaining_s: float | None = None
    values: dict[Name, ReportedValue] = {}


class ReportedAlert(Struct, frozen=True):
    """An alert that is active since the UNIX time `since`."""

    severity: Severity
    text: Text
    since: Time


class DeviceReport(Struct, frozen=True, omit_defaults=True):
    """What a device reports of itself (PUT /_device), at most `MOST_REPORT` bytes.

    `time` is the device's own, UNIX seconds. `api` is the address of its API, "" if it should not be known.
    `lag` has the documents that each replication has to copy yet, None where that is unknown.
    """

    name: Name
    version: Name
    time: Time
    api: Text = ""
    alerts: Annotated[list[ReportedAlert], Meta(max_length=200)] = []
    lag: dict[Name, Count | None] = {}
    points_waiting: Count = 0
    disk_free_bytes: Count | None = None
    environments: dict[Name, ReportedEnvironment] = {}

    @property
    def essence(self) -> DeviceReport:
        """It without what changes all the time."""
        environments = {name: replace(each, remaining_s=0.0) for name, each in self.environments.items()}
        return replace(self, time=0.0, environments=environments)

    def encoded(self) -> bytes:
        """It as JSON of at most `MOST_BYTES`: with fewer values and alerts, as many as fit."""
        for values, alerts, length in _SIZES:
            environments = {
                name: replace(
                    each,
                    recipe=each.recipe[:length],
                    phase=each.phase[:length],
                    values=dict([*each.values.items()][:values]),
                )
                for name, each in self.environments.items()
            }
            body = msgspec.json.encode(replace(self, alerts=self.alerts[:alerts], environments=environments))
            if len(body) <= MOST_BYTES:
                break
        return body


def report_of(status: Status, name: str, version: str, address: str) -> DeviceReport:
    """The report of a status."""
    alerts = [
        ReportedAlert(_SEVERITIES[each.severity], each.text[:_MOST_TEXT], each.since)
        for each in notices_of(status)
        if each.severity in _SEVERITIES
    ]
    if status.hardware == "simulated":  # a note to people at the chamber; in a fleet nobody else would know
        alerts.insert(0, ReportedAlert("warning", "the hardware is simulated", 0.0))
    free = None if status.machine is None else status.machine.disk_free_bytes
    return DeviceReport(
        name=name[:MOST_NAME],
        version=version,
        time=round(status.machine_time, 3),
        api=address,
        alerts=alerts[:_MOST_ALERTS],
        lag={each.name: each.lag for each in status.replications},
        points_waiting=0 if status.store is None else status.store.waiting,
        disk_free_bytes=None if free is None else free // _DISK_STEP * _DISK_STEP,
        environments=_environments(status),
    )


def alerts_of(status: Status) -> list[tuple[str, ...]]:
    """What the alerts are about: unlike their texts it does not change while they last."""
    return [
        (each.severity, each.kind, each.name) for each in notices_of(status) if each.severity in _SEVERITIES
    ]


def _environments(status: Status) -> dict[str, ReportedEnvironment]:
    values: dict[str, dict[str, ReportedValue]] = {}
    for each in status.variables:
        if each.measured is not None or each.desired is not None:
            values.setdefault(each.environment, {})[each.variable] = _value(each)
    recipes = {each.environment: each for each in status.recipes}
    names = [*dict.fromkeys((*recipes, *values))][:_MOST_ENVIRONMENTS]
    return {name: _environment(recipes.get(name), values.get(name, {})) for name in names}


def _environment(recipe: RecipeStatus | None, values: dict[str, ReportedValue]) -> ReportedEnvironment:
    if recipe is None or recipe.state == "idle":
        return ReportedEnvironment(state="idle", remaining_s=0.0, values=values)
    return ReportedEnvironment(
        recipe=recipe.recipe_id[:MOST_NAME],
        state=recipe.state,
        phase=recipe.phase[:MOST_NAME],
        remaining_s=float(round(recipe.remaining_s)),
        values=values,
    )


def _value(each: VariableStatus) -> ReportedValue:
    measured, desired = each.measured, each.desired
    return ReportedValue(
        value=None if measured is None else _rounded(measured.value),
        set_point=None if desired is None else _rounded(desired.value),
        quality="" if measured is None else measured.quality,
        unit=each.unit,
    )


def _rounded(value: float | None) -> float | None:
    """With five significant digits: more are noise, which would change each report."""
    return None if value is None else float(f"{value:.5g}")
