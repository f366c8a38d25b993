"""Damaged files: finding damage, quarantine, and reading what is left of an SQLite file."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Row = tuple[Any, ...]

# A PRAGMA gives SQLITE_ERROR for a file whose header has an unknown format.
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
_PRIMARY: Final = 0xFF  # of an extended error code (sqlite.org/rescode.html)
_BESIDE: Final = ("", "-wal", "-shm")
"""Suffixes of the files beside an SQLite file (sqlite.org/tempfiles.html)."""

SMALLEST: Final = 512
"""Bytes of the smallest file with content: one page (sqlite.org/fileformat2.html)."""

_STEP: Final = 8  # fewer rows than a page holds, except for large rows
_STEPS: Final = 2**13
_LAST: Final = 2**62  # numbers of rows end before


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


def has_schema(path: Path) -> bool:
    """Whether the schema of a damaged file can be read."""
    try:
        with closing(sqlite3.connect(path)) as file:
            return bool(file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error:
        return False


def with_head_of(new: Path, damaged: Path, copy: Path) -> Path:
    """A copy of a damaged file with the first page of a new one, whose tables begin at the same pages.

    That page has the header and the schema, and no rows (sqlite.org/fileformat2.html). Raises OSError.
    """
    shutil.copyfile(damaged, copy)
    head = bytearray(new.read_bytes())
    page = int.from_bytes(head[16:18], "big")
    head[28:32] = (damaged.stat().st_size // page).to_bytes(4, "big")  # the number of pages
    with copy.open("r+b") as file:
        file.write(head[:page])
    return copy


def salvage(path: Path, table: str) -> Iterator[Row]:
    """The readable rows of a table in a damaged file; some may come twice."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as file:
        yield from _around_gaps(file, table) if _is_numbered(file, table) else _from_both_ends(file, table)


def _is_numbered(file: sqlite3.Connection, table: str) -> bool:
    """Whether its key is an integer: then the rows behind a gap can be asked for."""
    columns = file.execute(f"PRAGMA table_info({table})").fetchall()
    return any(kind == "INTEGER" and key for _, _, kind, _, _, key in columns)


# Some rows are read one at a time: the module sqlite3 reads one row ahead, and if that row can't be read, it
# does not return the one before it.


def _from_both_ends(file: sqlite3.Connection, table: str) -> Iterator[Row]:
    for order in ("ASC", "DESC"):
        query = f"SELECT * FROM {table} ORDER BY 1 {order}"  # noqa: S608  our own names
        number = 0
        try:
            for row in file.execute(query):
                yield row
                number += 1
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                yield from file.execute(f"{query} LIMIT 1 OFFSET ?", (number,))


def _around_gaps(file: sqlite3.Connection, table: str) -> Iterator[Row]:
    query = f"SELECT * FROM {table} WHERE rowid >= ? ORDER BY rowid"  # noqa: S608  likewise

    def next_row(number: int) -> Row | None:
        row: Row | None = file.execute(f"{query} LIMIT 1", (number,)).fetchone()
        return row

    number: int | None = 0
    while number is not None and number < _LAST:
        try:
            for row in file.execute(query, (number,)):
                yield row
                number = max(number, row[0] + 1)  # a damaged page may hold any number
        except sqlite3.Error:
            number = _behind_gap(number, next_row)
            if number is not None and (found := next_row(number)) is not None:
                yield found
                number = max(number, found[0]) + 1
        else:
            return


def _behind_gap(first: int, next_row: Callable[[int], Row | None]) -> int | None:
    """The first number, from `first` on, whose next row can be read; None if there is none.

    The steps are shorter than a page, so that no sound page between two damaged ones is missed. They get
    longer once the damage is so large that it must be an inner page of the tree.
    """

    def is_readable(number: int) -> bool:
        try:
            next_row(number)
        except sqlite3.Error:
            return False
        return True

    low = first - 1
    for step in itertools.chain(range(0, _STEP * _STEPS, _STEP), (1 << power for power in range(17, 62))):
        high = first + step
        if is_readable(high):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if is_readable(middle) else (middle, high)
            return high
        low = high
    return None
