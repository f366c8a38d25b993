"""Format `simple`: `operations` is an array of [offset in s, variable, value]."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.doubts import check_openag_unit
from growd.recipes.findings import MAX_SECONDS, check_value, error, is_number, warning
from growd.recipes.grammar import VALUE, VARIABLE, Grammar, RecipeFormat
from growd.recipes.plan import Phase, Plan, Point, Track
from growd.variables import FAN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.recipes.findings import RecipeFinding

MAX_OPERATIONS: Final = 100_000
_MINUTES: Final = (
    "if these are the minutes of openag_recipe_generator, growd import openag FILE converts the recipe"
)

_OPERATION: Final[Grammar] = {
    "title": "[offset in s, variable, value]",
    "type": "array",
    "prefixItems": [
        {
            "title": "the offset as a number of seconds, from 0 to ten years",
            "description": "Seconds since the start of the recipe.",
            "type": "number",
            "minimum": 0,
            "maximum": MAX_SECONDS,
        },
        VARIABLE,
        VALUE,
    ],
    "minItems": 3,
    "maxItems": 3,
    "examples": [[21600, "light_illuminance", 8000]],
}
GRAMMAR: Final[Grammar] = {
    "description": "A list of operations. At any time a variable has the value of its latest operation. "
    "The recipe ends with its last operation.",
    "type": "object",
    "properties": {
        "operations": {
            "title": f"an array of 1 to {MAX_OPERATIONS} operations",
            "description": "In the order of their offsets; growd sorts others, with a warning. "
            "Of two for one variable at one time the last one holds.",
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_OPERATIONS,
            "items": _OPERATION,
        }
    },
    "required": ["operations"],
    "examples": [
        {
            "_id": "one_day",
            "format": "simple",
            "operations": [
                [0, "light_illuminance", 8000],
                [57600, "light_illuminance", 0],
                [86400, "light_illuminance", 0],
            ],
        }
    ],
}


def _plan(recipe: dict[str, Any]) -> Plan:
    """One phase without a name, which ends with the last operation."""
    points: dict[str, list[Point]] = defaultdict(list)
    for offset, variable, value in recipe["operations"]:
        points[variable].append(Point(float(offset), float(value)))
    duration = max(float(operation[0]) for operation in recipe["operations"])
    tracks = {variable: Track(course, max(duration, 1.0)) for variable, course in points.items()}
    return Plan([Phase("", 0.0, duration, tracks)])


def _set_points(recipe: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    for number, (_, variable, value) in enumerate(recipe["operations"]):
        yield f"/operations/{number}", variable, float(value)


def _check(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    seen: set[str] = set()
    for number, operation in enumerate(recipe.get("operations", ())):
        _, variable, value = operation or (None, None, None)
        for finding in check_value(f"/operations/{number}/2", variable, value):
            yield finding
            if variable == FAN and is_number(value):
                yield error(finding.pointer, _MINUTES)
        if variable and variable not in seen:
            seen.add(variable)
            remedy = "a simple recipe can't name the unit"
            yield from check_openag_unit(f"/operations/{number}", variable, remedy)


def _check_whole(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    operations = recipe["operations"]
    for number, (before, after) in enumerate(pairwise(operations), start=1):
        if after[0] < before[0]:
            words = f"the offset {shown(after[0])} comes after {shown(before[0])}; operations run by offset"
            yield warning(f"/operations/{number}/0", words)
    seen: dict[tuple[float, str], int] = {}
    for number, (offset, variable, _) in enumerate(operations):
        first = seen.setdefault((offset, variable), number)
        if first != number:
            words = f"sets {variable} at {shown(offset)} s again, after operation {first}; the last one holds"
            yield warning(f"/operations/{number}", words)
    if all(offset == 0 for offset, _, _ in operations):
        yield warning("/operations", "the last operation is at 0 s, so the recipe ends as soon as it starts")


FORMAT: Final = RecipeFormat("simple", GRAMMAR, _check, _check_whole, _plan, _set_points)
