"""What causes what in a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from growd.bus.messages import Quality
from growd.store.errors import DISK_FULL
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.status.model import AttainmentStatus, Status

Key: TypeAlias = "tuple[str, str]"
"""The kind and the name of a notice."""

_OF_DATABASE = ("journal_waits", "rollups_not_written")
"""Codes of problems that follow from a database that takes no points."""

NOT_SAVED = frozenset(("alerts_not_saved", "hold_not_saved", "interlocks_not_saved", "set_points_not_saved"))
"""Codes of problems that follow from a full disk."""


def causes_of(status: Status) -> dict[Key, Key]:
    """The cause of each effect, as keys of notices. A cause need not have a notice, and may be an effect.

    What a person must end is no effect: an interlock that waits for a reset, or an output that stays on.
    """
    found = dict(_of_lines(status))
    found |= dict(_of_variables(status))
    found |= dict(_of_interlocks(status))
    for each in status.attainment:
        if not each.is_failure and (cause := _of_set_point(each)) is not None:
            found["set_point", f"{each.environment}/{each.variable}"] = cause
    for problem in status.problems:
        if problem.code == "plan_not_followed":
            found |= _of_plan(
                ("problem", problem.key), "{environment}/{variable}".format(**problem.fields), found
            )
    return found | dict(_of_storage(status))


def _of_storage(status: Status) -> Iterator[tuple[Key, Key]]:
    """What follows from a database that is away, and from a full disk."""
    yield ("store", "database"), ("database", "")
    yield ("store", "outbox"), ("store", "database")
    yield ("store", "saving"), ("machine", "disk")
    yield ("store", "lost"), ("machine", "disk")
    reasons = getattr(status.database, "reason", None), getattr(status.store, "shipping", None)
    if DISK_FULL.search(f"{reasons}"):
        yield ("database", ""), ("machine", "disk")
    for each in status.problems:
        if each.code in _OF_DATABASE:
            yield ("problem", each.key), ("store", "database")
        elif each.code in NOT_SAVED:
            yield ("problem", each.key), ("machine", "disk")


def _of_lines(status: Status) -> Iterator[tuple[Key, Key]]:
    """What follows from a bus or serial line, and from the broker, whose problem its sensors repeat."""
    away = [each for each in status.problems if each.code == "broker_away"]
    for device in status.devices:
        for each in away if device.has_failed else ():
            if each.text in device.counters.last_error:
                yield ("device", device.name), ("problem", each.key)
        if device.line and device.has_failed:
            yield ("device", device.name), ("line", device.line)


def _of_variables(status: Status) -> Iterator[tuple[Key, Key]]:
    """A failed sensor makes its variables unknown, and these what is calculated of them."""
    unknown = _unknown(status)
    for device in status.devices:
        environment = device.name.partition("/")[0]
        for variable in device.variables if device.has_failed else ():
            if (environment, variable) in unknown:
                yield ("variable", f"{environment}/{variable}"), ("device", device.name)
    for environment, variable in unknown:
        for source in VARIABLES[variable].derived_from:
            if (environment, source) in unknown:
                yield ("variable", f"{environment}/{variable}"), ("variable", f"{environment}/{source}")


def _of_interlocks(status: Status) -> Iterator[tuple[Key, Key]]:
    """Interlocks that hold because a variable is unknown."""
    unknown = _unknown(status)
    for lock in status.interlocks:
        environment = lock.name.partition("/")[0]
        blind = [each for each in lock.reads if (environment, each) in unknown]
        if lock.tripped and blind and not (lock.needs_reset or lock.is_failure or lock.stays_on):
            yield ("interlock", lock.name), ("variable", f"{environment}/{blind[0]}")
        elif lock.tripped and lock.code == "interlock_state_lost":
            yield ("interlock", lock.name), ("problem", f"interlocks_lost:{environment}")


def _of_set_point(each: AttainmentStatus) -> Key | None:
    """Why a set point is missed."""
    match each.reason:
        case {"code": "variable_unknown", "fields": {"variable": name}}:
            return "variable", f"{each.environment}/{name}"
        case {"code": "set_point_follows", "fields": {"variable": name}}:
            return "set_point", f"{each.environment}/{name}"
        case {"code": "output_failed", "fields": {"device": name}}:
            return "device", f"{each.environment}/{name}"
        case {"code": "output_held", "fields": {"by": {"code": "hold"}}}:
            return "hold", "person"
        case {"code": "output_held", "fields": {"by": {"code": "interlock", "fields": {"interlock": name}}}}:
            return "interlock", name
    return None


def _of_plan(plan: Key, name: str, causes: Mapping[Key, Key]) -> dict[Key, Key]:
    """A plan that can't be followed misses its set point `name`, and the one that follows from it."""
    missed = "set_point", name
    follows = causes.get(missed, missed)
    if follows[0] != "set_point":
        return {plan: missed}
    return {missed: plan} | ({} if follows in causes else {follows: plan})


def _unknown(status: Status) -> set[tuple[str, str]]:
    """The environments and names of variables that are not known. Warming up is no fault."""
    return {
        (each.environment, each.variable)
        for each in status.variables
        if each.measured is not None and each.measured.quality in (Quality.FAULT, Quality.STALE)
    }
