"""Grammar and checks that the formats with phases have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import shown
from growd.recipes.findings import MAX_SECONDS, error, warning
from growd.recipes.plan import DAY_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from growd.recipes.findings import RecipeFinding
    from growd.recipes.grammar import Grammar

MAX_PHASES: Final = 1_000
MAX_POINTS: Final = 100_000
SHORTEST_S: Final = 0.001  # of a phase and of a cycle
UNITS: Final = {"days": DAY_S, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


def phases(items: Grammar) -> Grammar:
    """The grammar of `phases`; `items` is that of one phase."""
    return {
        "title": f"an array of 1 to {MAX_PHASES} phases",
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_PHASES,
        "items": {"title": "a phase as an object", "type": "object"} | items,
    }


def name_of(example: str) -> Grammar:
    """The grammar of a phase's name."""
    return {"description": "For people, and for skip_to_phase.", "type": "string", "examples": [example]}


def sound_phases(recipe: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The place of each phase that is an object, and its parts that fit."""
    for number, phase in enumerate(recipe.get("phases", ())):
        if phase is not None:
            yield f"/phases/{number}", phase


def check_points(tracks: list[dict[str, list[Any] | None]]) -> Iterator[RecipeFinding]:
    """Check the number of set points of a recipe."""
    number = sum(len(points or ()) for track in tracks for points in track.values())
    if number > MAX_POINTS:
        yield error("/phases", f"{number} set points are too many; the maximum is {MAX_POINTS}")


def check_phases(phases: list[dict[str, Any]], lengths: Iterable[float]) -> Iterator[RecipeFinding]:
    """Check names and lengths (in seconds) of the phases of a recipe without an error in one of them."""
    seconds = sum(lengths)
    if seconds > MAX_SECONDS:
        yield error("/phases", f"together they last {seconds / DAY_S:.0f} days, which is more than ten years")
        return
    seen: dict[str, int] = {}
    for number, phase in enumerate(phases):
        name = phase.get("name")
        if name and seen.setdefault(name, number) != number:
            words = f"phase {seen[name] + 1} has the same name; skip_to_phase {shown(name)} goes to that one"
            yield warning(f"/phases/{number}/name", words)
