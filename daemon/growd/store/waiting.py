"""The points that wait in the local file, while the database is away for longer than the log can hold them.

Each function is one for `LocalStore.read` or `LocalStore.write`: blocking, in the file's thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from growd.store.encoding import point_from_json, point_to_json, points_from_json
from growd.store.thinning import is_expendable, thinned

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from growd.store.points import DataPoint

CHUNK: Final = 1_000
"""Points that are thinned or dropped in one transaction."""

MOST_REJECTED: Final = 10_000
"""Points that are set aside at most; the oldest goes for a new one."""


@dataclass(frozen=True, slots=True)
class RejectedPoint:
    """A point that the database refused, with its reason; `rejected_at` in UNIX seconds."""

    point: DataPoint
    reason: str
    rejected_at: float


class RowNumbers:
    """Numbers for rows of `waiting`: from its making on none is given that the file had or was given before.

    SQLite by itself gives a new row the number behind the largest there is (sqlite.org/autoinc.html): that of
    a row just deleted, if that was the last. Whoever still means the old row, for it was on its way to the
    database, would then delete the new one. To be made when the file is opened, before any row goes: rows
    from before the start are on their way too. Belongs to the file's thread.
    """

    def __init__(self, file: sqlite3.Connection) -> None:
        self._last = _number(file, "SELECT coalesce(max(number), 0) FROM waiting")

    def behind_all(self, count: int) -> range:
        """So many numbers for rows that come behind all others."""
        first = self._last + 1
        self._last += count
        return range(first, self._last + 1)


def count(file: sqlite3.Connection) -> int:
    """How many points wait."""
    return _number(file, "SELECT count(*) FROM waiting")


def count_rejected(file: sqlite3.Connection) -> int:
    """How many points are set aside."""
    return _number(file, "SELECT count(*) FROM rejected")


def oldest(file: sqlite3.Connection, limit: int, after: int = 0) -> list[tuple[int, DataPoint]]:
    """The first `limit` rows with a number above `after`, in their order. ValueError if one is no point."""
    rows = file.execute(
        "SELECT number, CAST(point AS TEXT) FROM waiting WHERE number > ? ORDER BY number LIMIT ?",
        (after, limit),
    ).fetchall()
    points = points_from_json([text for _, text in rows])
    return [(number, point) for (number, _), point in zip(rows, points, strict=True)]


def drop_unreadable(file: sqlite3.Connection) -> int:
    """Forget rows that hold no point, which a bad card may leave in a file that is whole; how many."""
    rows = file.execute("SELECT number, CAST(point AS TEXT) FROM waiting")
    return delete(file, [number for number, text in rows if not _is_point(text)])


def newest_ids(file: sqlite3.Connection, limit: int) -> set[str]:
    """The ids of the points in the last `limit` rows, those that hold one, and of all that are set aside."""
    rows = file.execute("SELECT CAST(point AS TEXT) FROM waiting ORDER BY number DESC LIMIT ?", (limit,))
    ids = {point_from_json(text).id for (text,) in rows if _is_point(text)}
    return ids.union(*file.execute("SELECT id FROM rejected"))


def insert(file: sqlite3.Connection, points: Iterable[DataPoint], numbers: RowNumbers) -> Sequence[int]:
    """Put points behind those that wait; the numbers of their rows."""
    return _insert(file, [point_to_json(point) for point in points], numbers)


def delete(file: sqlite3.Connection, numbers: Iterable[int]) -> int:
    """Forget rows; how many there were."""
    deleted = file.executemany("DELETE FROM waiting WHERE number = ?", ((number,) for number in numbers))
    return max(0, deleted.rowcount)


def set_aside(file: sqlite3.Connection, point: DataPoint, reason: str, now: float) -> int:
    """Keep a point that the database refused; how many others had to go for it."""
    text = point_to_json(point)
    file.execute("INSERT OR REPLACE INTO rejected VALUES (?, ?, ?, ?)", (point.id, text, reason, now))
    too_many = max(0, count_rejected(file) - MOST_REJECTED)
    file.execute(
        "DELETE FROM rejected WHERE id IN (SELECT id FROM rejected ORDER BY rejected_at, id LIMIT ?)",
        (too_many,),
    )
    return too_many


def rejected(file: sqlite3.Connection, limit: int) -> list[RejectedPoint]:
    """Points that were set aside and can be read, oldest first."""
    rows = file.execute(
        "SELECT CAST(point AS TEXT), reason, rejected_at FROM rejected ORDER BY rejected_at, id LIMIT ?",
        (limit,),
    )
    return [RejectedPoint(point_from_json(text), reason, at) for text, reason, at in rows if _is_point(text)]


def take_back(file: sqlite3.Connection, numbers: RowNumbers) -> int:
    """Put all that was set aside behind those that wait; how many."""
    rows = file.execute("SELECT point FROM rejected ORDER BY rejected_at, id").fetchall()
    file.execute("DELETE FROM rejected")
    return len(_insert(file, [text for (text,) in rows], numbers))


def bytes_used(file: sqlite3.Connection) -> int:
    """What the file holds, without the room in it that is free."""
    pages = _number(file, "PRAGMA page_count") - _number(file, "PRAGMA freelist_count")
    return pages * _number(file, "PRAGMA page_size")


def thin(file: sqlite3.Connection, after: int, width: float) -> tuple[int, int]:
    """Thin the next chunk of rows behind the number `after`.

    The number of its last row, 0 where there is none, and how many went.
    """
    rows = oldest(file, CHUNK, after)
    if not rows:
        return 0, 0
    gone = thinned([point for _, point in rows], width)
    return rows[-1][0], delete(file, [rows[index][0] for index in gone])


def drop_rejected(file: sqlite3.Connection) -> int:
    """Drop the oldest chunk of what was set aside. How many went."""
    oldest_ids = "SELECT id FROM rejected ORDER BY rejected_at, id LIMIT ?"
    return file.execute(f"DELETE FROM rejected WHERE id IN ({oldest_ids})", (CHUNK,)).rowcount  # noqa: S608  ours


def drop_oldest(file: sqlite3.Connection) -> int:
    """Drop the oldest chunk: what is expendable of it, or all where nothing of it is. How many went."""
    rows = oldest(file, CHUNK)
    expendable = [number for number, point in rows if is_expendable(point)]
    return delete(file, expendable or [number for number, _ in rows])


def _insert(file: sqlite3.Connection, texts: Sequence[str], numbers: RowNumbers) -> Sequence[int]:
    rows = numbers.behind_all(len(texts))
    file.executemany("INSERT INTO waiting (number, point) VALUES (?, ?)", zip(rows, texts, strict=True))
    return rows


def _is_point(text: str) -> bool:
    try:
        point_from_json(text)
    except ValueError:
        return False
    return True


def _number(file: sqlite3.Connection, statement: str, arguments: Sequence[Any] = ()) -> int:
    number: int = file.execute(statement, arguments).fetchone()[0]
    return number
