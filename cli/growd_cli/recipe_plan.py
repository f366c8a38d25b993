"""The plan of a recipe as tables for people."""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.plan import DAY_S
from growd.runtime.text import columns, duration, moment, symbol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

_HEADINGS: Final = ("phase", "from", "to", "variable", "unit", "repeated", "at", "value", "to next")
_TO_THE_RIGHT: Final = ("at", "value")
_HOUR_S: Final = 3_600.0
_UNITS: Final = (("d", DAY_S), ("h", _HOUR_S), ("min", 60.0))


def table_of(plan: dict[str, Any]) -> str:
    """A line for each set point of a plan (see `growd_analysis.recipes.drawing.plan_of`).

    Names each phase and variable once. Days count from the start of the recipe, beginning with day 1. The
    last line says if set points are missing.
    """
    tracks = {number: list(group) for number, group in groupby(plan["set_points"], itemgetter("phase"))}
    is_cut = plan["set_points_truncated"]
    phases = plan["phases"][: max(tracks) + 1] if is_cut else plan["phases"]
    of_phases = (_of_phase(phase, tracks.get(number, [])) for number, phase in enumerate(phases))
    lines = list(chain.from_iterable(of_phases))
    rows = columns(_HEADINGS, lines, right=_TO_THE_RIGHT)
    if is_cut:
        rows.append(f"... cut off after {len(lines)} lines: there are too many set points")
    return "\n".join(rows)


def position_of(plan: dict[str, Any]) -> str:
    """The state and position of the run of a plan, as a line."""
    if plan["state"] == "waiting":
        offset = f", at {duration(plan['elapsed'])}" if plan["elapsed"] else ""
        return f"waits for its start{offset}"
    return f"{plan['state']}, at {duration(plan['elapsed'])}"


def coming_of(plan: dict[str, Any], zone: tzinfo | None) -> str:
    """A line for each change of a set point in the next 24 hours."""
    if not plan["next"]:
        return "No set point changes in the next 24 h."
    rows = [
        (
            moment(change["time"], zone),
            change["variable"],
            symbol(change["unit"]),
            *("-" if change[end] is None else f"{change[end]:.10g}" for end in ("from", "to")),
            "" if change["to_next"] == "hold" else change["to_next"],
        )
        for change in plan["next"]
    ]
    return "\n".join(columns(("next", "variable", "unit", "from", "to", ""), rows, right=("from", "to")))


def lasting(seconds: float) -> str:
    """A duration in words: "41 d", "1 d 6 h", "1 min 20 s"."""
    left, parts = round(seconds, 3), []
    for name, length in _UNITS:
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number:g} {name}")
    rest = round(left, 3)
    return " ".join([*parts, f"{rest:g} s"] if rest or not parts else parts)


def _of_phase(phase: dict[str, Any], tracks: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """The lines of one phase; a single one if it has no set points."""
    end = phase["begin"] + phase["duration"]
    first = phase["name"] or "-", _moment(phase["begin"]), _moment(end)
    if not tracks:
        yield *first, "-", "", "", "", "", ""
    for track in tracks:
        named = track["variable"], symbol(track["unit"]), _repeated(track, phase["duration"])
        for point in track["points"]:
            at = _clock(point["at"]) if track["daily"] else lasting(point["at"])
            value = "release" if point["value"] is None else f"{point['value']:.10g}"
            to_next = point["to_next"]
            yield *first, *named, at, value, "" if to_next == "hold" else to_next
            first, named = ("", "", ""), ("", "", "")


def _repeated(track: dict[str, Any], duration: float) -> str:
    if track["daily"]:
        return "each day"
    return f"every {lasting(track['cycle'])}" if track["cycle"] < duration else ""


def _moment(seconds: float) -> str:
    day, left = divmod(seconds, DAY_S)
    return f"day {int(day) + 1} {_clock(left)}"


def _clock(seconds: float) -> str:
    """A time of day: "06:30", with seconds only if they are not 0."""
    minutes, rest = divmod(round(seconds, 3), 60.0)
    clock = f"{int(minutes // 60):02}:{int(minutes % 60):02}"
    return f"{clock}:{rest:02.0f}" if rest else clock
