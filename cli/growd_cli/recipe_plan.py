"""The plan of a recipe for people: as a table, and as a figure."""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from growd.recipes.plan import DAY_S
from growd.runtime.text import columns, duration, moment
from growd.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from matplotlib.axes import Axes

_HEADINGS: Final = ("phase", "from", "to", "variable", "unit", "repeated", "at", "value", "to next")
_TO_THE_RIGHT: Final = ("at", "value")
_COLOURS: Final = ("#3b82d6", "#d97706", "#12985c", "#c2569b", "#7c5cd6", "#b8860b")
_INK: Final = "#777778"
_LETTERS: Final = 130  # that fit above a panel
_HOUR_S: Final = 3_600.0
_UNITS: Final = (("d", DAY_S), ("h", _HOUR_S), ("min", 60.0))
_SHORT_S: Final = 2 * DAY_S  # shorter plans are drawn in hours, below two hours in minutes


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
            change["unit"],
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


def draw(plan: dict[str, Any], file: Path, heading: str) -> None:
    """Draw all set points over time, with a panel for each variable and the names of the phases.

    Needs matplotlib. Raises OSError if the file can't be written, ValueError for an unknown kind of picture.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  optional and slow

    series = plan["series"]
    unit, length = _unit_of_time(plan["duration"])
    picture = Figure(figsize=(10.0, 1.2 + 1.7 * max(1, len(series))), layout="constrained")
    panels = picture.subplots(max(1, len(series)), 1, sharex=True, squeeze=False)[:, 0]
    for number, (panel, (variable, line)) in enumerate(zip(panels, series.items(), strict=False)):
        _draw_line(panel, variable, line, length, _COLOURS[number % len(_COLOURS)])
    for panel in panels:
        _mark_phases(panel, plan["phases"], length)
        panel.set_xlim(0.0, plan["duration"] / length or 1.0)
    _name_phases(panels[0], plan, length)
    more = "; cut off: there are too many set points" if plan["truncated"] else ""
    panels[-1].set_xlabel(f"{unit} since the start{more}")
    picture.suptitle(heading, fontsize=11)
    picture.savefig(file, dpi=120)


def _of_phase(phase: dict[str, Any], tracks: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """The lines of one phase; a single one if it has no set points."""
    end = phase["begin"] + phase["duration"]
    first = phase["name"] or "-", _moment(phase["begin"]), _moment(end)
    if not tracks:
        yield *first, "-", "", "", "", "", ""
    for track in tracks:
        named = track["variable"], track["unit"], _repeated(track, phase["duration"])
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


def _unit_of_time(duration: float) -> tuple[str, float]:
    if duration > _SHORT_S:
        return "days", DAY_S
    return ("hours", _HOUR_S) if duration > 2 * _HOUR_S else ("minutes", 60.0)


def _draw_line(
    panel: Axes, variable: str, line: Sequence[Sequence[float | None]], length: float, colour: str
) -> None:
    times = [(at or 0.0) / length for at, _ in line]
    values = [float("nan") if value is None else value for _, value in line]
    panel.plot(times, values, color=colour, linewidth=1.1)
    if any(value == value for value in values):  # noqa: PLR0124  NaN is not itself
        panel.fill_between(times, values, min(0.0, *values), color=colour, alpha=0.12, linewidth=0.0)
    panel.set_title(f"{variable} ({VARIABLES[variable].unit})", loc="left", fontsize=9)
    panel.grid(visible=True, axis="y", color=_INK, alpha=0.25, linewidth=0.5)
    panel.margins(y=0.12)
    panel.spines[["top", "right"]].set_visible(False)


def _mark_phases(panel: Axes, phases: Sequence[dict[str, Any]], length: float) -> None:
    """Shade every other phase, and mark the beginnings with lines."""
    for number, phase in enumerate(phases):
        begin, end = phase["begin"] / length, (phase["begin"] + phase["duration"]) / length
        if number % 2:
            panel.axvspan(begin, end, color=_INK, alpha=0.10, linewidth=0.0)
        if number:
            panel.axvline(begin, color=_INK, linewidth=0.8, linestyle=":")


def _name_phases(panel: Axes, plan: dict[str, Any], length: float) -> None:
    """Write the names above the first panel, each in the middle of its phase, where there is room."""
    for phase in plan["phases"]:
        width = phase["duration"] / plan["duration"] if plan["duration"] else 1.0
        room = int(width * _LETTERS)
        if phase["name"] and room > 1:
            name = phase["name"] if len(phase["name"]) <= room else phase["name"][: room - 1] + "…"
            middle = (phase["begin"] + phase["duration"] / 2.0) / length
            panel.annotate(
                name, (middle, 1.0), xycoords=panel.get_xaxis_transform(), xytext=(0, 16),
                textcoords="offset points", ha="center", va="bottom", fontsize=9, color=_INK,
            )  # fmt: skip
