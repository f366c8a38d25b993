"""The outbox: holds points from the moment they are recorded until the database has them.

The life of a point:

- recorded: in memory;
- durable: on the disk, in the log (`PointLog`), or in growd.sqlite3 (`point_tables`) once the log is full,
  which takes half an hour or more without the database;
- sent: part of a batch that is under way to the database;
- delivered: the database has it. A later frame of the log says so, or its row is deleted;
- rejected: the database refused it. It is kept in growd.sqlite3 with the reason.

If there is no room, points are thinned (`thinning`), and at last dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from growd.runtime.clock import until_beat
from growd.runtime.liveness import STORE_S, Liveness
from growd.runtime.supervisor import TaskFault
from growd.runtime.worker import Worker
from growd.store import point_tables
from growd.store.encoding import point_to_json, to_json
from growd.store.errors import LocalStoreError, LogFullError
from growd.store.point_log import LOG_NAME, MOST_NOTE, PointLog, open_log
from growd.store.point_tables import WIDTHS, ThinningProgress, is_expendable, thinned

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from growd.runtime.clock import Clock
    from growd.runtime.liveness import Heartbeat
    from growd.store.local import LocalStore
    from growd.store.point_tables import RejectedPoint
    from growd.store.points import DataPoint

_log = logging.getLogger(__name__)

_MEGABYTE: Final = 1_000_000
_FRAME_POINTS: Final = 500  # at most in one write of the log
_NEAR: Final = 0.9  # of the budget: above it, waiting points are thinned
_LOG_BYTES: Final = "log_bytes"  # the size of the log of an earlier run, which had a frame
_THINNED_TOGETHER: Final = 400  # points in memory, on the event loop


class WaitingPoint:
    """A point that is not delivered yet.

    It is durable with a number in the log or a row in growd.sqlite3, and in memory alone with neither.
    """

    __slots__ = ("is_done", "log_number", "point", "row")

    def __init__(self, point: DataPoint, *, log_number: int | None = None, row: int | None = None) -> None:
        self.point = point
        self.log_number = log_number
        self.row = row
        self.is_done = False  # delivered, thinned or dropped

    @property
    def id(self) -> str:
        return self.point.id

    @property
    def document(self) -> dict[str, Any]:
        """The document to send."""
        return self.point.document()


class _Rejection(NamedTuple):
    point: WaitingPoint
    reason: str
    at: float  # UNIX seconds


class Outbox:
    """Holds points, in order, until they are delivered.

    `add` records a point; `run` makes recorded points durable together each `commit_interval` seconds of the
    clock, so that the card sees one write for all of them. `flush` and `add_with` do so at once.

    At most `buffer` points are recorded and not durable, while the disk takes none, and growd.sqlite3 holds
    at most `budget` megabytes. `thinned` and `dropped` count the points that went for lack of room.
    """

    def __init__(
        self,
        local: LocalStore,
        log: PointLog,
        clock: Clock,
        *,
        worker: Worker,
        row_numbers: point_tables.RowNumbers,
        liveness: Liveness | None = None,
        commit_interval: float = 1.0,
        buffer: int = 10_000,
        budget: float = 256.0,
    ) -> None:
        self.thinned = 0
        self.dropped = 0
        self.lost = asyncio.Event()  # set when points were dropped; its reader clears it
        self.fault = TaskFault(_log, "points can't be saved and stay in memory", "points are saved again")
        self.file_fault: str | None = None  # why outcomes can't be written into growd.sqlite3
        self.notices: list[str] = []  # damage that was found at the start, for a person
        self.added = asyncio.Event()  # set when there are new points to send; its reader clears it
        self.rejected_count = 0  # in growd.sqlite3
        self._local = local
        self._log = log
        self._worker = worker
        self._clock = clock
        self._liveness = liveness or Liveness()
        self._beat: Callable[[], None] = lambda: None
        self._interval = commit_interval
        self._buffer = buffer
        self._budget = budget * _MEGABYTE
        self._recorded: dict[str, WaitingPoint] = {}  # by id, in order, as the next one
        self._logged: dict[str, WaitingPoint] = {}
        self._rows = 0  # in growd.sqlite3, including the following
        self._finished_rows: set[int] = set()  # delivered or rejected, and not deleted yet
        self._rejections: dict[str, _Rejection] = {}  # by id; not in growd.sqlite3 yet
        self._row_numbers = row_numbers
        self._thinning = ThinningProgress()
        self._notes = _decode_notes(log.note)
        self._are_notes_written = True
        self._are_notes_due = False  # also without new points
        self._wake = asyncio.Event()
        self._flushing = asyncio.Lock()

    @classmethod
    async def open(cls, local: LocalStore, clock: Clock, **options: Any) -> Outbox:
        """An outbox with the points that wait from before; its log is beside growd.sqlite3.

        A damaged log is quarantined, and its readable points are taken over; `notices` says so. Raises
        `LocalStoreError` if there can be no log.
        """
        worker = Worker("point log")
        try:
            had_bytes = await local.state(_LOG_BYTES, 0)
            log, notices = await worker.run(open_log, local.path.with_name(LOG_NAME), had_bytes)
            row_numbers = await local.read(point_tables.RowNumbers)
            outbox = cls(local, log, clock, worker=worker, row_numbers=row_numbers, **options)
            outbox.notices = notices
            await outbox._load()
        except BaseException:
            await worker.close()
            raise
        return outbox

    async def close(self) -> None:
        """Close the log. Points that are not durable are lost."""
        try:
            await self._worker.run(self._log.close, self._released(), self._note_text())
        except (OSError, LogFullError) as error:
            _log.info("the next start will send some points again: %s", error)
        await self._worker.close()

    def add(self, point: DataPoint) -> None:
        """Record a point; it is durable with the next commit. Never waits."""
        if len(self._recorded) >= self._buffer:
            self._make_room_in_memory()
        self._recorded[point.id] = WaitingPoint(point)
        self._wake.set()

    async def add_with(self, point: DataPoint, also: Callable[[sqlite3.Connection], None]) -> None:
        """Make a point durable and run `also(file)` in one transaction; `LocalStoreError` undoes both."""

        def write(file: sqlite3.Connection) -> int:
            also(file)
            return len(point_tables.insert(file, [point], self._row_numbers))

        await self._local.write(write, self._count_inserted)

    async def flush(self) -> None:
        """Make recorded points durable. Raises `LocalStoreError`; they then stay in memory."""
        async with self._flushing:
            try:
                while points := list(islice(self._recorded.values(), _FRAME_POINTS)):
                    await self._make_durable(points)
                    self.fault.succeeded()  # only here: without points, nothing shows that the disk works
            except LocalStoreError as error:
                self.fault.failed(error, logging.ERROR)
                self.added.set()  # they are sent from memory
                raise
            if self._are_notes_due:
                await self._append_released()
            await self._write_outcomes()

    async def run(self) -> None:
        """Make points durable, at most once in each interval. Cancel it, then `flush` once more."""
        with self._liveness.heartbeat("outbox", STORE_S + self._interval, self._is_idle) as heart:
            self._beat = heart.beat
            await self._keep_flushing(heart)

    # Notes: a few numbers that go along in the frames of the log

    def noted(self, key: str) -> list[Any] | None:
        """The last note under this key, also of the run before."""
        return self._notes.get(key)

    def note(self, key: str, values: list[Any]) -> bool:
        """Write a few numbers with the next points, at the latest with the note after the next.

        False if there is no room for them.
        """
        notes = self._notes | {key: values}
        if len(to_json(notes).encode()) > MOST_NOTE:
            return False
        self._notes = notes
        if not self._are_notes_written:  # no point came since the last note
            self._are_notes_due = True
            self._wake.set()
        self._are_notes_written = False
        return True

    # Sending

    async def next_batch(self, limit: int) -> list[WaitingPoint]:
        """The `limit` oldest durable points; while the disk takes nothing, recorded ones too."""
        in_file = await self._oldest_rows(limit) if self._waiting_rows else []
        if in_file and len(in_file) < self._waiting_rows:
            return in_file[:limit]  # rows that came meanwhile go before the points in memory
        in_memory = chain(self._logged.values(), self._recorded.values() if self.fault.failures else ())
        sendable = (point for point in in_memory if point.id not in self._rejections)
        return list(islice(chain(in_file, sendable), limit))

    async def oldest_at(self) -> float | None:
        """The time of the oldest point that waits to be sent, in UNIX seconds; None without one."""
        batch = await self.next_batch(1)
        return batch[0].point.timestamp if batch else None

    async def mark_delivered(self, points: Sequence[WaitingPoint]) -> None:
        """The database has these. If growd.sqlite3 can't be written, a later call writes it."""
        for point in points:
            self._remove_from_memory(point)
            self._finish_row(point)
            point.is_done = True
        await self._write_outcomes()

    async def reject(self, point: WaitingPoint, reason: str) -> None:
        """The database refused this one: keep it with the reason, as soon as growd.sqlite3 can be written."""
        self._rejections[point.id] = _Rejection(point, reason, self._clock.time())
        self._finish_row(point)
        await self._write_outcomes()

    async def rejected(self, limit: int = 1000) -> list[RejectedPoint]:
        """Rejected points, oldest first."""
        return await self._local.read(lambda file: point_tables.rejected(file, limit))

    async def retry_rejected(self) -> int:
        """Let all rejected points wait again; how many. They may be rejected again."""

        def committed(number: int) -> None:
            self.rejected_count = 0
            self._count_inserted(number)

        return await self._local.write(
            lambda file: point_tables.retry_rejected(file, self._row_numbers), committed
        )

    @property
    def undelivered(self) -> int:
        """All points that the database does not have, apart from those in the table of rejected points."""
        return self._waiting_rows + len(self._logged) + len(self._recorded)

    @property
    def sendable(self) -> int:
        """The number of points that `next_batch` can give."""
        recorded = self._recorded if self.fault.failures else {}
        rejected = sum(point_id in self._logged or point_id in recorded for point_id in self._rejections)
        return self._waiting_rows + len(self._logged) + len(recorded) - rejected

    @property
    def unsaved(self) -> int:
        """Points that are in memory only."""
        return len(self._recorded)

    @property
    def _waiting_rows(self) -> int:
        return max(0, self._rows - len(self._finished_rows))

    async def _oldest_rows(self, limit: int) -> list[WaitingPoint]:
        number = limit + len(self._finished_rows)
        try:
            rows = await self._local.read(lambda file: point_tables.oldest(file, number))
        except ValueError:
            await self._drop_unreadable()
            rows = await self._local.read(lambda file: point_tables.oldest(file, number))
        return [WaitingPoint(point, row=row) for row, point in rows if row not in self._finished_rows]

    async def _drop_unreadable(self) -> None:
        self._count_dropped(await self._local.write(point_tables.drop_unreadable, self._count_deleted))

    def _finish_row(self, point: WaitingPoint) -> None:
        if point.row is not None and not point.is_done:
            self._finished_rows.add(point.row)

    async def _write_outcomes(self) -> None:
        """Delete finished rows and store rejected points. `file_fault` says why that fails."""
        if not self._finished_rows and not self._rejections:
            return
        rows, rejections = set(self._finished_rows), dict(self._rejections)

        def write(file: sqlite3.Connection) -> tuple[int, int, int]:
            dropped = sum(
                point_tables.insert_rejected(file, one.point.point, one.reason, one.at)
                for one in rejections.values()
            )
            deleted = point_tables.delete(file, rows)  # fewer if some were deleted or thinned meanwhile
            return deleted, point_tables.count_rejected(file), dropped

        def committed(outcome: tuple[int, int, int]) -> None:
            deleted, self.rejected_count, dropped = outcome
            self._count_deleted(deleted)
            self._count_dropped(dropped)
            self._finished_rows -= rows
            for point_id, rejection in rejections.items():
                self._rejections.pop(point_id, None)
                self._remove_from_memory(rejection.point)

        try:
            await self._local.write(write, committed)
        except LocalStoreError as error:
            if self.file_fault is None:
                _log.error("growd.sqlite3 can't be written: %s", error)
            self.file_fault = str(error)
        else:
            self.file_fault = None

    def _remove_from_memory(self, point: WaitingPoint) -> None:
        self._logged.pop(point.id, None)
        self._recorded.pop(point.id, None)

    # Becoming durable

    async def _load(self) -> None:
        """Find the points that wait from before."""
        self._rows = await self._local.read(point_tables.count)
        self.rejected_count = await self._local.read(point_tables.count_rejected)
        await self._take_over_log()
        if self.notices:  # or the same damage would be found at each start
            with contextlib.suppress(LocalStoreError):
                await self._move_into_file(list(self._logged.values()))
                await self._append_released()
        await self._note_log()
        if self.sendable:
            self.added.set()

    async def _note_log(self) -> None:
        """Save that the log has a frame, so that the next start detects a missing, short or empty one."""
        if not self._log.has_frames:
            return
        with contextlib.suppress(LocalStoreError):  # the next start tries again
            if await self._local.state(_LOG_BYTES, 0) != self._log.size:
                await self._local.save_state(_LOG_BYTES, self._log.size)

    async def _take_over_log(self) -> None:
        """Leave out points that are in the log twice, or in growd.sqlite3 too.

        That happens if a write was interrupted, or if growd ended between a move and the log's next frame.
        """
        recovered = self._log.recovered
        if not recovered:
            return
        number = len(recovered) + point_tables.MOST_REJECTED  # rows that may have come behind them
        known = await self._local.read(lambda file: point_tables.newest_ids(file, number))
        for log_number, point in recovered.items():
            if point.id not in known:
                self._logged.setdefault(point.id, WaitingPoint(point, log_number=log_number))

    async def _make_durable(self, points: Sequence[WaitingPoint]) -> None:
        texts = [point_to_json(point.point) for point in points]
        try:
            # If this is cancelled, they may be in the log all the same, and are written again. They have the
            # same `_id`, so the database keeps one of each.
            first = await self._append(texts)
        except LogFullError:
            await self._move_into_file([*self._logged.values(), *points])
            await self._append_released()
        except OSError as error:
            raise LocalStoreError(f"{LOG_NAME}: {error.strerror or error}") from error
        else:
            for number, point in enumerate(points, first):
                point.log_number = number
                if self._recorded.pop(point.id, None):  # not delivered or thinned meanwhile
                    self._logged.setdefault(point.id, point)  # it may wait from before a restart
        self.added.set()

    async def _append(self, texts: list[str]) -> int:
        """Write points and notes into the log; the number of the first point."""
        notes = self._notes
        first: int = await self._worker.run(self._log.append, texts, self._released(), self._note_text())
        self._are_notes_written, self._are_notes_due = notes is self._notes, False
        return first

    async def _append_released(self) -> None:
        """Write a frame without points, or the next start may look at released ones again."""
        with contextlib.suppress(OSError, LogFullError):  # a later frame says it as well
            await self._append([])

    async def _move_into_file(self, points: Sequence[WaitingPoint]) -> None:
        def move(file: sqlite3.Connection) -> list[tuple[WaitingPoint, int]]:
            # chosen here, and not before: a move that was cancelled may have been committed
            moving = [point for point in points if point.row is None and not point.is_done]
            rows = point_tables.insert(file, (point.point for point in moving), self._row_numbers)
            return list(zip(moving, rows, strict=True))

        def committed(placed: list[tuple[WaitingPoint, int]]) -> None:
            for point, row in placed:
                point.row = row
                self._remove_from_memory(point)
                if point.is_done or point.id in self._rejections:  # meanwhile
                    self._finished_rows.add(row)
            self._count_inserted(len(placed))

        await self._local.write(move, committed)
        await self._keep_to_budget()

    def _released(self) -> int | None:
        """The number up to which the log need not keep its points; None for all."""
        first = next(iter(self._logged.values()), None)
        return None if first is None or first.log_number is None else first.log_number - 1

    def _note_text(self) -> str:
        return to_json(self._notes) if self._notes else ""

    def _is_idle(self) -> bool:
        return not (self._recorded or self._are_notes_due or self._flushing.locked())

    async def _keep_flushing(self, heart: Heartbeat) -> None:
        while True:
            await self._wake.wait()
            heart.beat()
            await self._clock.sleep(until_beat(self._clock, self._interval))
            self._wake.clear()
            try:
                await self.flush()
            except LocalStoreError:
                self._wake.set()

    # Bounds

    def _make_room_in_memory(self) -> None:
        """Thin the oldest recorded points, or drop some."""
        points = list(islice(self._recorded.values(), _THINNED_TOGETHER))
        enough = max(1, len(points) // 10)
        for width in WIDTHS:
            gone = thinned([point.point for point in points], width)
            if len(gone) >= enough:
                self._discard(points[index] for index in gone)
                self._count_thinned(len(gone))
                return
        expendable = [point for point in points if is_expendable(point.point)]
        dropped = (expendable or points)[:enough]
        self._discard(dropped)
        self._count_dropped(len(dropped))

    def _discard(self, points: Iterable[WaitingPoint]) -> None:
        for point in points:
            point.is_done = True
            del self._recorded[point.id]

    async def _keep_to_budget(self) -> None:
        await self._write_outcomes()
        while self._rows and await self._local.read(point_tables.bytes_used) > _NEAR * self._budget:
            self._beat()
            try:
                await self._make_room_in_file()
            except ValueError:
                await self._drop_unreadable()

    async def _make_room_in_file(self) -> None:
        """Thin a chunk of waiting points; if all are thinned, drop rejected points, then the oldest ones."""
        place, width = self._thinning.place, self._thinning.width
        if width is not None:
            last, number = await self._local.write(
                lambda file: point_tables.thin(file, place, width),
                lambda outcome: self._count_deleted(outcome[1]),
            )
            self._count_thinned(number)
            self._thinning.advance(last)
        elif self.rejected_count:
            self._count_dropped(
                await self._local.write(point_tables.drop_rejected, self._count_rejected_dropped)
            )
        else:
            self._count_dropped(await self._local.write(point_tables.drop_oldest, self._count_deleted))
            self._thinning.start_over()

    def _count_inserted(self, number: int) -> None:
        self._rows += number
        if number:
            self.added.set()

    def _count_deleted(self, number: int) -> None:
        self._rows -= number

    def _count_rejected_dropped(self, number: int) -> None:
        self.rejected_count -= number

    def _count_thinned(self, number: int) -> None:
        if number and not self.thinned:
            _log.warning("little room is left for waiting points: thinning them, extremes stay")
        self.thinned += number

    def _count_dropped(self, number: int) -> None:
        if number and not self.dropped:
            _log.error("no room is left for waiting points: dropping the oldest")
        self.dropped += number
        if number:
            self.lost.set()


def _decode_notes(text: str) -> dict[str, list[Any]]:
    """The notes of a log, none if they can't be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, list[Any]])
    except ValueError:
        return {}
