"""How much room the database takes on the disk."""

from __future__ import annotations

import asyncio
import os
import shutil
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from yarl import URL

from growd.store.errors import CouchUnavailableError

if TYPE_CHECKING:
    from growd.store.couch import Couch, Document
    from growd.store.database import Database

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_LEVELDB_ROOM: Final = 64_000_000
"""What a compaction of LevelDB needs at most: it rewrites some files of 2 MB at a time."""


class DatabaseFile(NamedTuple):
    """A file of CouchDB: its size, and that of its content, in bytes. `design` is "" for the documents."""

    database: str
    design: str
    size: int
    active: int

    @property
    def unused(self) -> int:
        """What a compaction would free, in bytes."""
        return max(0, self.size - self.active)


class DiskUse(NamedTuple):
    """What the database takes, in bytes: `used`, and `room` for the compaction of its largest file.

    `disk` and `free` are of its file system, None if it is on another machine. `files` are those of CouchDB,
    the ones with most unused space first.
    """

    used: int
    room: int
    disk: int | None
    free: int | None
    files: tuple[DatabaseFile, ...] = ()

    @property
    def unused(self) -> int:
        """What compactions would free, in bytes."""
        return sum(file.unused for file in self.files)


async def disk_use(database: Database, data: Path) -> DiskUse:
    """What the database takes now; `data` is growd's data folder. Raises `CouchError` and OSError."""
    if database.is_embedded:
        used = await asyncio.to_thread(_folder_size, database.folder)
        disk = await asyncio.to_thread(shutil.disk_usage, data)
        return DiskUse(used, min(used, _LEVELDB_ROOM), disk.total, disk.free)
    files = await _files(database)
    used, room = sum(file.size for file in files), max((file.active for file in files), default=0)
    if URL(database.address or "").host not in _LOOPBACK:
        return DiskUse(used, room, None, None, files)
    disk = await asyncio.to_thread(shutil.disk_usage, data)
    return DiskUse(used, room, disk.total, disk.free, files)


async def _files(database: Database) -> tuple[DatabaseFile, ...]:
    """The files of growd's databases and of the indexes of its views."""
    couch, names, found = database.couch, database.names, []
    for name in names.names_by_folder().values():
        info = await couch.info(name)
        if info is None:
            continue
        found.append(_file(name, "", info))
        if name in (names.points, names.events, names.runs):  # those with views
            found.append(_file(name, database.design, await _index(couch, name, database.design)))
    return tuple(sorted(found, key=lambda file: file.unused, reverse=True))


async def _index(couch: Couch, name: str, design: str) -> Document:
    """The state of an index; empty for a server that tells none, as an embedded one that has an address."""
    try:
        index: Document = (await couch.index_info(name, design)).get("view_index", {})
    except CouchUnavailableError as error:
        if error.status != HTTPStatus.NOT_IMPLEMENTED:
            raise
        return {}
    return index


def _file(name: str, design: str, info: Document) -> DatabaseFile:
    sizes = info.get("sizes", {})
    return DatabaseFile(name, design, int(sizes.get("file") or 0), int(sizes.get("active") or 0))


def _folder_size(folder: Path) -> int:
    """The bytes on disk of all files below a folder. Blocking."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_blocks * 512
            except FileNotFoundError:
                continue  # LevelDB deletes files at any time
    return total
