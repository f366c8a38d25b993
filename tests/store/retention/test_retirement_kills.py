"""A retirement that ends at any request: the next one deletes the rest, and each point counts once."""

import random
import shutil
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from growd.store.bootstrap import Databases, bootstrap
from growd.store.couch import Couch
from support.couch_client import FILES
from support.database import embedded_server
from support.retention import a_day, check_day, documents, retire_all, retirements, tombstones
from support.rollups import DAY, START, Killed, KilledCouch, RollupBench, measured

FIRST = 30  # days after `START`
pytestmark = [pytest.mark.kill, pytest.mark.timeout(1_200)]


class Lives:
    """Retirements of one day after the other, each with a kill."""

    def __init__(self, bench, *, is_embedded):
        self.bench = bench
        self.is_embedded = is_embedded
        self.number = 0

    async def day_with_kill(self, at, *, is_sent, late=False, restarts=True):
        """Retire a new day with a kill at a request, then again without; how many requests the first made.

        Without `restarts` the same objects go on, as after a request without an answer.
        """
        bench, self.number = self.bench, self.number + 1
        start = START + (FIRST + self.number) * DAY
        bench.now = start + 3 * DAY
        points = a_day(start)
        await bench.store(*map(dict, points))
        couch = KilledCouch(bench.couch, at, is_sent=is_sent)
        found = retirements(bench, is_embedded=self.is_embedded, couch=couch)
        try:
            await retire_all(found, bench.now)
        except Killed:
            if late:
                points.append(measured("air_temperature", 77.0, start + 4_000.25))
                await bench.store(dict(points[-1]))
        if not restarts:
            with suppress(Killed):  # a day with fewer requests ends before the kill
                await retire_all(found, bench.now)
        await self._finish()
        check_day(await bench.rollups(), points, start)
        return len(couch.requests)

    async def _finish(self):
        bench = self.bench
        await retire_all(retirements(bench, is_embedded=self.is_embedded), bench.now)
        await bench.catch_up()
        for database in (bench.names.points, bench.names.events):
            assert await documents(bench, database) == []
            if not self.is_embedded:
                assert await tombstones(bench, database) == 0


def rounds(daily, nightly):
    """Parametrises a test with two numbers, of which the larger one takes minutes."""
    return pytest.mark.parametrize(
        "number",
        [pytest.param(daily, id="some"), pytest.param(nightly, id="many", marks=pytest.mark.nightly)],
    )


@rounds(30, 1)
async def test_a_kill_after_a_request(bench, database_server, number):
    """After each, or after each thirtieth."""
    lives = Lives(bench, is_embedded=database_server.is_embedded)
    at = number
    while await lives.day_with_kill(at, is_sent=True) >= at:
        at += number
        assert at < 1_000
    assert at > 50


@pytest.mark.parametrize("restarts", [True, False], ids=["kill", "no answer"])
@rounds(1, 40)
async def test_ends_at_random_requests_with_late_points(bench, database_server, number, restarts):
    lives = Lives(bench, is_embedded=database_server.is_embedded)
    chance = random.Random(17)
    most = await lives.day_with_kill(0, is_sent=False)
    for _ in range(number):
        at, is_sent = chance.randint(1, most), chance.random() < 0.5
        await lives.day_with_kill(at, is_sent=is_sent, late=True, restarts=restarts)


@rounds(1, 8)
async def test_a_power_cut_of_the_embedded_database_loses_index_writes_only(tmp_path, number):
    """The database is synced before each answer; an index is not, and may be as it was at the start."""
    chance = random.Random(19)
    points = a_day(START)
    for cut in range(number):
        folder = tmp_path / str(cut)
        folder.mkdir()
        names = await _stored(folder, points)
        indexes = [each for each in (folder / "data").iterdir() if "-mrview-" in each.name]
        assert indexes
        for index in indexes:
            shutil.copytree(index, folder / "before" / index.name)
        with embedded_server(folder) as server:
            async with _bench_of(server, names) as bench:
                couch = KilledCouch(bench.couch, chance.randint(40, 80), is_sent=chance.random() < 0.5)
                with suppress(Killed):
                    await retire_all(retirements(bench, is_embedded=True, couch=couch), bench.now)
        for index in indexes:
            shutil.rmtree(index)
            shutil.copytree(folder / "before" / index.name, index)
        with embedded_server(folder) as server:
            async with _bench_of(server, names) as bench:
                await retire_all(retirements(bench, is_embedded=True), bench.now)
                await bench.catch_up()
                assert await documents(bench, names.points) == []
                check_day(await bench.rollups(), points, START)


async def _stored(folder, points):
    names = Databases.prefixed("cut-")
    with embedded_server(folder) as server:
        async with _bench_of(server, names) as bench:
            await bootstrap(bench.couch, FILES, databases=names)
            await bench.store(*map(dict, points))
            for database in (names.points, names.events):
                await bench.couch.view(database, "svc", "by_variable", reduce=False, limit=1)
                await bench.couch.view(database, "svc", "by_timestamp", limit=1)
    return names


@asynccontextmanager
async def _bench_of(server, names):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        bench = RollupBench(Couch(session, server.url, credentials=server.owner), names)
        bench.now = START + 3 * DAY
        yield bench
