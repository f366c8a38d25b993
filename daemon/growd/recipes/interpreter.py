"""From a recipe document to what is to be said of it, and to a plan that can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import shown
from growd.recipes import flexformat, phased, simple
from growd.recipes.doubts import doubts
from growd.recipes.errors import InvalidRecipeError
from growd.recipes.findings import Finding, Severity, error, errors, warning, warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from growd.recipes.plan import Plan

MAX_FINDINGS: Final = 100
MAX_BYTES: Final = 4_000_000
"""Of a recipe as JSON: with a run's other facts it still is a document for CouchDB, which takes 8 MB
(docs.couchdb.org/en/3.5.x/config/couchdb.html#couchdb/max_document_size)."""

Reach = dict[str, tuple[float, float]]
"""What the actuators of an environment can do: the lowest and highest set point of each variable that has
one."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format: what is to be said of a recipe, its plan, and the place, variable and value of its set
    points; the last two only of a recipe without errors.
    """

    check: Callable[[dict[str, Any]], Iterator[Finding]]
    plan: Callable[[dict[str, Any]], Plan]
    places: Callable[[dict[str, Any]], Iterator[tuple[str, str, float]]]


FORMATS: Final[Mapping[str, Format]] = {
    "flexformat": Format(flexformat.check, flexformat.plan, flexformat.places),
    "phased": Format(phased.check, phased.plan, phased.places),
    "simple": Format(simple.check, simple.plan, simple.places),
}


def check(recipe: Any, reach: Reach | None = None) -> list[Finding]:
    """All that is to be said of a recipe document, errors first, cut off after `MAX_FINDINGS`.

    With `reach` also what the environment's actuators can't do.
    """
    found: dict[Severity, list[Finding]] = {severity: [] for severity in Severity}
    for finding in _check(recipe):
        # to the end, however much there is to warn of: an error may be the last thing to be said
        if len(found[finding.severity]) <= MAX_FINDINGS:
            found[finding.severity].append(finding)
        elif finding.severity is Severity.ERROR:
            break
    if not found[Severity.ERROR]:
        form = FORMATS[recipe["format"]]
        found[Severity.WARNING].extend(doubts(recipe, form.plan(recipe), form.places(recipe)))
        if reach is not None:
            found[Severity.WARNING].extend(_check_reach(recipe, reach))
    findings = found[Severity.ERROR] + found[Severity.WARNING]
    if len(findings) > MAX_FINDINGS:
        last = Finding(findings[MAX_FINDINGS].severity, "", f"there is more to say than these {MAX_FINDINGS}")
        findings[MAX_FINDINGS:] = [last]
    return findings


def interpret(recipe: Any, reach: Reach | None = None) -> tuple[Plan, list[Finding]]:
    """The plan of a recipe and the warnings on it; `InvalidRecipeError` if there are errors."""
    findings = check(recipe, reach)
    if errors(findings):
        raise InvalidRecipeError(findings)
    return FORMATS[recipe["format"]].plan(recipe), warnings(findings)


def _check(recipe: Any) -> Iterator[Finding]:
    if not isinstance(recipe, dict):
        yield error("", f"a recipe is an object, not {shown(recipe)}")
        return
    name = recipe.get("format")
    known = ", ".join(FORMATS)
    if name is None:
        yield error("/format", f"the format is missing; known are {known}")
    elif not isinstance(name, str) or name not in FORMATS:
        yield error("/format", f"the format {shown(name)} is not known; known are {known}")
    else:
        yield from FORMATS[name].check(recipe)
        yield from _check_size(recipe)


def _check_size(recipe: dict[str, Any]) -> Iterator[Finding]:
    try:
        size = len(msgspec.json.encode(recipe))
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeError) as reason:
        yield error("", f"it can't be written as JSON: {reason}")
        return
    if size > MAX_BYTES:
        yield error("", f"it is too large: {size} bytes of JSON; {MAX_BYTES} is the most")


def _check_reach(recipe: dict[str, Any], reach: Reach) -> Iterator[Finding]:
    """Once for each variable without an actuator, and for each that is asked for more than it can do."""
    told: set[str] = set()
    for place, variable, value in FORMATS[recipe["format"]].places(recipe):
        if variable in told:
            continue
        if variable not in reach:
            told.add(variable)
            yield warning(place, f"nothing here drives {variable}: its set points are kept, and no more")
        elif words := beyond(reach, variable, value):
            told.add(variable)
            yield warning(place, words)


def beyond(reach: Reach, variable: str, value: float) -> str:
    """That a set point is outside what the chamber can do; "" where it is inside, or nothing drives it."""
    low, high = reach.get(variable, (value, value))
    if low <= value <= high:
        return ""
    return f"{variable} can be driven from {low:g} to {high:g} here, not to {value:g}"
