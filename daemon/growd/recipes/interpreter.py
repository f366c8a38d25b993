"""From a recipe and the time elapsed since its start to set points. Pure: no clock, no bus, no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from growd.recipes.errors import InvalidRecipeError
from growd.recipes.schema import check, errors, warnings

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.recipes.schema import Finding


class Plan(Protocol):
    """A recipe made ready to run."""

    @property
    def duration(self) -> float:
        """When it ends, in seconds after its start."""

    def set_points(self, elapsed: float) -> dict[str, float]:
        """The value of each variable that has one after `elapsed` seconds."""


class SimplePlan:
    """Format `simple`: a variable has the value of its last operation with offset <= elapsed.

    "Last" is by offset, and by place in the document between equal offsets. The recipe ends with its last
    operation.
    """

    def __init__(self, recipe: dict[str, Any]) -> None:
        self._offsets: dict[str, list[float]] = defaultdict(list)
        self._values: dict[str, list[float]] = defaultdict(list)
        operations = sorted(recipe["operations"], key=lambda operation: float(operation[0]))  # stable
        for offset, variable, value in operations:
            self._offsets[variable].append(float(offset))
            self._values[variable].append(float(value))
        self._duration = float(operations[-1][0])

    @property
    def duration(self) -> float:
        return self._duration

    def set_points(self, elapsed: float) -> dict[str, float]:
        current = {}
        for variable, offsets in self._offsets.items():
            passed = bisect_right(offsets, elapsed)
            if passed:
                current[variable] = self._values[variable][passed - 1]
        return current


PLANS: Final[dict[str, Callable[[dict[str, Any]], Plan]]] = {"simple": SimplePlan}


def interpret(recipe: Any) -> tuple[Plan, list[Finding]]:
    """The plan of a recipe and the warnings on it; `InvalidRecipeError` if there are errors."""
    findings = check(recipe)
    if errors(findings):
        raise InvalidRecipeError(findings)
    return PLANS[recipe["format"]](recipe), warnings(findings)
