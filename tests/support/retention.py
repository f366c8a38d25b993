"""Retirement of points in databases of a test, and what must be left of a day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from growd.config import Replication
from growd.runtime.pauses import Pace
from growd.store.retention.far_end import FarEnd
from growd.store.retention.retirement import Retirement
from support.rollups import DAY, ENVIRONMENT, RollupBench, measured

if TYPE_CHECKING:
    from growd.store.couch import Couch
    from growd.store.database import Database
    from growd.store.rollups.document import Rollup
    from support.rollups import KilledCouch

HOUR = 3_600
DEVICE = "0123456789ab"


@dataclass
class RetiringDatabase:
    """What `Retirement` needs of a `Database`."""

    couch: Couch | KilledCouch
    is_embedded: bool
    design: str = "svc"


def retirements(
    bench: RollupBench,
    *,
    is_embedded: bool,
    couch: Couch | KilledCouch | None = None,
    replication: Replication | None = None,
    device: str = DEVICE,
    batch: int = 10,
    pace: Pace | None = None,
) -> list[Retirement]:
    """Those of points and events after a restart: nothing is left in memory."""
    client = couch or bench.couch
    bench.restart(client)
    database = cast("Database", RetiringDatabase(client, is_embedded))
    far_end = FarEnd(cast("Couch", client), replication or Replication(), bench.names, device)
    feeds = bench.feed.points, bench.feed.events
    pace = pace or Pace(0.0)
    return [Retirement(database, bench.feed, feed, far_end, pace, batch=batch) for feed in feeds]


async def retire_all(found: list[Retirement], before: float) -> int:
    """Retire every day that ended before a time; how many points."""
    number = 0
    for one in found:
        await one.finish()
        while (day := await one.oldest_day(before)) is not None:
            number += await one.retire(day)
    return number


async def documents(bench: RollupBench, database: str) -> list[dict[str, Any]]:
    """All documents of a database but the design documents."""
    rows = await bench.couch.all_docs(database, include_docs=True)
    return [row["doc"] for row in rows if not row["id"].startswith("_design/")]


async def tombstones(bench: RollupBench, database: str) -> int:
    """How many deleted documents a database still knows."""
    changes = await bench.couch.changes(database, 0, 100_000)
    return sum(bool(row.get("deleted")) for row in changes["results"])


def a_day(start: int) -> list[dict[str, Any]]:
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


def check_day(rollups: dict[str, Rollup], points: list[dict[str, Any]], start: int) -> None:
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
            buckets: dict[int, list[dict[str, Any]]] = {}
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


def _expected(points: list[dict[str, Any]]) -> list[Any]:
    numbers = [one["value"] for one in points if one["value"] is not None]
    last = points[-1]
    return [
        len(numbers),
        min(numbers, default=None),
        max(numbers, default=None),
        last["value"],
        last["timestamp"],
    ]
