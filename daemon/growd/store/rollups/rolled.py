"""Which documents of the databases of points are rolled up, and as what."""

from __future__ import annotations

import re
from math import isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from growd.store.history.buckets import as_number
from growd.store.rollups.document import RETIRED, RollupSeries

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST: Final = 1e11
"""UNIX time from which on points are not rolled up: their ids would not be in the order of time."""

# the id of a point that growd made; see `PointMaker`
_ID: Final = re.compile(r"[0-9a-f]{12}:(\d{13})-[0-9a-f]{10}\Z")


class RolledPoint(NamedTuple):
    """A point as rollups have it: UNIX time, and its value as a number, None for a release."""

    series: RollupSeries
    time: float
    value: float | None


def rolled_point(document: Mapping[str, Any], *, is_event: bool) -> RolledPoint | None:
    """What is rolled up of a document or the value of a row; None for one that is not.

    `is_event`: it is one of `environmental_event`. A document is in the series where `by_variable` shows it.
    """
    if is_event and document.get("category") != "commanded":
        return None
    category = "commanded" if is_event else "desired" if document.get("is_desired") else "measured"
    environment, variable = document.get("environment"), document.get("variable")
    time = document.get("timestamp")
    if not (isinstance(environment, str) and isinstance(variable, str) and environment and variable):
        return None
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time < LATEST:
        return None
    value = as_number(document.get("value"))
    if value is not None and isnan(value):
        return None
    return RolledPoint(RollupSeries(environment, category, variable), float(time), value)


def is_retired_once_sealed(document: Mapping[str, Any], *, is_event: bool) -> bool:
    """Whether a document may be deleted once its hour is sealed.

    Not one that was changed: of a late point `RollupFeed` counts only the first revision.
    """
    point = rolled_point(document, is_event=is_event)
    if point is None or point.series.category not in RETIRED or document.get("is_manual"):
        return False
    return str(document.get("_rev", "1-")).startswith("1-")


def times_of_id(document_id: str) -> tuple[float, ...]:
    """Between which times growd made the point with this id; none for another id, which has no time."""
    made = _ID.match(document_id)
    if made is None:
        return ()
    rounded = int(made[1])
    return max(0, rounded - 1) / 1e3, rounded / 1e3
