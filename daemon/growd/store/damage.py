"""Damaged files: finding damage, quarantine, and reading what is left of an SQLite file."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Row = tuple[Any, ...]

# A PRAGMA gives SQLITE_ERROR for a file whose header has an unknown format.
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_PRIMARY: Final = 0xFF  # of an extended error code (sqlite.org/rescode.html)
_BESIDE: Final = ("", "-wal", "-shm")
"""Suffixes of the files beside an SQLite file (sqlite.org/tempfiles.html)."""

SMALLEST: Final = 512
"""Bytes of the smallest file with content: one page (sqlite.org/fileformat2.html)."""


def quarantine_file(path: Path, *, copy: bool = False) -> Path:
    """Rename the file at `path`, and those beside it, to `<name>.damaged-<time>`; the new path.

    With `copy` the file itself stays. Raises OSError.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in _BESIDE:
        source = path.with_name(path.name + suffix)
        if source.exists():
            target = kept.with_name(kept.name + suffix)
            shutil.copyfile(source, target) if copy else source.rename(target)
    return kept


def find_damage(file: sqlite3.Connection) -> str:
    """The damage of an open file, "" if there is none (sqlite.org/pragma.html#pragma_quick_check).

    Raises sqlite3.Error if the check is impossible: the file is locked, or the disk can't be read.
    """
    try:
        finding: str = file.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & _PRIMARY not in _DAMAGED:
            raise
        return str(error)
    return "" if finding == "ok" else finding.replace("\n", " ")


def salvage(path: Path, table: str) -> Iterator[Row]:
    """The rows of a table in a damaged file before the first damaged page and behind the last one.

    Some may come twice. `sqlite3 FILE .recover` finds more in the quarantined file.
    """
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as file:
        for order in ("ASC", "DESC"):
            yield from _until_damage(file, f"SELECT * FROM {table} ORDER BY 1 {order}")  # noqa: S608  our own names


def _until_damage(file: sqlite3.Connection, query: str) -> Iterator[Row]:
    number = 0
    try:
        for row in file.execute(query):
            yield row
            number += 1
    except sqlite3.Error:
        # sqlite3 reads one row ahead: if that can't be read, it does not return the one before it
        with suppress(sqlite3.Error):
            yield from file.execute(f"{query} LIMIT 1 OFFSET ?", (number,))
