"""A retirement that ends at any request: the next one deletes the rest, and each point counts once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from support.retention import a_day, check_day, documents, retire_all, retirements, tombstones
from support.rollups import DAY, START, Killed, KilledCouch, RollupBench, measured, rollup_bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FIRST = 30  # days after `START`
pytestmark = [pytest.mark.kill, pytest.mark.timeout(1_200)]


@pytest.fixture
async def bench(database_server) -> AsyncIterator[RollupBench]:
    async with rollup_bench(database_server) as bench:
        yield bench


class Lives:
    """Retirements of one day after the other, each with a kill."""

    def __init__(self, bench: RollupBench, *, is_embedded: bool) -> None:
        self.bench = bench
        self.is_embedded = is_embedded
        self.number = 0

    async def day_with_kill(self, at: int, *, is_sent: bool, late: bool = False) -> int:
        """Retire a new day with a kill at a request, then again without; how many requests the first made."""
        bench, self.number = self.bench, self.number + 1
        start = START + (FIRST + self.number) * DAY
        bench.now = start + 3 * DAY
        points = a_day(start)
        await bench.store(*map(dict, points))
        couch = KilledCouch(bench.couch, at, is_sent=is_sent)
        try:
            await retire_all(retirements(bench, is_embedded=self.is_embedded, couch=couch), bench.now)
        except Killed:
            if late:
                points.append(measured("air_temperature", 77.0, start + 4_000.25))
                await bench.store(dict(points[-1]))
        await self._finish()
        check_day(await bench.rollups(), points, start)
        return len(couch.requests)

    async def _finish(self) -> None:
        bench = self.bench
        await retire_all(retirements(bench, is_embedded=self.is_embedded), bench.now)
        await bench.catch_up()
        for database in (bench.names.points, bench.names.events):
            assert await documents(bench, database) == []
            if not self.is_embedded:
                assert await tombstones(bench, database) == 0


async def test_a_kill_after_every_request(bench, database_server):
    lives = Lives(bench, is_embedded=database_server.is_embedded)
    while await lives.day_with_kill(lives.number + 1, is_sent=True) >= lives.number:
        assert lives.number < 1_000
    assert lives.number > 50


async def test_200_kills_at_random_requests_with_late_points(bench, database_server):
    lives = Lives(bench, is_embedded=database_server.is_embedded)
    chance = random.Random(17)
    most = await lives.day_with_kill(0, is_sent=False)
    for _ in range(200):
        await lives.day_with_kill(chance.randint(1, most), is_sent=chance.random() < 0.5, late=True)
