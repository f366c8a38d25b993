"""The grammar of recipe formats: the part of JSON Schema (draft 2020-12) that they use, and its checker.

A format's grammar stands in its module and nowhere else. `fitting` checks documents against it,
`published` is what `growd recipe schema` prints, and `for_database` is the part that the database checks
(tools/recipe-grammar writes it into couchdb/design/recipes/validate_doc_update.js).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import shown
from growd.recipes.findings import MAX_FINDINGS, MAX_NAME, RecipeFinding, error, is_number, under
from growd.recipes.formats import RecipeRefusedError
from growd.runtime.text import most_like
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from growd.recipes.plan import Plan

Grammar = dict[str, Any]
"""A JSON Schema, with one keyword of our own: `ascending` names members of an object, each above the last.

`title` says what is expected, for error messages; `expected` derives it where there is none.
"""

VARIABLE: Final[Grammar] = {
    "title": "the name of a variable",
    "description": "An environment variable. docs/variables.md lists them with units and ranges.",
    "type": "string",
    "enum": list(VARIABLES),
}
VALUE: Final[Grammar] = {
    "title": "a number, true or false",
    "description": "The set point, in the unit of the variable and within its range. "
    "For a switch, true is 1 and false is 0.",
    "type": ["number", "boolean"],
    "examples": [22.5, 8000, True],
}
TIME_OF_DAY: Final[Grammar] = {
    "title": 'a time of day such as "06:30"',
    "description": "The local time of day, with or without seconds.",
    "type": "string",
    "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$",
    "examples": ["06:30"],
}
GROWD_FOR: Final[Grammar] = {
    "title": "an array of one device id or group:NAME or more",
    "description": "For which devices of a fleet the recipe is: ids of devices, and group:NAME. Without it, "
    "for all.",
    "type": "array",
    "minItems": 1,
    "items": {
        "title": 'the id of a device, or "group:NAME"',
        "type": "string",
        "pattern": "^([0-9a-f]{12}|group:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})$",
    },
    "examples": [["0123456789ab", "group:school"]],
}
_SHORT: Final[Grammar] = {
    "title": "a text of 1 to 200 characters in one line",
    "type": "string",
    "pattern": r"^[^\x00-\x1f]{1,200}$",
}
STUDY: Final[Grammar] = {
    "title": "an object with texts about the experiment",
    "description": "What a run of the recipe is in an experiment (docs/runs.md).",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "title": _SHORT | {"description": "The title of the study."},
        "material": _SHORT | {"description": "The id of the seed lot or clone."},
        "organism": _SHORT
        | {"description": "The species, best as the id of a taxon.", "examples": ["NCBI:4236"]},
        "cultivar": _SHORT | {"description": "Cultivar, variety or line."},
        "factor": _SHORT | {"description": "What differs between the treatments."},
        "treatment": _SHORT | {"description": "The value of the factor in this run."},
        "unit": _SHORT | {"description": "The id of the observation unit; by default that of the run."},
        "replicate": _SHORT | {"description": "The number or name of the replicate."},
    },
}
_COMMON: Final[Grammar] = {
    "_id": {"description": "The recipe's id, the argument of start_recipe.", "type": "string"},
    "name": {"description": "The name of the recipe, for people."},
    "description": {"description": "What the recipe is for, and where its figures come from, for people."},
    "growd_for": GROWD_FOR,
    "study": STUDY,
}
_IN_DATABASE: Final = {
    *("type", "enum", "pattern", "minimum", "exclusiveMinimum", "minItems", "minProperties", "ascending"),
    *("items", "prefixItems", "properties", "additionalProperties", "required"),
}
_NOUNS: Final = {"string": "a text", "number": "a number", "integer": "a whole number"}
_MISSING: Final = object()


class RecipeFormat(msgspec.Struct, frozen=True):
    """A recipe format.

    `check` yields errors and warnings on the parts that fit the grammar (see `fitting`), `check_whole` those
    on a recipe without an error so far. `plan` and `set_points` (place, variable and value of each) take a
    recipe without errors.
    """

    name: str
    grammar: Grammar
    check: Callable[[dict[str, Any]], Iterator[RecipeFinding]]
    check_whole: Callable[[dict[str, Any]], Iterator[RecipeFinding]]
    plan: Callable[[dict[str, Any]], Plan]
    set_points: Callable[[dict[str, Any]], Iterator[tuple[str, str, float]]]

    @property
    def root(self) -> str:
        """The member of a recipe that holds its set points."""
        return str(self.grammar["required"][0])


def per_variable(items: Grammar, **more: Any) -> Grammar:
    """An object with a member for each variable, of grammar `items`."""
    title = "an object with an array for each variable"
    return {
        "title": title, "type": "object", "propertyNames": VARIABLE, "additionalProperties": items
    } | more  # fmt: skip


def seconds_of_day(text: str) -> float:
    """Seconds after midnight of a `TIME_OF_DAY`."""
    hours, minutes, seconds = map(int, [*text.split(":"), "0"][:3])
    return hours * 3600.0 + minutes * 60.0 + seconds


def fitting(grammar: Grammar, document: dict[str, Any]) -> tuple[dict[str, Any], list[RecipeFinding]]:
    """The parts of a document that fit the grammar, and an error for each part that does not.

    A member that does not fit is left out; the value of a variable or an array element is None. Stops after
    `MAX_FINDINGS` errors.
    """
    reading = _Reading()
    return reading.members(grammar, document, ""), reading.errors


def misfits(recipe: dict[str, Any]) -> list[RecipeFinding]:
    """The errors in members that recipes of all formats have."""
    known = {"growd_for": GROWD_FOR, "study": STUDY}
    return fitting({"properties": known}, {name: recipe[name] for name in known.keys() & recipe})[1]


def study_of(recipe: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The members of a valid recipe's `study`, and those that were `given` at the start, which win.

    Raises `RecipeRefusedError` if what was given is invalid.
    """
    if errors := fitting({"properties": {"study": STUDY}}, {"study": given})[1]:
        raise RecipeRefusedError("; ".join(map(str, errors)))
    return {**recipe.get("study", {}), **given}


