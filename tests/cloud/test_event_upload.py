"""Events with photos, as a multipart request: what CouchDB stores is what the receiver checked."""

import json

from growd.store.points import PointMaker
from growd_cloud.months import Month

FIRST = "1-" + "a" * 32
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def event(device, **members):
    maker = PointMaker(device)
    made = maker.make("environment_1", "note", 1, 1_767_400_000.0, category="note").document()
    return made | {"_rev": FIRST} | members


def photo(size=264, **members):
    return {"photo-1.png": {"content_type": "image/png", "follows": True, "length": size, **members}}


def multipart(document, *parts, boundary="AAA"):
    first = b"Content-Type: application/json\r\n\r\n" + json.dumps(document).encode()
    pieces = [first, *(b"\r\n" + part for part in parts)]
    between = f"--{boundary}\r\n".encode()
    return b"".join(between + piece + b"\r\n" for piece in pieces) + f"--{boundary}--".encode()


async def put(cloud, login, document_id, kind, body):
    client = await cloud.client(login)
    path = f"/environmental_event/{document_id}?new_edits=false"
    return await client("PUT", path, body, headers={"Content-Type": kind})


async def stored(cloud):
    database = cloud.names.of_month("events", Month(2026, 1))
    return await cloud.stored(database) if database in await cloud.databases() else []


async def test_a_second_boundary_hides_no_document(cloud):
    login = device, _ = await cloud.device()
    for parameters in (
        "boundary=AAA; boundary=BBB",
        'boundary="AAA"; xboundary=BBB',
        'boundary=AAA; x="boundary=BBB"',
        "boundary=BBB; boundary=AAA",
    ):
        good = event(device)
        evil = {"_id": good["_id"], "_rev": "7-" + "f" * 32, "evil": True}
        body = multipart(good, boundary="BBB") + b"\r\n" + multipart(evil)
        await put(cloud, login, good["_id"], f"multipart/related; {parameters}", body)
        assert [each for each in await stored(cloud) if each.get("evil")] == [], parameters


async def test_photos_are_stored_as_they_came_and_must_be_those_that_the_document_names(cloud):
    """The device learns what is wrong; it does not read that the database is away."""
    login = device, _ = await cloud.device()
    for attachments, *parts in (
        (photo(len(PNG) + 1), PNG),
        (photo(len(PNG) - 1), PNG),
        (photo(),),
        (photo(), PNG, PNG),
        (photo(length="1"), PNG),
        (photo(encoding="gzip"), PNG),
        (None,),
    ):
        wrong = event(device, _attachments=attachments)
        kind, body = "multipart/related; boundary=AAA", multipart(wrong, *parts)
        answer = await put(cloud, login, wrong["_id"], kind, body)
        assert answer.status in {400, 403}, (attachments, answer.body)
        assert await stored(cloud) == []
    good = event(device, _attachments=photo())
    answer = await put(cloud, login, good["_id"], 'multipart/related; boundary="AAA"', multipart(good, PNG))
    assert answer.status == 201, answer.body
    (found,) = await stored(cloud)
    assert (found["_rev"], found["_attachments"]["photo-1.png"]["length"]) == (FIRST, len(PNG))
