"""The plan of a recipe for pages and figures: phases, set points, and values over time."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.changes import BEFORE_S, MAX_AHEAD, DatedPlan
from growd.recipes.interpreter import FORMATS
from growd.recipes.plan import DAY_S, Shape
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from growd.recipes.plan import Plan

MAX_DRAWN: Final = 30_000
"""Limit of evaluated times for all variables: about 60 000 numbers, a megabyte of JSON."""

MAX_WRITTEN: Final = 10_000
"""Limit of listed set points."""

MAX_COMING: Final = 200
"""Limit of listed coming changes."""

COMING_S: Final = DAY_S
"""How far ahead coming changes are listed."""

_DECIMALS: Final = 2  # beyond the precision of the variable


def plan_of(
    recipe_id: str,
    recipe: dict[str, Any],
    start_wall: float,
    zone: tzinfo | None,
    *,
    state: str = "idle",
    elapsed: float = 0.0,
    now: float | None = None,
) -> dict[str, Any]:
    """The plan, as JSON, of a recipe without errors that starts at a UNIX time.

    `state` is that of the run, and `elapsed` its position; a recipe that is neither running nor paused begins
    at `elapsed`. `now` is the UNIX time from which on coming changes are listed, by default the beginning.

    `zone` is the time zone of times of day, None that of the machine. Times are in seconds: those of phases
    and series since the start, `at` since the beginning of the cycle or, if `daily`, since midnight. Connect
    the points of a series with straight lines; a step has two points at one time, and null is no value.
    `truncated` means that the series end early, since they have too many points; `set_points_truncated` that
    only the first `MAX_WRITTEN` set points are listed. `next` has the first `MAX_COMING` changes of the next
    `COMING_S` seconds.
    """
    plan = FORMATS[recipe["format"]].plan(recipe)
    until = (start_wall + elapsed if now is None else now) - start_wall + COMING_S
    has_begun = state in {"running", "paused"}
    series, is_whole = _Drawn(plan, start_wall, zone).series()
    written = sum(len(track.points) for phase in plan.phases for track in phase.tracks.values())
    return {
        "recipe_id": recipe_id,
        "name": recipe.get("name"),
        "format": recipe["format"],
        "start": start_wall,
        "duration": plan.duration,
        "state": state,
        "elapsed": elapsed,
        "next": coming_changes(plan, elapsed, until, start_wall, zone, has_begun=has_begun),
        "phases": [
            {"name": phase.name, "begin": phase.begin, "duration": phase.duration} for phase in plan.phases
        ],
        "set_points": list(_set_points(plan)),
        "set_points_truncated": written > MAX_WRITTEN,
        "series": series,
        "truncated": not is_whole,
    }


def coming_changes(
    plan: Plan, elapsed: float, until: float, start_wall: float, zone: tzinfo | None, *, has_begun: bool
) -> list[dict[str, Any]]:
    """The first `MAX_COMING` changes of set points after `elapsed`, until `until` (seconds of the recipe).

    Each has `time` (UNIX seconds), `variable`, `from`, `to` (None: released), `unit` and `to_next`, the way
    of the change. Without `has_begun` the recipe begins at `elapsed`, and nothing has a value before. Other
    arguments as for `plan_of`.
    """
    dated = _Drawn(plan, start_wall, zone)
    found: list[dict[str, Any]] = [
        {"time": start_wall + at, "variable": variable, "from": before, "to": after}
        | {"unit": VARIABLES[variable].unit, "to_next": str(shape)}
        for variable in plan.variables
        for at, before, after, shape in islice(
            dated.changes(variable, elapsed, until, has_begun=has_begun), MAX_COMING
        )
    ]
    return sorted(found, key=lambda change: change["time"])[:MAX_COMING]  # stable


def _set_points(plan: Plan) -> Iterator[dict[str, Any]]:
    """The first `MAX_WRITTEN` set points, by phase and variable."""
    left = MAX_WRITTEN
    for number, phase in enumerate(plan.phases):
        for variable, track in phase.tracks.items():
            points = track.points[:left]
            if not points:
                return
            left -= len(points)
            yield {
                "phase": number,
                "variable": variable,
                "unit": VARIABLES[variable].unit,
                "daily": track.is_daily,
                "cycle": track.cycle,
                "points": [
                    {"at": point.at, "value": point.value, "to_next": str(point.shape)} for point in points
                ],
            }


class _Drawn(DatedPlan):
    """A dated plan with the values that are drawn."""

    def value(self, variable: str, elapsed: float, more_decimals: int = 0) -> float | None:
        found = self.plan.value(variable, elapsed, self.local(elapsed), self.local)
        return None if found is None else round(found, VARIABLES[variable].precision + more_decimals)

    def changes(
        self, variable: str, elapsed: float, until: float, *, has_begun: bool
    ) -> Iterator[tuple[float, float | None, float | None, Shape]]:
        """The time, values before and after, and way of each change; a ramp after a step is another."""
        ahead = takewhile(lambda edge: edge <= until + DAY_S, self.edges(variable, elapsed))
        edges = {edge for edge in islice(ahead, MAX_AHEAD) if elapsed < edge <= until}
        last = self.written(variable, elapsed) if has_begun else None
        for edge in sorted(edges if has_begun or elapsed > until else {elapsed, *edges}):
            is_over = edge >= self.plan.duration
            now = None if is_over else self.written(variable, edge + BEFORE_S)
            if now == last:
                continue
            before = self.value(variable, edge - BEFORE_S) if has_begun or edge > elapsed else None
            after = None if is_over else self.value(variable, edge + BEFORE_S)
            if before != after:
                yield edge, before, after, Shape.HOLD
            if now is not None and now[1] is not Shape.HOLD and now[2] not in {None, after}:
                yield edge, after, now[2], now[1]
            last = now

    def series(self) -> tuple[dict[str, list[tuple[float, float | None]]], bool]:
        """The line of each variable, and whether all are complete."""
        series, is_whole = {}, True
        for variable in self.plan.variables:
            most = MAX_DRAWN // len(self.plan.variables)
            edges = list(islice(self.edges(variable), most + 1))
            is_whole = is_whole and len(edges) <= most
            series[variable] = self._line(variable, sorted(set(edges[:most])))
        return series, is_whole

    def _line(self, variable: str, edges: list[float]) -> list[tuple[float, float | None]]:
        """The points before and at each edge."""
        line: list[tuple[float, float | None]] = []
        for edge in edges:
            before = self.value(variable, edge - BEFORE_S, _DECIMALS)
            after = self.value(variable, edge, _DECIMALS)
            if line and before != after:
                line.append((edge, before))
            if line or after is not None:
                line.append((edge, after))
        return line
