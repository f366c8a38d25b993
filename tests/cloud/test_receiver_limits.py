"""What one device, or strangers, can't do to a receiver and to other devices."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import aiohttp

from growd.runtime.clock import RealClock
from growd.store.points import PointMaker
from growd_cloud.bodies import MOST_DOCUMENTS
from growd_cloud.checkpoints import MOST_NAMES
from growd_cloud.databases import CloudDatabases
from growd_cloud.receiver import MOST_ENROLMENTS, MOST_OF_ONE, MOST_REPORTS
from support.clock import ManualClock
from support.cloud import running_cloud
from support.waiting import PATIENCE_S

POINTS = "/environmental_data_point"
EVENTS = "/environmental_event"
JANUARY = 1_767_400_000.0  # 2026-01-03


def basic(login):
    return f"Authorization: {aiohttp.encode_basic_auth(*login)}\r\n" if login else ""


@asynccontextmanager
async def slow_bodies(cloud, number, path, login=None):
    """So many requests whose bodies do not end."""
    address = urlsplit(cloud.url)
    wanted = "Content-Length: 900\r\nExpect: 100-continue\r\n\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{basic(login)}{wanted}"
    async with AsyncExitStack() as stack:
        for _ in range(number):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            stack.callback(writer.close)
            writer.write(head.encode())
            assert b"100" in await reader.readline()  # the receiver waits for the body
            writer.write(b"{")
        yield


def batch(*documents):
    return {"docs": list(documents), "new_edits": False}


async def test_strangers_with_slow_bodies_stop_no_device(cloud):
    client = await cloud.client(await cloud.device())
    async with slow_bodies(cloud, MOST_ENROLMENTS, "/_enroll"):
        assert (await client("GET", "/_up")).status == 200
        assert (await client("POST", f"{POINTS}/_revs_diff", {})).status == 200
        assert (await client("POST", "/_enroll", {"code": "ABC", "device": "0" * 12})).status == 503


async def test_a_device_with_slow_bodies_stops_no_other(cloud, caplog):
    login = await cloud.device()
    other = await cloud.client(await cloud.device())
    async with slow_bodies(cloud, MOST_OF_ONE, f"{POINTS}/_bulk_docs", login):
        assert (await other("GET", POINTS)).status == 200
        refused = await (await cloud.client(login))("GET", POINTS)
        assert (refused.status, refused.json["error"]) == (503, "busy")
        await (await cloud.client(login))("GET", POINTS)
    lines = [each for each in caplog.messages if each.startswith("refused a request")]
    assert lines == [
        f"refused a request from 127.0.0.1: too many requests of {login[0]} are under way; try again"
    ]


async def test_a_batch_has_a_limit_of_documents(cloud):
    client = await cloud.client(await cloud.device())
    many = await client("POST", f"{POINTS}/_bulk_docs", batch(*[1] * (MOST_DOCUMENTS + 1)))
    assert many.status == 400
    body = b'{"new_edits":false,"docs":[' + b"1," * 500_001 + b"1]}"
    assert (await client("POST", f"{POINTS}/_bulk_docs", body)).status == 413
    revisions = {f"x{n}": ["1-a"] for n in range(MOST_DOCUMENTS + 1)}
    assert (await client("POST", f"{POINTS}/_revs_diff", revisions)).status == 400


async def test_a_question_makes_no_database(cloud):
    device, client = await cloud.member()
    document_id = PointMaker(device).make("e", "v", 1, 1_450_000_000.0).document()["_id"]
    before = await cloud.databases()
    answer = await client("POST", f"{POINTS}/_revs_diff", {document_id: ["1-" + "a" * 32]})
    assert answer.json == {document_id: {"missing": ["1-" + "a" * 32]}}
    assert await cloud.databases() == before


async def test_a_wrong_request_is_no_fault_of_the_database(cloud):
    login = device, _ = await cloud.device()
    client = await cloud.client(login)
    for path, body in (
        (f"{POINTS}/_revs_diff", {"x": ["x"]}),
        ("/recipes/_changes?limit=abc", {}),
        ("/recipes/_changes?style=xx", {}),
        ("/recipes/_changes?since=%00", {}),
        ("/recipes/_bulk_get", {"docs": "x"}),
        ("/recipes/_bulk_get", {"docs": [{"id": "a", "rev": "x"}]}),
    ):
        assert (await client("POST", path, body)).status == 400, path
    document = PointMaker(device).make("e", "v", 1, JANUARY).document() | {"_rev": "1-" + "a" * 32}
    assert (await client("PUT", f"{POINTS}/foo", document)).status == 400  # not under its own id


async def test_a_number_that_couchdb_can_not_store_refuses_its_document_only(cloud):
    huge = "1" + "0" * 400
    device, client = await cloud.member()
    points = [
        PointMaker(device).make("e", "v", value, JANUARY).document() | {"_rev": "1-" + "a" * 32}
        for value in ("huge", 10**300)
    ]
    body = json.dumps(batch(*points)).replace('"huge"', huge).encode()
    refused = (await client("POST", f"{POINTS}/_bulk_docs", body)).json
    assert [row["reason"] for row in refused] == ["the document can't be read: a number is out of range"]
    assert (await client("PUT", f"{POINTS}/_local/a", b'{"n": %s}' % huge.encode())).status == 400


async def test_a_photo_that_does_not_follow_refuses_its_event_only(cloud):
    device, client = await cloud.member()
    event, other = (
        PointMaker(device).make("e", "note", 1, JANUARY, category="note").document()
        | {"_rev": "1-" + "a" * 32}
        for _ in range(2)
    )
    photo = {"content_type": "image/png", "follows": True, "length": 8}
    documents = batch(event | {"_attachments": {"photo-1.png": photo}}, other)
    refused = (await client("POST", f"{EVENTS}/_bulk_docs", documents)).json
    assert [row["reason"] for row in refused] == ["photo-1.png must be in the document"]


async def test_an_event_gets_no_conflicts(cloud):
    """A further revision adds a photo, and follows the stored one."""
    device, client = await cloud.member()
    event = PointMaker(device).make("e", "note", 1, JANUARY, category="note").document()
    event["_attachments"] = {}
    photo = {"photo-1.png": {"content_type": "image/png", "data": "iVBORw0KGgo="}}
    first, second = "1-" + "a" * 32, "2-" + "b" * 32
    both = {"start": 2, "ids": ["b" * 32, "a" * 32]}
    path = f"{EVENTS}/_bulk_docs"
    third = "3-" + "d" * 32
    assert (await client("POST", path, batch(event | {"_rev": third}))).json == []
    assert len((await client("POST", path, batch(event | {"_rev": second}))).json) == 1
    event["_id"] = PointMaker(device).make("e", "note", 1, JANUARY).document()["_id"]
    assert (await client("POST", path, batch(event | {"_rev": first}))).json == []
    for wrong in (
        event | {"_rev": "1-" + "c" * 32},
        event | {"_rev": "1-" + "c" * 32, "_attachments": photo},
        event | {"_rev": second, "_attachments": photo},
        event | {"_rev": second, "_revisions": both},
    ):
        assert len((await client("POST", path, batch(wrong))).json) == 1
    good = event | {"_rev": second, "_attachments": photo, "_revisions": both}
    for again in (good, good, event | {"_rev": first}):  # stored revisions, sent again
        assert (await client("POST", path, batch(again))).json == []


async def test_a_device_writes_some_checkpoints_only(cloud):
    client = await cloud.client(await cloud.device())
    for n in range(MOST_NAMES):
        assert (await client("PUT", f"{POINTS}/_local/{n}", {})).status == 201
    assert (await client("PUT", f"{POINTS}/_local/further", {})).status == 403
    assert (await client("PUT", f"{POINTS}/_local/0", {"_rev": "0-1"})).status == 201
    assert (await client("PUT", f"{POINTS}/_local/0", {"_rev": "0-x"})).status == 400


async def test_a_device_does_not_report_without_a_pause():
    async with running_cloud(ManualClock(RealClock().time())) as cloud:
        client = await cloud.client(await cloud.device())
        statuses = [(await client("PUT", "/_device", {})).status for _ in range(MOST_REPORTS + 1)]
    assert statuses[-1] == 429
    assert 429 not in statuses[:-1]


async def test_the_feed_of_a_revoked_device_ends():
    clock = ManualClock(RealClock().time())
    async with running_cloud(clock) as cloud:
        device, client = await cloud.member()
        async with client.open(
            "GET", "/recipes/_changes", feed="continuous", heartbeat="1000", since="now"
        ) as answer:
            assert await answer.content.readany() == b"\n"
            account = await cloud.couch.get("_users", f"org.couchdb.user:{device}")
            assert account is not None
            await cloud.couch.put("_users", account | {"_deleted": True})
            await clock.advance(61.0)
            async with asyncio.timeout(PATIENCE_S):
                while await answer.content.readany():
                    pass


async def test_access_to_recipes_stays_as_somebody_has_set_it(cloud):
    mine = {"admins": {"names": [], "roles": ["_admin"]}, "members": {"names": [], "roles": ["device"]}}
    for database in (cloud.names.recipes, cloud.names.devices):
        await cloud.couch.put_security(database, mine)
    await CloudDatabases(cloud.couch, cloud.names, RealClock()).prepare()
    assert (await cloud.couch.security(cloud.names.recipes))["members"]["roles"] == ["device"]
    assert (await cloud.couch.security(cloud.names.devices))["members"]["roles"] == ["_admin"]
