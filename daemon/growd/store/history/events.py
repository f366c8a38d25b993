"""The events of an environment: faults, interlocks, recipes, notes, restarts and stops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from growd.store.exporting.source import ExportedPoint

MARKS: Final = {"recipe_start": "started", "recipe_end": "ended"}
"""Desired points with the id of a recipe, and what happened to it."""

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

_BY: Final = re.compile(r" \(by (.+)\)\Z")  # as the recipe runner writes it


def as_event(point: ExportedPoint) -> dict[str, Any]:
    """An event of the answer; `source` and `by` are empty if they are unknown. Some have `details`."""
    kind, source, message = point.variable, "", str(point.value)
    if kind in MARKS:
        kind, source, message = "recipe", message, MARKS[kind]
    elif kind != "note":
        before, colon, after = message.partition(": ")
        source, message = (before, after) if colon else ("growd", message)
    by = point.by if isinstance(point.by, str) else ""
    if not by and kind in {"recipe", "set_point"} and (found := _BY.search(message)):
        by = found[1]
    details = point.details
    if point.variable in MARKS:
        details = {"code": f"recipe_{message}", "recipe": source}
    return {
        "time": point.timestamp,
        "kind": kind,
        "source": source,
        "message": message,
        "by": by,
        **({"details": details} if isinstance(details, dict) else {}),
    }
