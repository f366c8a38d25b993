"""`kill -9` of the store, the database, or both, at any moment: acknowledged points are stored, once.

The moments are drawn with a seed. What a life is in the midst of then differs from run to run, as the machine
has it; what must be true afterwards does not.
"""

import dataclasses
import random
import secrets
import shutil
from pathlib import Path

import pytest

from growd.store.bootstrap import Databases
from support.couch_client import client_of
from support.database import embedded_server
from support.lives import Job, lives

SEED = 7


def rounds(daily, nightly):
    """How often a test kills."""
    return pytest.mark.parametrize("number", [daily, pytest.param(nightly, marks=pytest.mark.nightly)])


pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def client(database_server):
    async with client_of(database_server.url, database_server.auth) as client:
        yield client


@pytest.fixture
async def ordered(client):
    """Databases of its own; that of points has one shard, so that it has an order of all documents."""
    names = Databases.prefixed(f"store_{secrets.token_hex(6)}_")
    assert (await client("PUT", f"/{names.points}", q=1)).status in {201, 202}
    yield names
    for name in names.names_by_folder().values():
        await client("DELETE", f"/{name}")


async def check(stored, client, database):
    """Compare the ledger with the whole database."""
    answer = await client("GET", f"/{database}/_changes", include_docs=True)
    assert answer.status == 200
    stored.ledger.check(answer.json["results"])


@pytest.mark.kill
@rounds(20, 200)
async def test_the_store_killed_at_any_moment_loses_nothing_and_stores_nothing_twice(
    tmp_path, database_server, client, ordered, number
):
    moments, names = random.Random(SEED), tuple(ordered.names_by_folder().values())
    async with lives() as stores:
        job = Job(str(tmp_path), names, database_server.url, database_server.auth)
        for _ in range(number):
            is_clean = moments.random() < 0.05
            steps = 4 if is_clean else None
            await stores.begin(dataclasses.replace(job, prepare=moments.random() < 0.1, steps=steps))
            if is_clean:
                await stores.end_well()
            else:
                await kill_at_a_moment(stores, moments)
        await stores.begin(dataclasses.replace(job, steps=4))
        await stores.end_well()
        await check(stores, client, names[0])
    assert len(stores.ledger.acknowledged) > 5 * number
    assert stores.ledger.promises > 2.5 * number


@pytest.mark.kill
@rounds(4, 50)
async def test_the_database_killed_at_any_moment_loses_nothing_and_stores_nothing_twice(
    tmp_path, database_server, number
):
    moments = random.Random(SEED)
    job = embedding(tmp_path, database_server)
    async with lives() as stores:
        await stores.begin(job)
        for _ in range(number):
            await until_a_moment_of_the_database(stores, moments)
            stores.kill_node()
        await stores.kill()
        await end_and_check(stores, job)
    assert len(stores.ledger.acknowledged) > 10 * number


@pytest.mark.kill
@rounds(3, 20)
async def test_both_killed_at_any_moment_lose_nothing_and_store_nothing_twice(
    tmp_path, database_server, number
):
    moments = random.Random(SEED + 1)
    job = embedding(tmp_path, database_server)
    async with lives() as stores:
        for _ in range(number):
            await stores.begin(job)
            await until_a_moment_of_the_database(stores, moments)
            if moments.random() < 0.5:
                stores.kill_node()
                await stores.kill()
            else:
                await stores.kill()
                stores.kill_node()
        await end_and_check(stores, job)
    assert len(stores.ledger.acknowledged) > 25 * number


def embedding(folder, server):
    """A life with its own folder and embedded database."""
    if not server.is_embedded:
        pytest.skip("the CouchDB of these tests belongs to somebody else: only the embedded one is killed")
    node = shutil.which("node")
    assert node, "the embedded server needs Node.js: ./test brings it"
    return Job(str(folder), ("points", "recipes", "environment"), node=node, pace=0.1)


async def until_a_moment_of_the_database(stores, moments):
    """Wait for a moment of a new life: during its start, or some time after it."""
    await stores.until("node")
    if moments.random() < 0.4:
        await stores.listen(moments.uniform(0, 0.3))
    else:
        await stores.until("up")
        await stores.until_promised(moments.randint(0, 10))
        await stores.listen(moments.uniform(0, 0.03))


async def end_and_check(stores, job):
    await stores.begin(dataclasses.replace(job, steps=4))
    await stores.end_well()
    with embedded_server(Path(job.folder)) as server:
        async with client_of(server.url) as client:
            await check(stores, client, job.databases[0])


async def kill_at_a_moment(stores, moments):
    """Kill it while it opens its files, or after some acknowledgements."""
    if moments.random() < 0.2:
        await stores.listen(moments.uniform(0, 0.03))
    else:
        await stores.until_promised(moments.randint(1, 30))
        await stores.listen(moments.uniform(0, 0.008))
    await stores.kill()
