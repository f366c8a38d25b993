"""What each kind of alert rule observes in a status: pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted
from growd.bus.messages import Quality
from growd.host.hold import Holder
from growd.runtime.text import told_apart
from growd.status.notices import CAMERA, MAKE_ROOM, held_names, reason_and_remedy
from growd.variables import VARIABLES, hysteresis_of_band
from growd_alerts.messages import Place
from growd_alerts.rules import Level, band_level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd.config.alerts import AlertOptions
    from growd.status.model import InterlockStatus, Status, VariableStatus

SILENT_S: Final = 60.0
"""The recipe runner publishes the state of a running recipe each second; seconds of the clock."""

LOSS_S: Final = 3_600.0
"""How long a loss of points is reported after the last one; seconds of the clock."""

MANY_POINTS: Final = 10_000
"""`outbox` starts when more points wait: several hours of a usual chamber."""

LEAST_FREE_MB: Final = 500.0
"""`disk_full` starts when less space is free, which is what the database leaves."""

HOT_DEGC: Final = 80.0
"""`too_hot` starts above this temperature. A Raspberry Pi throttles there (raspberrypi.com, "Frequency
management and thermal control")."""

_MEGABYTE: Final = 1e6
_HYSTERESIS_MB: Final = 100.0
_HYSTERESIS_DEGC: Final = 5.0
_NOT_CONFIRMED: Final = "_not_confirmed"
_UNKNOWN: Final = "_unknown"
_NUMBERS: Final = re.compile(r"(?<!\w)-?\d+(?:\.\d+)?(?: (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?)?")
"""Numbers that are no part of a name, and durations such as "1 h 5 min", which have one part or two."""

_LEVELS: Final = {
    "idle": Level.CLEAR,
    "reached": Level.CLEAR,
    "settling": Level.BETWEEN,
    "missed": Level.RAISED,
}
"""The level of each state of a set point (`growd.control.attainment`)."""

_OF_QUALITY: Final[dict[str, tuple[Level, str]]] = {
    Quality.OK: (Level.CLEAR, "is measured"),
    Quality.WARM_UP: (Level.BETWEEN, "is not measured yet: its sensor warms up"),
    Quality.FAULT: (Level.RAISED, "is not measured: its sensor has a fault"),
    Quality.STALE: (Level.RAISED, "is not measured: no new sample arrives"),
    "": (Level.RAISED, "is not measured: no sample has arrived"),
}
_NOWHERE: Final = Place()


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of one thing that a rule watches: `subject` identifies it, `text` describes its state.

    One that `is_urgent` needs a person now: growd has found a failure that it cannot end.
    """

    subject: str
    level: Level
    text: str
    place: Place = _NOWHERE
    is_urgent: bool = False
    remedy: str = ""


def observe(rule: AlertOptions, status: Status, silent_s: Mapping[str, float]) -> list[Observation]:
    """The state of all that a rule watches.

    `silent_s`: for how many seconds the recipe runner of each environment has published nothing.
    """
    if rule.kind == "recipe_stalled":
        return list(_stalled(rule, status, silent_s))
    if rule.kind == "recipe_ended":  # it has no duration: `Watch` reports it from `Status.recipe_ends`
        return []
    return list(_OBSERVERS[rule.kind](rule, status))


def _level(*, is_raised: bool) -> Level:
    return Level.RAISED if is_raised else Level.CLEAR


def _is_of(rule: AlertOptions, environment: str, variable: str = "", device: str = "") -> bool:
    """Whether the options of the rule choose this one; an empty option chooses all."""
    return (
        rule.environment in ("", environment)
        and rule.variable in ("", variable)
        and rule.device in ("", device)
    )


# variables


def _sensed(rule: AlertOptions, status: Status) -> Iterator[VariableStatus]:
    for each in sorted(status.variables, key=lambda each: each.variable):
        if each.is_sensed and _is_of(rule, each.environment, each.variable):
            yield each


def _out_of_band(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in _sensed(rule, status):
        yield _in_band(rule, each)


def _in_band(rule: AlertOptions, found: VariableStatus) -> Observation:
    environment, name, unit = found.environment, found.variable, found.unit
    place = Place(environment=environment, variable=name, unit=unit)
    if found.measured is None or found.measured.value is None or found.measured.quality != Quality.OK:
        return Observation(environment, Level.UNKNOWN, f"{environment}: {name} is not known", place)
    value = found.measured.value
    low, high, of_set_point = _limits(rule, found)
    precision = VARIABLES[name].precision
    limit = low if low is not None and value < low else high if high is not None and value > high else None
    shown, words = f"{value:.{precision}f}", ""
    if limit is not None:
        shown, told = told_apart(value, limit, precision)
        words = f", {'below' if value < limit else 'above'} {told} {unit}{of_set_point}"
    place = Place(environment=environment, variable=name, value=value, limit=limit, unit=unit)
    level = band_level(value, low, high, hysteresis_of_band(name, low, high))
    return Observation(environment, level, f"{environment}: {name} is {shown} {unit}{words}", place)


def _limits(rule: AlertOptions, found: VariableStatus) -> tuple[float | None, float | None, str]:
    """The band, the narrower of the limits and the distance from the set point, and words for the latter."""
    low, high = rule.below, rule.above
    if rule.deviation is None or found.desired is None or found.desired.value is None:
        return low, high, ""
    set_point = found.desired.value
    near_low, near_high = set_point - rule.deviation, set_point + rule.deviation
    low = near_low if low is None else max(low, near_low)
    high = near_high if high is None else min(high, near_high)
    return low, high, f" (set point {set_point:.6g})"


def _set_point_missed(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in status.attainment:
        if _is_of(rule, each.environment, each.variable):
            unit = VARIABLES[each.variable].unit
            place = Place(each.environment, "", each.variable, each.value, each.set_point, unit)
            subject = f"{each.environment}/{each.variable}"
            yield Observation(subject, _LEVELS[each.state], each.text, place)


def _no_value(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in _sensed(rule, status):
        if VARIABLES[each.variable].is_derived and not rule.variable:
            continue  # what it is calculated from has an alert, or needs a recipe
        level, words = _OF_QUALITY["" if each.measured is None else each.measured.quality]
        place = Place(environment=each.environment, variable=each.variable, unit=each.unit)
        text = f"{each.environment}: {each.variable} {words}"
        yield Observation(f"{each.environment}/{each.variable}", level, text, place)


# devices, interlocks, recipes


def _device_failed(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in status.devices:
        environment, _, device = each.name.partition("/")
        if _is_of(rule, environment, device=device):
            reason, remedy = reason_and_remedy(each.message)
            words = f"has failed: {reason}" if each.has_failed else f"is {each.state}"
            text = f"{environment}: the device {device} {words}"
            place = Place(environment=environment, device=device)
            subject = f"{environment}/diagnostics/{device}"
            level = _level(is_raised=each.has_failed)
            yield Observation(subject, level, text, place, remedy="" if each.code == CAMERA else remedy)


def _interlocks(rule: AlertOptions, status: Status, end: str = "") -> Iterator[tuple[InterlockStatus, Place]]:
    """Those whose names end like this, with their environment and the name before."""
    for each in status.interlocks:
        environment, _, rest = each.name.partition("/")
        name = rest.removeprefix("interlocks/").removesuffix(end)
        if each.name.endswith(end) and _is_of(rule, environment, device=name):
            yield each, Place(environment=environment, device=name)


def _interlock(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each, place in _interlocks(rule, status):
        name = place.device
        if name == rule.device or _is_news(name, each):
            hint = "; it holds until it is reset" if each.needs_reset else ""
            if name.startswith("condition_") and each.holds:  # its name says what it reads, not what it does
                hint += f"; it holds {held_names(each.holds)}"
            words = f"has tripped: {each.reason}{hint}" if each.tripped else "has released"
            text = f"{place.environment}: the interlock {name} {words}"
            is_of_start = each.tripped and each.is_quiet and name != rule.device
            level = Level.UNKNOWN if is_of_start else _level(is_raised=each.tripped)
            yield Observation(each.name, level, text, place, _is_urgent(each), each.advice)


def _is_news(name: str, interlock: InterlockStatus) -> bool:
    """Whether no other rule reports the same: a sensor that fails is `device_failed`."""
    is_sensor = name.endswith(_UNKNOWN) and not name.startswith("condition_")
    return not (interlock.is_expected or is_sensor or name.endswith(_NOT_CONFIRMED))


def _not_confirmed(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each, place in _interlocks(rule, status, _NOT_CONFIRMED):
        words = f"is not confirmed: {each.reason}" if each.tripped else "is confirmed again"
        text = f"{place.environment}: the output {place.device} {words}"
        yield Observation(each.name, _level(is_raised=each.tripped), text, place, _is_urgent(each))


def _is_urgent(interlock: InterlockStatus) -> bool:
    return interlock.is_failure and not interlock.needs_reset


def _calibration_due(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in status.calibrations_due:
        if _is_of(rule, each.environment, device=each.device):
            place = Place(environment=each.environment, device=each.device)
            subject = f"{each.environment}/calibration/{each.device}"
            yield Observation(subject, _level(is_raised=each.is_due), each.text, place)


def _sensors_apart(rule: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in status.sensors_apart:
        if _is_of(rule, each.environment, each.variable):
            level = _level(is_raised=each.is_apart) if each.is_known else Level.UNKNOWN
            text = each.text if each.is_apart else f"{each.environment}: the sensors of {each.variable} agree"
            place = Place(environment=each.environment, variable=each.variable)
            yield Observation(f"{each.environment}/drift/{each.variable}", level, text, place)


def _hold(_: AlertOptions, status: Status) -> Iterator[Observation]:
    held = {hold.holder: str(hold) for hold in status.holds}
    for holder in Holder:
        text = held.get(holder, "the hold is released")
        yield Observation(f"hold/{holder}", _level(is_raised=holder in held), text)


def _stalled(rule: AlertOptions, status: Status, silent_s: Mapping[str, float]) -> Iterator[Observation]:
    for each in status.recipes:
        environment = each.environment
        if _is_of(rule, environment):
            is_silent = each.state == "running" and silent_s.get(environment, 0.0) > SILENT_S
            words = {
                "idle": "no recipe runs",
                "waiting": f"the recipe {each.recipe_id} waits for its start",
                "paused": f"the recipe {each.recipe_id} is paused",
            }.get(each.state, f"the recipe {each.recipe_id} {'makes no progress' if is_silent else 'runs'}")
            level = _level(is_raised=is_silent or each.state == "paused")
            yield Observation(environment, level, f"{environment}: {words}", Place(environment=environment))


# the store


def _outbox(_: AlertOptions, status: Status) -> Iterator[Observation]:
    if status.store is not None:
        waiting, is_raised = status.store.waiting, status.store.waiting > MANY_POINTS
        more = f", more than {MANY_POINTS}" if is_raised else ""
        text = f"{counted(waiting, 'point')} waiting for the database{more}"
        place = Place(value=float(waiting), limit=float(MANY_POINTS), unit="points")
        yield Observation("outbox", _level(is_raised=is_raised), text, place)


def _database(_: AlertOptions, status: Status) -> Iterator[Observation]:
    if status.store is not None:
        reason = status.store.shipping
        text = f"the database does not take points: {reason}" if reason else "the database takes points"
        yield Observation("database", _level(is_raised=bool(reason)), text)


def _points_lost(_: AlertOptions, status: Status) -> Iterator[Observation]:
    store = status.store
    if store is None:
        return
    is_recent = bool(store.dropped) and (store.lost_ago_s is None or store.lost_ago_s < LOSS_S)
    found = (
        ("lost", is_recent, f"{counted(store.dropped, 'point')} lost for lack of room since growd started"),
        ("refused", bool(store.rejected), f"{counted(store.rejected, 'point')} refused by the database"),
        ("unsaved", bool(store.saving), f"points can't be saved to disk: {store.saving}"),
    )
    for subject, is_raised, text in found:
        yield Observation(subject, _level(is_raised=is_raised), text if is_raised else "none at present")


def _database_room(_: AlertOptions, status: Status) -> Iterator[Observation]:
    found = status.retention
    if found is not None:
        text = found.text or "there is room for the database"
        is_worst = found.shortage == "storing_nothing"  # which has a message of its own
        level = Level.UNKNOWN if is_worst else _level(is_raised=bool(found.text))
        yield Observation("room", level, text)
        yield Observation("storing", _level(is_raised=is_worst), text)


def _replication(_: AlertOptions, status: Status) -> Iterator[Observation]:
    for each in status.replications:
        words = f"fails: {each.last_error}" if each.has_failed else f"is {each.state}"
        level = _level(is_raised=each.has_failed)
        yield Observation(each.name, level, f"the replication of {each.name} {words}")


def _problem(_: AlertOptions, status: Status) -> Iterator[Observation]:
    """The subject is the key of the problem, or its text without numbers, which may change while it lasts."""
    room = status.retention.text if status.retention is not None else ""
    for problem in status.problems:
        is_of_room = bool(room) and problem.text.startswith(room)  # which `database_room` reports
        if problem.is_failure and not is_of_room:
            subject = problem.key if problem.code else _NUMBERS.sub("#", problem.text)
            yield Observation(subject, Level.RAISED, problem.text, remedy=problem.remedy)


# the machine


def _disk_full(_: AlertOptions, status: Status) -> Iterator[Observation]:
    if status.machine is None or status.machine.disk_free_bytes is None:
        return
    free_mb = status.machine.disk_free_bytes / _MEGABYTE
    level = band_level(free_mb, LEAST_FREE_MB, None, _HYSTERESIS_MB)
    words = f", less than the {LEAST_FREE_MB:.0f} MB of the rule" if free_mb < LEAST_FREE_MB else ""
    text = f"{free_mb:.0f} MB are free on the disk of the data folder{words}"
    place = Place(value=free_mb, limit=LEAST_FREE_MB, unit="MB")
    yield Observation("disk", level, text, place, remedy=MAKE_ROOM)


def _too_hot(_: AlertOptions, status: Status) -> Iterator[Observation]:
    if status.machine is None:
        return
    if temperatures := status.machine.temperatures_degc:
        name, value = max(temperatures.items(), key=lambda item: item[1])
        level = band_level(value, None, HOT_DEGC, _HYSTERESIS_DEGC)
        shown, limit = told_apart(value, HOT_DEGC, 1)
        words = f", above {limit} degC" if value > HOT_DEGC else ""
        place = Place(device=name, value=value, limit=HOT_DEGC, unit="degC")
        yield Observation("temperature", level, f"the machine is at {shown} degC{words}", place)
    if (troubles := status.machine.troubles) is not None:
        text = f"the machine reports {', '.join(troubles) or 'no trouble'}"
        yield Observation("firmware", _level(is_raised=bool(troubles)), text)


_OBSERVERS: Final[dict[str, Callable[[AlertOptions, Status], Iterator[Observation]]]] = {
    "out_of_band": _out_of_band,
    "set_point_missed": _set_point_missed,
    "no_value": _no_value,
    "device_failed": _device_failed,
    "interlock": _interlock,
    "not_confirmed": _not_confirmed,
    "calibration_due": _calibration_due,
    "sensors_apart": _sensors_apart,
    "hold": _hold,
    "outbox": _outbox,
    "database": _database,
    "points_lost": _points_lost,
    "problem": _problem,
    "replication": _replication,
    "disk_full": _disk_full,
    "database_room": _database_room,
    "too_hot": _too_hot,
}
