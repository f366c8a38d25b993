"""Entries of the journal: on the disk when they are acknowledged, and once in the database."""

import asyncio
import errno
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from growd.bus import Bus
from growd.bus.errors import (
    BusyError,
    CapacityError,
    InvalidArgumentsError,
    InvalidValueError,
    NotKeptError,
    UnknownNameError,
)
from growd.store.entries import entry_folder
from growd.store.entries import journal as journal_module
from growd.store.errors import CouchRefusedError, CouchUnavailableError, PhotoError
from growd.store.work import RETRIES
from support.full_disk import full_disk
from support.journal import content, delivered, journal_rig, kept, listed, wanted
from support.photos import COPIES, SECRET, jpeg, png, webp
from support.rows import each
from support.waiting import PATIENCE_S

NOW = 1_700_000_000.0


@pytest.fixture
async def rig(database_server, tmp_path):
    async with journal_rig(database_server, tmp_path) as rig:
        yield rig


@pytest.fixture
async def journal(rig):
    """A journal that sends its entries."""
    async with rig.opened() as journal:
        yield journal


@pytest.mark.long
async def test_an_entry_comes_into_the_database_whole_and_in_one_revision(rig, journal):
    entry = await kept(journal, "tray 1", jpeg(), png(), webp(), measurements={"plant_height": 12.34})
    await delivered(journal)
    document = await rig.document(entry)
    assert document.pop("_rev").startswith("1-")
    attachments = document.pop("_attachments")
    assert {name: (one["content_type"], one["length"]) for name, one in attachments.items()} == {
        "photo-1.jpg": ("image/jpeg", len(COPIES["jpeg"])),
        "photo-2.png": ("image/png", len(COPIES["png"])),
        "photo-3.webp": ("image/webp", len(COPIES["webp"])),
    }
    assert document == {
        "_id": entry.id,
        "environment": "environment_1",
        "variable": "note",
        "category": "event",
        "is_manual": True,
        "value": "tray 1",
        "timestamp": NOW,
        "by": "anna",
        "written": NOW,
        "measurements": {"plant_height": 12.3},
    }
    (point,) = entry.measurements
    stored = await rig.couch.get(rig.names.points, point.id)
    assert stored.items() >= {"value": 12.3, "is_manual": True, "is_desired": False, "by": "anna"}.items()
    assert rig.folders() == []


async def test_a_photo_has_the_same_address_while_it_waits_and_later_and_no_metadata(rig, journal):
    rig.is_away = True
    entry = await kept(journal, "", jpeg(6), png())
    assert await content(journal, entry, "photo-1.jpg") == COPIES["turned"]
    found, more, missing = await journal.reader.read(wanted())
    assert "no database is running" in missing
    assert (more, found[0]["waiting"], found[0]["photos"][1]["waiting"]) == (False, True, True)
    await rig.clock.until(lambda: journal.delivery.fault.failures)
    (problem,) = journal.node.details()["problems"]
    assert "journal entries wait for the database: no database is running" in problem["text"]
    rig.is_away = False
    journal.delivery.work.wake()
    await delivered(journal)
    await rig.clock.until(lambda: not journal.delivery.fault.failures)
    assert journal.node.details()["problems"] == []
    assert await content(journal, entry, "photo-1.jpg") == COPIES["turned"]
    assert await content(journal, entry, "photo-2.png") == COPIES["png"]
    (after,) = await listed(journal)
    assert not after["waiting"]
    assert [photo["waiting"] for photo in after["photos"]] == [False, False]
    keep = ("id", "time", "written", "by", "text", "measurements")
    assert {name: after[name] for name in keep} == {name: found[0][name] for name in keep}


