"""What the formats with phases have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.findings import MAX_SECONDS, Severity, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd.recipes.findings import Finding

MAX_PHASES: Final = 1_000
MAX_POINTS: Final = 100_000
DAY_S: Final = 86_400.0
SHORTEST_S: Final = 0.001  # of what is repeated, and of a phase


def check_phases(
    recipe: dict[str, Any],
    arrays_of: Callable[[dict[str, Any]], Iterator[Any]],
    check_phase: Callable[[str, Any], Iterator[Finding]],
    check_whole: Callable[[list[dict[str, Any]]], Iterator[Finding]],
) -> Iterator[Finding]:
    """All that is to be said of the phases of a recipe.

    `arrays_of` gives the arrays of set points of a phase, whatever they are; `check_whole` is for phases
    without an error one by one.
    """
    phases = recipe.get("phases")
    if not isinstance(phases, list):
        yield error("/phases", f"expected an array of phases, got {shown(phases)}")
        return
    if not phases:
        yield error("/phases", "there is no phase, so there is nothing to run")
    if len(phases) > MAX_PHASES:
        yield error("/phases", f"{len(phases)} phases are too many; {MAX_PHASES} is the most")
        return
    arrays = [array for phase in phases if isinstance(phase, dict) for array in arrays_of(phase)]
    points = sum(len(array) for array in arrays if isinstance(array, list))
    if points > MAX_POINTS:
        yield error("/phases", f"{points} set points are too many; {MAX_POINTS} is the most")
        return
    sound = True
    for number, phase in enumerate(phases):
        for finding in _check_object(f"/phases/{number}", phase, check_phase):
            sound = sound and finding.severity is not Severity.ERROR
            yield finding
    if sound and phases:
        yield from check_whole(phases)


def check_unit(place: str, phase: dict[str, Any], units: dict[str, float]) -> Iterator[Finding]:
    """That `time_units` is one of those."""
    if unit_of(phase, units) is None:
        found = shown(phase.get("time_units"))
        yield error(f"{place}/time_units", f"expected one of {', '.join(units)}, got {found}")


def unit_of(phase: dict[str, Any], units: dict[str, float]) -> str | None:
    """The unit of a phase's times, None where it is none of those."""
    unit = phase.get("time_units")
    return unit if isinstance(unit, str) and unit in units else None


def check_texts(place: str, found: dict[str, Any], *names: str) -> Iterator[Finding]:
    """That these members are texts, where they are there."""
    for name in names:
        if not isinstance(found.get(name, ""), str):
            yield error(f"{place}/{name}", f"expected a text, got {shown(found[name])}")


def check_sum(seconds: float) -> Iterator[Finding]:
    """That phases do not last longer together than any recipe may."""
    if seconds > MAX_SECONDS:
        yield error("/phases", f"together they last {seconds / DAY_S:.0f} days, which is more than ten years")


def _check_object(
    place: str, phase: Any, check_phase: Callable[[str, Any], Iterator[Finding]]
) -> Iterator[Finding]:
    if isinstance(phase, dict):
        yield from check_phase(place, phase)
    else:
        yield error(place, f"expected a phase as an object, got {shown(phase)}")
