"""Photos of cameras, as replications send them: the receiver stores them among the events of their month."""

import asyncio
import hashlib

from click.testing import CliRunner

from growd.store.attachments import related
from growd.store.points import PointMaker
from growd_camera.album import CameraPhoto
from growd_camera.records import PICTURE, document_of
from growd_cli.main import main
from growd_cloud.months import Month
from support.cloud_export import rows_of

JANUARY, FEBRUARY = 1_767_400_000.0, 1_770_000_000.0  # 2026-01-03, 2026-02-02
FIRST = "1-" + "a" * 32
SECOND = "2-" + "b" * 32
JPEG = b"\xff\xd8" + bytes(range(256)) * 600
PHOTOS = "/environmental_photo"


def photo(device, at, leaves=41.5):
    sha256 = hashlib.sha256(JPEG).hexdigest()
    taken = CameraPhoto(
        id=f"{device}:{int(at * 1000):013d}-{sha256[:10]}",
        environment="environment_1",
        camera="top",
        time=at,
        width=640,
        height=480,
        bytes=len(JPEG),
        small_bytes=9,
        sha256=sha256,
        recipe_run="lettuce-1",
        canopy_cover=leaves,
    )
    return document_of(taken) | {"_rev": FIRST}


async def pieces():
    yield JPEG


async def sent(cloud, login, document, media="image/jpeg"):
    """The answer to a document with its picture."""
    follow = {PICTURE: {"follows": True, "content_type": media, "length": len(JPEG)}}
    content = related({**document, "_attachments": follow}, [(len(JPEG), pieces())])
    body = b"".join([piece async for piece in content.pieces])
    client = await cloud.client(login)
    path = f"{PHOTOS}/{document['_id']}?new_edits=false"
    return await client("PUT", path, body, headers={"Content-Type": content.media})


def events_of(cloud, month):
    return cloud.names.of_month("events", Month(2026, month))


async def picture(cloud, database, document):
    found = cloud.couch.attachment(database, document["_id"], document["_rev"], PICTURE)
    return b"".join([piece async for piece in found])


async def test_photos_are_stored_among_the_events_of_their_month(cloud):
    login = device, _ = await cloud.device()
    photos = [photo(device, JANUARY), photo(device, FEBRUARY, leaves=None)]
    for each in photos:
        answer = await sent(cloud, login, each)
        assert answer.status == 201, answer.body
    for month, each in zip((1, 2), photos, strict=True):
        (stored,) = await cloud.stored(events_of(cloud, month))
        assert {name: stored[name] for name in each} == each
        assert stored["_attachments"][PICTURE]["content_type"] == "image/jpeg"
        assert await picture(cloud, events_of(cloud, month), stored) == JPEG
    client = await cloud.client(login)
    asked = await client("POST", f"{PHOTOS}/_revs_diff", {each["_id"]: [FIRST] for each in photos})
    assert asked.json == {}


async def test_a_picture_that_follows_its_document_later_is_added(cloud):
    """As after `[replication] photos = "up"` was set: the documents were there before."""
    login = device, _ = await cloud.device()
    bare = photo(device, JANUARY)
    client = await cloud.client(login)
    answer = await client("POST", f"{PHOTOS}/_bulk_docs", {"docs": [bare], "new_edits": False})
    assert (answer.status, answer.json) == (201, [])
    history = {"start": 2, "ids": [SECOND[2:], FIRST[2:]]}
    whole = bare | {"_rev": SECOND, "_revisions": history}
    answer = await sent(cloud, login, whole)
    assert answer.status == 201, answer.body
    (stored,) = await cloud.stored(events_of(cloud, 1))
    assert stored["_rev"] == SECOND
    assert await picture(cloud, events_of(cloud, 1), stored) == JPEG


async def test_what_is_no_photo_of_this_device_is_refused(cloud):
    login = device, _ = await cloud.device()
    for members, media in (
        ({"_id": f"{PointMaker.new_device()}:1767400000000-0123456789"}, "image/jpeg"),
        ({"camera_note": "x" * 70_000}, "image/jpeg"),
        ({"category": "measured"}, "image/jpeg"),
        ({"_deleted": True}, "image/jpeg"),
        ({}, "text/html"),
    ):
        answer = await sent(cloud, login, photo(device, JANUARY) | members, media)
        assert answer.status in {400, 403}, answer.body
    assert events_of(cloud, 1) not in await cloud.databases()


async def test_photos_are_exported_as_rows_of_events(cloud, tmp_path):
    login = device, _ = await cloud.device()
    client = await cloud.client(login)
    maker = PointMaker(device)
    note = maker.make("environment_1", "note", "sown", JANUARY, category="note").document()
    point = maker.make("environment_1", "air_temperature", 21.5, JANUARY).document()
    for database, document in (("event", note), ("data_point", point)):
        body = {"docs": [document | {"_rev": FIRST}], "new_edits": False}
        assert (await client("POST", f"/environmental_{database}/_bulk_docs", body)).json == []
    taken = photo(device, JANUARY + 60)
    assert (await sent(cloud, login, taken)).status == 201

    result = await asyncio.to_thread(exported, cloud, tmp_path)
    assert result.exit_code == 0, result.output
    rows = {row["id"]: row for row in rows_of(tmp_path / "out", "events")}
    assert rows.keys() == {note["_id"], taken["_id"]}
    found = rows[taken["_id"]]
    assert (found["category"], found["variable"], found["text"]) == ("photo", "photo", "top")
    assert (found["month"], found["device"], found["environment"]) == ("2026-01", device, "environment_1")
    assert [row["id"] for row in rows_of(tmp_path / "out")] == [point["_id"]]

    later = photo(device, JANUARY + 120)
    assert (await sent(cloud, login, later)).status == 201
    assert (await asyncio.to_thread(exported, cloud, tmp_path)).exit_code == 0
    assert len(rows_of(tmp_path / "out", "events")) == 3


def exported(cloud, folder):
    login = folder / "login"
    login.write_text("{}\n{}\n".format(*cloud.server.credentials))
    login.chmod(0o600)
    where = ["--couchdb", cloud.server.url, "--prefix", cloud.names.prefix, "--credentials", str(login)]
    words = ["cloud", "export", *where, "-o", str(folder / "out"), "--events", "--since-month", "2026-01"]
    return CliRunner().invoke(main, words)
