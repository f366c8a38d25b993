"""Reads the events of a range, and the times at which measured values became unknown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from growd.bus.messages import Quality
from growd.store.history.known_series import MARKS, together
from growd.store.reading.source import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from growd.store.history.grid import Grid
    from growd.store.history.known_series import KnownSeries
    from growd.store.reading.source import ExportedPoint, SourceReader

KINDS: Final = (
    "calibration",
    "drift",
    "fault",
    "hold",
    "interlock",
    "note",
    "recipe",
    "recovery",
    "restart",
    "set_point",
    "stop",
)
"""The kinds of events that growd records. Other programs may use others."""

MOST_EVENTS: Final = 1_000
MOST_KINDS: Final = 50  # that other programs use
MOST_BREAKS: Final = 1_000  # of a variable
_STEPS: Final = (100, 300, MOST_EVENTS + 1)  # events of each kind: more only of those that may need them
_WIDE_S: Final = 3_600
_FEW_BREAKS: Final = 100  # in buckets of `_WIDE_S` and more, which are as wide as most gaps
_BY: Final = re.compile(r" \(by (.+)\)\Z")  # as the recipe runner writes it


async def events_of(
    reader: SourceReader, environment: str, known: KnownSeries, grid: Grid
) -> tuple[list[dict[str, Any]], bool]:
    """The newest events of the range, in their order, and whether there are more."""
    others = sorted({*known.by_category["event"]} - {*KINDS})  # the first of a kind is in the next answer
    kinds = [*KINDS, *others[:MOST_KINDS]]
    places = [*(("event", kind) for kind in kinds), *(("desired", mark) for mark in MARKS)]
    series = [
        Series((environment, category, kind), {}, reader.source.database_of(category))
        for category, kind in places
    ]
    read: list[list[ExportedPoint]] = [[] for _ in series]
    lacking = [*range(len(series))]
    for most in _STEPS:
        more = [reader.newest(series[n], grid.start, grid.end, most) for n in lacking]
        for n, some in zip(lacking, await together(more), strict=True):
            read[n] = some
        times = sorted(point.timestamp for some in read for point in some if point.timestamp < grid.end)
        oldest = times[-MOST_EVENTS - 1] if len(times) > MOST_EVENTS else 0.0
        lacking = [n for n in lacking if len(read[n]) == most and read[n][-1].timestamp >= oldest]
    inside = (point for some in read for point in some if point.timestamp < grid.end)
    points = sorted(inside, key=lambda point: point.timestamp)
    is_truncated = len(points) > MOST_EVENTS or len(others) > MOST_KINDS
    return [_as_event(point) for point in points[-MOST_EVENTS:]], is_truncated


async def breaks_of(
    reader: SourceReader, environment: str, variables: Sequence[str], grid: Grid
) -> dict[str, dict[str, list[float]]]:
    """The newest times at which measured values became unknown, or known again, by variable, oldest first."""
    most = MOST_BREAKS if grid.width < _WIDE_S else _FEW_BREAKS

    async def read(variable: str) -> dict[str, list[float]]:
        series = Series((environment, "quality", variable), {}, reader.source.events)
        points = await reader.newest(series, grid.start, grid.end, most)
        times: dict[str, list[float]] = {"breaks": [], "resumes": []}
        for point in reversed(points):
            times["resumes" if point.value == Quality.OK else "breaks"].append(point.timestamp)
        return times

    return dict(zip(variables, await together([read(variable) for variable in variables]), strict=True))


def _as_event(point: ExportedPoint) -> dict[str, Any]:
    """An event of the answer; `source` and `by` are empty if they are unknown. Some have `details`."""
    kind, source, message = point.variable, "", str(point.value)
    details = point.details if isinstance(point.details, dict) else {}
    if kind in MARKS:
        kind, source, message = "recipe", message, str(details.get("reason") or MARKS[kind])
        details = {"code": f"recipe_{message.replace(' ', '_')}", "recipe": source}
    elif kind != "note":
        before, colon, after = message.partition(": ")
        source, message = (before, after) if colon else ("growd", message)
    by = point.by if isinstance(point.by, str) else ""
    if not by and kind in {"recipe", "set_point"} and (found := _BY.search(message)):
        by = found[1]
    return {
        "time": point.timestamp,
        "kind": kind,
        "source": source,
        "message": message,
        "by": by,
        **({"details": details} if details else {}),
    }
