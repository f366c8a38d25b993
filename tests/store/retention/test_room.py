"""Sizes and compactions of real databases."""

import asyncio
from types import SimpleNamespace

import pytest

from growd.store.database import Database
from growd.store.retention.compaction import Compaction
from growd.store.retention.retirement import DAY_S
from growd.store.retention.sizes import DatabaseFile, DiskUse, disk_use
from support.couch_client import FILES
from support.database import DatabaseServer, embedded_server
from support.retention import documents, retire_all, retirements
from support.rollups import START, measured, rollup_bench

pytestmark = pytest.mark.long

MANY = 600


async def store_many(bench):
    for first in range(0, MANY, 300):
        await bench.store(
            *(measured("air_temperature", n / 7, START + n * 40) for n in range(first, first + 300))
        )
    await bench.couch.view(bench.names.points, "svc", "by_variable", reduce=False, limit=1)


async def test_a_compaction_of_couchdb_gives_space_back(database_server, tmp_path):
    if database_server.is_embedded:
        pytest.skip("the embedded database has its own test")
    async with rollup_bench(database_server) as bench:
        bench.now = START + 3 * DAY_S
        await store_many(bench)
        prefix = bench.names.points.removesuffix("environmental_data_point")
        where = {"url": database_server.url, "credentials": database_server.auth, "prefix": prefix}
        async with Database(files=FILES, data=tmp_path, design_name="svc", **where) as database:
            await retire_all(retirements(bench, is_embedded=False, batch=1_000), bench.now)
            before = await disk_use(database, tmp_path)
            assert before.disk is not None
            assert before.used == sum(file.size for file in before.files) > 0
            assert before.room == max(file.active for file in before.files)
            names = {(file.database, file.design) for file in before.files}
            expected = {(bench.names.points, ""), (bench.names.points, "svc"), (bench.names.rollups, "")}
            assert expected <= names
            compaction = Compaction(database)
            assert not compaction.is_due(None)
            async with asyncio.timeout(60):
                for file in before.files:
                    assert compaction.is_due(file)
                    await compaction.run(file)
            after = await disk_use(database, tmp_path)
            assert after.used < before.used / 2
            assert await documents(bench, bench.names.points) == []


async def test_a_compaction_of_the_embedded_database_gives_space_back(tmp_path):
    with embedded_server(tmp_path) as server:
        async with rollup_bench(DatabaseServer(server.url, server.owner, is_embedded=True)) as bench:
            bench.now = START + 3 * DAY_S
            await store_many(bench)
            await retire_all(retirements(bench, is_embedded=True, batch=500), bench.now)
            before = size_of(server.data)
            names, folder = bench.names, server.data
            database = SimpleNamespace(is_embedded=True, couch=bench.couch, names=names, folder=folder)
            compaction = Compaction(database, poll_s=0.05)
            assert compaction.is_due(None)
            async with asyncio.timeout(60):
                await compaction.run(None)
            assert not compaction.is_due(None)
            compaction.retired(1)
            assert compaction.is_due(None)
            assert size_of(folder) < 0.6 * before
            assert await documents(bench, names.points) == []
            # a document that is written again after its revisions went
            await bench.store(measured("air_temperature", 1.0, START))
            [left] = await documents(bench, names.points)
            assert left["value"] == 1


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


async def test_a_file_whose_compaction_frees_nothing_is_left_until_it_grows():
    compaction = Compaction(SimpleNamespace(couch=_StuckCouch(), names=None, is_embedded=False))
    file = DatabaseFile("points", "", 1_000, 400)
    use = DiskUse(1_000, 400, None, None, (file, DatabaseFile("events", "", 900, 100)))
    await compaction.run(file)
    assert [one.database for one in compaction.candidates(use).files] == ["events"]
    grown = use._replace(files=(file._replace(size=1_200),))
    assert compaction.candidates(grown) == grown
    compaction.retired(1)
    assert compaction.candidates(use) == use


class _StuckCouch:
    """A server whose compactions end without a result."""

    async def compact(self, database, design):
        pass

    async def info(self, database):
        return {"compact_running": False, "sizes": {"file": 1_000}}
