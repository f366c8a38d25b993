"""Faults of the line between the store and a real database, on real sockets.

Acknowledged points are stored once and in order, and failures are shown.
"""

import asyncio
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.store.bootstrap import bootstrap, read_design, supports_last
from growd.store.couch import Couch
from growd.store.database import Database
from growd.store.errors import CouchUnavailableError
from growd.store.points import PointMaker
from growd.store.shipper import Shipper
from support import fault_proxy
from support.fault_proxy import FaultProxy
from support.outbox import opened_at
from support.running import in_tasks

FILES = Path(__file__).parents[2] / "couchdb"
REQUESTS = 300
TIMEOUT_S = 0.5  # of the client; late answers come later
# Each of the delays costs the timeout, so there are fewer of them.
OFTEN = [*fault_proxy.CUTS, *fault_proxy.ANSWERS, *fault_proxy.UNWELL]

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


class Store:
    """An outbox whose points go through a proxy."""

    def __init__(self, outbox, proxy, couch, names):
        self.outbox = outbox
        self.proxy = proxy
        self.couch = couch
        self.names = names
        self.made = {}  # the variable and value of each point
        self.untold = []
        self._maker = PointMaker("0123456789ab")
        self._count = 0
        self.shipper = self.shipper_with(None)
        proxy.watch = self._watch

    def shipper_with(self, prepare):
        """A new shipper."""
        self._fault = fault_proxy.served.__name__
        self.shipper = Shipper(
            self.couch,
            self.outbox,
            RealClock(),
            database=self.names.points,
            prepare=prepare,
            batch=5,
            max_batch=20,
            max_age=0.01,
            pauses=Pauses(0.002, 0.01),
        )
        return self.shipper

    async def add(self):
        """Some points of some variables, acknowledged."""
        for _ in range(self.proxy.random.randint(1, 6)):
            self._count += 1
            variable = f"variable_{self.proxy.random.randrange(4)}"
            point = self._maker.make("environment_1", variable, self._count, self._count / 1000)
            self.made[point.id] = (variable, self._count)
            self.outbox.add(point)
        await self.outbox.flush()

    async def write_through_faults(self, requests):
        while (seen := self.proxy.seen.total()) < requests:
            await self.add()
            await self.proxy.until(seen + 1)

    async def ship_all(self):
        """Check the database, without faults and after `run`."""
        self.proxy.calm()
        self._fault = fault_proxy.served.__name__
        while await self.shipper.drain(fault_proxy.PATIENCE_S):
            pass

    def _watch(self, fault, exchange):
        """Whether the fault of the last batch is shown when the next one comes."""
        if not exchange.path.endswith("/_bulk_docs"):
            return
        if self._fault not in fault_proxy.HARMLESS and not self.shipper.fault.failures:
            self.untold.append((self._fault, fault))
        self._fault = fault

    async def check(self, client):
        answer = await client("GET", f"/{self.names.points}/_changes", include_docs=True)
        stored = [row["doc"] for row in answer.json["results"] if not row["id"].startswith("_design/")]
        assert {each["_id"]: (each["variable"], each["value"]) for each in stored} == self.made
        assert {each["_rev"].partition("-")[0] for each in stored} == {"1"}  # written once
        for variable in {each["variable"] for each in stored}:
            values = [each["value"] for each in stored if each["variable"] == variable]
            assert values == sorted(values)
        assert not self.shipper.fault.failures
        assert self.outbox.undelivered == 0
        assert self.untold == []


@asynccontextmanager
async def store(folder, server, names, faults, **options):
    async with (
        opened_at(folder / "growd.sqlite3", RealClock()) as outbox,
        FaultProxy(server.url, faults, **options) as proxy,
        Database(files=FILES, data=folder, design_name="svc", url=proxy.url) as database,
    ):
        assert database._session is not None
        couch = Couch(database._session, proxy.url, credentials=server.auth, timeout=TIMEOUT_S)
        yield Store(outbox, proxy, couch, names)


@pytest.mark.fuzz
async def test_any_fault_of_the_line_loses_and_doubles_nothing(
    tmp_path, database_server, client, ordered, caplog
):
    faults = [*OFTEN * 3, *fault_proxy.REFUSALS * 3, *fault_proxy.DELAYS]
    async with store(tmp_path, database_server, ordered, faults, seed=3) as rig:
        async with in_tasks(rig.outbox, rig.shipper):
            await rig.write_through_faults(REQUESTS)
            assert {fault.__name__ for fault in faults} <= rig.proxy.seen.keys()
        await rig.ship_all()
        assert rig.outbox.rejected_count == rig.outbox.dropped == 0
        await rig.check(client)
    said = [record.getMessage() for record in caplog.records if record.name == "growd.store.shipper"]
    assert {sentence.split(",")[0] for sentence in said} == {
        "points wait",
        "the database stores points again",
    }
    assert not any("\n" in sentence or rig.proxy.url in sentence for sentence in said)


async def test_a_setup_interrupted_by_a_faulty_line_is_completed(tmp_path, database_server, client, names):
    """With repeated starts and without refusals, since points are sent after a refused setup."""
    faults = [*OFTEN * 3, *fault_proxy.DELAYS]
    async with store(tmp_path, database_server, names, faults, seed=5, share=0.15) as rig:

        async def prepare():
            await bootstrap(rig.couch, FILES, "svc", names)

        for number in range(1, 6):
            async with in_tasks(rig.outbox, rig.shipper_with(prepare)):
                await rig.write_through_faults(60 * number)
        assert len(rig.proxy.seen) > 10
        await rig.ship_all()
        if database_server.is_embedded:  # CouchDB has several shards, and no order of all documents
            await rig.check(client)
        server = await rig.couch.server()
    for folder, name in names.names_by_folder().items():
        files = FILES / "design" / folder
        expected = await asyncio.to_thread(read_design, files, "svc", supports_last(server))
        assert expected.items() <= (await client("GET", f"/{name}/_design/svc")).json.items()


@pytest.mark.parametrize("twice", [fault_proxy.answer_twice, fault_proxy.answer_again_later])
async def test_a_repeated_answer_is_not_taken_for_the_next_one(
    tmp_path, database_server, client, names, twice
):
    await client("PUT", f"/{names.recipes}")
    wanted = ["lettuce", "basil", "mint"] * 3
    for name in set(wanted):
        assert (await client("PUT", f"/{names.recipes}/{name}", {"of": name})).status in {201, 202}
    async with (
        FaultProxy(database_server.url, [twice], seed=1, share=1) as proxy,
        Database(
            files=FILES,
            data=tmp_path,
            design_name="svc",
            url=proxy.url,
            credentials=database_server.auth,
            prefix=names.recipes.removesuffix("recipes"),
        ) as database,
    ):
        assert database.names.recipes == names.recipes
        for name in wanted:
            with suppress(CouchUnavailableError):  # two answers at once are an error
                assert (await database.recipe(name))["of"] == name
        proxy.calm()
        assert [(await database.recipe(name))["of"] for name in wanted] == wanted
