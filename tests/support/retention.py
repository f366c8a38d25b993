"""Retirement of points in databases of a test, and what must be left of a day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from growd.config import Replication
from growd.runtime.pauses import Pace
from growd.store.retention.far_end import FarEnd
from growd.store.retention.retirement import Retirement
from support.rollups import DAY, ENVIRONMENT, measured

if TYPE_CHECKING:
    from growd.store.couch import Couch
    from support.rollups import KilledCouch

HOUR = 3_600
DEVICE = "0123456789ab"


@dataclass
class RetiringDatabase:
    """What `Retirement` needs of a `Database`."""

    couch: Couch | KilledCouch
    is_embedded: bool
    design: str = "svc"


def retirements(bench, *, is_embedded, couch=None, replication=None, device=DEVICE, batch=10, pace=None):
    """Those of points and events after a restart: nothing is left in memory."""
    client = couch or bench.couch
    bench.restart(client)
    database = RetiringDatabase(client, is_embedded)
    far_end = FarEnd(client, replication or Replication(), bench.names, device)
    feeds = bench.feed.points, bench.feed.events
    pace = pace or Pace(0.0)
    return [Retirement(database, bench.feed, feed, far_end, pace, batch=batch) for feed in feeds]


async def retire_all(found, before):
    """Retire every day that ended before a time; how many points."""
    number = 0
    for one in found:
        await one.finish()
        while (day := await one.oldest_day(before)) is not None:
            number += await one.retire(day)
    return number


async def documents(bench, database):
    """All documents of a database but the design documents."""
    rows = await bench.couch.all_docs(database, include_docs=True)
    return [row["doc"] for row in rows if not row["id"].startswith("_design/")]


async def tombstones(bench, database):
    """How many deleted documents a database still knows."""
    changes = await bench.couch.changes(database, 0, 100_000)
    return sum(bool(row.get("deleted")) for row in changes["results"])


def a_day(start):
    """Points of a day: two measured series and a command, with releases, in two hours."""
    points = []
    for number in range(12):
        time = start + number * 550 + 7.5
        points += [
            measured("air_temperature", 20 + number / 10, time),
            measured("air_humidity", 50.0 - number, time + 1),
            measured("fan_on", None if number % 5 == 4 else number / 30, time + 2, category="commanded"),
        ]
    return points


def check_day(rollups, points, start):
    """The five-minute and hourly documents of a day have just these points."""
    for category, variable in {(one.get("category", "measured"), one["variable"]) for one in points}:
        of_series = [one for one in points if one["variable"] == variable]
        found = [
            rollup
            for rollup in rollups.values()
            if (rollup.category, rollup.variable) == (category, variable)
            and start <= rollup.start < start + DAY
            and rollup.environment == ENVIRONMENT
        ]
        for width in (300, HOUR):
            buckets = {}
            for one in sorted(of_series, key=lambda one: one["timestamp"]):
                buckets.setdefault(int(one["timestamp"] // width) * width, []).append(one)
            shown = {
                rollup.start + place * width: [
                    column[n]
                    for column in (rollup.count, rollup.min, rollup.max, rollup.last, rollup.last_at)
                ]
                for rollup in found
                if rollup.width == width
                for n, place in enumerate(rollup.at)
            }
            assert shown == {at: _expected(inside) for at, inside in buckets.items()}, (variable, width)


def _expected(points):
    numbers = [one["value"] for one in points if one["value"] is not None]
    last = points[-1]
    return [
        len(numbers),
        min(numbers, default=None),
        max(numbers, default=None),
        last["value"],
        last["timestamp"],
    ]
