"""Older forms of recipes of openag_brain, in the formats of growd."""

from __future__ import annotations

from typing import Any, Final

FLUSH: Final = "air_flush_on"
_MINUTE_S: Final = 60


def are_days_and_nights(operations: Any) -> bool:
    """Whether these operations are those of the older format `phased`, with cycles of a day and a night."""
    are_objects = isinstance(operations, list) and all(isinstance(each, dict) for each in operations)
    return are_objects and all({"day", "night"} <= each.keys() for each in operations or [{}])


def phases_of(operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The phases of a `phased` recipe, in hours. Raises LookupError and TypeError for odd operations."""
    phases = []
    for each in operations:
        lit, dark = each["day"], each["night"]
        cycle = lit["hours"] + dark["hours"]
        parts = ((0, lit), (lit["hours"], dark))
        course = {
            variable: [{"at": at, "value": part[variable]} for at, part in parts if variable in part]
            for variable in [*lit, *dark]
            if variable != "hours"
        }
        name = {"name": each["name"]} if "name" in each else {}
        duration = each.get("cycles", 1) * cycle
        phases.append({**name, "duration": duration, "time_units": "hours", "cycle": cycle, "course": course})
    return phases


def is_flush_in_minutes(operations: Any) -> bool:
    """Whether air_flush_on says how many minutes it is on, and not only on or off."""
    return isinstance(operations, list) and any(
        isinstance(each, list) and len(each) == 3 and each[1] == FLUSH and _is_above(each[2], 1)  # noqa: PLR2004
        for each in operations
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


def _is_above(value: Any, limit: float) -> bool:
    return isinstance(value, int | float) and value > limit
