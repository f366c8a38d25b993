"""The type and range of an option, in words."""

from __future__ import annotations

from typing import Any, Final

from msgspec import inspect

from growd.config.base import DEVICE_FILE, NAME, TIME_OF_DAY

UNITS: Final = {
    "_l_min": "l/min",
    "_per_ppm": "1/ppm",
    "_per_umol": "lux per umol/m2/s",
    "_umol": "umol/m2/s",
    "_litres": "l",
    "_hours": "h",
    "_days": "days",
    "_bytes": "bytes",
    "_degc": "°C",
    "_lux": "lux",
    "_ppm": "ppm",
    "_hpa": "hPa",
    "_hz": "Hz",
    "_mb": "MB",
    "_s": "s",
    "_mv": "mV",
    "_m": "m",
}
"""Units by the ending of an option's name."""

_PATTERNS: Final = {
    NAME: "a name of letters, digits, _, . and -",
    TIME_OF_DAY: "a time of day such as 06:00",
    DEVICE_FILE: "a device such as /dev/video0",
}


def unit_of(option: str) -> str:
    """The unit of an option by its name, "" for none."""
    return next((unit for end, unit in UNITS.items() if option.endswith(end)), "")


def described(kind: Any) -> str:
    """What a value of a type must be: "a whole number from 0 to 65535"."""
    return _words(inspect.type_info(kind))


def _words(info: inspect.Type) -> str:  # noqa: PLR0911  one for each type
    match info:
        case inspect.UnionType():
            return _words(next(each for each in info.types if not isinstance(each, inspect.NoneType)))
        case inspect.IntType():
            return "a whole number" + _range(info)
        case inspect.FloatType():
            return "a number" + _range(info)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return _PATTERNS.get(info.pattern or "") or "text" + _shape(info)
        case inspect.LiteralType():
            return "one of " + ", ".join(_shown(value) for value in info.values)
        case inspect.VarTupleType():
            return f"a list, each {_words(info.item_type)}"
        case inspect.TupleType():
            return f"a list of {len(info.item_types)} numbers"
        case inspect.DictType():
            return f"a table, each {_words(info.value_type)}"
        case _:
            return "a table"


def _range(info: inspect.IntType | inspect.FloatType) -> str:
    lower = f" from {_number(info.ge)}" if info.ge is not None else ""
    lower = f" above {_number(info.gt)}" if info.gt is not None else lower
    upper = f" to {_number(info.le)}" if info.le is not None else ""
    upper = f" below {_number(info.lt)}" if info.lt is not None else upper
    if lower and upper.startswith(" below"):
        return f"{lower} to{upper}"
    return lower + upper


def _number(value: float) -> str:
    return f"{value:.12g}"


def _shape(info: inspect.StrType) -> str:
    if info.pattern is not None:
        most = f" of at most {info.max_length} characters" if info.max_length else ""
        return f"{most} that matches {info.pattern}"
    if info.max_length is not None:
        return f" of at most {info.max_length} characters"
    return " that is not empty" if info.min_length else ""


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
