"""The documents of photos in a real database: added, deleted with their photos, and replicated if asked."""

import asyncio
import secrets
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from growd.bus import Bus
from growd.config import Replication
from growd.config.camera import PhotoOptions
from growd.runtime.clock import RealClock
from growd.runtime.pauses import Pauses
from growd.runtime.worker import Worker
from growd.store.attachments import Attachment
from growd.store.database import Database
from growd.store.errors import CouchRefusedError
from growd_camera import records
from growd_camera.album import Album, Taken
from growd_camera.records import PICTURE, PhotoRecords, document_of
from growd_camera.shot import Leaves, Prepared
from growd_cloud.access import CloudAccess
from growd_cloud.replicator import ReplicationPace, Replicator
from support.running import in_tasks
from support.waiting import until_found

FILES = Path(__file__).parents[2] / "couchdb"
DEVICE = "0123456789ab"
START = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
DAY_S = 86_400.0
JPEG = b"\xff\xd8" + bytes(range(256)) * 600


@pytest.fixture
async def database(database_server, tmp_path):
    prefix = f"test_{secrets.token_hex(6)}_"
    async with Database(
        files=FILES,
        data=tmp_path,
        design_name="svc",
        url=database_server.url,
        credentials=database_server.auth,
        prefix=prefix,
    ) as database:
        yield database
        for name in database.names.names_by_folder().values():
            if await database.couch.exists(name):
                await database.couch.delete(name)


def opened(folder):
    album = Album(folder, DEVICE, PhotoOptions(keep_days=0), UTC)
    album.load()
    return album


def take(album, at):
    place = album.begin(at)
    place.target.write_bytes(JPEG)
    place.small.write_bytes(b"x")
    picture = Prepared(8, 6, len(JPEG), 1, f"{int(at):064x}"[::-1], Leaves(50.0, 0.5))
    return album.keep(place, picture, Taken("environment_1", "top", at, "run-1" if at == START else ""))


@asynccontextmanager
async def recording(database, album, **options):
    worker = Worker("photos")
    mirror = PhotoRecords(database, album, worker, RealClock(), has_pictures=False, **options)
    try:
        async with in_tasks(mirror.work):
            yield mirror
    finally:
        await worker.close()


async def documents(couch, name):
    rows = await couch.all_docs(name, include_docs=True)
    return {row["id"]: row["doc"] for row in rows if not row["id"].startswith("_design/")}


async def until_ids(database, ids):
    async def same():
        found = await documents(database.couch, database.names.photos)
        if {*found} != {*ids}:
            raise LookupError
        return found or True

    return await until_found(same, (LookupError, CouchRefusedError))


async def test_each_photo_has_a_document_until_it_is_thinned(database, tmp_path, monkeypatch):
    """Also with more documents than a page; none is written twice."""
    monkeypatch.setattr(records, "_PAGE", 2)
    monkeypatch.setattr(records, "_BATCH", 2)
    album = await asyncio.to_thread(opened, tmp_path)
    photos = await asyncio.to_thread(lambda: [take(album, START + 600 * number) for number in range(5)])
    ids = [photo.id for photo in photos]
    async with recording(database, album) as mirror:
        before = await until_ids(database, ids)
        first = before[ids[0]]
        assert (first["camera"], first["timestamp"], first["recipe_run"]) == ("top", START, "run-1")
        assert (first["sha256"], first["bytes"], first["canopy_cover"]) == (photos[0].sha256, len(JPEG), 50.0)
        assert "_attachments" not in first
        ids.append((await asyncio.to_thread(take, album, START + 2_700)).id)
        mirror.work.wake()
        await until_ids(database, ids)
    ids.append((await asyncio.to_thread(take, album, START + 3_000)).id)
    async with recording(database, album):
        after = await until_ids(database, ids)
    assert {each: after[each]["_rev"] for each in before} == {
        each: found["_rev"] for each, found in before.items()
    }
    # thinned while no database is asked, and after a restart
    await asyncio.to_thread(album.thin, START + 30 * DAY_S)
    kept = [photo.id for photo in album.all()]
    assert 0 < len(kept) < len(ids)
    again = await asyncio.to_thread(opened, tmp_path)

    async def forgotten():
        return not again.gone

    async with recording(database, again):
        await until_ids(database, kept)
        await until_found(forgotten)


async def test_a_lost_folder_deletes_nothing_in_the_database(database, tmp_path):
    album = await asyncio.to_thread(opened, tmp_path / "first")
    (tmp_path / "first").mkdir()
    photo = await asyncio.to_thread(take, album, START)
    async with recording(database, album):
        await until_ids(database, [photo.id])
    (tmp_path / "second").mkdir()
    empty = await asyncio.to_thread(opened, tmp_path / "second")
    other = await asyncio.to_thread(take, empty, START + 600)
    async with recording(database, empty):
        await until_ids(database, [photo.id, other.id])


