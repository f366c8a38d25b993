"""What `growd cloud export` has done: the files that count, and the place in each database. Blocking.

A SQLite file in the folder `_growd` of the export. One transaction adds the files of a write and moves the
place. New files wait in `_growd/new` until that transaction is on the disk, and get their place after it, so
that readers never see a file that might be written again.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from growd.runtime.files import sync_folder
from growd.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS file (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, month TEXT NOT NULL, device TEXT NOT NULL,
    rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
    first_id TEXT NOT NULL, last_id TEXT NOT NULL, state TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS partition ON file (kind, month, device);
CREATE INDEX IF NOT EXISTS unsettled ON file (state) WHERE state <> 'there';
CREATE TABLE IF NOT EXISTS place (
    database TEXT PRIMARY KEY, made TEXT NOT NULL, since TEXT NOT NULL, after TEXT,
    gone INTEGER NOT NULL DEFAULT 0
);
"""
_SUFFIX: Final = ".parquet"


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


class ExportedFile(NamedTuple):
    """A Parquet file, and the first and last of its ids."""

    number: int
    partition: Partition
    rows: int
    bytes: int
    first_id: str
    last_id: str

    @property
    def name(self) -> str:
        """Its name; a number is never used twice."""
        return f"part-{self.number:09d}{_SUFFIX}"


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


class ExportState:
    """The state of one folder; only one process at a time has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.staging = folder / "_growd" / "new"
        with self.explained():
            self._check_folder()
            self.staging.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(
                folder / "_growd" / "state.sqlite3", isolation_level=None, timeout=0, check_same_thread=False
            )
            try:
                self._open()
                self._settle()
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
        """Move a place without new files."""
        self.commit([], place)

    def forget_places(self) -> None:
        """Read all databases from their beginning again."""
        with self.explained():
            self._file.execute("DELETE FROM place")

    def files(self, partition: Partition, first_id: str = "", last_id: str = "\x7f") -> list[ExportedFile]:
        """The files of a partition which may have ids from `first_id` to `last_id`."""
        return self._files(
            "kind = ? AND month = ? AND device = ? AND last_id >= ? AND first_id <= ? AND state <> 'gone' "
            "ORDER BY first_id",
            (*partition, first_id, last_id),
        )

    def split_partitions(self, before: str, most: int) -> list[Partition]:
        """Partitions with two files and more in months before this one, or with `most` and more."""
        rows = self._file.execute(
            "SELECT kind, month, device FROM file GROUP BY kind, month, device "
            "HAVING count(*) >= CASE WHEN month < ? THEN 2 ELSE ? END",
            (before, most),
        )
        return [Partition(*row) for row in rows]

    def totals(self) -> tuple[int, int, int]:
        """The number of files, of rows and of bytes."""
        row = self._file.execute("SELECT count(*), total(rows), total(bytes) FROM file").fetchone()
        return int(row[0]), int(row[1]), int(row[2])

    def next_number(self) -> int:
        """The number of the next file; `commit` takes files with numbers from there on."""
        row = self._file.execute("SELECT max(number) FROM file").fetchone()
        return int(row[0] or 0) + 1  # a file is only ever replaced by one with a higher number

    def path(self, file: ExportedFile) -> Path:
        """Where a file is once it has its place."""
        return self.folder / file.partition.path / file.name

    def commit(
        self, new: Sequence[ExportedFile], place: ReadPlace | None, replaced: Iterable[ExportedFile] = ()
    ) -> None:
        """Let these files of `staging` count in place of others, move the place, and put them there."""
        with self.explained():
            if new:
                sync_folder(self.staging)
            with self._transaction():
                self._file.executemany(
                    "INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'new')",
                    [(file.number, *file.partition, *file[2:]) for file in new],
                )
                self._file.executemany(
                    "UPDATE file SET state = 'gone' WHERE number = ?", [(file.number,) for file in replaced]
                )
                if place is not None:
                    self._file.execute("INSERT OR REPLACE INTO place VALUES (?, ?, ?, ?, ?)", place)
            self._settle()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise `ExportFolderError` for errors of the system."""
        try:
            yield
        except OSError as error:
            where = error.filename or self.folder
            raise ExportFolderError(f"{where}: {error.strerror or error}; the same command resumes") from None
        except sqlite3.Error as error:
            raise ExportFolderError(
                f"{self.folder}/_growd/state.sqlite3: {error}; the same command resumes"
            ) from None

    def _check_folder(self) -> None:
        """Refuse a folder whose files have no state."""
        if not self.folder.exists() or (self.folder / "_growd" / "state.sqlite3").exists():
            return
        others = [each.name for each in self.folder.iterdir() if each.name != "_growd"]
        if others:
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
        for statement in _TABLES.split(";"):
            self._file.execute(statement)
        self._file.execute("COMMIT")

    def _settle(self) -> None:
        """Remove replaced files, give new ones their places, and delete what no transaction has."""
        gone, new = (self._files("state = ? ORDER BY number", (state,)) for state in ("gone", "new"))
        for file in gone:
            self.path(file).unlink(missing_ok=True)
        for file in new:
            self._put(file)
        for folder in {self.path(file).parent for file in (*gone, *new)}:
            if folder.exists():
                sync_folder(folder)
        if gone or new:
            with self._transaction():
                self._file.execute("DELETE FROM file WHERE state = 'gone'")
                self._file.execute("UPDATE file SET state = 'there' WHERE state = 'new'")
        for left in self.staging.iterdir():
            left.unlink()

    def _put(self, file: ExportedFile) -> None:
        staged, target = self.staging / file.name, self.path(file)
        if not staged.exists():
            return  # it got its place before the process ended
        missing = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
        staged.replace(target)

    def _files(self, where: str, values: Sequence[str]) -> list[ExportedFile]:
        rows = self._file.execute(
            "SELECT number, kind, month, device, rows, bytes, first_id, last_id FROM file WHERE " + where,  # noqa: S608
            values,
        )
        return [ExportedFile(row[0], Partition(*row[1:4]), *row[4:]) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")
