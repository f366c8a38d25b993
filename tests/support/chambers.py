"""A chamber to back up: a data folder and databases with every kind of content, and what they contain."""

from __future__ import annotations

import asyncio
import base64
import secrets
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from click.testing import CliRunner

from growd.runtime.clock import RealClock
from growd.store.bootstrap import Databases
from growd.store.local import LocalStore
from growd.store.point_log import open_log
from growd.store.points import PointMaker
from growd_cli.main import main
from support.couch_client import client_of, install_design
from support.outbox import opened

if TYPE_CHECKING:
    from pathlib import Path

    from support.couch_client import Client
    from support.database import DatabaseServer

PHOTO = bytes(range(256)) * 4_000
OTHER_PHOTO = PHOTO[::-1]
COPIED = {
    "hold.json": b"{}",
    "interlocks.json": b"00000000 {}",
    "journal/n/entry.json": b"{}",
    "journal/n/photo-1.png": PHOTO,
    "photos/chamber/top/2023-11-14/221320000-0123456789.jpg": b"a JPEG",
    "photos/chamber/top/2023-11-14/221320000-0123456789-small.jpg": b"its preview",
    "photos/chamber/top/2023-11-14/221320000-0123456789.json": (
        b'{"id":"0123456789ab:1700000000000-0123456789","environment":"chamber","camera":"top",'
        b'"time":1700000000.0,"width":8,"height":6,"bytes":6,"small_bytes":11,"sha256":"0123456789"}'
    ),
}
LEFT_OUT = (
    "growd.lock",
    "hold-upgrade.json",
    "backups/old",
    "journal/x.part/photo",
    "photos/1-ab-target.part",
    "growd.sqlite3.damaged-1",
    "couchdb/CURRENT",
)


@dataclass
class Places:
    """Databases with a prefix on a server, and a configuration for them in a folder of their own."""

    server: DatabaseServer
    prefix: str
    folder: Path
    couch: Client

    @property
    def data(self):
        return self.folder / "data"

    @property
    def config(self):
        return self.folder / "growd.toml"

    @property
    def names(self):
        return Databases.prefixed(self.prefix).names_by_folder()

    def url(self):
        auth = self.server.auth
        login = f"{quote(auth[0], safe='')}:{quote(auth[1], safe='')}@" if auth else ""
        return self.server.url.replace("//", f"//{login}")

    def settings(self):
        """Options of a command that name the databases."""
        return ("--set", f"couchdb.url={self.url()}", "--set", f"couchdb.prefix={self.prefix}")

    async def make(self):
        for name in self.names.values():
            assert (await self.couch("PUT", f"/{name}")).status in {201, 202}

    async def write(self, folder, documents, *, new_edits=True):
        body = {"docs": documents, "new_edits": new_edits}
        answer = await self.couch("POST", f"/{self.names[folder]}/_bulk_docs", body)
        assert answer.status == 201
        assert not any("error" in row for row in answer.json), answer.json

    async def content(self):
        """All revisions of all documents, with histories and attachments, as other clients read them."""
        found = {}
        for folder, name in self.names.items():
            rows = (await self.couch("GET", f"/{name}/_all_docs")).json["rows"]
            found[folder] = {row["id"]: await self._leaves(name, row["id"]) for row in rows}
        return found

    async def _leaves(self, name, document_id):
        path = quote(document_id, safe="/" if document_id.startswith("_design/") else "")
        answer = await self.couch(
            "GET",
            f"/{name}/{path}",
            headers={"Accept": "application/json"},
            open_revs="all",
            revs=True,
            attachments=True,
        )
        leaves = [row["ok"] for row in answer.json]
        for leaf in leaves:
            for stub in leaf.get("_attachments", {}).values():
                stub.pop("digest")  # of the compressed content, where the server compresses
        return {leaf["_rev"]: leaf for leaf in leaves if not leaf.get("_deleted")}


@asynccontextmanager
async def places(server, folder):
    """Places without content in an existing folder; their databases are deleted at the end."""
    async with client_of(server.url, server.auth) as couch:
        place = Places(server, f"backup_{secrets.token_hex(5)}_", folder, couch)
        try:
            yield place
        finally:
            for name in place.names.values():
                await couch("DELETE", f"/{name}")


