"""The folder of `growd cloud export`: its files, and the place in each database. Blocking.

The files that count are those in the folders of the partitions. A write puts new files there, and then moves
the place: after a kill in between the same points are read again, and known by their ids. A merge is noted in
`_growd/merge.json` before it changes files, and the next start ends one that was interrupted.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from growd.runtime.files import sync_folder, write_atomically
from growd.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS place (
    database TEXT PRIMARY KEY, made TEXT NOT NULL, since TEXT NOT NULL, after TEXT,
    gone INTEGER NOT NULL DEFAULT 0
)
"""
_FILES: Final = "part-*.parquet"


class ExportFolderError(StoreError):
    """The folder of the export can't be used; the message says why, and what to do."""


class Partition(NamedTuple):
    """The files of one kind (`points` or `events`), one month (2026-11) and one device."""

    kind: str
    month: str
    device: str

    @property
    def path(self) -> str:
        """Its folder, relative to that of the export."""
        return f"{self.kind}/month={self.month}/device={self.device}"


class ReadPlace(NamedTuple):
    """How far a database is read.

    `since` is where `_changes` continues, as JSON. While `after` is not None, all documents are still read
    in the order of their ids, and continue behind that id. `made` is when the database was created.
    """

    database: str
    made: str
    since: str
    after: str | None = None
    gone: bool = False


class _Merge(msgspec.Struct):
    """A new file in the place of others, by their paths in the folder."""

    staged: str
    target: str
    replaced: list[str]


class ExportState:
    """The state of one folder; only one process at a time has it."""

    def __init__(self, folder: Path) -> None:
        own = folder / "_growd"
        self.folder = folder
        self.staging = own / "new"
        """For files that are written; a start removes what it finds there."""
        self._places = own / "state.sqlite3"
        self._merge = own / "merge.json"
        with self.explained():
            self._check_folder()
            self.staging.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(
                self._places, isolation_level=None, timeout=0, check_same_thread=False
            )
            try:
                self._open()
                self._end_merge()
                for left in self.staging.iterdir():
                    left.unlink()
            except BaseException:
                self._file.close()
                raise

    def close(self) -> None:
        """Release the folder."""
        self._file.close()

    def places(self) -> dict[str, ReadPlace]:
        """How far each database is read, by its name."""
        rows = self._file.execute("SELECT database, made, since, after, gone FROM place")
        return {
            name: ReadPlace(name, made, since, after, bool(gone)) for name, made, since, after, gone in rows
        }

    def set_place(self, place: ReadPlace) -> None:
        """Move a place; what was read before it is in files."""
        with self.explained():
            self._file.execute("INSERT OR REPLACE INTO place VALUES (?, ?, ?, ?, ?)", place)

    def forget_places(self) -> None:
        """Read all databases from their beginning again."""
        with self.explained():
            self._file.execute("DELETE FROM place")

    def files(self, partition: Partition) -> list[Path]:
        """The files of a partition, the oldest first."""
        return sorted((self.folder / partition.path).glob(_FILES))

    def split_partitions(self, before: str, most: int) -> Iterator[Partition]:
        """Partitions with two files and more in months before this one, or with `most` and more."""
        for folder in sorted(self.folder.glob("*/month=*/device=*")):
            kind, *rest = folder.relative_to(self.folder).parts
            partition = Partition(kind, *(part.partition("=")[2] for part in rest))
            if len(self.files(partition)) >= (2 if partition.month < before else most):
                yield partition

    def totals(self) -> tuple[int, int]:
        """The number of files and of bytes."""
        sizes = [file.stat().st_size for file in self.folder.glob(f"*/month=*/device=*/{_FILES}")]
        return len(sizes), sum(sizes)

    def next_file(self, partition: Partition) -> Path:
        """The path of the next file of a partition, behind those that it has."""
        last = self.files(partition)[-1:]
        number = int(last[0].stem.partition("-")[2]) + 1 if last else 1
        return self.folder / partition.path / f"part-{number:09d}.parquet"

    def add(self, staged: Path, partition: Partition) -> None:
        """Give a file of `staging` its place."""
        with self.explained():
            self._put(staged, self.next_file(partition))

    def replace(self, files: Sequence[Path], staged: Path, partition: Partition) -> None:
        """Give a file of `staging` its place instead of these, which it has the rows of."""
        paths = [str(path.relative_to(self.folder)) for path in (staged, self.next_file(partition), *files)]
        with self.explained():
            write_atomically(self._merge, msgspec.json.encode(_Merge(paths[0], paths[1], paths[2:])))
            self._end_merge()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `ExportFolderError` for errors of the system."""
        try:
            yield
        except OSError as error:
            where = error.filename or self.folder
            raise ExportFolderError(f"{where}: {error.strerror or error}; the same command resumes") from None
        except sqlite3.Error as error:
            raise ExportFolderError(f"{self._places}: {error}; the same command resumes") from None

    def _check_folder(self) -> None:
        """Refuse a folder with other things than an export."""
        there = [each.name for each in self.folder.iterdir()] if self.folder.exists() else []
        if others := sorted({*there} - {"_growd", "points", "events"}):
            sentence = f"{self.folder} has {others[0]}, and no state of an export: name an empty folder"
            raise ExportFolderError(sentence)

    def _open(self) -> None:
        try:
            self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._file.execute("PRAGMA synchronous = EXTRA")  # also syncs the folder of the journal
            self._file.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise ExportFolderError(f"another growd cloud export writes into {self.folder}") from None
        self._file.execute(_TABLE)
        self._file.execute("COMMIT")

    def _end_merge(self) -> None:
        """Do what the note of a merge says, as far as it is not done yet."""
        if not self._merge.exists():
            return
        merge = msgspec.json.decode(self._merge.read_bytes(), type=_Merge)
        staged, target = self.folder / merge.staged, self.folder / merge.target
        for path in merge.replaced:
            (self.folder / path).unlink(missing_ok=True)
        if staged.exists():
            self._put(staged, target)
        sync_folder(target.parent)
        self._merge.unlink()

    def _put(self, staged: Path, target: Path) -> None:
        missing = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
        staged.replace(target)
        sync_folder(target.parent)
