"""A copy of growd's own files in the data folder, and the way back to it.

The files of the database in the folder `couchdb` are not part of it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from growd.host.data_folder import LOCK_NAME
from growd.host.hold import Holder, file_of
from growd.runtime.files import sync_folder
from growd.store.local import newer_schema
from growd.store.point_log import LOG_NAME, newer_log
from growd_machine.installation.machine import InstallError
from growd_machine.owner import as_owner

if TYPE_CHECKING:
    from pathlib import Path

BACKUPS: Final = "backups"
"""The folder of the copies, in the data folder."""

STORE: Final = "growd.sqlite3"
_CONFIGURATION: Final = "configuration"
_BESIDE: Final = ("-wal", "-shm", "-journal")  # of an open SQLite file
_PIECE: Final = 1 << 20


def unreadable(data: Path) -> str:
    """A sentence if a newer growd has written a file that this growd can't read, else ""."""
    return newer_schema(data / STORE) or newer_log(data / LOG_NAME)


def own_files(data: Path) -> list[Path]:
    """The files of growd itself, without those of a running process and of holds."""
    left_out = {LOCK_NAME, *(file_of(data, holder).name for holder in Holder)}
    return sorted(
        file
        for file in data.iterdir()
        if file.is_file() and not file.is_symlink() and file.name not in left_out
        if not file.name.endswith((*_BESIDE, ".part")) and ".damaged-" not in file.name
    )


def size_of_files(data: Path) -> int:
    """Bytes of the copy of these files."""
    return sum(file.stat().st_size for file in data.iterdir() if file.is_file()) if data.is_dir() else 0


def back_up(data: Path, configuration: bytes, name: str) -> None:
    """Copy growd's own files and the configuration into `backups/<name>`; all is on disk at the return.

    growd must not run. An earlier copy of that name is replaced. Raises `InstallError` and OSError.
    """
    with as_owner(data):
        _close(data / STORE)
        folder = data / BACKUPS / name
        part = folder.with_name(f"{name}.part")
        for old in (part, folder):
            shutil.rmtree(old, ignore_errors=True)
        part.mkdir(parents=True, mode=0o700)
        for file in own_files(data):
            _copy(file, part / file.name)
        (part / _CONFIGURATION).mkdir()
        _write(part / _CONFIGURATION / "growd.toml", configuration)
        sync_folder(part / _CONFIGURATION)
        sync_folder(part)
        part.rename(folder)
        sync_folder(folder.parent)
        sync_folder(data)


def restore(data: Path, name: str, kept: str) -> None:
    """Move the files of `backups/<name>` back; the present ones are kept in `backups/<kept>`.

    growd must not run. If it was interrupted, it continues: each rename moves one file. The store comes last,
    so until then this growd refuses the folder. Raises OSError.
    """
    with as_owner(data):
        copy, beside = data / BACKUPS / name, data / BACKUPS / kept
        beside.mkdir(exist_ok=True, mode=0o700)
        sync_folder(beside.parent)  # before the files in it count on it
        _keep_log_of_store(data, beside)
        for file in sorted(own_files(copy), key=lambda each: each.name == STORE):
            present = data / file.name
            if present.exists() and not (beside / file.name).exists():
                os.link(present, beside / file.name)
                sync_folder(beside)
            file.rename(present)
            sync_folder(data)
            sync_folder(copy)
        shutil.rmtree(copy)
        sync_folder(data / BACKUPS)


def discard(data: Path, name: str) -> None:
    """Remove a backup that is not needed, and parts of backups. Raises OSError."""
    with as_owner(data):
        folder = data / BACKUPS
        unneeded = [*folder.glob("*.part"), *([folder / name] if name else [])]
        for path in unneeded:
            shutil.rmtree(path, ignore_errors=True)
        if folder.is_dir():
            sync_folder(folder)


def _keep_log_of_store(data: Path, beside: Path) -> None:
    """SQLite would read the log of one file into another."""
    try:
        _close(data / STORE)
    except InstallError:  # the new version damaged it
        for ending in _BESIDE:
            log = data / f"{STORE}{ending}"
            if log.exists():
                log.rename(beside / log.name)
    sync_folder(data)


def _close(store: Path) -> None:
    """Write what is in SQLite's log into the file, and remove the log."""
    if not store.exists():
        return
    try:
        with closing(sqlite3.connect(store, isolation_level=None)) as connection:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise InstallError(f"{store} can't be read: {error}") from None
    if busy:
        raise InstallError(f"{store} is in use by another program")


def _copy(file: Path, target: Path) -> None:
    content = file.read_bytes()
    _write(target, content)
    if target.read_bytes() != content:
        raise InstallError(f"{target} is not the same as {file} after the copy: the disk is failing")


def _write(target: Path, content: bytes) -> None:
    with target.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