def leaf(document_id, ids, **members):
    """A revision with a history; each letter of `ids` stands for a revision, the newest first."""
    hashes = [letter * 32 for letter in ids]
    revisions = {"start": len(hashes), "ids": hashes}
    return {"_id": document_id, "_rev": f"{len(hashes)}-{hashes[0]}", "_revisions": revisions, **members}


async def fill(place, *, points=300):
    """Documents of every kind."""
    await place.make()
    maker = PointMaker("0123456789ab")
    series = [maker.make("chamber", "air_temperature", n / 7, 1.7e9 + 5 * n) for n in range(points)]
    await place.write("environmental_data_point", [point.document() for point in series])
    await install_design(
        place.couch, f"/{place.names['environmental_data_point']}", "environmental_data_point"
    )
    photo = {"content_type": "image/png", "data": base64.b64encode(PHOTO).decode()}
    text = {"content_type": "text/plain", "data": base64.b64encode(b"plain " * 500).decode()}
    note = {
        "_id": "note é/1",
        "value": "leaves turn yellow \u2028 \ud83c\udf31",
        "_attachments": {"photo-1.png": photo, "ä b/c.txt": text},
    }
    await place.write("environmental_event", [note, {"_id": "e2", "value": None, "timestamp": 1.0}])
    other = {"content_type": "image/png", "data": base64.b64encode(OTHER_PHOTO).decode()}
    rivals = [
        leaf("lettuce", "cba", steps=[1.0, 2, 10**15], format="phased"),
        leaf("lettuce", "da", steps=[0.1]),
        leaf("gone", "ba", _deleted=True),
        leaf("basil", "e", _attachments={"1.png": photo}),
        leaf("basil", "f", _attachments={"1.png": other}),
    ]
    await place.write("recipes", rivals, new_edits=False)
    await place.write("recipe_run", [leaf("run", "fedcba", nested={"a": [{"b": None}]})], new_edits=False)
    await place.write("environment", [{"_id": "_design/panel", "views": {}, "text": "of others"}])
    await place.write(
        "environmental_rollup",
        [leaf(f"c/measured/t/{n:05}", "ba", at=[n]) for n in range(40)],
        new_edits=False,
    )


async def fill_folder(data):
    """An existing folder as growd leaves it while the database is away."""
    local = await LocalStore.open(data / "growd.sqlite3")
    maker = PointMaker(local.device)
    async with opened(local, RealClock()) as outbox:
        for n in range(5):
            outbox.add(maker.make("chamber", "air_humidity", n, 1.7e9 + n))
        await outbox.flush()
        await outbox.add_with(
            maker.make("chamber", "recipe_start", "lettuce", 1.7e9, is_desired=True), lambda _: None
        )
        outbox.note("chamber", ["serial", 1.5])
        outbox.add(maker.make("chamber", "air_humidity", 9, 1.7e9 + 9))
        await outbox.flush()
    await local.save_state("chamber/recipe_run", {"recipe": {"_id": "lettuce"}, "run_id": "r"})
    await local.write(
        lambda file: file.execute("INSERT INTO parameters VALUES ('a/b', '[1.5]'), ('c', '\"\"')")
    )
    await local.close()
    await asyncio.to_thread(_write_files, data)


def _write_files(data):
    for name, content in (*COPIED.items(), *((name, b"not copied") for name in LEFT_OUT)):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(content)


def folder_content(data):
    """What a data folder contains; the points of the log by their sequence numbers. Blocking."""
    with closing(sqlite3.connect(data / "growd.sqlite3")) as file:
        dump = [line for line in file.iterdump() if line.startswith("INSERT")]
    log, notices = open_log(data / "points.log")
    log.close(0, log.note)
    files = [
        path for path in data.rglob("*") if path.is_file() and str(path.relative_to(data)) not in LEFT_OUT
    ]
    others = {
        str(path.relative_to(data)): path.read_bytes()
        for path in files
        if path.suffix in {".json", ".png", ".jpg"}
    }
    return {"rows": dump, "log": log.recovered, "note": log.note, "notices": notices, "files": others}


async def growd(*arguments):
    """Run a command in a thread, since it has its own event loop."""
    return await asyncio.to_thread(CliRunner().invoke, main, arguments, catch_exceptions=False)
