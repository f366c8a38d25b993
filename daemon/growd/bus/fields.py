"""One typed, named value: a member of a message, an argument of a service, a declared parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from growd.bus.errors import InvalidValueError

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
REQUIRED: Final[Any] = object()


class Kind(StrEnum):
    """The types of a field, named as ROS messages name them; `json` is any JSON value."""

    FLOAT64 = "float64"
    INT64 = "int64"
    BOOL = "bool"
    STRING = "string"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Field:
    """A name, a type, and a range where there is one.

    `minimum` and `maximum` bound a number and are allowed values themselves; `unit` is for people.
    A field with a `default` may be left out. `max_length` bounds a string, in characters.
    """

    name: str
    kind: Kind
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    default: Any = REQUIRED
    max_length: int = 65_536
    doc: str = ""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def within(self, minimum: float, maximum: float, unit: str) -> Field:
        """The same field with a range."""
        return replace(self, minimum=minimum, maximum=maximum, unit=unit)

    def check(self, value: Any) -> Any:
        """`value` in this field's type, or `InvalidValueError`.

        Booleans are numbers here, as they were for the predecessor's control panel: true is 1, false is 0.
        """
        kind = self.kind
        if kind is Kind.FLOAT64:
            return self._number(value)
        if kind is Kind.INT64:
            return self._integer(value)
        if kind is Kind.BOOL:
            if not isinstance(value, bool):
                raise self._wrong(value)
            return value
        if kind is Kind.STRING:
            return self._string(value)
        return value

    def expected(self) -> str:
        """What fits, in words: "float64 from 0 to 40000 ppm"."""
        words = str(self.kind)
        if self.minimum is not None and self.maximum is not None:
            words += f" from {self.minimum:g} to {self.maximum:g}"
            if self.unit:
                words += f" {self.unit}"
        elif self.kind is Kind.FLOAT64:
            words = "a finite " + words
        elif self.kind is Kind.STRING:
            words += f" of at most {self.max_length} characters"
        return words

    def _number(self, value: Any) -> float:
        if not isinstance(value, (int, float)):
            raise self._wrong(value)
        try:
            number = float(value)
        except OverflowError:
            raise self._wrong(value) from None
        if not math.isfinite(number) or not self._in_range(number):
            raise self._wrong(value)
        return number

    def _integer(self, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number: 3.0 is 3
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(value)
        if not INT64_MIN <= value <= INT64_MAX or not self._in_range(value):
            raise self._wrong(value)
        return value

    def _string(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.max_length:
            raise self._wrong(value)
        return value

    def _in_range(self, number: float) -> bool:
        return (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        )

    def _wrong(self, value: Any) -> InvalidValueError:
        return InvalidValueError(self.name, self.expected(), value)
