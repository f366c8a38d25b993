"""Errors and warnings on a recipe, each with its place, and the checks of single values."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

from growd.bus.errors import InvalidValueError, shown
from growd.bus.fields import Field, Kind
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FINDINGS: Final = 100
MAX_SECONDS: Final = 10 * 366 * 86_400.0  # ten years; a longer time is in the wrong unit
MAX_NAME: Final = 100  # characters of a name in a pointer, to bound the size of an answer

_FIELDS: Final = {
    variable.name: Field(variable.name, Kind.FLOAT64, takes_flags=True).within(
        variable.minimum, variable.maximum, variable.unit
    )
    for variable in VARIABLES.values()
}


class Severity(StrEnum):
    """A recipe with an error does not start; one with warnings does."""

    ERROR = "error"
    WARNING = "warning"


class RecipeFinding(msgspec.Struct, frozen=True):
    """An error or a warning; `pointer` is its place as a JSON pointer (RFC 6901)."""

    severity: Severity
    pointer: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.sentence}"


def error(pointer: str, sentence: str) -> RecipeFinding:
    return RecipeFinding(Severity.ERROR, pointer, sentence)


def warning(pointer: str, sentence: str) -> RecipeFinding:
    return RecipeFinding(Severity.WARNING, pointer, sentence)


def errors(findings: list[RecipeFinding]) -> list[RecipeFinding]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def warnings(findings: list[RecipeFinding]) -> list[RecipeFinding]:
    return [finding for finding in findings if finding.severity is Severity.WARNING]


def under(pointer: str, name: str | int) -> str:
    """The pointer of a member, escaped (RFC 6901, section 3).

    A long name is cut off. Half a surrogate pair, which no answer can carry, becomes "?".
    """
    text = str(name)
    shortened = text[:MAX_NAME] + "…" * (len(text) > MAX_NAME)
    encodable = shortened.encode(errors="replace").decode()
    return f"{pointer}/{encodable.replace('~', '~0').replace('/', '~1')}"


def check_value(place: str, variable: str | None, value: Any) -> Iterator[RecipeFinding]:
    """Check a number against the range of its variable, unless one of them did not fit."""
    if variable not in _FIELDS or value is None:
        return
    try:
        _FIELDS[variable].check(value)
    except InvalidValueError as wrong:
        yield error(place, str(wrong).replace("float64", "a number", 1))


def check_time(
    place: str, name: str, time: float | None, unit: str, seconds: float, *, least_s: float = 0.0
) -> Iterator[RecipeFinding]:
    """Check a time in a unit of `seconds` against its limits; None where it did not fit."""
    if time is None:
        return
    if time * seconds > MAX_SECONDS:
        yield error(place, f"the {name} {shown(time)} is more than ten years; it is in {unit}")
    if time * seconds < least_s:
        yield error(place, f"the {name} {shown(time)} is too short; the minimum is a millisecond")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number that a float can hold; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False  # an integer beyond any float
