"""What a backup reads of a database; tests/cli/test_backup_restore.py compares whole databases."""

import base64
from contextlib import asynccontextmanager
from uuid import uuid4

import aiohttp
import pytest

from growd.store.couch import Couch
from growd.store.errors import CouchAnswerTooLargeError
from growd_machine.backup import making as reading
from growd_machine.backup.making import DocumentReader
from growd_machine.backup.revisions import write_revisions

PHOTO = b"\x89PNG\r\n" + bytes(range(256)) * 40


@asynccontextmanager
async def database(server, **options):
    name = f"growd_backup_{uuid4().hex[:12]}"
    async with aiohttp.ClientSession() as session:
        couch = Couch(session, server.url, credentials=server.auth, **options)
        await couch.create(name)
        try:
            yield couch, name
        finally:
            await couch.delete(name)


async def read(pages):
    found = [page async for page in pages]
    return [document for page in found for document in page.documents], found[-1].place


def leaf(document_id, ids, **members):
    revisions = {"start": len(ids), "ids": ids}
    return {"_id": document_id, "_rev": f"{len(ids)}-{ids[0]}", "_revisions": revisions, **members}


def hexes(*letters):
    return [letter * 32 for letter in letters]


async def test_changes_have_what_was_written_and_deleted_since(database_server, monkeypatch):
    monkeypatch.setattr(reading, "MOST_ROWS", 2)
    async with database(database_server) as (couch, name):
        reader = DocumentReader(couch, name)
        old, gone = leaf("old", hexes("a")), leaf("gone", hexes("a"))
        await write_revisions(couch, name, [old, gone, leaf("still", hexes("a"))])
        since = await reader.sequence()
        deleted = leaf("gone", hexes("b", "a"), _deleted=True)
        rival = leaf("old", hexes("e"))
        new = [leaf(f"new{n}", hexes("a")) for n in range(5)]
        await write_revisions(couch, name, [deleted, rival, *new])
        documents, place = await read(reader.changes(since))
        nothing, _ = await read(reader.changes(place))

    def key(document):
        return document["_id"], document["_rev"]

    assert sorted(documents, key=key) == sorted([deleted, old, rival, *new], key=key)
    assert nothing == []


async def test_an_attachment_is_read_as_it_was_written(database_server):
    data = base64.b64encode(PHOTO).decode()
    attachments = {"a photo/1.png": {"content_type": "image/png", "data": data}}
    async with database(database_server) as (couch, name):
        await couch.bulk_docs(name, [{"_id": "note é", "_attachments": attachments}])
        [document], _ = await read(DocumentReader(couch, name).documents())
        pieces = [
            piece async for piece in couch.attachment(name, "note é", document["_rev"], "a photo/1.png")
        ]
    assert document["_attachments"]["a photo/1.png"]["length"] == len(PHOTO)
    assert b"".join(pieces) == PHOTO


async def test_large_documents_come_in_small_answers(database_server):
    async with database(database_server, max_answer=40_000) as (couch, name):
        for n in range(8):
            await write_revisions(couch, name, [leaf(f"d{n}", hexes("b", "a"), text=str(n) * 12_000)])
        documents, _ = await read(DocumentReader(couch, name).documents())
        changed, _ = await read(DocumentReader(couch, name).changes("0"))
        await couch.bulk_docs(name, [{"_id": "large", "text": "x" * 50_000}])
        with pytest.raises(CouchAnswerTooLargeError, match="too large"):
            await read(DocumentReader(couch, name).documents())
    assert [document["text"][0] for document in documents] == list("01234567")
    assert {document["_id"] for document in changed} == {f"d{n}" for n in range(8)}
