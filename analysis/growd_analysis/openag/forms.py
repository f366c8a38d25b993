"""The forms of documents of openag_brain, and the same as growd stores them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from growd.bus.errors import shown
from growd.runtime.clock import whole_microseconds
from growd.runtime.text import unix_time
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd.variables import Variable


Kind = Literal["point", "recipe", "environment"]
Document = dict[str, Any]

CONDUCTIVITY: Final = "water_electrical_conductivity"
_TEXTS: Final = frozenset({"recipe_start", "recipe_end"})
_SWITCHES: Final = {"true": True, "false": False, "1": True, "0": False}
_NOTHING: Final = frozenset({"", "none", "null", "nan"})
_ID: Final = re.compile(r"(\d{9,10}(?:\.\d+)?)-\d+\Z")
"""The time in UNIX seconds and a random number."""

_MOST_DOUBTS: Final = 100
_MOST_LETTERS: Final = 100
_MILLISECONDS: Final = 1e11  # a later time in seconds would be after the year 5000


class OddDocumentError(ValueError):
    """A document that can't be imported; the message is the kind of its fault."""


class Converted(NamedTuple):
    """A document for one of growd's databases, with the `_id` that it had."""

    kind: Kind
    document: Document


@dataclass(frozen=True, slots=True)
class Conversion:
    """How to convert: new names of environments and variables, and whether conductivity is in uS/cm.

    `corrected` counts the corrections by what they are; `doubtful` what is imported as it is. Times before
    `oldest` and after `newest` (UNIX seconds) are rejected, and recipes that `fault_of_recipe` says why.
    """

    environments: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    is_conductivity_in_us: bool = True
    oldest: float = 0.0
    newest: float = math.inf
    fault_of_recipe: Callable[[Document], str] = lambda _: ""
    corrected: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[str] = field(default_factory=Counter)

    def converted(self, document: Any, database: str = "") -> Converted | None:
        """The document as growd stores it; None for a design document.

        `database` is the name of the one that it is from, "" if unknown. Raises `OddDocumentError`.
        """
        before = self.corrected.copy()
        try:
            return self._converted(document, database)
        except OddDocumentError:
            self.corrected.clear()
            self.corrected.update(before)
            raise

    def _converted(self, document: Any, database: str) -> Converted | None:
        if not isinstance(document, dict) or not isinstance(document.get("_id"), str) or not document["_id"]:
            raise OddDocumentError("no JSON object with an _id")
        if document["_id"].startswith("_"):
            return None
        if document.get("_deleted"):
            raise OddDocumentError("deleted")
        _check_numbers(document)
        plain = {name: value for name, value in document.items() if not name.startswith("_")}
        if "_attachments" in document:
            self.corrected["attachments left out"] += 1
        own = {"_id": document["_id"]}
        if database == "recipes" or any(name in plain for name in ("operations", "phases")):
            return Converted("recipe", self._recipe(own | plain))
        if "variable" in plain or "value" in plain:
            return Converted("point", own | self._point(document["_id"], plain))
        if database == "environment":
            new = self.environments.get(document["_id"], document["_id"])
            return Converted("environment", {"_id": new} | plain)
        raise OddDocumentError("neither a point nor a recipe nor an environment")

    def _recipe(self, recipe: Document) -> Document:
        """The recipe, without an error. Raises `OddDocumentError`."""
        if "format" not in recipe:
            self.corrected["format of a recipe missing"] += 1
            recipe = {"format": "simple" if "operations" in recipe else "flexformat"} | recipe
        try:
            recipe = self._in_new_form(recipe)
            fault = self.fault_of_recipe(recipe)
        except ValueError as error:
            fault = str(error)
        if fault:
            raise OddDocumentError(f"the recipe {recipe['_id']} has errors: {fault}")
        return recipe

    def _in_new_form(self, recipe: Document) -> Document:
        operations = recipe.get("operations")
        if recipe["format"] == "phased" and "phases" not in recipe:
            rest = {name: value for name, value in recipe.items() if name != "operations"}
            recipe = rest | {"phases": phases_of(operations)}
            self.corrected["recipe of the older format phased, with day and night"] += 1
        elif recipe["format"] == "simple" and is_flush_in_minutes(operations):
            recipe = recipe | {"operations": with_flush_switched(recipe["operations"])}
            self.corrected["air_flush_on of a recipe in minutes"] += 1
        return recipe

    def _point(self, document_id: str, plain: Document) -> Document:
        environment, variable = (_name(plain, member) for member in ("environment", "variable"))
        variable = self._renamed(variable, self.variables, "variables renamed")
        new = plain | {
            "environment": self._renamed(environment, self.environments, "environments renamed"),
            "variable": variable,
            "is_desired": self._switch(plain, "is_desired", default=variable in _TEXTS),
            "is_manual": self._switch(plain, "is_manual", default=False),
            "value": self._value(variable, plain),
            "timestamp": self._time(document_id, plain.get("timestamp")),
        }
        self._doubt(variable, new["value"])
        return new

    def _doubt(self, variable: str, value: Any) -> None:
        """Count what is odd about a value or its variable."""
        known = VARIABLES.get(variable)
        if known is None and variable not in _TEXTS:
            what = f"unknown variable {variable[:_MOST_LETTERS]}"
            is_listed = what in self.doubtful or len(self.doubtful) < _MOST_DOUBTS
            self.doubtful[what if is_listed else "other unknown variables"] += 1
        elif known is not None and value is not None and not _is_possible(value, known):
            self.doubtful[f"value of {variable} that is not from {known.minimum:g} to {known.maximum:g}"] += 1

    def _renamed(self, name: str, names: Mapping[str, str], what: str) -> str:
        new = names.get(name, name)
        self.corrected[what] += new != name
        return new

    def _switch(self, plain: Document, member: str, *, default: bool) -> bool:
        value = plain.get(member)
        if isinstance(value, bool):
            return value
        if value is None:
            self.corrected[f"{member} missing"] += 1
            return default
        switch = _SWITCHES.get(str(value).strip().lower())
        if switch is None:
            raise OddDocumentError(f"{member} is not true or false")
        self.corrected[f"{member} as text or number"] += 1
        return switch

    def _value(self, variable: str, plain: Document) -> Any:
        if "value" not in plain:
            raise OddDocumentError("no value")
        value = plain["value"]
        if value is not None and not isinstance(value, bool | int | float | str):
            raise OddDocumentError("value is a list or an object")
        if isinstance(value, int) and not math.isfinite(_as_float(value)):
            raise OddDocumentError("value is not a finite number")
        if isinstance(value, str) and variable not in _TEXTS and variable in VARIABLES:
            value = self._number(value)
        if variable == CONDUCTIVITY and self.is_conductivity_in_us and isinstance(value, int | float):
            self.corrected["conductivity in uS/cm"] += 1
            return value / 1000
        return value

    def _number(self, text: str) -> float | None:
        if text.strip().lower() in _NOTHING:
            self.corrected["value as text"] += 1
            return None
        try:
            number = float(text)
        except ValueError:
            raise OddDocumentError("value is not a number") from None
        if not math.isfinite(number):
            raise OddDocumentError("value is not a finite number")
        self.corrected["value as text"] += 1
        return number

    def _time(self, document_id: str, value: Any) -> float:
        """UNIX seconds: a number, a number or a date as text, or the time in the `_id`."""
        if value is None or value == "":
            made = _ID.match(document_id)
            if made is None:
                raise OddDocumentError("no timestamp")
            self.corrected["timestamp missing, taken from the _id"] += 1
            value = float(made[1])
        time = math.nan
        if isinstance(value, int | float) and not isinstance(value, bool):
            time = _as_float(value)
        elif isinstance(value, str):
            try:
                time = unix_time(value.strip())
            except ValueError:
                raise OddDocumentError("timestamp is not a time") from None
            self.corrected["timestamp as text"] += 1
        if not math.isfinite(time) or time < 0:
            raise OddDocumentError("timestamp is not a time")
        if time >= _MILLISECONDS:
            self.corrected["timestamp in milliseconds"] += 1
            time /= 1000
        if time < self.oldest:
            raise OddDocumentError("timestamp is before 2000, as of a clock that was never set")
        if time > self.newest:
            raise OddDocumentError("timestamp is in the future")
        return whole_microseconds(time)


