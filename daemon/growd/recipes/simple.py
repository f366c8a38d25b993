"""Format `simple`: `operations` is an array of [offset in s, variable, value]."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.doubts import check_openag_unit
from growd.recipes.findings import check_time, check_value, check_variable, error, warning
from growd.recipes.plan import Phase, Plan, Point, Track

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.recipes.findings import Finding

MAX_OPERATIONS: Final = 100_000


def plan(recipe: dict[str, Any]) -> Plan:
    """A variable has the value of its last operation with offset <= elapsed.

    "Last" is by offset, and by place in the document between equal offsets. The recipe ends with its last
    operation, and is one phase without a name.
    """
    points: dict[str, list[Point]] = defaultdict(list)
    for offset, variable, value in recipe["operations"]:
        points[variable].append(Point(float(offset), float(value)))
    duration = max(float(operation[0]) for operation in recipe["operations"])
    tracks = {variable: Track(course, max(duration, 1.0)) for variable, course in points.items()}
    return Plan([Phase("", 0.0, duration, tracks)])


def check(recipe: dict[str, Any]) -> Iterator[Finding]:
    """All that is to be said of a recipe of this format."""
    operations = recipe.get("operations")
    if not isinstance(operations, list):
        yield error("/operations", f"expected an array of operations, got {shown(operations)}")
        return
    if not operations:
        yield error("/operations", "there is no operation, so there is nothing to run")
    if len(operations) > MAX_OPERATIONS:
        yield error("/operations", f"{len(operations)} operations are too many; {MAX_OPERATIONS} is the most")
        return
    sound = True
    for number, operation in enumerate(operations):
        for finding in _check_operation(f"/operations/{number}", operation):
            sound = False
            yield finding
    if sound and operations:
        yield from _check_order(operations)
    for number, variable in _first(operations):
        yield from check_openag_unit(f"/operations/{number}", variable, "a simple recipe can't name the unit")


def places(recipe: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """The place of each set point, its variable and value."""
    for number, (_, variable, value) in enumerate(recipe["operations"]):
        yield f"/operations/{number}", variable, float(value)


def _first(operations: list[Any]) -> Iterator[tuple[int, str]]:
    """Where each variable is set first."""
    seen: set[str] = set()
    for number, operation in enumerate(operations):
        variable = operation[1] if isinstance(operation, list) and len(operation) > 1 else None
        if isinstance(variable, str) and variable not in seen:
            seen.add(variable)
            yield number, variable


def _check_operation(place: str, operation: Any) -> Iterator[Finding]:
    if not isinstance(operation, list) or len(operation) != 3:  # noqa: PLR2004  the three are named here
        yield error(place, f"expected [offset in s, variable, value], got {shown(operation)}")
        return
    offset, variable, value = operation
    yield from check_time(f"{place}/0", "offset", offset)
    yield from check_variable(f"{place}/1", variable)
    yield from check_value(f"{place}/2", variable, value)


def _check_order(operations: list[list[Any]]) -> Iterator[Finding]:
    """What is worth a warning in operations that are sound one by one."""
    for number, (before, after) in enumerate(pairwise(operations), start=1):
        if after[0] < before[0]:
            yield warning(
                f"/operations/{number}/0",
                f"the offset {shown(after[0])} comes after {shown(before[0])}; operations run by offset",
            )
    seen: dict[tuple[float, str], int] = {}
    for number, (offset, variable, _) in enumerate(operations):
        first = seen.setdefault((offset, variable), number)
        if first != number:
            yield warning(
                f"/operations/{number}",
                f"sets {variable} at {shown(offset)} s again, after operation {first}; the last one holds",
            )
    if all(offset == 0 for offset, _, _ in operations):
        yield warning("/operations", "it ends with its last operation, at 0 s: it ends as soon as it starts")
