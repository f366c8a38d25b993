"""Points of a run for the account of its figures, and the figures of some."""

from zoneinfo import ZoneInfo

from growd.store.reading.source import ExportedPoint
from growd_analysis.figures.account import RunAccount

UTC = ZoneInfo("UTC")
MIDNIGHT = 1_790_035_200.0  # 2026-09-22 00:00 UTC
HOLDS_S = 660.0
CO2, LIGHT, WARMTH = "air_carbon_dioxide", "light_illuminance", "air_temperature"
VALVE = "air_carbon_dioxide_valve_on"


def value(at, variable, number, **members):
    """A measured value."""
    return ExportedPoint(variable, timestamp=at, value=number, environment="environment_1", **members)


def set_point(at, variable, number, **members):
    return value(at, variable, number, is_desired=True, **members)


def command(at, variable, level):
    return value(at, variable, level, category="commanded")


def quality(at, variable, word):
    return value(at, variable, word, category="quality")


def event(at, kind, text):
    return value(at, kind, text, category="event")


def figures_of(*points, start=0.0, end, midnight=MIDNIGHT, **options):
    """The figures of points whose times count from `midnight`, as do `start` and `end`."""
    account = RunAccount(midnight + start, midnight + end, UTC, holds_s=lambda _: HOLDS_S, **options)
    for point in sorted(points, key=lambda one: one.timestamp):
        point.timestamp += midnight
        account.take(point)
    return account.figures()
