"""Databases with the rollups of ten years, and with the points of the last hours, for `years`."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from export import ask, drop
from frontdoor import COUCHDB, Way

from growd.store.bootstrap import read_design
from growd.store.rollups.document import WIDTHS, Rollup, RollupSeries, rollup_id, span_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVIRONMENT: Final = "chamber"
MEASURED: Final = (
    "air_temperature",
    "air_humidity",
    "air_carbon_dioxide",
    "light_illuminance",
    "water_temperature",
    "water_potential_hydrogen",
)
DESIRED: Final = MEASURED[:4]
COMMANDED: Final = MEASURED[2:4]
DAY: Final = 86_400
YEARS: Final = 3_652 * DAY
KEPT: Final = {300: 60 * DAY, 3_600: 400 * DAY, DAY: YEARS}  # rollups: as many as the ranges need
RAW_S: Final = 2 * 3_600  # so long there are points, each `EVERY_S`
EVERY_S: Final = 5
EVENTS: Final = 3_000
BREAKS: Final = 1_000  # qualities of each variable
BATCH: Final = 500  # documents in one request
MOST_SENT: Final = 4  # batches that are under way


@dataclass(frozen=True)
class Past:
    """The names of databases, and their present, in UNIX seconds."""

    points: str
    events: str
    rollups: str
    now: int


def all_series() -> list[RollupSeries]:
    """The series: six measurements, four set points, two commands."""
    by_category = {"measured": MEASURED, "desired": DESIRED, "commanded": COMMANDED}
    return [
        RollupSeries(ENVIRONMENT, category, name) for category, names in by_category.items() for name in names
    ]


@contextmanager
def ten_years(way: Way, now: int, *, has_last: bool, length: int = YEARS) -> Iterator[Past]:
    """New databases as after `length` seconds; they are deleted in the end."""
    prefix = f"growd_bench_{uuid4().hex}_"
    past = Past(f"{prefix}points", f"{prefix}events", f"{prefix}rollups", now)
    designs = {past.points: "environmental_data_point", past.events: "environmental_event"}
    try:
        for name in (past.points, past.events, past.rollups):
            ask(way, "PUT", f"/{name}")
        for name, folder in designs.items():
            design = read_design(COUCHDB / "design" / folder, "svc", has_last) or {}
            design.pop("validate_doc_update", None)  # it takes most of the time
            ask(way, "PUT", f"/{name}/_design/svc", design)
        store(way, past.points, points(now))
        store(way, past.events, events(now, length))
        store(way, past.rollups, rollups(now, length))
        for name in designs:
            ask(way, "GET", f"/{name}/_design/svc/_view/by_variable?reduce=false&limit=1")
            ask(way, "PUT", f"/{past.rollups}/_local/{state_of(name)}", state(way, name, now))
        yield past
    finally:
        for name in (past.points, past.events, past.rollups):
            drop(way, name)


def state_of(name: str) -> str:
    """The `_local` document of a database."""
    return "growd-points" if name.endswith("points") else "growd-events"


def state(way: Way, name: str, now: int) -> dict[str, Any]:
    """Everything is rolled up but the last hour; the points of all other hours are retired."""
    pending = {str(width): {"": [span_of(width, now - 660)]} for width in WIDTHS}
    return {
        "seq": ask(way, "GET", f"/{name}")["update_seq"],
        "pending": pending,
        "sealed_until": (now - RAW_S) // DAY * DAY,
        "retired_until": (now - RAW_S) // DAY * DAY,
    }


def store(way: Way, name: str, documents: Iterator[dict[str, Any]]) -> None:
    """Store documents, some batches at a time."""
    batch: list[dict[str, Any]] = []
    with ThreadPoolExecutor(2) as pool:
        sent = []
        for document in documents:
            batch.append(document)
            if len(batch) == BATCH:
                sent.append(pool.submit(ask, way, "POST", f"/{name}/_bulk_docs", {"docs": batch}))
                batch = []
                if len(sent) > MOST_SENT:
                    sent.pop(0).result()
        ask(way, "POST", f"/{name}/_bulk_docs", {"docs": batch})
        for one in sent:
            one.result()


def points(now: int) -> Iterator[dict[str, Any]]:
    """What was measured in the last hours, and a set point for each half hour."""
    for n, at in enumerate(range(now - RAW_S, now, EVERY_S)):
        for place, name in enumerate(MEASURED):
            yield point(name, n * 10 + place, at, is_desired=False, is_manual=False)
        if n % 360 == 0:
            for place, name in enumerate(DESIRED):
                yield point(name, n * 10 + 6 + place, at, is_desired=True)


def events(now: int, length: int) -> Iterator[dict[str, Any]]:
    """Faults, recoveries and qualities over all the time, and the commands of the last hours."""
    for n in range(EVENTS):
        at = now - length + n * length // EVENTS
        kind = ("fault", "recovery", "interlock", "note")[n % 4]
        yield point(kind, n, at, category="event", value="scd30: no answer")
    for place, name in enumerate(MEASURED):
        for n in range(BREAKS):
            at = now - length + n * length // BREAKS
            yield point(name, n * 10 + place, at, category="quality", value=("fault", "ok")[n % 2])
    for n, at in enumerate(range(now - RAW_S, now, 60)):
        for place, name in enumerate(COMMANDED):
            yield point(name, n * 10 + place, at, category="commanded", value=n % 2)


def point(variable: str, number: int, timestamp: int, **members: Any) -> dict[str, Any]:
    """A point as growd stores it."""
    return {
        "_id": f"0123456789ab:{timestamp * 1000:013}-{number:010x}",
        "environment": ENVIRONMENT,
        "variable": variable,
        "value": round(20 + number % 977 / 100, 2),
        "timestamp": timestamp,
        **members,
    }


def rollups(now: int, length: int) -> Iterator[dict[str, Any]]:
    """Documents with all buckets, of each width, up to the last span that is over."""
    chance = random.Random(1)
    for series in all_series():
        for width, span in WIDTHS.items():
            since = min(length, KEPT[width])
            last = span_of(width, now - 660)
            for start in range(span_of(width, now - since), last, span):
                yield rollup(series, width, start, chance).document()


def rollup(series: RollupSeries, width: int, start: int, chance: random.Random) -> Rollup:
    """A document with a bucket in each of its places."""
    number = WIDTHS[width] // width
    low = [round(chance.gauss(20, 3), 2) for _ in range(number)]
    return Rollup(
        id=rollup_id(series, width, start),
        **series._asdict(),
        width=width,
        start=start,
        at=[*range(number)],
        min=[*low],
        mean=[round(one + chance.random(), 7) for one in low],
        max=[one + 2 for one in low],
        last=[one + 1 for one in low],
        last_at=[round(start + (n + 1) * width - chance.random() * 5, 3) for n in range(number)],
        count=[width // EVERY_S] * number,
    )
