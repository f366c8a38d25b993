"""Rollups are those of an undisturbed run if growd is killed before or after any request to the database."""

import random

import pytest

from support.rollups import DAY, DELAY_S, START, Killed, KilledCouch, measured, rollup_bench

pytestmark = pytest.mark.long

HOUR = 3_600
SEALED = START + DAY
WRITES = {"put", "bulk_docs"}


class Life:
    """A chamber of two days: points in time and late ones, a day that is sealed, and its points deleted.

    The process ends at request number `at`; the next one goes on where it was, as often as it takes.
    """

    def __init__(self, bench, seed, at=0, *, is_sent=False):
        self.couch = KilledCouch(bench.couch, at, is_sent=is_sent)
        self.kills = 0
        self._bench = bench
        self._random = random.Random(seed)
        self._stored = []  # database and document
        bench.restart(self.couch)

    async def run(self):
        for hour in (6, 7, 20):
            await self._store(20, START + HOUR * hour, HOUR)
            await self._catch_up(START + HOUR * (hour + 1) + DELAY_S)
        await self._store(10, START + HOUR * 20, HOUR / 10)  # late, before the hour is sealed
        await self._store(10, SEALED - HOUR / 2, HOUR)
        await self._change()
        await self._seal(SEALED + HOUR + DELAY_S)
        await self._store(6, START + HOUR * 6, 3 * HOUR)  # late, in sealed hours
        await self._catch_up()
        await self._retire()
        await self._store(4, START + HOUR * 6, 3 * HOUR)
        await self._store(10, SEALED + HOUR, 2 * HOUR)
        await self._catch_up(SEALED + DAY + DELAY_S)
        return await self._bench.rollups()

    async def _store(self, number, start, span):
        chance = self._random
        points = []
        for _ in range(number):
            kind = chance.choice([{}, {}, {"is_desired": True}, {"category": "commanded"}])
            value = chance.choice([None, chance.uniform(0, 1_000), chance.uniform(0, 1_000)])
            points.append(measured(chance.choice("ab"), value, start + chance.uniform(0, span), **kind))
        for document in await self._bench.store(*points):
            names = self._bench.names
            self._stored.append((names.events if "category" in document else names.points, document))

    async def _change(self):
        """A client deletes a point and changes another one."""
        for change in ({"_deleted": True}, {"value": -5.0}):
            database, document = self._stored[self._random.randrange(40)]
            found = await self._bench.couch.documents(database, [document["_id"]])
            await self._bench.store_documents([each | change for each in found.values()], database)

    async def _retire(self):
        """Delete the points of the day that is sealed."""
        for database in (self._bench.names.points, self._bench.names.events):
            retired = [
                document["_id"]
                for place, document in self._stored
                if place == database and document["timestamp"] < SEALED and not document.get("is_desired")
            ]
            found = await self._bench.couch.documents(database, retired)
            await self._bench.store_documents(
                [each | {"_deleted": True} for each in found.values()], database
            )

    async def _catch_up(self, now=None):
        self._bench.now = now or self._bench.now
        try:
            await self._bench.feed.catch_up()
        except Killed:
            self._restart()
            await self._catch_up()

    async def _seal(self, now):
        self._bench.now = now
        try:
            await self._bench.feed.seal(SEALED)
        except Killed:
            self._restart()
            await self._seal(now)

    def _restart(self):
        self.kills += 1
        self._bench.restart(self.couch)


async def undisturbed(server, seed):
    """The rollups of a run without a kill, and its requests."""
    async with rollup_bench(server) as bench:
        life = Life(bench, seed)
        return await life.run(), life.couch.requests


async def check_kill(server, seed, at, expected, *, is_sent):
    async with rollup_bench(server) as bench:
        life = Life(bench, seed, at, is_sent=is_sent)
        assert await life.run() == expected, f"killed at request {at}, {life.couch.requests[at - 1]}"
        assert life.kills == 1


async def test_a_kill_after_some_writes_changes_no_rollup(database_server):
    expected, requests = await undisturbed(database_server, 1)
    assert {each.is_sealed for each in expected.values()} == {True, False}
    writes = [at for at, name in enumerate(requests, 1) if name in WRITES]
    for at in writes[5::15]:
        await check_kill(database_server, 1, at, expected, is_sent=True)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_sent", [True, False], ids=["after writes", "between requests"])
async def test_a_kill_at_any_moment_changes_no_rollup(database_server, is_sent):
    """Between requests the database is as after the last write, so some of these moments will do."""
    expected, requests = await undisturbed(database_server, 2)
    writes = [at for at, name in enumerate(requests, 1) if name in WRITES]
    for at in writes if is_sent else range(1, len(requests) + 1, 7):
        await check_kill(database_server, 2, at, expected, is_sent=is_sent)


@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
async def test_a_late_point_is_counted_once_over_a_kill_at_any_request(database_server, is_sent):
    async with rollup_bench(database_server) as bench:
        await bench.store(measured("ph", 1.0, START))
        bench.now = SEALED + HOUR
        await bench.feed.seal(SEALED)
        at = added = 0
        is_over = False
        while not is_over:
            at, added = at + 1, added + 1
            await bench.store(measured("ph", 1.0, START + added))
            bench.restart(KilledCouch(bench.couch, at, is_sent=is_sent))
            try:
                await bench.catch_up()
                is_over = True  # it has fewer requests
            except Killed:
                bench.restart()
                await bench.catch_up()
            assert (await bench.rollup("ph", 300, START)).count == [1 + added], f"killed at request {at}"
        assert at > 10
