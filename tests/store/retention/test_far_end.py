"""Points that a replication has not confirmed are never deleted, and deletions never reach the far end."""

import asyncio
import secrets
from contextlib import suppress

import pytest

from growd.config import Replication
from growd.store.errors import CouchError
from growd.store.replication_documents import ReplicationServer, configured_jobs
from growd.store.retention.far_end import FarEnd, UnconfirmedError, copies_deletions
from support.retention import a_day, documents, retire_all, retirements, tombstones
from support.rollups import DAY, START, measured

NOW = START + 10 * DAY
pytestmark = [pytest.mark.replication, pytest.mark.timeout(180)]


class Copied:
    """Databases of a test, with a replication of the points that the test starts and stops."""

    def __init__(self, bench, server):
        self.bench = bench
        self.server = server
        self.device = secrets.token_hex(6)
        prefix = f"far_{secrets.token_hex(6)}_"
        self.far = f"{prefix}environmental_data_point"
        self.options = Replication(url=server.url, prefix=prefix, events="off", recipes="off")
        [self.job] = configured_jobs(self.options, bench.names, self.device)
        self.far_end = FarEnd(bench.couch, self.options, bench.names, self.device)

    async def replicate(self):
        """Start the replication that growd configures."""
        await self.bench.couch.create(self.far)
        local = ReplicationServer("" if self.server.is_embedded else self.server.url, self.server.auth)
        await self.write(self.job.document(local, ReplicationServer(self.server.url, self.server.auth)))

    async def write(self, document):
        """Write a document of `_replicator`, in place of the one with its id."""
        present = await self.bench.couch.get("_replicator", document["_id"]) or {}
        revision = {"_rev": present["_rev"]} if present else {}
        assert await self.bench.couch.put("_replicator", document | revision)

    async def stop(self, document_id=""):
        present = await self.bench.couch.get("_replicator", document_id or self.job.id)
        if present is not None:
            await self.bench.couch.put("_replicator", present | {"_deleted": True})

    async def is_confirmed(self, ids):
        try:
            await self.far_end.confirm(self.bench.names.points, ids)
        except UnconfirmedError:
            return False
        return True

    async def confirmed(self, ids):
        """Return once they are; CouchDB writes a checkpoint each 30 s."""
        async with asyncio.timeout(150):
            while not await self.is_confirmed(ids):  # noqa: ASYNC110  no event announces it
                await asyncio.sleep(0.2)

    async def retire(self):
        found = retirements(
            self.bench, is_embedded=self.server.is_embedded, replication=self.options, device=self.device
        )
        return await retire_all(found, NOW)


@pytest.fixture
async def copied(bench, database_server):
    bench.now = NOW
    it = Copied(bench, database_server)
    yield it
    with suppress(CouchError):
        await it.stop()
    with suppress(CouchError):
        await bench.couch.delete(it.far)


async def test_points_stay_until_the_far_end_has_them_and_deletions_do_not_reach_it(copied):
    bench, day = copied.bench, a_day(START)
    stored = [one for one in await bench.store(*map(dict, day)) if "category" not in one]
    ids = [one["_id"] for one in stored]
    with pytest.raises(UnconfirmedError, match="the replication of points has no checkpoint yet"):
        await copied.retire()
    assert len(await documents(bench, bench.names.points)) == len(ids)
    await copied.replicate()
    await copied.confirmed(ids)
    assert await copied.retire() == len(day)
    assert await documents(bench, bench.names.points) == []
    # a later point shows that the replication has passed the deletions
    [later] = await bench.store(measured("air_temperature", 1.0, NOW))
    await copied.confirmed([later["_id"]])
    assert sorted(one["_id"] for one in await documents(bench, copied.far)) == sorted([*ids, later["_id"]])
    assert await tombstones(bench, copied.far) == 0


async def test_a_point_that_came_after_the_checkpoint_stays(copied):
    bench = copied.bench
    [first] = await bench.store(measured("air_temperature", 1.0, START))
    await copied.replicate()
    await copied.confirmed([first["_id"]])
    await copied.stop()
    [late] = await bench.store(measured("air_temperature", 2.0, START + 1))
    assert not await copied.is_confirmed([first["_id"], late["_id"]])
    with pytest.raises(UnconfirmedError):
        await copied.retire()
    assert len(await documents(bench, bench.names.points)) == 2


async def test_changed_names_the_documents_after_a_sequence(copied):
    couch, points = copied.bench.couch, copied.bench.names.points
    [first] = await copied.bench.store(measured("air_temperature", 1.0, START))
    since = (await couch.changes(points, 0, 100))["last_seq"]
    assert await couch.changed(points, since, [first["_id"]]) == []
    [late] = await copied.bench.store(measured("air_temperature", 2.0, START + 1))
    changed = await couch.changed(points, since, [first["_id"], late["_id"]])
    assert [row["id"] for row in changed] == [late["_id"]]


async def test_nothing_is_deleted_while_another_replication_copies_deletions(copied):
    bench = copied.bench
    await bench.store(measured("air_temperature", 1.0, START))
    foreign = f"own-{secrets.token_hex(6)}"
    source = bench.names.points
    if not copied.server.is_embedded:
        source = ReplicationServer(copied.server.url, copied.server.auth).end(source)
    target = ReplicationServer(copied.server.url, copied.server.auth).end(copied.far)
    document = {"_id": foreign, "source": source, "target": target, "continuous": True}
    copied.options = Replication()
    await copied.write(document)
    try:
        with pytest.raises(UnconfirmedError, match=f"the replication {foreign} of _replicator would copy"):
            await copied.retire()
        await copied.write(document | {"selector": {"_deleted": {"$exists": False}}})
        assert await copied.retire() == 1
    finally:
        await copied.stop(foreign)


@pytest.mark.parametrize(
    ("document", "copies"),
    [
        ({"source": "points"}, True),
        ({"source": "http://127.0.0.1:5984/points"}, True),
        ({"source": {"url": "http://127.0.0.1:5984/points/"}}, True),
        ({"source": "other"}, False),
        ({"source": "http://far.example/x", "target": "points"}, False),
        ({"source": "points", "selector": {"_deleted": {"$exists": False}}}, False),
        ({"source": "points", "selector": {"variable": "x"}}, True),
        ({"source": "points", "_replication_state": "completed"}, False),
        ({"_id": "_design/points", "source": "points"}, False),
    ],
)
def test_which_documents_copy_deletions(document, copies):
    assert copies_deletions(document, "points") is copies