async def test_a_document_that_the_database_refuses_is_told_with_its_reason(database, tmp_path):
    album = await asyncio.to_thread(opened, tmp_path)
    await asyncio.to_thread(take, album, START)
    await database.prepare()
    design = await database.couch.get(database.names.photos, "_design/svc")
    design["validate_doc_update"] = "function (doc) { throw({forbidden: 'no photos here'}); }"
    async with recording(database, album) as mirror:
        # the design document is growd's: prepared again, it would come back
        database.prepare = _nothing
        await database.couch.put(database.names.photos, design)
        photo = await asyncio.to_thread(take, album, START + 600)
        mirror.work.wake()

        async def refused():
            if "no photos here" not in str(mirror.fault):
                raise LookupError
            return True

        await until_found(refused, LookupError)
        assert photo.id not in await documents(database.couch, database.names.photos)


async def _nothing():
    pass


@asynccontextmanager
async def replicating(database, server, album):
    """A database on the other side, and what sends photos there; neither task runs yet."""
    prefix = f"cloud_{secrets.token_hex(6)}_"
    others = dict.fromkeys(("points", "events", "recipes"), "off")
    wanted = Replication(url=server.url, prefix=prefix, photos="up", **others)
    pace = ReplicationPace(look_s=0.1, probe_s=0.3, restarts=Pauses(0.2, 1.0))
    far = f"{prefix}environmental_photo"
    await database.couch.create(far)
    replication = Replicator(
        Bus(RealClock()), database, wanted, DEVICE, access=CloudAccess(server.auth), pace=pace
    )
    worker = Worker("photos")
    try:
        yield far, PhotoRecords(database, album, worker, RealClock(), has_pictures=True), replication
    finally:
        await worker.close()
        await Replicator(Bus(RealClock()), database, Replication(), DEVICE).run()
        await database.couch.delete(far)


async def test_photos_are_replicated_only_with_their_pictures_and_deletions_stay_here(
    database, database_server, tmp_path
):
    album = await asyncio.to_thread(opened, tmp_path)
    photos = await asyncio.to_thread(lambda: [take(album, START + 600 * number) for number in range(2)])
    async with recording(database, album):  # before it was asked for
        await until_ids(database, [photo.id for photo in photos])
    photos.append(await asyncio.to_thread(take, album, START + 1_200))

    async def copied(far, ids):
        found = await documents(database.couch, far)
        sizes = {
            each: doc.get("_attachments", {}).get(PICTURE, {}).get("length") for each, doc in found.items()
        }
        if sizes != dict.fromkeys(ids, len(JPEG)):
            raise LookupError
        return True

    async with (
        replicating(database, database_server, album) as (far, mirror, replication),
        in_tasks(mirror.work, replication),
    ):
        ids = [photo.id for photo in photos]
        await until_found(lambda: copied(far, ids), LookupError)
        assert await _picture(database.couch, far, ids[0]) == JPEG
        await asyncio.to_thread(album.thin, START + 30 * DAY_S)
        mirror.work.wake()
        await until_ids(database, [photo.id for photo in album.all()])
        ids.append((await asyncio.to_thread(take, album, START + 30 * DAY_S)).id)
        mirror.work.wake()
        await until_found(lambda: copied(far, ids), LookupError)


async def test_a_server_that_lets_nothing_be_changed_gets_each_photo_with_its_picture(
    database, database_server, tmp_path
):
    """As one without receivers, with couchdb/cloud/design/guard.json."""
    album = await asyncio.to_thread(opened, tmp_path)
    old = await asyncio.to_thread(take, album, START)
    await database.prepare()
    couch = database.couch
    await couch.put(database.names.photos, document_of(old))  # before photos were replicated

    async def has(far, *photos):
        if {*await documents(couch, far)} != {photo.id for photo in photos}:
            raise LookupError
        return True

    async def pieces():
        yield JPEG

    async with replicating(database, database_server, album) as (far, mirror, replication):
        guard = "function (newDoc, oldDoc) { if (oldDoc) { throw({forbidden: 'a point is not changed'}); } }"
        design = {"_id": "_design/guard", "language": "javascript", "validate_doc_update": guard}
        await couch.put(far, design)
        async with in_tasks(replication):
            new = await asyncio.to_thread(take, album, START + 600)
            picture = Attachment(PICTURE, "image/jpeg", len(JPEG), pieces)
            await couch.put_whole(database.names.photos, document_of(new), [picture])
            await until_found(lambda: has(far, new), LookupError)
            async with in_tasks(mirror.work):
                await until_found(lambda: has(far, old, new), LookupError)
                assert await _picture(couch, far, old.id) == JPEG


async def _picture(couch, name, document_id):
    revision = (await documents(couch, name))[document_id]["_rev"]
    return b"".join([piece async for piece in couch.attachment(name, document_id, revision, PICTURE)])