def published(name: str, grammar: Grammar) -> dict[str, Any]:
    """The JSON Schema of a format, for editors and other programs."""
    schema = _changed(grammar, _as_json_schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:growd:recipe:{name}",
        "title": f"A recipe of format {name}",
        **schema,
        "properties": {"format": {"const": name}} | _COMMON | schema["properties"],
        "required": ["format", *schema["required"]],
    }


def for_database(grammar: Grammar) -> dict[str, Any]:
    """What the database checks: the shape, but neither the names of variables nor upper limits.

    A newer growd may know more variables. `expected` is the text for the error message.
    """
    return _changed(grammar, _as_database_check)


def expected(node: Grammar) -> str:
    """What a part of the grammar expects, in words."""
    if "title" in node:
        return str(node["title"])
    if "enum" in node:
        return f"one of {', '.join(node['enum'])}"
    if node["type"] == "object":
        *some, last = node["required"]
        return f"an object with {', '.join(some)}{' and ' if some else ''}{last}"
    if "minimum" in node:
        return f"{_NOUNS[node['type']]}, {node['minimum']} or more"
    return _NOUNS[node["type"]] + (" above 0" if "exclusiveMinimum" in node else "")


def _as_json_schema(node: Grammar) -> Grammar:
    return {name: value for name, value in node.items() if name != "ascending"}


def _as_database_check(node: Grammar) -> Grammar:
    if node is VARIABLE:
        return {"type": "string", "expected": expected(node)}
    return {name: value for name, value in node.items() if name in _IN_DATABASE} | {
        "expected": expected(node)
    }


def _changed(node: Grammar, change: Callable[[Grammar], Grammar]) -> Grammar:
    """A grammar with each of its nodes changed."""
    changed = change(node)
    for name, inner in changed.items():
        match name:
            case "properties":
                changed[name] = {member: _changed(each, change) for member, each in inner.items()}
            case "prefixItems":
                changed[name] = [_changed(each, change) for each in inner]
            case "items" | "additionalProperties" if isinstance(inner, dict):
                changed[name] = _changed(inner, change)
    return changed


