"""Older forms of recipes of openag_brain, in the formats of growd."""

from __future__ import annotations

from typing import Any, Final

from growd.bus.errors import shown

FLUSH: Final = "air_flush_on"
_MINUTE_S: Final = 60


def phases_of(operations: Any) -> list[dict[str, Any]]:
    """The phases, in hours, of the older format `phased`: cycles of a day and a night.

    Raises ValueError, which names the place, for other operations.
    """
    if not isinstance(operations, list) or not operations:
        raise ValueError("/operations: must be a list of objects with a day and a night")
    return [_phase(each, f"/operations/{number}") for number, each in enumerate(operations)]


def _phase(operation: Any, place: str) -> dict[str, Any]:
    if not isinstance(operation, dict):
        raise ValueError(f"{place}: must be an object with a day and a night")  # noqa: TRY004
    day: Any = operation.get("day")
    night: Any = operation.get("night")
    lit_h, dark_h = _hours(day, f"{place}/day"), _hours(night, f"{place}/night")
    cycles: Any = operation.get("cycles", 1)
    if not _is_above(cycles, 0):
        raise ValueError(f"{place}/cycles: must be a number above 0, not {shown(cycles)}")
    parts = ((0, day), (lit_h, night))
    course = {
        variable: [{"at": at, "value": part[variable]} for at, part in parts if variable in part]
        for variable in [*day, *night]
        if variable != "hours"
    }
    name = {"name": operation["name"]} if "name" in operation else {}
    cycle = lit_h + dark_h
    return {**name, "duration": cycles * cycle, "time_units": "hours", "cycle": cycle, "course": course}


def _hours(part: Any, place: str) -> float:
    hours: Any = part.get("hours") if isinstance(part, dict) else None
    if not _is_above(hours, 0):
        raise ValueError(f"{place}/hours: must be a number above 0, not {shown(hours)}")
    return float(hours)


def is_flush_in_minutes(operations: Any) -> bool:
    """Whether air_flush_on says for how many minutes it is on. False for odd operations."""
    return (
        isinstance(operations, list)
        and all(map(_is_operation, operations))
        and any(each[1] == FLUSH and _is_above(each[2], 1) for each in operations)
    )


def with_flush_switched(operations: list[Any]) -> list[Any]:
    """Operations that switch air_flush_on off after its minutes, unless another one comes first.

    openag_brain's firmware (openag_air_flush) counted the minutes from each change of the value, and a 0
    ended them. openag_recipe_generator writes such recipes.
    """
    flushes = sorted(each[0] for each in operations if each[1] == FLUSH)
    switched: list[Any] = []
    for each in operations:
        if each[1] != FLUSH or not _is_above(each[2], 0):
            switched.append(each)
            continue
        end = each[0] + each[2] * _MINUTE_S
        switched.append([each[0], FLUSH, 1])
        if not any(each[0] < other <= end for other in flushes):
            switched.append([end, FLUSH, 0])
    return sorted(switched, key=lambda operation: float(operation[0]))


def _is_operation(operation: Any) -> bool:
    return isinstance(operation, list) and len(operation) == 3 and _is_above(operation[0], -1)  # noqa: PLR2004


def _is_above(value: Any, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > limit
