"""What there is to say of a recipe, each with its place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from growd.bus.errors import InvalidValueError, shown
from growd.bus.fields import Field, Kind
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SECONDS: Final = 10 * 366 * 86_400.0  # ten years: whoever asks for more has mistaken the unit
MAX_NAME: Final = 100  # characters of a name in a pointer, so that a hundred of them fit into an answer

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


def error(pointer: str, sentence: str) -> Finding:
    return Finding(Severity.ERROR, pointer, sentence)


def warning(pointer: str, sentence: str) -> Finding:
    return Finding(Severity.WARNING, pointer, sentence)


def errors(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def warnings(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.WARNING]


def under(pointer: str, name: str | int) -> str:
    """The place of a member of what is at `pointer`, escaped as RFC 6901, section 3 has it.

    A name that is too long is cut off, and half a surrogate pair, which no answer can carry, is shown as ?.
    """
    text = str(name)
    shortened = text[:MAX_NAME] + "…" * (len(text) > MAX_NAME)
    carried = shortened.encode(errors="replace").decode()
    return f"{pointer}/{carried.replace('~', '~0').replace('/', '~1')}"


def check_variable(place: str, variable: Any) -> Iterator[Finding]:
    """That there is such a variable; `place` is that of its name."""
    if not isinstance(variable, str) or variable not in _FIELDS:
        yield error(place, f"there is no variable {shown(variable)}")


def check_value(place: str, variable: Any, value: Any) -> Iterator[Finding]:
    """That the value is in the variable's range; nothing of a variable that there is not."""
    field = _FIELDS.get(variable) if isinstance(variable, str) else None
    if field is None:
        return
    try:
        field.check(value)
    except InvalidValueError as wrong:
        yield error(place, str(wrong))


def check_time(
    place: str, name: str, time: Any, unit: str = "seconds", scale: float = 1.0
) -> Iterator[Finding]:
    """That a time is a number from 0 to ten years; `scale` is the unit's length in seconds."""
    if not is_number(time):
        yield error(place, f"expected the {name} as a finite number of {unit}, got {shown(time)}")
    elif time < 0:
        yield error(place, f"the {name} {shown(time)} is negative")
    elif time * scale > MAX_SECONDS:
        yield error(place, f"the {name} {shown(time)} is more than ten years; it is in {unit}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number that a float can hold; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False  # an integer beyond any float