class _Reading:
    """Collects the errors of one document."""

    def __init__(self) -> None:
        self.errors: list[RecipeFinding] = []
        self._variable: str | None = None  # of the values that are read now

    def members(self, node: Grammar, found: dict[str, Any], place: str) -> dict[str, Any]:
        """The members of an object that fit."""
        known, others = node.get("properties", {}), node.get("additionalProperties", True)
        sound = {}
        for name, value in found.items():
            if len(self.errors) > MAX_FINDINGS:
                break
            where = under(place, name)
            if name in known:
                part = self._part(known[name], value, where)
                if part is not None:
                    sound[name] = part
            elif others is True:
                sound[name] = value
            elif others is False:
                self._refuse(where, f"one of {', '.join(known)}", name, _like(name, known))
            else:
                self._variable = name
                sound[name] = self._part(others, value, where)
                self._variable = None
                if not _fits(VARIABLE, name):
                    self.errors.append(error(where, _unknown_variable(name)))
        for name in node.get("required", ()):
            if name not in found:
                self._part(known[name], _MISSING, under(place, name))
        self._check_ascending(node, sound, place)
        return sound

    def _part(self, node: Grammar, value: Any, place: str) -> Any:
        """What fits of a value: None where the value itself does not fit."""
        if not _fits(node, value):
            if node is VARIABLE and isinstance(value, str):
                self.errors.append(error(place, _unknown_variable(value)))
            else:
                hint = self._range() if node is VALUE else _like(value, node.get("enum", ()), cutoff=0.7)
                self._refuse(place, expected(node), value, hint)
            return None
        if isinstance(value, dict):
            return self.members(node, value, place)
        if isinstance(value, list):
            return self._elements(node, value, place)
        return value

    def _elements(self, node: Grammar, found: list[Any], place: str) -> list[Any]:
        if "prefixItems" in node:
            parts = list(zip(node["prefixItems"], found, strict=True))
            self._variable = next((value for each, value in parts if each is VARIABLE), None)
            return [
                self._part(each, value, f"{place}/{number}") for number, (each, value) in enumerate(parts)
            ]
        sound = []
        for number, value in enumerate(found):
            if len(self.errors) > MAX_FINDINGS:
                break
            sound.append(self._part(node["items"], value, f"{place}/{number}"))
        return sound

    def _check_ascending(self, node: Grammar, sound: dict[str, Any], place: str) -> None:
        for lower, upper in pairwise(node.get("ascending", ())):
            if lower in sound and upper in sound and sound[upper] <= sound[lower]:
                self._refuse(
                    f"{place}/{upper}", f"a number above {lower}, {shown(sound[lower])}", sound[upper]
                )

    def _range(self) -> str:
        """The range of the variable whose value is read now, as a hint, or ""."""
        if not isinstance(self._variable, str) or self._variable not in VARIABLES:
            return ""
        variable = VARIABLES[self._variable]
        if variable.unit == "switch":
            return f"; {variable.name} is a switch"
        return f"; {variable.name} takes {variable.minimum:g} to {variable.maximum:g} {variable.unit}"

    def _refuse(self, place: str, wanted: str, value: Any, hint: str = "") -> None:
        found = "; it is missing" if value is _MISSING else f", got {shown(value)}"
        self.errors.append(error(place, f"expected {wanted}{found}{hint}"))


def _unknown_variable(name: str) -> str:
    return f"there is no variable {shown(name)}{_like(name, VARIABLES)}"


def _like(value: Any, names: Iterable[str], cutoff: float = 0.8) -> str:
    """The most similar name, as a hint, or ""."""
    like = most_like(value[:MAX_NAME], names, cutoff) if isinstance(value, str) else []
    return f"; did you mean {like[0]}?" if like else ""


def _fits(node: Grammar, value: Any) -> bool:
    """Whether a value fits, whatever its members or elements are."""
    kind = node.get("type")
    if node is VALUE:
        return isinstance(value, bool) or is_number(value)
    if kind in {"number", "integer"}:
        return _fits_number(node, value)
    if kind == "object":
        return isinstance(value, dict) and len(value) >= node.get("minProperties", 0)
    if kind == "array":
        return isinstance(value, list) and (
            node.get("minItems", 0) <= len(value) <= node.get("maxItems", len(value))
        )
    return (
        isinstance(value, str)
        and ("enum" not in node or value in node["enum"])
        and ("pattern" not in node or bool(re.fullmatch(node["pattern"], value)))
    )


def _fits_number(node: Grammar, value: Any) -> bool:
    return (
        is_number(value)
        and (node["type"] == "number" or value == int(value))
        and node.get("minimum", value) <= value <= node.get("maximum", value)
        and ("exclusiveMinimum" not in node or value > node["exclusiveMinimum"])
    )
