"""Rows of a view as CSV, in the bytes of the list function `csv` (couchdb/README.md, section CSV).

Numbers and objects are printed as by JavaScript (ECMA-262, Number::toString and JSON.stringify).
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

USUAL_COLUMNS: Final = ("timestamp", "variable", "value")
UNITS: Final = {variable.name: variable.unit for variable in VARIABLES.values()}
_MADE_FROM: Final = {
    "time": ("timestamp",),
    "category": ("category", "is_desired"),
    "unit": ("unit", "variable", "category"),
    "quality": ("quality", "category"),
}
"""The fields from which the other columns are made."""

_PLAIN: Final = re.compile(r'(?![=+\-@\t\r])[^",\r\n]*\Z').match
_QUOTED: Final = re.compile(r'[",\r\n]').search
_RUN_BY_SPREADSHEETS: Final = ("=", "+", "-", "@", "\t", "\r")
_HALF: Final = re.compile("[\ud800-\udfff]")  # of a surrogate pair
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LAST_INDEX: Final = 2**32 - 2  # of an array (ECMA-262, array index)
_EXACT: Final = 2**53  # integers to here are doubles
_LONGEST_WHOLE: Final = 21  # digits before JavaScript uses an exponent
_MOST_ZEROS: Final = 6  # between point and digits before JavaScript uses an exponent
_DAY_MS: Final = 86_400_000
_LAST_MS: Final = 8_640_000_000_000_000  # of a JavaScript Date
_LAST_YEAR: Final = 9999  # with four digits

Point = msgspec.Struct
"""The fields of a point that the columns need; missing ones are None."""


class Row(msgspec.Struct, gc=False):
    """A row of a view. `key` is the JSON that the database wrote."""

    key: msgspec.Raw
    value: Any


class CsvFormat:
    """Formats rows as lines, for one choice of columns."""

    def __init__(self, columns: Sequence[str] = USUAL_COLUMNS) -> None:
        needed = dict.fromkeys(name for column in columns for name in _MADE_FROM.get(column, (column,)))
        self._fields = {name: f"field_{number}" for number, name in enumerate(needed)}
        self._point = msgspec.defstruct(
            "Point",
            [(field, Any, None) for field in self._fields.values()],
            rename={field: name for name, field in self._fields.items()},
            gc=False,
        )
        row = msgspec.defstruct("Row", [("value", self._point)], bases=(Row,), gc=False)
        self._decode: Callable[[bytes], list[Row]] = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]
        self._makers = [self._maker_of(column) for column in columns]
        self._cells = [self._cell_of(column) for column in columns]
        self.head = (",".join(map(_text, columns)) + "\r\n").encode()

    def rows(self, texts: Sequence[msgspec.Raw]) -> list[Row]:
        """Rows from their JSON. Raises `ValueError`."""
        joined = b"[%b]" % b",".join(texts)
        try:
            return self._decode(joined)
        except msgspec.DecodeError:
            return [self._unusual(text) for text in texts]

    def lines(self, rows: Iterable[Row]) -> bytes:
        """A line for each row, with line ends."""
        cells = self._cells
        lines = [",".join([cell(row.value) for cell in cells]) for row in rows]
        return ("\r\n".join(lines) + "\r\n").encode() if lines else b""

    def values(self, rows: Iterable[Row]) -> list[list[Any]]:
        """The values of each column, None for an empty cell; times in milliseconds."""
        points = [row.value for row in rows]
        return [[make(point) for point in points] for make in self._makers]

    def _unusual(self, text: msgspec.Raw) -> Row:
        """A row that msgspec refuses: half a surrogate pair, numbers beyond doubles."""
        members = json.loads(bytes(text))
        if not isinstance(members, dict) or not members.keys() >= {"key", "value"}:
            raise ValueError("a row without key or value")
        value = members["value"]
        point = _well_formed(value) if isinstance(value, dict) else {}
        fields = {field: point.get(name) for name, field in self._fields.items()}
        return Row(msgspec.Raw(stringify(members["key"]).encode()), self._point(**fields))

    def _maker_of(self, column: str) -> Callable[[Point], Any]:
        """A function from a point to its value in this column."""
        if column == "time":
            timestamp = self._getter("timestamp")
            return lambda point: rounded_ms(timestamp(point))
        own = self._getter(column)
        make = self._substitute(column)
        if make is None:
            return own
        return lambda point: make(point) if (value := own(point)) is None else value

    def _cell_of(self, column: str) -> Callable[[Point], str]:
        """A function from a point to its cell in this column."""
        if column == "time":
            timestamp = self._getter("timestamp")
            return lambda point: _text(iso_time(timestamp(point)))
        make = self._maker_of(column)
        return lambda point: cell(make(point))

    def _substitute(self, column: str) -> Callable[[Point], Any] | None:
        """A function for points without the field of this column."""
        if column == "category":
            is_desired = self._getter("is_desired")
            return lambda point: "desired" if _is_true(is_desired(point)) else "measured"
        if column in {"unit", "quality"}:
            category = self._getter("category")
            make = self._unit if column == "unit" else _quality
            return lambda point: None if _is_apart(category(point)) else make(point)
        return None

    @property
    def _unit(self) -> Callable[[Point], Any]:
        variable = self._getter("variable")
        return lambda point: UNITS.get(name) if isinstance(name := variable(point), str) else None

    def _getter(self, name: str) -> Callable[[Point], Any]:
        return attrgetter(self._fields[name])


def cell(value: Any) -> str:
    """A value as a cell."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is float or kind is int:
        return number(value)
    if value is None:
        return ""
    text = stringify(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED(text) else text


def stringify(value: Any) -> str:
    """A JSON value as JSON.stringify writes it: no spaces, and integer-like keys first."""
    if isinstance(value, str):
        return _HALF.sub(lambda half: f"\\u{ord(half[0]):x}", encode_basestring(value))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list):
        return f"[{','.join(map(stringify, value))}]"
    members = (f"{stringify(name)}:{stringify(value[name])}" for name in _in_order(value))
    return f"{{{','.join(members)}}}"


