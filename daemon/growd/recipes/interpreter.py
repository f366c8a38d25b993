"""Reads and checks recipe documents of any format, and makes their plans."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import shown
from growd.recipes import formats, phased
from growd.recipes.doubts import conflict_in, doubts
from growd.recipes.findings import MAX_FINDINGS, RecipeFinding, Severity, error, errors, warning, warnings
from growd.recipes.formats import InvalidRecipeError, beyond
from growd.recipes.grammar import RecipeFormat, fitting, misfits, published

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from growd.recipes.formats import Reach
    from growd.recipes.plan import Plan

MAX_BYTES: Final = 4_000_000
"""Size limit of a recipe as JSON, so that the document of its run stays below CouchDB's 8 MB
(docs.couchdb.org/en/3.5.x/config/couchdb.html#couchdb/max_document_size)."""

FORMATS: Final[Mapping[str, RecipeFormat]] = {
    name: import_module(f"growd.recipes.{name}").FORMAT for name in formats.FORMATS
}

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:]')


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of a format. Raises KeyError where there is no such format.

    A document that the schema refuses has errors. A document that it accepts may have errors too: `check`
    also knows the ranges of variables, for example, and whether spans overlap.
    """
    return published(name, FORMATS[name].grammar)


def read(text: str) -> tuple[Any, list[RecipeFinding]]:
    """The document, and an error for each repeated key: JSON readers keep only the last value.

    Raises ValueError for text that is not JSON, RecursionError for too many levels.
    """
    document = json.loads(text)
    return document, [
        error("", f"line {line}: the key {json.dumps(key)} is repeated in one object")
        for line, key in _repeated(text)
    ]


def check(recipe: Any, reach: Reach | None = None) -> list[RecipeFinding]:
    """All errors and warnings, errors first, by their place; cut off after `MAX_FINDINGS`.

    With `reach` also warnings on what the environment's actuators can't do, and errors on what they must not.
    """
    found: dict[Severity, list[RecipeFinding]] = {severity: [] for severity in Severity}
    for finding in _check(recipe):
        # continue after many warnings: the last finding may be an error
        if len(found[finding.severity]) <= MAX_FINDINGS:
            found[finding.severity].append(finding)
        elif finding.severity is Severity.ERROR:
            break
    if not found[Severity.ERROR]:
        for finding in _doubts(recipe, reach):
            found[finding.severity].append(finding)
    findings = [*sorted(found[Severity.ERROR], key=_place), *found[Severity.WARNING]]
    if len(findings) > MAX_FINDINGS:
        last = RecipeFinding(findings[MAX_FINDINGS].severity, "", f"more than {MAX_FINDINGS} findings")
        findings[MAX_FINDINGS:] = [last]
    return findings


def _place(finding: RecipeFinding) -> list[str]:
    return [part.zfill(9) if part.isdecimal() else part for part in finding.pointer.split("/")]


def interpret(recipe: Any, reach: Reach | None = None) -> tuple[Plan, list[RecipeFinding]]:
    """The plan of a recipe and the warnings on it; `InvalidRecipeError` if there are errors."""
    findings = check(recipe, reach)
    if errors(findings):
        raise InvalidRecipeError(findings)
    return FORMATS[recipe["format"]].plan(recipe), warnings(findings)


def _repeated(text: str) -> Iterator[tuple[int, str]]:
    """The line and key of each repetition; `text` is valid JSON."""
    open_objects: list[set[str]] = []
    last = ""
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                open_objects.append(set())
            case "}" | "]":
                open_objects.pop()
            case ":":
                key = json.loads(last)
                if key in open_objects[-1]:
                    yield text.count("\n", 0, token.start()) + 1, key
                open_objects[-1].add(key)
            case _:
                last = token[0]


def _check(recipe: Any) -> Iterator[RecipeFinding]:
    if not isinstance(recipe, dict):
        yield error("", f"expected a recipe as an object, got {shown(recipe)}")
        return
    if words := conflict_in(recipe):
        yield warning("", words)
    name = recipe.get("format")
    known = ", ".join(FORMATS)
    if name is None:
        yield error("/format", f"the format is missing; known are {known}")
    elif not isinstance(name, str) or name not in FORMATS:
        yield error("/format", f"the format {shown(name)} is not known; known are {known}")
    elif name == phased.FORMAT.name and "operations" in recipe and "phases" not in recipe:
        words = "this is the older format phased of openag_brain: growd import openag FILE converts it"
        yield error("/operations", words)
    else:
        yield from misfits(recipe)
        yield from _check_format(FORMATS[name], recipe)
        yield from _check_size(recipe)


def _check_format(form: RecipeFormat, recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    sound, wrong = fitting(form.grammar, recipe)
    yield from wrong
    has_errors = bool(wrong)
    for finding in form.check(sound):
        has_errors = has_errors or finding.severity is Severity.ERROR
        yield finding
    if not has_errors:
        yield from form.check_whole(recipe)


def _doubts(recipe: dict[str, Any], reach: Reach | None) -> Iterator[RecipeFinding]:
    form = FORMATS[recipe["format"]]
    for root in sorted({each.root for each in FORMATS.values()} - {form.root}):
        if root in recipe:
            yield warning(f"/{root}", f"a recipe of format {form.name} has no {root}; they are ignored")
    yield from doubts(form, recipe, form.plan(recipe))
    if reach is not None:
        yield from _check_reach(form, recipe, reach)


def _check_size(recipe: dict[str, Any]) -> Iterator[RecipeFinding]:
    try:
        size = len(msgspec.json.encode(recipe))
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as reason:
        yield error("", f"the recipe can't be written as JSON: {reason}")
        return
    if size > MAX_BYTES:
        yield error("", f"the recipe is too large: {size} bytes of JSON; the maximum is {MAX_BYTES}")


def _check_reach(form: RecipeFormat, recipe: dict[str, Any], reach: Reach) -> Iterator[RecipeFinding]:
    """Once for each variable without an actuator, and for each with a set point beyond its range."""
    reported: set[str] = set()
    for place, variable, value in form.set_points(recipe):
        if variable in reported:
            continue
        if variable not in reach:
            reported.add(variable)
            yield warning(
                place, f"nothing here drives {variable}: its set points are recorded and have no effect"
            )
        elif words := beyond(reach, variable, value):
            reported.add(variable)
            is_refused = any(reach[variable][2:3])
            yield error(place, words) if is_refused else warning(place, words)
