"""What a recipe must be: all findings at once, each with its place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import InvalidValueError, shown
from growd.bus.fields import Field, Kind
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_OPERATIONS: Final = 100_000
MAX_FINDINGS: Final = 100
MAX_SECONDS: Final = 10 * 366 * 86_400.0  # ten years: whoever asks for more has mistaken the unit

_FIELDS: Final = {
    variable.name: Field(variable.name, Kind.FLOAT64).within(
        variable.minimum, variable.maximum, variable.unit
    )
    for variable in VARIABLES.values()
}


class Severity(StrEnum):
    """An error keeps a recipe from starting, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say of a recipe: `pointer` is its place as a JSON pointer (RFC 6901)."""

    severity: Severity
    pointer: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.sentence}"


def check(recipe: Any) -> list[Finding]:
    """All that is to be said of a recipe document, errors first, cut off after `MAX_FINDINGS`."""
    findings = list(islice(_check(recipe), MAX_FINDINGS + 1))
    if len(findings) > MAX_FINDINGS:
        findings[-1] = Finding(findings[-1].severity, "", f"there is more to say than these {MAX_FINDINGS}")
    return sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def warnings(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.WARNING]


def _check(recipe: Any) -> Iterator[Finding]:
    if not isinstance(recipe, dict):
        yield _error("", f"a recipe is an object, not {shown(recipe)}")
        return
    name = recipe.get("format")
    if name is None:
        yield _error("/format", f"the format is missing; known are {_known()}")
    elif not isinstance(name, str) or name not in FORMATS:
        yield _error("/format", f"the format {shown(name)} is not known; known are {_known()}")
    else:
        yield from FORMATS[name](recipe)


def _known() -> str:
    return ", ".join(sorted(FORMATS))


def _check_simple(recipe: dict[str, Any]) -> Iterator[Finding]:
    operations = recipe.get("operations")
    if not isinstance(operations, list):
        yield _error("/operations", f"expected an array of operations, got {shown(operations)}")
        return
    if not operations:
        yield _error("/operations", "there is no operation, so there is nothing to run")
    if len(operations) > MAX_OPERATIONS:
        yield _error(
            "/operations", f"{len(operations)} operations are too many; {MAX_OPERATIONS} is the most"
        )
        return
    sound = True
    for number, operation in enumerate(operations):
        for finding in _check_operation(f"/operations/{number}", operation):
            sound = False
            yield finding
    if sound and operations:
        yield from _check_order(operations)


def _check_operation(place: str, operation: Any) -> Iterator[Finding]:
    if not isinstance(operation, list) or len(operation) != 3:  # noqa: PLR2004  the three are named here
        yield _error(place, f"expected [offset in s, variable, value], got {shown(operation)}")
        return
    offset, variable, value = operation
    yield from _check_offset(f"{place}/0", offset)
    field = _FIELDS.get(variable) if isinstance(variable, str) else None
    if field is None:
        yield _error(f"{place}/1", f"there is no variable {shown(variable)}")
        return
    try:
        field.check(value)
    except InvalidValueError as error:
        yield _error(f"{place}/2", str(error))


def _check_offset(place: str, offset: Any) -> Iterator[Finding]:
    if isinstance(offset, bool) or not isinstance(offset, (int, float)) or not _finite(offset):
        yield _error(place, f"expected the offset as a finite number of seconds, got {shown(offset)}")
    elif offset < 0:
        yield _error(place, f"the offset {shown(offset)} is negative")
    elif offset > MAX_SECONDS:
        yield _error(place, f"the offset {shown(offset)} s is more than ten years; offsets are in seconds")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False  # an integer beyond any float


def _check_order(operations: list[list[Any]]) -> Iterator[Finding]:
    """What is worth a warning in operations that are sound one by one."""
    for number, (before, after) in enumerate(pairwise(operations), start=1):
        if after[0] < before[0]:
            yield _warning(
                f"/operations/{number}/0",
                f"the offset {shown(after[0])} comes after {shown(before[0])}; operations run by offset",
            )
    seen: dict[tuple[float, str], int] = {}
    for number, (offset, variable, _) in enumerate(operations):
        first = seen.setdefault((offset, variable), number)
        if first != number:
            yield _warning(
                f"/operations/{number}",
                f"sets {variable} at {shown(offset)} s again, after operation {first}; the last one holds",
            )
    if all(offset == 0 for offset, _, _ in operations):
        yield _warning("/operations", "it ends with its last operation, at 0 s: it ends as soon as it starts")


def _error(pointer: str, sentence: str) -> Finding:
    return Finding(Severity.ERROR, pointer, sentence)


def _warning(pointer: str, sentence: str) -> Finding:
    return Finding(Severity.WARNING, pointer, sentence)


FORMATS: Final[dict[str, Callable[[dict[str, Any]], Iterator[Finding]]]] = {"simple": _check_simple}
"""The formats by name: each with what it says of a recipe of its kind."""
