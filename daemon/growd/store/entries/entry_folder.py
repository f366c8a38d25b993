"""The folder of the entries that wait for the database.

An entry is a folder with `entry.json` and its photos. It is made as `<token>.part`, synced, and renamed to
its id: a power cut leaves all of it or nothing. A folder that ends in `.part` was never acknowledged, or the
database has it. Every call blocks and raises OSError.
"""

from __future__ import annotations

import os
import secrets
import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from growd.runtime.files import sync_folder
from growd.store.entries.entry import JournalEntry, Photo
from growd.store.entries.photos import TYPES, copy_photo
from growd.store.errors import PhotoError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

FOLDER: Final = "journal"
"""In the data folder."""
_PART: Final = ".part"
_ENTRY: Final = "entry.json"
_decode: Final = msgspec.json.Decoder(JournalEntry).decode


class EntryFolder:
    """The folder `journal` of a data folder; made when it is first needed."""

    def __init__(self, data: Path) -> None:
        self.path = data / FOLDER
        self.unreadable: list[str] = []
        """Sentences about folders that `load` could not read, and left."""

    def load(self) -> dict[str, JournalEntry]:
        """The entries that wait, by id, oldest first; what was not finished is deleted."""
        found = {}
        for folder in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            if folder.name.endswith(_PART):
                shutil.rmtree(folder)
                continue
            try:
                entry = _decode((folder / _ENTRY).read_bytes())
            except (ValueError, OSError) as error:
                self.unreadable.append(f"the journal entry {folder} can't be read and stays there: {error}")
                continue
            found[entry.id] = entry
        return found

    def begin(self) -> StagedEntry:
        """A new entry, without content."""
        if not self.path.is_dir():
            self.path.mkdir()
            sync_folder(self.path.parent)
        folder = self.path / f"{secrets.token_hex(8)}{_PART}"
        folder.mkdir()
        return StagedEntry(folder)

    def open_photo(self, entry: JournalEntry, name: str) -> BinaryIO:
        """The file of a photo."""
        return (self.path / entry.id / name).open("rb")

    def remove(self, entry: JournalEntry) -> None:
        """Delete an entry that the database has."""
        gone = self.path / f"{secrets.token_hex(8)}{_PART}"
        (self.path / entry.id).rename(gone)
        shutil.rmtree(gone)


class StagedEntry:
    """An entry that is being received."""

    def __init__(self, folder: Path) -> None:
        self.photos: list[Photo] = []
        self._folder = folder
        self._raw = folder / "received"
        self._file: BinaryIO | None = None

    def write(self, piece: bytes) -> None:
        """Append to the photo that is being received."""
        if self._file is None:
            self._file = self._raw.open("xb")
        self._file.write(piece)

    def finish_photo(self) -> None:
        """Copy the received photo without its metadata. Raises `PhotoError`."""
        if self._file is None:
            raise PhotoError("it is empty")
        self._file.close()
        self._file = None
        copy = self._folder / "copy"
        with self._raw.open("rb") as source, copy.open("xb+") as target:
            media = copy_photo(source, target)
            target.flush()
            os.fsync(target.fileno())
            size = os.fstat(target.fileno()).st_size
        self._raw.unlink()
        photo = Photo(f"photo-{len(self.photos) + 1}.{TYPES[media]}", media, size)
        copy.rename(self._folder / photo.name)
        self.photos.append(photo)

    def commit(self, entry: JournalEntry) -> None:
        """Let the entry wait for the database; all of it is on the disk when this returns."""
        with (self._folder / _ENTRY).open("xb") as file:
            file.write(msgspec.json.encode(entry))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)
        kept = self._folder.rename(self._folder.with_name(entry.id))
        try:
            sync_folder(kept.parent)
        except OSError:
            kept.rename(self._folder)  # it is not acknowledged
            raise

    def discard(self) -> None:
        """Delete what was received."""
        if self._file is not None:
            self._file.close()
        shutil.rmtree(self._folder, ignore_errors=True)
