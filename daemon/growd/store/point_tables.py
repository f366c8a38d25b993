"""The tables `waiting` and `rejected` of growd.sqlite3.

`waiting` holds the points for which the log has no room, `rejected` those that the database refused.

Each function runs in the thread of the file, through `LocalStore.read` or `LocalStore.write`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.store.encoding import point_from_json, point_to_json, points_from_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from growd.store.points import DataPoint

WIDTHS: Final = (60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Seconds over which a series is thinned, one after the other as room gets scarcer."""


def is_expendable(point: DataPoint) -> bool:
    """Whether it is a number that was measured or commanded. Set points, events and recipes stay."""
    is_series = not point.is_desired and point.category in {"", "commanded"}
    return is_series and not point.is_manual and isinstance(point.value, (int, float))


def thinned(points: Sequence[DataPoint], width: float) -> set[int]:
    """The indexes of the points that can go if each series keeps four in `width` seconds.

    The four are the first, the last, the lowest and the highest. Points that are not expendable stay.
    """
    spans: dict[tuple[str, str, str, int], list[int]] = {}
    for index, point in enumerate(points):
        if is_expendable(point):
            span = (point.environment, point.category, point.variable, int(point.timestamp // width))
            spans.setdefault(span, []).append(index)
    return {index for span in spans.values() for index in _between(points, span)}


class ThinningProgress:
    """How far the rows of growd.sqlite3 are thinned: row by row, then again over a longer time.

    `width` is None when all are thinned over the longest time; these rows are not read again.
    """

    def __init__(self) -> None:
        self.place = 0  # the number of the last row that was read
        self.width: float | None = WIDTHS[0]
        self._done = 0
        self._newest = 0

    def advance(self, last: int) -> None:
        """The rows up to `last` were read; 0: there were no more."""
        if last:
            self.place = last
            self._newest = max(self._newest, last)
            return
        self.place = self._done
        self.width = next((width for width in WIDTHS if width > (self.width or 0)), None)

    def start_over(self) -> None:
        """Some rows were dropped: thin those that came since, before more are dropped."""
        self._done = self.place = self._newest
        self.width = WIDTHS[0]


def _between(points: Sequence[DataPoint], span: Sequence[int]) -> Iterable[int]:
    def value(index: int) -> Any:  # a number, and not as a float: an integer may be too large for one
        return points[index].value

    kept = {span[0], span[-1], min(span, key=value), max(span, key=value)}
    return (index for index in span if index not in kept)


CHUNK: Final = 1_000
"""Points to thin or drop in one transaction."""

MOST_REJECTED: Final = 10_000
"""The most rejected points; the oldest is dropped for a new one."""


class RejectedPoint(msgspec.Struct, frozen=True):
    """A point that the database refused, with its reason; `rejected_at` is in UNIX seconds."""

    point: DataPoint
    reason: str
    rejected_at: float


class RowNumbers:
    """Numbers for rows of `waiting` that no row has had since the file was opened.

    SQLite may give a new row the number of a row just deleted (sqlite.org/autoinc.html). The delivery of a
    point whose row was thinned meanwhile would then delete the new row. Belongs to the file's thread.
    """

    def __init__(self, file: sqlite3.Connection) -> None:
        self._last = _number(file, "SELECT coalesce(max(number), 0) FROM waiting")

    def take(self, count: int) -> range:
        """`count` numbers for rows behind all others."""
        first = self._last + 1
        self._last += count
        return range(first, self._last + 1)


def count(file: sqlite3.Connection) -> int:
    """How many points wait."""
    return _number(file, "SELECT count(*) FROM waiting")


def count_rejected(file: sqlite3.Connection) -> int:
    """How many points are rejected."""
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
    """Delete rows that hold no point, which a bad card may leave in a sound file; how many."""
    rows = file.execute("SELECT number, CAST(point AS TEXT) FROM waiting")
    return delete(file, [number for number, text in rows if not _is_point(text)])


def newest_ids(file: sqlite3.Connection, limit: int) -> set[str]:
    """The ids of the points in the last `limit` rows, and of all rejected points."""
    rows = file.execute("SELECT CAST(point AS TEXT) FROM waiting ORDER BY number DESC LIMIT ?", (limit,))
    ids = {point_from_json(text).id for (text,) in rows if _is_point(text)}
    return ids.union(*file.execute("SELECT id FROM rejected"))


def insert(file: sqlite3.Connection, points: Iterable[DataPoint], numbers: RowNumbers) -> Sequence[int]:
    """Append points; the numbers of their rows."""
    return _insert(file, [point_to_json(point) for point in points], numbers)


def delete(file: sqlite3.Connection, numbers: Iterable[int]) -> int:
    """Delete rows; how many there were."""
    deleted = file.executemany("DELETE FROM waiting WHERE number = ?", ((number,) for number in numbers))
    return max(0, deleted.rowcount)


def insert_rejected(file: sqlite3.Connection, point: DataPoint, reason: str, now: float) -> int:
    """Store a rejected point; how many older ones were dropped for it."""
    text = point_to_json(point)
    file.execute("INSERT OR REPLACE INTO rejected VALUES (?, ?, ?, ?)", (point.id, text, reason, now))
    too_many = max(0, count_rejected(file) - MOST_REJECTED)
    file.execute(
        "DELETE FROM rejected WHERE id IN (SELECT id FROM rejected ORDER BY rejected_at, id LIMIT ?)",
        (too_many,),
    )
    return too_many


def rejected(file: sqlite3.Connection, limit: int) -> list[RejectedPoint]:
    """Rejected points that can be read, oldest first."""
    rows = file.execute(
        "SELECT CAST(point AS TEXT), reason, rejected_at FROM rejected ORDER BY rejected_at, id LIMIT ?",
        (limit,),
    )
    return [RejectedPoint(point_from_json(text), reason, at) for text, reason, at in rows if _is_point(text)]


def retry_rejected(file: sqlite3.Connection, numbers: RowNumbers) -> int:
    """Move all rejected points behind those that wait; how many."""
    rows = file.execute("SELECT point FROM rejected ORDER BY rejected_at, id").fetchall()
    file.execute("DELETE FROM rejected")
    return len(_insert(file, [text for (text,) in rows], numbers))


def bytes_used(file: sqlite3.Connection) -> int:
    """Bytes of the file, without its free pages."""
    pages = _number(file, "PRAGMA page_count") - _number(file, "PRAGMA freelist_count")
    return pages * _number(file, "PRAGMA page_size")


def thin(file: sqlite3.Connection, after: int, width: float) -> tuple[int, int]:
    """Thin the chunk of rows behind the number `after`.

    Returns the number of its last row, 0 if there is none, and how many points went.
    """
    rows = oldest(file, CHUNK, after)
    if not rows:
        return 0, 0
    gone = thinned([point for _, point in rows], width)
    return rows[-1][0], delete(file, [rows[index][0] for index in gone])


def drop_rejected(file: sqlite3.Connection) -> int:
    """Drop the oldest chunk of rejected points; how many."""
    oldest_ids = "SELECT id FROM rejected ORDER BY rejected_at, id LIMIT ?"
    return file.execute(f"DELETE FROM rejected WHERE id IN ({oldest_ids})", (CHUNK,)).rowcount  # noqa: S608  ours


def drop_oldest(file: sqlite3.Connection) -> int:
    """Drop the expendable points of the oldest chunk, or all of it if none is expendable; how many."""
    rows = oldest(file, CHUNK)
    expendable = [number for number, point in rows if is_expendable(point)]
    return delete(file, expendable or [number for number, _ in rows])


def _insert(file: sqlite3.Connection, texts: Sequence[str], numbers: RowNumbers) -> Sequence[int]:
    rows = numbers.take(len(texts))
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