def _as_float(value: float) -> float:
    """As a float; inf for an integer that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_possible(value: Any, variable: Variable) -> bool:
    return isinstance(value, bool | int | float) and variable.minimum <= value <= variable.maximum


def _check_numbers(document: Document) -> None:
    try:
        json.dumps(document, allow_nan=False)
    except ValueError:
        raise OddDocumentError("a number that is not finite") from None


def _name(plain: Document, member: str) -> str:
    value = plain.get(member)
    if not isinstance(value, str) or not value:
        raise OddDocumentError(f"no {member}")
    return value


FLUSH: Final = "air_flush_on"
_MINUTE_S: Final = 60


def phases_of(operations: Any) -> list[dict[str, Any]]:
    """The phases, in hours, of the older format `phased`: cycles of a day and a night.

    Raises ValueError, which names the place, for other operations.
    """
    if not isinstance(operations, list) or not operations:
        raise ValueError("/operations: must be a list of objects with a day and a night")
    return [_phase(each, f"/operations/{number}") for number, each in enumerate(operations)]


def _phase(operation: Any, place: str) -> dict[str, Any]:
    if not isinstance(operation, dict):
        raise ValueError(f"{place}: must be an object with a day and a night")  # noqa: TRY004
    day: Any = operation.get("day")
    night: Any = operation.get("night")
    lit_h, dark_h = _hours(day, f"{place}/day"), _hours(night, f"{place}/night")
    cycles: Any = operation.get("cycles", 1)
    if not _is_above(cycles, 0):
        raise ValueError(f"{place}/cycles: must be a number above 0, not {shown(cycles)}")
    parts = ((0, day), (lit_h, night))
    course = {
        variable: [{"at": at, "value": part[variable]} for at, part in parts if variable in part]
        for variable in [*day, *night]
        if variable != "hours"
    }
    name = {"name": operation["name"]} if "name" in operation else {}
    cycle = lit_h + dark_h
    return {**name, "duration": cycles * cycle, "time_units": "hours", "cycle": cycle, "course": course}


def _hours(part: Any, place: str) -> float:
    hours: Any = part.get("hours") if isinstance(part, dict) else None
    if not _is_above(hours, 0):
        raise ValueError(f"{place}/hours: must be a number above 0, not {shown(hours)}")
    return float(hours)


def is_flush_in_minutes(operations: Any) -> bool:
    """Whether air_flush_on says for how many minutes it is on. False for odd operations."""
    return (
        isinstance(operations, list)
        and all(map(_is_operation, operations))
        and any(each[1] == FLUSH and _is_above(each[2], 1) for each in operations)
    )


def with_flush_switched(operations: list[Any]) -> list[Any]:
    """Operations that switch air_flush_on off after its minutes, unless another one comes first.

    openag_brain's firmware (openag_air_flush) counted the minutes from each change of the value, and a 0
    ended them. openag_recipe_generator writes such recipes.
    """
    flushes = sorted(each[0] for each in operations if each[1] == FLUSH)
    switched: list[Any] = []
    for each in operations:
        if each[1] != FLUSH or not _is_above(each[2], 0):
            switched.append(each)
            continue
        end = each[0] + each[2] * _MINUTE_S
        switched.append([each[0], FLUSH, 1])
        if not any(each[0] < other <= end for other in flushes):
            switched.append([end, FLUSH, 0])
    return sorted(switched, key=lambda operation: float(operation[0]))


def _is_operation(operation: Any) -> bool:
    return isinstance(operation, list) and len(operation) == 3 and _is_above(operation[0], -1)  # noqa: PLR2004


def _is_above(value: Any, limit: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > limit
