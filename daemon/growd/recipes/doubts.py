"""Warnings on a valid recipe that probably has a mistake."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.findings import warning
from growd.recipes.plan import DAY_S, Shape
from growd.recipes.units import UNLIKE_OPENAG
from growd.variables import CARBON_DIOXIDE, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.recipes.findings import RecipeFinding
    from growd.recipes.grammar import RecipeFormat
    from growd.recipes.plan import Phase, Plan, Track

LIGHT: Final = frozenset({"light_illuminance", "light_ppfd"}) | {
    name for name in VARIABLES if name.startswith("light_intensity_")
}
HOT_DEGC: Final = 45.0
"""Too hot for any crop; most room temperatures in degrees Fahrenheit are above it."""

FRACTIONS: Final = {"light_illuminance": 100.0, "light_ppfd": 1.0, "air_humidity": 1.0}
"""If the largest value of a recipe is at most this, it is probably a percentage or a fraction."""

LEAST_PPM: Final = 350.0
"""A CO2 set point below it cannot be reached, since a fan brings in fresh air of 420 ppm."""

WINS: Final = (
    ("air_humidity", "air_vapour_pressure_deficit"),
    ("light_illuminance", "light_ppfd"),
    ("light_illuminance", "light_daily_integral"),
    ("light_ppfd", "light_daily_integral"),
)
"""Variables whose set point wins over one from which it would follow (`growd.control.planning`)."""

MINUTE_S: Final = 60.0
HOUR_S: Final = 3_600.0


def doubts(form: RecipeFormat, recipe: dict[str, Any], plan: Plan) -> Iterator[RecipeFinding]:
    """All warnings of this module on a recipe without errors."""
    yield from _check_values(form.set_points(recipe))
    if 0 < plan.duration < MINUTE_S:
        words = f"the whole recipe lasts {plan.duration:.3g} s; are its times in another unit?"
        yield warning(f"/{form.root}", words)
    yield from _check_dark(plan, form.root)
    for own, other in WINS:
        if {own, other} <= set(plan.variables):
            words = f"the set point of {other} has no effect while {own} has its own"
            yield warning(f"/{form.root}", words)


def conflict_in(recipe: dict[str, Any]) -> str:
    """The words on other versions of a recipe that the database keeps, "" without any.

    They come from replications: two places edited one recipe
    (docs.couchdb.org/en/3.5.x/replication/conflicts.html).
    """
    others = recipe.get("_conflicts")
    if not isinstance(others, list) or not others:
        return ""
    versions = "another version" if len(others) == 1 else f"{len(others)} other versions"
    name = recipe.get("_id", "ID")
    return (
        f"the database has {versions} of this recipe, which was edited in two places: growd recipe resolve "
        f"{name} lists them, and keeps one"
    )


def check_openag_unit(place: str, variable: str, remedy: str) -> Iterator[RecipeFinding]:
    """Warn if a variable without a named unit had another one in openag_brain."""
    theirs = UNLIKE_OPENAG.get(variable)
    if theirs is not None:
        own = VARIABLES[variable].unit
        yield warning(place, f"{variable} is in {own} here and was in {theirs} in openag_brain; {remedy}")


def _check_values(places: Iterator[tuple[str, str, float]]) -> Iterator[RecipeFinding]:
    """Once for each variable: temperatures in degF, fractions, CO2 below that of fresh air."""
    thin = None
    highest: dict[str, tuple[float, str]] = {}
    for place, variable, value in places:
        if variable not in highest or value > highest[variable][0]:
            highest[variable] = value, place
        if variable == CARBON_DIOXIDE and value < LEAST_PPM and thin is None:
            thin = value, place
    if thin is not None:
        yield warning(
            thin[1],
            f"air_carbon_dioxide {thin[0]:g} ppm is less than fresh air has, 420 ppm: no output reaches it, "
            "and an exhaust fan may run all the time; 420 ppm closes the valve, too",
        )
    for variable, (value, place) in highest.items():
        unit = VARIABLES[variable].unit
        if unit == "degC" and value > HOT_DEGC:
            celsius = (value - 32) * 5 / 9
            words = f"{value:g} degC is too hot for a crop; {value:g} degF would be {celsius:.3g} degC"
            yield warning(place, words)
        elif 0 < value <= FRACTIONS.get(variable, 0.0):
            words = f"no {variable} of this recipe is above {value:g} {unit}; is this a fraction?"
            yield warning(place, words)


def _check_dark(plan: Plan, root: str) -> Iterator[RecipeFinding]:
    """Once for each light variable: no dark time in 24 hours."""
    for variable in sorted(LIGHT & set(plan.variables)):
        for number, phase in enumerate(plan.phases):
            lit = _longest_lit(plan, phase, variable)
            if lit >= DAY_S:
                where = f"/phases/{number}" if root == "phases" else f"/{root}"
                words = f"{variable} is lit 24 h a day, for {lit / HOUR_S:.4g} h without a dark hour"
                yield warning(where, words)
                break


def _longest_lit(plan: Plan, phase: Phase, variable: str) -> float:
    """The longest lit time in a phase, in seconds."""
    track = phase.tracks.get(variable)
    if track is None:
        return phase.duration if _is_held_lit(plan, phase, variable) else 0.0
    is_repeated = track.is_daily or track.cycle < phase.duration
    stretches = list(_stretches(track, track.points[0].at + track.cycle if is_repeated else phase.duration))
    if is_repeated and all(is_lit for _, is_lit in stretches):
        return phase.duration
    longest = lit = 0.0
    for seconds, is_lit in chain(stretches, stretches if is_repeated else ()):
        lit = lit + seconds if is_lit else 0.0
        longest = max(longest, lit)
    return min(longest, phase.duration)


def _is_held_lit(plan: Plan, phase: Phase, variable: str) -> bool:
    """Whether a phase without the variable keeps it lit at every time of day."""
    return all((plan.value(variable, phase.begin, hour * HOUR_S) or 0) > 0 for hour in range(24))


def _stretches(track: Track, end: float) -> Iterator[tuple[float, bool]]:
    """The duration of each set point of a track, and whether it is lit."""
    points = track.points
    for point, following in zip(points, points[1:] + points[:1], strict=True):
        until = end if point is points[-1] else following.at
        is_rising = point.shape is not Shape.HOLD and (following.value or 0) > 0
        yield until - point.at, is_rising or (point.value or 0) > 0
