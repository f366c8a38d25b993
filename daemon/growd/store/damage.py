"""What becomes of a file that is damaged: it is set aside, and what can be read of it is saved."""

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

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY: Final = 0xFF  # of an extended error code (sqlite.org/rescode.html)
_BESIDE: Final = ("", "-wal", "-shm")
"""What SQLite keeps beside its file (sqlite.org/tempfiles.html); the log belongs to it."""


def set_aside(path: Path, *, copy: bool = False) -> Path:
    """Give the file at `path`, and what SQLite keeps beside it, a name that says it is damaged.

    With `copy` the file itself stays. The new path. Raises OSError.
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
    """What is wrong with an open file, empty if nothing is (sqlite.org/pragma.html#pragma_quick_check).

    Raises sqlite3.Error where it can't be told: it is locked, or the disk does not let it be read.
    """
    try:
        finding: str = file.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & _PRIMARY not in _DAMAGED:
            raise
        return str(error)
    return "" if finding == "ok" else finding.replace("\n", " ")


def salvage(path: Path, table: str) -> list[Row]:
    """The rows of a table in a damaged file, as many as can be read."""
    rows: dict[Row, None] = {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as file:
        is_numbered = _is_numbered(file, table)
        found = _around_gaps(file, table) if is_numbered else _from_both_ends(file, table)
        for row in found:
            rows[row] = None
    return sorted(rows) if is_numbered else list(rows)


def _is_numbered(file: sqlite3.Connection, table: str) -> bool:
    """Whether it has an integer for its key: then it can be asked for any range of it."""
    columns = file.execute(f"PRAGMA table_info({table})").fetchall()
    return any(kind == "INTEGER" and key for _, _, kind, _, _, key in columns)


def _from_both_ends(file: sqlite3.Connection, table: str) -> Iterator[Row]:
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error):
            yield from file.execute(f"SELECT * FROM {table} ORDER BY 1 {order}")  # noqa: S608  our own names


def _around_gaps(file: sqlite3.Connection, table: str) -> Iterator[Row]:
    """Whole ranges where they can be read; where one can't, its halves."""
    ranges = [(0, 2**62)]
    query = f"SELECT * FROM {table} WHERE rowid >= ? AND rowid < ? ORDER BY rowid"  # noqa: S608  likewise
    while ranges:
        first, end = ranges.pop()
        try:
            yield from file.execute(query, (first, end)).fetchall()
        except sqlite3.Error:
            middle = (first + end) // 2
            if middle > first:
                ranges += [(middle, end), (first, middle)]
