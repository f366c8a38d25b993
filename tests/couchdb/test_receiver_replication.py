"""Replications of CouchDB and of the embedded database into the receiver, and out of it."""

import base64
import os
from uuid import uuid4

import pytest

from growd.runtime.clock import RealClock
from growd.store.points import PointMaker
from growd_cloud.databases import CloudDatabases
from growd_cloud.devices import DeviceDocument, device_document_id
from growd_cloud.months import Month
from support.cloud import needs_cloud, running_cloud
from support.couch_client import COUCHDB_ADDRESS, client_of
from support.database import named_server
from support.waiting import until_found

pytestmark = [
    needs_cloud,
    pytest.mark.skipif(COUCHDB_ADDRESS not in os.environ, reason="GROWD_TEST_COUCHDB names no CouchDB"),
    pytest.mark.replication,
]
POINTS = "environmental_data_point"
NOVEMBER, DECEMBER = 1_763_000_000.0, 1_765_000_000.0  # 2025
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400  # too large for CouchDB to send it inline


@pytest.fixture
async def cloud():
    async with running_cloud() as running:
        yield running


@pytest.fixture(params=["couchdb", "embedded"])
async def own(request, embedded):
    """The database server of the device."""
    server = named_server(os.environ[COUCHDB_ADDRESS])
    is_embedded = request.param == "embedded"
    async with client_of(
        embedded if is_embedded else server.url, None if is_embedded else server.auth
    ) as client:
        yield client


@pytest.fixture
async def source(own):
    """The name of a database of the device."""
    name = f"test-{uuid4().hex}"
    assert (await own("PUT", f"/{name}")).status == 201
    yield name
    assert (await own("DELETE", f"/{name}")).status == 200


def end(url, database, login):
    auth = {"auth": {"basic": dict(zip(("username", "password"), login, strict=True))}} if login else {}
    return {"url": f"{url}/{database}", **auth}


def login_of(client):
    server = named_server(os.environ[COUCHDB_ADDRESS])
    return server.auth if client.url == server.url else None


async def replicate(own, source, target):
    """The counts of one replication."""
    body = {"source": source, "target": target, "worker_processes": 1, "http_connections": 2}
    answer = await own("POST", "/_replicate", body)
    assert answer.status in {200, 202}, answer.body
    counts = answer.json
    return dict(counts["history"][0] if counts.get("history") else counts)


async def up(own, source, cloud, login, series="data_point"):
    here = end(own.url, source, login_of(own))
    return await replicate(own, here, end(cloud.url, f"environmental_{series}", login))


def made(device, timestamp, category=""):
    maker = PointMaker(device)
    return maker.make("environment_1", "air_temperature", 21.5, timestamp, category=category).document()


async def test_points_arrive_in_their_months_once(own, source, cloud):
    login = device, _ = await cloud.device()
    november = [made(device, NOVEMBER + at) for at in range(150)]
    december = [made(device, DECEMBER + at) for at in range(50)]
    foreign = made(PointMaker.new_device(), NOVEMBER)
    await own("POST", f"/{source}/_bulk_docs", {"docs": [*november, foreign, *december]})
    counts = await up(own, source, cloud, login)
    assert (counts["docs_written"], counts["doc_write_failures"]) == (200, 1)
    names = cloud.names
    in_november = await cloud.stored(names.of_month("points", Month(2025, 11)))
    in_december = await cloud.stored(names.of_month("points", Month(2025, 12)))
    assert {each["_id"] for each in in_november} == {each["_id"] for each in november}
    assert {each["_id"] for each in in_december} == {each["_id"] for each in december}
    late = made(device, NOVEMBER)
    await own("POST", f"/{source}/_bulk_docs", {"docs": [late]})
    await up(own, source, cloud, login)
    assert len(await cloud.stored(names.of_month("points", Month(2025, 11)))) == 151