@pytest.mark.long
async def test_entries_wait_over_restarts_and_come_once(rig):
    rig.is_away = True
    for number in range(3):
        rig.clock.step(1)
        async with rig.opened() as journal:
            assert len(journal.delivery.waiting) == number
            await kept(journal, f"{number}", jpeg(), measurements={"plant_height": number})
    rig.is_away = False
    async with rig.opened() as journal:
        await delivered(journal)
        assert [entry["text"] for entry in await listed(journal)] == ["2", "1", "0"]
        assert rig.folders() == []
    rows = await rig.couch.view(rig.names.points, "svc", "by_variable", reduce=False)
    assert [row["value"]["value"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("step", ["points", "whole"])
async def test_an_entry_that_was_sent_before_a_kill_is_stored_once(rig, step):
    await rig.prepare()
    async with rig.silent() as journal:
        entry = await kept(journal, "tray 1", jpeg(), measurements={"plant_height": 1})
        await journal.delivery._store(rig.names.points, [entry.measurements[0].document()])
        if step == "whole":
            assert await journal.delivery._put_whole(entry)
    async with rig.opened() as journal:
        await delivered(journal)
    document = await rig.document(entry)
    assert document["_rev"].startswith("1-")
    assert [*document["_attachments"]] == ["photo-1.jpg"]
    assert rig.folders() == []


async def test_a_document_without_all_photos_is_completed(rig):
    """As after a change of another program."""
    await rig.prepare()
    async with rig.silent() as journal:
        entry = await kept(journal, "tray 1", jpeg(), png())
        await rig.couch.put(rig.names.events, entry.document())
    async with rig.opened() as journal:
        await delivered(journal)
        assert await content(journal, entry, "photo-1.jpg") == COPIES["jpeg"]
        assert await content(journal, entry, "photo-2.png") == COPIES["png"]


async def test_an_entry_that_was_deleted_in_the_database_stays_deleted(rig):
    await rig.prepare()
    async with rig.silent() as journal:
        entry = await kept(journal, "tray 1", jpeg())
        revision = await rig.couch.put(rig.names.events, entry.document())
        deleted = {"_id": entry.id, "_rev": revision, "_deleted": True}
        await rig.couch.bulk_docs(rig.names.events, [deleted])
    async with rig.opened() as journal:
        await delivered(journal)
    assert await rig.document(entry) is None
    assert rig.folders() == []


async def test_a_database_that_is_made_anew_gets_what_waits(rig, journal):
    await kept(journal, "first", jpeg())
    await delivered(journal)
    await rig.couch.delete(rig.names.events)
    entry = await kept(journal, "second", jpeg())
    await asyncio.sleep(0)
    while not journal.delivery.fault.failures and journal.delivery.waiting:  # noqa: ASYNC110
        await asyncio.sleep(0)
    journal.delivery.work.wake()
    await delivered(journal)
    assert await content(journal, entry, "photo-1.jpg") == COPIES["jpeg"]


class Refusing:
    """A database that refuses some requests for their content."""

    def __init__(self, rig, error, of):
        self.rig, self.error, self.of = rig, error, of
        self.couch = rig.couch

    def __getattr__(self, name):
        return getattr(self.couch, name)

    async def put_whole(self, database, document, attachments):
        if any(one.name == self.of for one in attachments):
            raise self.error
        return await self.couch.put_whole(database, document, attachments)

    async def put_attachment(self, database, name, revision, attachment):
        if attachment.name == self.of:
            raise self.error
        return await self.couch.put_attachment(database, name, revision, attachment)


async def test_a_refused_photo_is_reported_and_delays_nothing_else(rig, journal, said):
    refusing = Refusing(rig, CouchRefusedError("413 too large", 413, "too_large", ""), "photo-2.png")
    journal.delivery._couch = refusing
    entry = await kept(journal, "tray 1", jpeg(), png(), webp())
    after = await kept(journal, "tray 2", jpeg())
    await delivered(journal, left=1)
    (rejected,) = journal.rejected()
    assert rejected["point"]["_id"] == entry.id
    said(rejected["reason"])
    assert set((await rig.document(entry))["_attachments"]) == {"photo-1.jpg", "photo-3.webp"}
    assert (await rig.document(after))["_rev"].startswith("1-")
    assert await content(journal, entry, "photo-2.png") == COPIES["png"]
    first = (await listed(journal, search="tray 1"))[0]
    assert (first["refused"], first["waiting"]) == ("photo-2.png: 413 too large", True)
    journal.delivery._couch = rig.couch
    assert journal.delivery.retry() == 1
    await delivered(journal)
    assert await content(journal, entry, "photo-2.png") == COPIES["png"]
    assert rig.folders() == []


async def test_an_entry_that_fails_again_and_again_goes_in_parts_and_stops_no_other(rig, journal):
    """As with a database that breaks the connection at a photo that is too large for it."""
    failing = Refusing(rig, CouchUnavailableError("it closed the connection"), "photo-2.png")
    journal.delivery._couch = failing
    entry = await kept(journal, "tray 1", jpeg(), png())
    after = await kept(journal, "tray 2", jpeg())
    await delivered(journal, left=1)
    assert await rig.document(after)
    async with asyncio.timeout(PATIENCE_S):
        while (found := await rig.document(entry)) is None:
            await rig.clock.advance(RETRIES.longest_s)
    assert found["value"] == "tray 1"
    while "_attachments" not in ((found := await rig.document(entry)) or {}):
        await rig.clock.advance(RETRIES.longest_s)
    assert set(found["_attachments"]) == {"photo-1.jpg"}
    assert "closed the connection" in str(journal.delivery.fault)
    assert rig.folders() == [entry.id]


async def test_a_refused_note_stays_with_the_reason(rig, journal):
    draft = await journal.draft("environment_1", journal_module.EntryFields("x"), "anna")
    broken = replace(draft, note=replace(draft.note, category="measured"))
    entry = await journal.keep(broken)
    await rig.clock.until(lambda: entry.id in journal.delivery.refused)
    assert "category must be a text other than" in journal.rejected()[0]["reason"]
    later = await kept(journal, "later")
    await rig.clock.until(lambda: later.id not in journal.delivery.waiting)
    assert rig.folders() == [entry.id]


async def test_an_entry_is_published_once_it_is_on_the_disk(rig):
    rig.is_away = True
    bus = Bus(rig.clock)
    async with rig.opened(bus) as journal:
        messages = bus.node("reader").subscribe("environment_1/notes", "environment_1/measured/plant_height")
        await kept(journal, "now", measurements={"plant_height": 5})
        await kept(journal, "before", measurements={"plant_height": 4}, time=NOW - 60)
        await kept(journal, "ahead", time=NOW + 5)  # by the clock of the client
        found = [messages.get_nowait() for _ in range(5)]
        told = [(one.value, one.time - NOW) for one in found]
        assert told == [(5.0, 0), ("now", 0), (4.0, -60), ("before", -60), ("ahead", 0)]
        assert bus.topics.get("environment_1/measured/plant_height").last.value == 5.0
        messages.close()


@each(
    ("fields", "error"),
    [
        ({"measurements": {"plant_height": -1}}, InvalidValueError),
        ({"measurements": {"plant_height": "high"}}, InvalidValueError),
        ({"measurements": {"height": 1}}, InvalidValueError),
        ({"measurements": {"air_flush_on": 1}}, InvalidValueError),
        ({"measurements": {"air_temperature": 20}}, InvalidValueError),
        ({"measurements": {str(n): 1 for n in range(51)}}, InvalidValueError),
        ({"time": 600.5}, InvalidValueError),
        ({"time": NOW + 11}, InvalidValueError),
        ({"corrects": "x"}, InvalidValueError),
        ({"corrects": "x", "time": NOW - 1}, InvalidArgumentsError),
        ({"text": "  "}, InvalidArgumentsError),
    ],
)
async def test_bad_fields_are_refused_and_change_nothing(rig, said, fields, error):
    async with rig.silent() as journal:
        with said.raises(error):
            await kept(journal, **{"text": "text", **fields})
        assert not journal.delivery.waiting
        with pytest.raises(UnknownNameError, match="no environment"):
            await journal.draft("kitchen", journal_module.EntryFields("x"), "anna")
    assert rig.folders() == []


async def test_a_file_that_is_no_photo_leaves_nothing(rig):
    async with rig.silent() as journal:
        with pytest.raises(PhotoError):
            await kept(journal, "text", jpeg(), b"<svg onload='alert(1)'>")
        assert (journal.delivery.waiting, journal._received) == ({}, 0)
        await journal.run(int)  # the folder was cleared before
    assert rig.folders() == []


async def test_only_photos_of_entries_can_be_read(rig, journal):
    names = ["photo-1.jpg/../entry.json", "entry.json", "../photo-1.jpg", "photo-2.jpg"]
    entry = await kept(journal, "text", jpeg())
    for _ in ("while it waits", "in the database"):
        for where in (entry.id, "../growd.sqlite3", "_design/svc", f"{entry.id}x"):
            for name in [*names, *(["photo-1.jpg"] if where != entry.id else [])]:
                with pytest.raises(UnknownNameError, match="no photo"):
                    await content(journal, SimpleNamespace(id=where), name)
        await delivered(journal)


async def test_a_full_disk_refuses_and_leaves_nothing(rig):
    rig.is_away = True
    async with rig.silent() as journal:
        for largest in (10, 100, 1_000, 30_000, 70_000):
            with full_disk(largest), pytest.raises(NotKeptError, match="File too large"):
                await kept(journal, "text" * 400, jpeg(body=100_000), jpeg(body=100_000))
            await journal.run(int)
            assert (rig.folders(), journal._received, journal.delivery.waiting) == ([], 0, {})
        entry = await kept(journal, "text", jpeg(body=100_000))
    assert rig.folders() == [entry.id]


async def test_a_rename_that_is_not_synced_is_undone(rig, monkeypatch):
    synced = []

    def sync(folder):
        synced.append(folder.name)
        if folder.name == "journal":
            raise OSError(errno.EIO, "Input/output error")

    async with rig.silent() as journal:
        (rig.data / "journal").mkdir()
        monkeypatch.setattr(entry_folder, "sync_folder", sync)
        with pytest.raises(NotKeptError, match="Input/output error"):
            await kept(journal, "text", jpeg())
        await journal.run(int)
        assert (rig.folders(), journal.delivery.waiting) == ([], {})
    assert synced[-1] == "journal"


async def test_photos_are_refused_before_the_disk_is_full(rig, monkeypatch, said):
    monkeypatch.setattr(journal_module, "FREE_BYTES", 10**18)
    async with rig.silent() as journal:
        usage = journal_module.shutil.disk_usage(rig.data)
        fake = type(usage)(usage.total, 0, 5_000_000)
        monkeypatch.setattr(journal_module.shutil, "disk_usage", lambda _: fake)
        with said.raises(NotKeptError):
            await kept(journal, "text", jpeg())
        await kept(journal, "text")
        assert len(journal.delivery.waiting) == 1


async def test_what_waits_is_bounded(rig, monkeypatch, said):
    rig.is_away = True
    monkeypatch.setattr(journal_module, "MOST_WAITING", 2)
    monkeypatch.setattr(journal_module, "MOST_BYTES", 3 * len(jpeg()))
    async with rig.silent() as journal:
        await kept(journal, "1", jpeg(), jpeg())
        with said.raises(CapacityError):
            await kept(journal, "2", jpeg(), jpeg())
        await kept(journal, "2")
        with said.raises(CapacityError):
            await kept(journal, "3")
        assert journal._received == 0


async def test_few_uploads_run_at_a_time_and_one_client_has_half_of_them(rig, said):
    async with rig.silent() as journal, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(journal.receiving("a"))
        with said.raises(BusyError):
            await stack.enter_async_context(journal.receiving("a"))
        for _ in range(2):
            await stack.enter_async_context(journal.receiving("b"))
        with pytest.raises(BusyError, match="4 uploads"):
            await stack.enter_async_context(journal.receiving("c"))
        await stack.aclose()
        async with journal.receiving("c"):
            pass
    assert rig.folders() == []


async def test_what_an_upload_left_behind_is_deleted_at_the_start(rig):
    folder = rig.data / "journal" / "0123456789abcdef.part"
    folder.mkdir(parents=True)
    (folder / "received").write_bytes(SECRET)
    async with rig.silent() as journal:
        assert not journal.delivery.waiting
    assert rig.folders() == []


async def test_an_entry_that_cannot_be_read_stays_and_is_reported(rig):
    rig.is_away = True
    async with rig.silent() as journal:
        first, second = await kept(journal, "1"), await kept(journal, "2")
    (rig.data / "journal" / first.id / "entry.json").write_bytes(b"{")
    async with rig.silent() as journal:
        assert [*journal.delivery.waiting] == [second.id]
        (problem,) = journal.node.details()["problems"]
        assert f"{first.id} can't be read and stays there" in problem["text"]
        assert problem.get("is_failure", False)
    assert rig.folders() == sorted([first.id, second.id])
