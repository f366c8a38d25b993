"""A typed, named value: a member of a message, an argument of a service, a declared parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from sys import float_info
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import InvalidValueError
from growd.runtime.clock import EARLIEST

if TYPE_CHECKING:
    from collections.abc import Callable

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_PLAIN_UNITS: Final = frozenset({"fraction", "switch"})  # not shown in texts

REQUIRED: Final[Any] = object()


class Kind(StrEnum):
    """The types of a field, with the names of ROS messages; `json` is any JSON value."""

    FLOAT64 = "float64"
    INT64 = "int64"
    BOOL = "bool"
    STRING = "string"
    JSON = "json"


WORDS: Final = {
    Kind.FLOAT64: "a number",
    Kind.INT64: "a whole number",
    Kind.BOOL: "true or false",
    Kind.STRING: "a text",
    Kind.JSON: "a JSON value",
}
"""The types as people call them."""


@dataclass(frozen=True, slots=True)
class Field:
    """A name, a type, and a range.

    `minimum` and `maximum` bound a number, inclusive; `unit` and `note`, why it has this range, are for
    texts. A field with a `default` is
    optional. `min_length` and `max_length` bound a string, in characters, and `choices` are the only strings.
    A float64 that `takes_flags` may be a boolean: true is 1, false is 0.
    """

    name: str
    kind: Kind
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    default: Any = REQUIRED
    max_length: int = 65_536
    min_length: int = 0
    doc: str = ""
    note: str = ""
    choices: tuple[str, ...] = ()
    takes_flags: bool = False

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def within(self, minimum: float, maximum: float, unit: str, note: str = "") -> Field:
        """The same field with a range."""
        return replace(self, minimum=minimum, maximum=maximum, unit=unit, note=note)

    def check(self, value: Any) -> Any:
        """`value` in this field's type, or `InvalidValueError`.

        An int64 may be 3.0, since JSON has one kind of number.
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

    def checker(self) -> Callable[[Any], Any]:
        """`check` for many values, with a fast path for a float in range (never NaN or infinity)."""
        if self.kind is not Kind.FLOAT64:
            return self.check
        low = -float_info.max if self.minimum is None else self.minimum
        high = float_info.max if self.maximum is None else self.maximum
        check = self.check

        def checked(value: Any) -> Any:
            if type(value) is float and low <= value <= high:
                return value
            return check(value)

        return checked

    def expected(self) -> str:
        """The valid values in words: "a number from 0 to 40000 ppm"."""
        if self.choices:
            return " or ".join(self.choices)
        words = WORDS[self.kind]
        if self.kind is Kind.STRING:
            length = f"{self.min_length} to" if self.min_length else "at most"
            return f"{words} of {length} {self.max_length} characters"
        bounds = self._bounds()
        if not bounds:
            return words
        unit = "" if self.unit in _PLAIN_UNITS else self.unit
        note = f"({self.note})" if self.note else ""
        return " ".join(filter(None, (words, bounds, unit, note)))

    def _bounds(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            return f"from {_plain(self.minimum)} to {_plain(self.maximum)}"
        if self.minimum is not None:
            return f"of at least {_plain(self.minimum)}"
        if self.maximum is not None:
            return f"of at most {_plain(self.maximum)}"
        return ""

    def _number(self, value: Any) -> float:
        if not isinstance(value, (int, float)) or (isinstance(value, bool) and not self.takes_flags):
            raise self._wrong(value)
        try:
            number = float(value)
        except OverflowError:
            raise self._wrong(value) from None
        if isfinite(number) and self._in_range(number):
            return number
        raise self._wrong(value)

    def _integer(self, value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if not isinstance(number, int) or isinstance(number, bool):
            raise self._wrong(value)
        if not INT64_MIN <= number <= INT64_MAX or not self._in_range(number):
            raise self._wrong(value)
        return number

    def _string(self, value: Any) -> str:
        if not isinstance(value, str) or not _is_text(value):
            raise self._wrong(value)
        if not self.min_length <= len(value) <= self.max_length:
            raise self._wrong(value)
        if self.choices and value not in self.choices:
            raise self._wrong(value)
        return value

    def _in_range(self, number: float) -> bool:
        return (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        )

    def _wrong(self, value: Any) -> InvalidValueError:
        return InvalidValueError(self.name, self.expected(), value)


def _plain(number: float) -> str:
    """A bound in all its digits: 200000, not 2e+05."""
    return f"{number:.15g}" if isinstance(number, float) else str(number)


def _is_text(value: str) -> bool:
    """Whether UTF-8 can encode it; half a surrogate pair would break every reader."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


AHEAD_S: Final = 10.0
"""How far a client's clock may be ahead, in seconds. Such a time counts as now."""


def past_time(time: float, now: float) -> float:
    """The time that a client means: `now` for 0. Raises `InvalidValueError` unless it is plausible."""
    if time and not EARLIEST <= time <= now + AHEAD_S:
        raise InvalidValueError("time", f"0 or UNIX seconds from the year 2000 until now, {now:.0f}", time)
    return min(time, now) if time else now
