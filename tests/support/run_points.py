"""Points of a run for the account of its figures, and the figures of some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from growd.store.reading.source import ExportedPoint
from growd_analysis.figures.account import RunAccount

if TYPE_CHECKING:
    from growd_analysis.figures.figures import RunFigures

UTC = ZoneInfo("UTC")
MIDNIGHT = 1_790_035_200.0  # 2026-09-22 00:00 UTC
HOLDS_S = 660.0
CO2, LIGHT, WARMTH = "air_carbon_dioxide", "light_illuminance", "air_temperature"
VALVE = "air_carbon_dioxide_valve_on"


def value(at: float, variable: str, number: Any, **members: Any) -> ExportedPoint:
    """A measured value."""
    return ExportedPoint(variable, timestamp=at, value=number, environment="environment_1", **members)


def set_point(at: float, variable: str, number: float | None) -> ExportedPoint:
    return value(at, variable, number, is_desired=True)


def command(at: float, variable: str, level: float | None) -> ExportedPoint:
    return value(at, variable, level, category="commanded")


def quality(at: float, variable: str, word: str) -> ExportedPoint:
    return value(at, variable, word, category="quality")


def event(at: float, kind: str, text: str) -> ExportedPoint:
    return value(at, kind, text, category="event")


def figures_of(
    *points: ExportedPoint, start: float = 0.0, end: float, midnight: float = MIDNIGHT, **options: Any
) -> RunFigures:
    """The figures of points whose times count from `midnight`, as do `start` and `end`."""
    account = RunAccount(midnight + start, midnight + end, UTC, holds_s=lambda _: HOLDS_S, **options)
    for point in sorted(points, key=lambda one: one.timestamp):
        point.timestamp += midnight
        account.take(point)
    return account.figures()
