"""The files of a data folder, copied while growd writes them, apart from those of the embedded database.

Points move from `points.log` to `growd.sqlite3` and on to the database, entries of the journal from their
folder to the database. The files are copied in this order, and before the database is read, so whatever was
acknowledged is in one of the copies. Every call blocks.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from growd.host.data_folder import LOCK_NAME, RESTORING
from growd.host.hold import Holder, file_of
from growd.store.block_file import open_own
from growd.store.point_log import LOG_NAME
from growd_machine.backup.archive import BackupError
from growd_machine.owner import as_owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STORE: Final = "growd.sqlite3"
DATABASE: Final = "couchdb"
"""The folder of the embedded database, whose documents are copied instead."""

PHOTOS: Final = "photos"
"""The folder of the photos of cameras, which are thinned one by one."""
_LEFT_OUT: Final = frozenset({LOCK_NAME, STORE, LOG_NAME, DATABASE, RESTORING, "backups"})
_ENDINGS: Final = ("-wal", "-shm", "-journal", ".part", ".new", ".copy")
_DAMAGED: Final = ".damaged-"
_MOST_LOG: Final = 64 << 20  # bytes
_TRIES: Final = 100


class CopiedFile(NamedTuple):
    """A file to copy: its path in the data folder, its content, and its size in bytes."""

    name: str
    content: IO[bytes]
    size: int


def copied_files(data: Path, scratch: Path) -> Iterator[CopiedFile]:
    """The files in the order in which they have to be copied; each is to be read before the next one.

    `scratch` is a file for a copy of `growd.sqlite3`. Raises `BackupError`.
    """
    log = _log_of(data)
    if log is not None:
        yield CopiedFile(LOG_NAME, io.BytesIO(log), len(log))
    if (data / STORE).exists():
        with _copied_store(data, scratch) as copy:
            yield CopiedFile(STORE, copy, os.fstat(copy.fileno()).st_size)
    yield from _files_of(data, data)


def device_of(data: Path) -> str:
    """The id of the device, "" if the folder has none."""
    if not (data / STORE).exists():
        return ""
    try:
        with closing(_connected(data)) as source:
            row = source.execute("SELECT value FROM state WHERE key = 'device'").fetchone()
    except sqlite3.Error as error:
        raise BackupError(f"{data / STORE} can't be read: {error}") from None
    return "" if row is None else str(json.loads(row[0]))


def left_out(data: Path) -> list[str]:
    """Damaged files that earlier starts have kept; a backup leaves them out."""
    return sorted(path.name for path in data.iterdir() if _DAMAGED in path.name)


def _log_of(data: Path) -> bytes | None:
    """The log of points at one moment: growd may write while it is read."""
    try:
        before = _read(data, LOG_NAME)
        for _ in range(_TRIES):
            now = _read(data, LOG_NAME)
            if now == before:
                return now
            before = now
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BackupError(f"{data / LOG_NAME} can't be read: {error.strerror}") from None
    raise BackupError(f"{data / LOG_NAME} changes all the time: run the same command again")


def _read(data: Path, name: str) -> bytes:
    with _opened(data, data / name) as file:
        return file.read(_MOST_LOG)


@contextmanager
def _copied_store(data: Path, scratch: Path) -> Iterator[IO[bytes]]:
    """A copy of growd.sqlite3 in one file, by SQLite's own means (sqlite.org/backup.html)."""
    try:
        scratch.unlink(missing_ok=True)
        scratch.touch(mode=0o600)
        with closing(_connected(data)) as source, closing(sqlite3.connect(scratch)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        with scratch.open("rb") as file:
            yield file
    except sqlite3.Error as error:
        raise BackupError(f"{data / STORE} can't be copied to {scratch}: {error}") from None
    except OSError as error:
        raise BackupError(f"{scratch} can't be written: {error.strerror}") from None
    finally:
        scratch.unlink(missing_ok=True)


def _connected(data: Path) -> sqlite3.Connection:
    """A connection whose files belong to the owner of the folder, as growd has to write them."""
    with as_owner(data):
        connection = sqlite3.connect(data / STORE, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
    return connection


def _files_of(data: Path, folder: Path) -> Iterator[CopiedFile]:
    """The files of a folder, then those of its folders."""
    try:
        with as_owner(data):
            entries = sorted(entry for entry in folder.iterdir() if _is_copied(data, entry))
    except FileNotFoundError:
        return
    files = [entry for entry in entries if entry.is_file() and not entry.is_symlink()]
    is_of_parts = folder != data and not folder.is_relative_to(data / PHOTOS)
    for group in [files] if is_of_parts else [[file] for file in files]:
        yield from _together(data, group)
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            yield from _files_of(data, entry)


def _is_copied(data: Path, path: Path) -> bool:
    if path.parent == data and path.name in {*_LEFT_OUT, file_of(data, Holder.UPGRADE).name}:
        return False
    return not path.name.endswith(_ENDINGS) and _DAMAGED not in path.name


def _together(data: Path, paths: list[Path]) -> Iterator[CopiedFile]:
    """All of these files, or none if one is gone: an entry of the journal is whole, or in the database."""
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(_opened(data, path)) for path in paths]
        except FileNotFoundError:
            return
        except OSError as error:
            raise BackupError(f"{error.filename} can't be read: {error.strerror}") from None
        for path, file in zip(paths, files, strict=True):
            yield CopiedFile(str(path.relative_to(data)), file, os.fstat(file.fileno()).st_size)


def _opened(data: Path, path: Path) -> IO[bytes]:
    with as_owner(data):
        return os.fdopen(open_own(path, os.O_RDONLY), "rb")
