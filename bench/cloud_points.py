"""Points of many simulated chambers, as their replications write them into the monthly databases."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MEASURED = {  # middle, and how far the day moves it
    "air_carbon_dioxide": (800.0, 300.0),
    "air_temperature": (22.0, 3.0),
    "air_humidity": (65.0, 8.0),
    "light_illuminance": (10_000.0, 10_000.0),
    "water_temperature": (20.0, 1.0),
    "water_potential_hydrogen": (6.0, 0.2),
}
DAY_S = 86_400


def device_id(number: int) -> str:
    """The id of a chamber."""
    return hashlib.sha256(str(number).encode()).hexdigest()[:12]


def document(number: int, time_s: float, variable: str, value: Any, **members: Any) -> dict[str, Any]:
    """A document of a chamber; its id is always the same."""
    device = device_id(number)
    text = f"{device} {time_s} {variable} {members}"
    name = f"{device}:{round(time_s * 1000):013d}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    kind = {"is_desired": False} if "category" not in members and "is_desired" not in members else {}
    return {
        "_id": name,
        "environment": "environment_1",
        "variable": variable,
        **kind,
        "is_manual": False,
        "value": value,
        "timestamp": time_s,
        **members,
    }


def measured(number: int, start: float, days: float, every_s: float) -> Iterator[dict[str, Any]]:
    """The measured points of a chamber: each variable each `every_s` seconds, and CO2 denser by day."""
    for step in range(int(days * DAY_S / every_s)):
        for place, (variable, (middle, swing)) in enumerate(MEASURED.items()):
            time_s = start + step * every_s + place + number % 7 / 10
            day = math.sin(2 * math.pi * (time_s % DAY_S) / DAY_S - math.pi / 2)
            value = middle + swing * day + number % 10 + step * 37 % 11 / 10
            yield document(number, time_s, variable, round(value, 3))


def month_database(kind: str, name: str) -> str:
    """The database of a document, by its id: `points_2026_11`."""
    return f"{kind}_{datetime.fromtimestamp(int(name[13:26]) / 1000, UTC):%Y_%m}"
