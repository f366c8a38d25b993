"""Puts the files of a backup into a new data folder. Every call blocks.

They wait in the folder `restoring` until all documents are written. growd does not start meanwhile. An
interrupted restore continues: the file `written` there has the id of the backup and the finished members.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from growd.host.data_folder import LOCK_NAME, RESTORING
from growd.runtime.files import sync_folder
from growd_machine.backup.archive import MANIFEST, BackupError
from growd_machine.backup.making import STATE
from growd_machine.backup.state import DATABASE, STORE
from growd_machine.owner import as_owner

if TYPE_CHECKING:
    from pathlib import Path

    from growd_machine.backup.archive import ArchiveReader

_WRITTEN: Final = "written"
_FILES: Final = "files"


class DataFolder:
    """A data folder into which a backup is restored. Every call raises `BackupError`."""

    def __init__(self, path: Path, archive: ArchiveReader) -> None:
        self.path = path
        self.written: list[str] = []
        self._archive = archive
        self._id = sha256(archive.read(MANIFEST)).hexdigest()
        self._folder = path / RESTORING
        self.is_resumed = False

    def check(self) -> None:
        """Refuse a folder with data, apart from those of an interrupted restore of the same backup."""
        try:
            names = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
            begun = self._begun()
        except OSError as error:
            raise BackupError(
                f"the data folder {self.path} can't be used: {error.strerror}; use sudo"
            ) from None
        if begun and begun[0] != self._id:
            raise BackupError(
                f"another backup was not completely restored into {self.path}: restore that one, or choose "
                "another folder with --data"
            )
        self.is_resumed, self.written = bool(begun), begun[1:]
        left_over = {LOCK_NAME, RESTORING, *({DATABASE} if begun else ())}
        if not begun and names - left_over:
            raise BackupError(
                f"the data folder {self.path} has data: stop growd and move the folder away "
                f"(mv {self.path} {self.path}.before), or choose another one with --data"
            )

    def stage(self) -> None:
        """Write the files of growd beside the places where they belong."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with as_owner(self.path):
                files = self._folder / _FILES
                if not files.exists():
                    self._unpack(files)
        except OSError as error:
            raise self._refused(error) from None

    def note_written(self, member: str) -> None:
        """Remember that the documents of a member are written."""
        self._append(member)

    def finish(self) -> None:
        """Move the files to their places; growd can start then."""
        try:
            with as_owner(self.path):
                files = self._folder / _FILES
                entries = sorted(files.iterdir(), key=lambda each: each.name == STORE)
                for entry in entries:
                    entry.rename(self.path / entry.name)
                sync_folder(self.path)
                done = self._folder.rename(self.path / f"{RESTORING}.part")
                sync_folder(self.path)
                shutil.rmtree(done)
        except OSError as error:
            raise self._refused(error) from None

    def _begun(self) -> list[str]:
        """The id of the backup that was begun, and the members whose documents are written."""
        try:
            with as_owner(self.path):
                return (self._folder / _WRITTEN).read_text(encoding="utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []

    def _unpack(self, files: Path) -> None:
        """Unpack under another name: a folder of the right name is complete."""
        part = files.with_name(f"{_FILES}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True, mode=0o700)
        prefix = f"{STATE}/{self._last_copy()}/"
        for name in self._archive.names():
            if name.startswith(prefix):
                self._write(part / _inside(name.removeprefix(prefix)), name)
        self._append(self._id)
        part.rename(files)
        sync_folder(self._folder)
        sync_folder(self.path)

    def _last_copy(self) -> str:
        """The last complete copy of the data folder; an interrupted backup has several."""
        complete = [
            name for name in self._archive.names() if PurePosixPath(name).match(f"{STATE}/*.complete")
        ]
        if not complete:
            raise BackupError("the backup has no data folder")
        return PurePosixPath(complete[-1]).stem

    def _write(self, target: Path, member: str) -> None:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(
            os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            for piece in self._archive.pieces(member):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(target.parent)

    def _append(self, line: str) -> None:
        try:
            with as_owner(self.path), (self._folder / _WRITTEN).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> BackupError:
        return BackupError(f"the data folder {self.path} can't be written: {error.strerror}")


def _inside(name: str) -> PurePosixPath:
    """A path that stays in the data folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise BackupError(f"the backup has a file with the name {name!r}")
    return path