async def test_points_that_the_cloud_lost_arrive_again(own, source, cloud):
    """A running replication begins anew if the database of checkpoints was made again."""
    login = device, _ = await cloud.device()
    client, month = await cloud.client(login), cloud.names.of_month("points", Month(2025, 11))
    points = [made(device, NOVEMBER + at) for at in range(20)]
    await own("POST", f"/{source}/_bulk_docs", {"docs": points})
    await own("PUT", "/_replicator")
    ends = {"source": end(own.url, source, login_of(own)), "target": end(cloud.url, POINTS, login)}
    path = f"/_replicator/{source}"
    job = {**ends, "continuous": True, "checkpoint_interval": 1_000}
    assert (await own("PUT", path, job)).status == 201

    async def has_all():
        """Restarts a job that waits after a failure, as growd does."""
        if (await own("GET", f"/_scheduler/docs{path}")).json.get("state") == "crashing":
            doc = (await own("GET", path)).json
            other = 60_001 - doc.get("connection_timeout", 30_000)
            await own("PUT", path, doc | {"connection_timeout": other})
        rows = await cloud.couch.all_docs(month) if await cloud.couch.exists(month) else []
        return len(rows) == len(points)

    async def start_time():
        return str((await client("GET", f"/{POINTS}")).json["instance_start_time"])

    async def is_made_again():
        await cloud.couch.delete(cloud.names.checkpoints)
        await CloudDatabases(cloud.couch, cloud.names, RealClock()).prepare()
        info = await cloud.couch.info(cloud.names.checkpoints)
        return bool(info and info["instance_start_time"] != before)  # whole seconds

    async def is_noticed():
        return await start_time() != before

    try:
        await until_found(has_all)
        before = await start_time()
        await cloud.couch.delete(month)
        await until_found(is_made_again)
        await until_found(is_noticed)
        points.append(made(device, NOVEMBER + 20))
        await own("POST", f"/{source}/_bulk_docs", {"docs": points[-1:]})
        await until_found(has_all)
    finally:
        await own("DELETE", path, rev=(await own("GET", path)).json["_rev"])


async def test_an_event_arrives_with_its_photo_and_a_later_one(own, source, cloud):
    login = device, _ = await cloud.device()
    first = {"content_type": "image/png", "data": base64.b64encode(PNG).decode()}
    event = made(device, NOVEMBER, "note") | {"_attachments": {"photo-1.png": first}}
    path = f"/{source}/{event['_id']}"
    revision = (await own("PUT", path, event)).json["rev"]
    counts = await up(own, source, cloud, login, "event")
    assert (counts["docs_written"], counts["doc_write_failures"]) == (1, 0)
    answer = await own(
        "PUT", f"{path}/photo-2.png", PNG[::-1], headers={"Content-Type": "image/png"}, rev=revision
    )
    assert answer.status == 201
    assert (await up(own, source, cloud, login, "event"))["doc_write_failures"] == 0
    database = cloud.names.of_month("events", Month(2025, 11))
    (stored,) = await cloud.stored(database)
    assert set(stored["_attachments"]) == {"photo-1.png", "photo-2.png"}
    pieces = cloud.couch.attachment(database, event["_id"], stored["_rev"], "photo-1.png")
    assert b"".join([piece async for piece in pieces]) == PNG


async def test_a_changed_event_does_not_arrive(own, source, cloud):
    login = device, _ = await cloud.device()
    event = made(device, NOVEMBER, "note")
    revision = (await own("PUT", f"/{source}/{event['_id']}", event)).json["rev"]
    await up(own, source, cloud, login, "event")
    assert (
        await own("PUT", f"/{source}/{event['_id']}", event | {"_rev": revision, "value": 9})
    ).status == 201
    counts = await up(own, source, cloud, login, "event")
    assert counts["doc_write_failures"] == 1
    (stored,) = await cloud.stored(cloud.names.of_month("events", Month(2025, 11)))
    assert stored["value"] == 21.5


async def test_a_device_gets_the_recipes_that_are_for_it(own, source, cloud):
    login = device, _ = await cloud.device()
    document = {"_id": device_document_id(device), "device": device, "group": "school"}
    await cloud.couch.put(cloud.names.devices, document)
    assert DeviceDocument(id="", device=device).group == ""
    for name, wanted in {
        "for_all": None,
        "for_me": [device],
        "for_us": ["group:school"],
        "for_others": ["group:farm", PointMaker.new_device()],
        "_design/x": None,
    }.items():
        recipe = {"_id": name, "format": "simple", "operations": []}
        await cloud.couch.put(cloud.names.recipes, recipe | ({"growd_for": wanted} if wanted else {}))
    there = end(cloud.url, "recipes", login)
    counts = await replicate(own, there, end(own.url, source, login_of(own)))
    assert counts["docs_written"] == 3
    rows = (await own("GET", f"/{source}/_all_docs")).json["rows"]
    assert [row["id"] for row in rows] == ["for_all", "for_me", "for_us"]


async def test_a_new_recipe_reaches_a_device_that_waits(own, source, cloud):
    login = await cloud.device()
    await own("PUT", "/_replicator")
    job = {
        "source": end(cloud.url, "recipes", login),
        "target": end(own.url, source, login_of(own)),
        "continuous": True,
        "selector": {"_id": {"$regex": "^[^_]"}},
        "worker_processes": 1,
        "http_connections": 2,
    }
    path = f"/_replicator/{source}"
    revision = (await own("PUT", path, job)).json["rev"]
    try:
        for name in ("first", "second"):
            await cloud.couch.put(cloud.names.recipes, {"_id": name, "format": "simple", "operations": []})

            async def is_copied(copy=f"/{source}/{name}"):
                return (await own("GET", copy)).status == 200

            await until_found(is_copied)
    finally:
        await own("DELETE", path, rev=(await own("GET", path)).json.get("_rev", revision))
