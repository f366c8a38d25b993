"""Weeks of points within a small budget, on a real database."""

import asyncio

import pytest

from growd.bus import Bus
from growd.config import Retention
from growd.store.database import Database
from growd.store.local import LocalStore
from growd.store.retention.budget import Shortage
from growd.store.retention.compaction import Compaction
from growd.store.retention.keeping import GRACE_S, RetentionKeeper
from growd.store.retention.sizes import disk_use
from support.clock import ManualClock
from support.couch_client import FILES
from support.retention import documents, retirements
from support.rollups import DAY, START, measured, rollup_bench

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

BUDGET = 24_000_000  # the last seven days always stay, with room for their compaction
EACH_DAY = 2_000
VARIABLES = 4
WEEKS = 2


async def test_points_and_rollups_never_exceed_the_budget(database_server, tmp_path):
    if database_server.is_embedded:
        pytest.skip("needs the figures of CouchDB: the embedded database keeps tombstones")
    local = await LocalStore.open(tmp_path / "growd.sqlite3")
    try:
        async with rollup_bench(database_server) as bench:
            await _live(bench, database_server, local, tmp_path)
    finally:
        await local.close()


async def _live(bench, server, local, data):
    prefix = bench.names.points.removesuffix("environmental_data_point")
    clock = ManualClock(START + 0.0)
    stages = []
    sizes = []
    async with Database(
        files=FILES, data=data, design_name="svc", url=server.url, credentials=server.auth, prefix=prefix
    ) as database:
        database.prepared.set()
        keeper = RetentionKeeper(
            Bus(clock),
            local,
            Retention(budget_mb=BUDGET / 1e6),
            prepared=database.prepared,
            retirements=lambda _: retirements(bench, is_embedded=False, batch=1_000),
            compaction=Compaction(database),
            measure=lambda: disk_use(database, data),
            store_less=stages.append,
            record=lambda *_: None,
        )
        await keeper.look()
        clock.step(GRACE_S)
        for day in range(7, 7 + 7 * WEEKS):
            await _store_a_day(bench, START + day * DAY)
            clock.step(DAY)
            bench.now = clock.time()
            await bench.feed.catch_up()
            await keeper.look()
            sizes.append((await disk_use(database, data)).used)
            assert keeper.node.details()["problems"] == [], (day, stages)
        assert max(sizes) <= BUDGET
        assert max(stages) is Shortage.RETIRING_EARLY
        left = [one["timestamp"] for one in await documents(bench, bench.names.points)]
        assert min(left) > START + (7 + 7 * WEEKS - 10) * DAY  # far less than 90 days
        await bench.catch_up(bench.now + 7_200)  # the last hour is over
        rollups = await bench.rollups()
        counts = sum(sum(one.count) for one in rollups.values() if one.width == 300)
        assert counts == EACH_DAY * 7 * WEEKS


async def _store_a_day(bench, start):
    step = DAY / EACH_DAY
    for first in range(0, EACH_DAY, 500):
        await bench.store(
            *(
                measured(f"variable_{n % VARIABLES}", 20 + n % 97 / 10, start + n * step)
                for n in range(first, first + 500)
            )
        )
    await bench.couch.view(bench.names.points, "svc", "by_variable", reduce=False, limit=1)
    await asyncio.sleep(0)