def number(value: float) -> str:
    """A number as JavaScript prints it."""
    if type(value) is int:
        if -_EXACT <= value <= _EXACT:
            return str(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"  # JavaScript reads it as Infinity, which JSON lacks
    text = repr(value)
    if "e" in text:
        return _with_exponent(text)
    if text.endswith(".0"):
        return text[:-2] if value else "0"  # -0 as well
    return text if math.isfinite(value) else "null"


def iso_time(timestamp: Any) -> str:
    """UNIX seconds in ISO 8601, in UTC, as by `Date.toISOString`; empty for an invalid time."""
    milliseconds = rounded_ms(timestamp)
    if milliseconds is None:
        return ""
    day, rest = divmod(milliseconds, _DAY_MS)
    seconds, milliseconds = divmod(rest, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{_date(day)}T{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}Z"


def rounded_ms(timestamp: Any) -> int | None:
    """Whole milliseconds of UNIX seconds, None for an invalid time in JavaScript."""
    if type(timestamp) not in (int, float):
        return None
    try:
        exact = float(timestamp) * 1000
        whole = math.floor(exact)
    except (OverflowError, ValueError):  # infinite
        return None
    milliseconds = whole + (exact - whole >= 0.5)  # noqa: PLR2004  half, which Math.round rounds up
    return milliseconds if abs(milliseconds) <= _LAST_MS else None


@lru_cache(maxsize=64)
def _date(day: int) -> str:
    """The date of a day since 1970-01-01, of any year, in the Gregorian calendar.

    Counts in eras of 400 years that begin with March, so that the leap day is the last day of a year.
    """
    era, of_era = divmod(day + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    date = of_year - (153 * month_from_march + 2) // 5 + 1
    month = (month_from_march + 2) % 12 + 1
    year = year_of_era + 400 * era + (month <= 2)  # noqa: PLR2004  January and February
    if 0 <= year <= _LAST_YEAR:
        return f"{year:04}-{month:02}-{date:02}"
    return f"{'-' if year < 0 else '+'}{abs(year):06}-{month:02}-{date:02}"


def _text(text: str) -> str:
    """A string, escaped against formulas in spreadsheets, and quoted if needed (RFC 4180)."""
    if _PLAIN(text):
        return text
    if text.startswith(_RUN_BY_SPREADSHEETS):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if _QUOTED(text) else text


def _with_exponent(text: str) -> str:
    """A number that Python prints with an exponent (ECMA-262, Number::toString)."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent)  # where it stands, counted from the first digit
    if len(digits) <= point <= _LONGEST_WHOLE:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= _LONGEST_WHOLE:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -_MOST_ZEROS < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{mantissa}e{point - 1:+}"


def _in_order(members: dict[str, Any]) -> list[str]:
    """The names of an object's members in JavaScript's order."""
    indices = [name for name in members if _INDEX.fullmatch(name) and int(name) <= _LAST_INDEX]
    if not indices:
        return list(members)
    return sorted(indices, key=int) + [name for name in members if name not in set(indices)]


def _quality(_: Point) -> str:
    """The quality of stored values; other values are not stored as measurements."""
    return "ok"


def _is_apart(category: Any) -> bool:
    """Whether a point is neither measured nor desired, so that it does not have the unit of its variable."""
    return isinstance(category, str) and category not in {"measured", "desired"}


def _is_true(value: Any) -> bool:
    """Whether it is true in JavaScript."""
    return bool(value) or isinstance(value, list | dict)


def _well_formed(value: dict[str, Any]) -> dict[str, Any]:
    """The members of a point with U+FFFD for half a surrogate pair, as JavaScript writes it in UTF-8.

    JSON.stringify escapes it inside objects and arrays, so it stays there.
    """
    return {
        name: member.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(member, str)
        else member
        for name, member in value.items()
    }
