"""Points on their way to the database: safe on the disk first, gone once the database has them.

While the database is well a point costs the card next to nothing here: it is written once, into the log,
whose smallest write is a block of 512 bytes for all points of a second, and stays in memory until the
database has it; that it may go is said in the header of a later frame. Only when the log is full, which takes
the database to be away for half an hour or more, points move on into the local file, a thousand or so in one
transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.runtime.liveness import STORE_S, Liveness
from growd.runtime.worker import Worker
from growd.store import waiting
from growd.store.block_file import BlockFile, open_own
from growd.store.damage import set_aside
from growd.store.encoding import point_to_json, to_json
from growd.store.errors import LocalStoreError, LogFullError
from growd.store.point_log import FORMAT, LOG_NAME, MOST_NOTE, PointLog, newer_format
from growd.store.thinning import WIDTHS, is_expendable, thinned

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from growd.runtime.clock import Clock
    from growd.runtime.liveness import Heartbeat
    from growd.store.local import LocalStore
    from growd.store.points import DataPoint
    from growd.store.waiting import RejectedPoint

_log = logging.getLogger(__name__)

LOG_BYTES: Final = 1024 * 1024
_MEGABYTE: Final = 1_000_000
_FRAME_POINTS: Final = 500  # at most in one write of the log
_NEAR: Final = 0.9  # of the budget: from here on what waits is thinned
_LOOKED_AT: Final = 400  # points in memory that are thinned at a time, on the event loop


class WaitingPoint:
    """A point that the database does not have yet, and where it is kept.

    By its number in the log, by its row in the local file, or, while the disk takes nothing, in memory alone.
    """

    __slots__ = ("is_refused", "is_settled", "number", "point", "row")

    def __init__(self, point: DataPoint, *, number: int | None = None, row: int | None = None) -> None:
        self.point = point
        self.number = number
        self.row = row
        self.is_settled = False
        self.is_refused = False

    @property
    def id(self) -> str:
        return self.point.id

    @property
    def document(self) -> dict[str, Any]:
        """As it will be sent."""
        return self.point.document()


class Outbox:
    """Keeps points, in order, until the database has them.

    `add` puts a point in memory; `run` commits what came together each `commit_interval` seconds of the
    clock, so that the card sees one write and not one for each point. Who promises something uses `flush` or
    `add_with`.

    It is bounded. At most `buffer` points wait for a commit in memory, when the disk takes none, and the
    local file holds at most `budget` megabytes: near that, series are thinned (`thinning`), and only where
    that gives no room the oldest points are dropped. `thinned` and `dropped` count them.
    """

    def __init__(
        self,
        local: LocalStore,
        log: PointLog,
        clock: Clock,
        *,
        worker: Worker,
        row_numbers: waiting.RowNumbers,
        liveness: Liveness | None = None,
        commit_interval: float = 1.0,
        buffer: int = 10_000,
        budget: float = 256.0,
    ) -> None:
        self.thinned = 0
        self.dropped = 0
        self.lost = asyncio.Event()  # set when points were dropped; whoever waits on it clears it
        self.fault: str | None = None  # why points can't be saved at present
        self.file_fault: str | None = None  # why the local file can't be written at present
        self.notices: list[str] = []  # what was found damaged at the start, for a person
        self.added = asyncio.Event()  # set when points were committed; whoever waits on it clears it
        self._local = local
        self._log = log
        self._worker = worker
        self._clock = clock
        self._liveness = liveness or Liveness()
        self._advanced: Callable[[], None] = lambda: None
        self._interval = commit_interval
        self._limit = buffer
        self._budget = budget * _MEGABYTE
        self._saved = deque(WaitingPoint(point, number=number) for number, point in log.recovered.items())
        self._fresh: deque[WaitingPoint] = deque()
        self._settled = 0  # of those in memory: they stand behind one that is not
        self._in_file = 0  # rows, those that are `_done` included
        self._done: set[int] = set()  # rows of the file that are not needed, though it was not told yet
        self._refused: dict[str, tuple[WaitingPoint, str, float]] = {}  # by id; to be set aside in the file
        self._row_numbers = row_numbers
        self._set_aside = 0
        self._thinning = _Thinning()
        self._notes = _read_notes(log.note)
        self._is_noted = True  # the log has the notes as they are
        self._note_is_due = False
        self._buffered = asyncio.Event()
        self._flushing = asyncio.Lock()

    @classmethod
    async def open(cls, local: LocalStore, clock: Clock, **options: Any) -> Outbox:
        """An outbox with what waits from before, its log beside the local file.

        A damaged log is set aside and what can be read of it taken over, which `notices` says.
        `LocalStoreError` if there can be no log.
        """
        worker = Worker("point log")
        try:
            log, notices = await worker.run(_open_log, local.path.with_name(LOG_NAME))
            row_numbers = await local.read(waiting.RowNumbers)
            outbox = cls(local, log, clock, worker=worker, row_numbers=row_numbers, **options)
            outbox.notices = notices
            outbox._in_file = await local.read(waiting.count)
            outbox._set_aside = await local.read(waiting.count_rejected)
            await outbox._look_for_twins()
            if notices:
                await outbox._leave_damaged_log()
        except BaseException:
            await worker.close()
            raise
        if outbox.waiting:
            outbox.added.set()
        return outbox

    async def close(self) -> None:
        """Close the log. What was not flushed is lost."""
        try:
            await self._worker.run(self._log.close, self._released(), self._note())
        except (OSError, LogFullError) as error:
            _log.info("the next start will send some points again: %s", error)
        await self._worker.close()

    def add(self, point: DataPoint) -> None:
        """Take a point; it is safe with the next commit. Never waits."""
        if len(self._fresh) >= self._limit:
            self._make_room()
        self._fresh.append(WaitingPoint(point))
        self._buffered.set()

    async def add_with(self, point: DataPoint, also: Callable[[sqlite3.Connection], None]) -> None:
        """Take a point and run `also(file)` in one durable transaction; `LocalStoreError` undoes both."""

        def write(file: sqlite3.Connection) -> int:
            also(file)
            return len(waiting.insert(file, [point], self._row_numbers))

        await self._local.write(write, self._count_in_file)

    async def flush(self) -> None:
        """Commit what waits in memory. Raises `LocalStoreError`; the points then stay in memory."""
        async with self._flushing:
            try:
                while points := self._next_fresh():
                    await self._save(points)
                    self.fault = None  # and not before: all that was unsaved may have left from memory
            except LocalStoreError as error:
                self.fault = str(error)
                self.added.set()  # they can go to the database all the same
                raise
            if self._note_is_due:
                await self._empty_log()
            await self._catch_up()

    def noted(self, key: str) -> list[Any] | None:
        """What was noted under this key last, in this life or the one before."""
        return self._notes.get(key)

    def note(self, key: str, values: list[Any]) -> bool:
        """Keep a few numbers with the next points, on the disk at the latest by the next note but one.

        False where there is no room for them.
        """
        notes = self._notes | {key: values}
        if len(to_json(notes).encode()) > MOST_NOTE:
            return False
        self._notes = notes
        if not self._is_noted:  # no point came since the last one
            self._note_is_due = True
            self._buffered.set()
        self._is_noted = False
        return True

    def _note(self) -> str:
        return to_json(self._notes) if self._notes else ""

    async def _append(self, texts: list[str]) -> int:
        """Write points and notes into the log; the number of the first point."""
        notes = self._notes
        first: int = await self._worker.run(self._log.append, texts, self._released(), self._note())
        self._is_noted, self._note_is_due = notes is self._notes, False
        return first

    async def run(self) -> None:
        """Commit added points, each interval at most once. Cancel it, then `flush` once more."""
        patience = STORE_S + self._interval
        with self._liveness.heartbeat("outbox", patience, self._has_nothing_to_save) as heart:
            self._advanced = heart.beat
            await self._keep_saving(heart)

    def _has_nothing_to_save(self) -> bool:
        return not (self._fresh or self._note_is_due or self._flushing.locked())

    async def _keep_saving(self, heart: Heartbeat) -> None:
        failing = False
        while True:
            await self._buffered.wait()
            heart.beat()
            await self._clock.sleep(self._interval)
            self._buffered.clear()
            try:
                await self.flush()
            except LocalStoreError as error:
                self._buffered.set()
                if not failing:
                    _log.error("points can't be saved and stay in memory: %s", error)
                failing = True
            if failing and self.fault is None:
                _log.warning("points are saved again")
                failing = False

    async def next_batch(self, limit: int) -> list[WaitingPoint]:
        """The `limit` oldest points that are on the disk; they stay until they are marked.

        While the disk takes nothing, those in memory too.
        """
        rows = await self._oldest_in_file(limit) if self._unsent_in_file else []
        batch = [WaitingPoint(point, row=row) for row, point in rows if row not in self._done]
        if batch and len(batch) < self._unsent_in_file:
            return batch[
                :limit
            ]  # also where more came into the file meanwhile: they go before those in memory
        in_memory = itertools.chain(self._saved, self._fresh if self.fault else ())
        wanted = (point for point in in_memory if not (point.is_settled or point.is_refused))
        return list(itertools.islice(itertools.chain(batch, wanted), limit))

    async def mark_stored(self, points: Sequence[WaitingPoint]) -> None:
        """The database has these: forget them.

        Where the file can't be written, that is made up for later: those behind them go on.
        """
        self._settle(points)
        self._pass_over(points)
        await self._catch_up()

    async def reject(self, point: WaitingPoint, reason: str) -> None:
        """The database will not have this one: set it aside with the reason, as soon as the file takes it."""
        self._refused[point.id] = (point, reason, self._clock.time())
        point.is_refused = True
        self._pass_over([point])
        await self._catch_up()

    def _pass_over(self, points: Sequence[WaitingPoint]) -> None:
        rows = {point.row for point in points if point.row is not None and not point.is_settled}
        for point in points:
            point.is_settled |= point.row is not None
        self._done |= rows

    async def _catch_up(self) -> None:
        """Write what the file has not been told yet. `file_fault` says why where it can't be."""
        if not self._done and not self._refused:
            return
        rows, refused = set(self._done), dict(self._refused)

        def write(file: sqlite3.Connection) -> tuple[int, int, int]:
            lost = sum(waiting.set_aside(file, point.point, why, at) for point, why, at in refused.values())
            gone = waiting.delete(
                file, rows
            )  # fewer where another told it too, or some were thinned meanwhile
            return gone, waiting.count_rejected(file), lost

        def written(outcome: tuple[int, int, int]) -> None:
            gone, self._set_aside, lost = outcome
            self._count_in_file(-gone)
            self._count_dropped(lost)
            self._done -= rows
            for name in refused:
                self._refused.pop(name, None)
            self._settle([point for point, _, _ in refused.values()])

        try:
            await self._local.write(write, written)
        except LocalStoreError as error:
            if self.file_fault is None:
                _log.error("the local file can't be written: %s", error)
            self.file_fault = str(error)
        else:
            self.file_fault = None

    async def rejected(self, limit: int = 1000) -> list[RejectedPoint]:
        """Points that were set aside, oldest first."""
        return await self._local.read(lambda file: waiting.rejected(file, limit))

    async def retry_rejected(self) -> int:
        """Send all that was set aside again; how many. They may be set aside again."""

        def taken_back(number: int) -> None:
            self._set_aside = 0
            self._count_in_file(number)

        return await self._local.write(lambda file: waiting.take_back(file, self._row_numbers), taken_back)

    def depth(self) -> int:
        """Points that the database does not have yet, those in memory included."""
        return self._unsent_in_file + len(self._saved) + len(self._fresh) - self._settled

    @property
    def waiting(self) -> int:
        """Points that can be shipped: they are on the disk, or the disk takes none, and none was refused."""
        refused = [point for point, *_ in self._refused.values() if not (point.is_settled or point.row)]
        if self.fault:
            return self.depth() - len(refused)
        return self.depth() - self.unsaved - sum(point.number is not None for point in refused)

    @property
    def unsaved(self) -> int:
        """Points that are in memory only."""
        return sum(not point.is_settled for point in self._fresh)

    @property
    def set_aside(self) -> int:
        """Points that the database refused."""
        return self._set_aside

    @property
    def _unsent_in_file(self) -> int:
        return max(0, self._in_file - len(self._done))

    async def _oldest_in_file(self, limit: int) -> list[tuple[int, DataPoint]]:
        try:
            return await self._read_oldest(limit)
        except ValueError:
            await self._drop_unreadable()
        return await self._read_oldest(limit)

    async def _read_oldest(self, limit: int) -> list[tuple[int, DataPoint]]:
        number = limit + len(self._done)
        return await self._local.read(lambda file: waiting.oldest(file, number))

    async def _drop_unreadable(self) -> None:
        self._count_dropped(await self._local.write(waiting.drop_unreadable, self._count_gone))

    # at the start

    async def _look_for_twins(self) -> None:
        """Forget points of the log that are in it twice, or in the file too.

        Writing was cut short, or ended after they were moved and before the log's next frame said so.
        """
        if not self._saved:
            return
        number = len(self._saved) + waiting.MOST_REJECTED  # which may have come into the file after them
        met = await self._local.read(lambda file: waiting.newest_ids(file, number))
        for point in self._saved:
            point.is_settled = point.id in met
            self._settled += point.is_settled
            met.add(point.id)
        self._sort_out()

    async def _leave_damaged_log(self) -> None:
        """What could be read moves on, or the same damage would be found again at each start."""
        with contextlib.suppress(LocalStoreError):
            await self._move_into_file(list(self._saved))
            await self._empty_log()

    # on the way to the disk

    def _next_fresh(self) -> list[WaitingPoint]:
        """The next ones for one frame of the log."""
        return [point for point in itertools.islice(self._fresh, _FRAME_POINTS) if not point.is_settled]

    async def _save(self, points: list[WaitingPoint]) -> None:
        texts = [point_to_json(point.point) for point in points]
        try:
            # Cut short by a cancel, it may have written them all the same. Then they are there twice under
            # one _id, and the database keeps one.
            first = await self._append(texts)
        except LogFullError:
            await self._move_into_file([*self._saved, *points])
            await self._empty_log()
        except OSError as error:
            raise LocalStoreError(f"{LOG_NAME}: {error.strerror or error}") from error
        else:
            for number, point in enumerate(points, first):
                point.number = number
            self._sort_out()
        self.added.set()

    async def _move_into_file(self, points: list[WaitingPoint]) -> None:
        def move(file: sqlite3.Connection) -> list[tuple[WaitingPoint, int]]:
            # here, and not before: a move that was cut short may have been done all the same
            moving = [point for point in points if not point.is_settled and point.row is None]
            rows = waiting.insert(file, (point.point for point in moving), self._row_numbers)
            return list(zip(moving, rows, strict=True))

        def moved(placed: list[tuple[WaitingPoint, int]]) -> None:
            for point, row in placed:
                point.row = row
            self._count_in_file(len(placed))
            self._sort_out()

        await self._local.write(move, moved)
        await self._keep_to_budget()

    async def _empty_log(self) -> None:
        """Say in the log that its points have moved, or the next start may look at them again."""
        with contextlib.suppress(OSError, LogFullError):  # a later frame says it as well
            await self._append([])

    def _sort_out(self) -> None:
        """Keep in memory what is nowhere else but in the log, in its order, and behind that what is fresh."""
        while self._fresh and (self._fresh[0].is_settled or _is_kept(self._fresh[0])):
            point = self._fresh.popleft()
            if point.number is not None and point.row is None:
                self._saved.append(point)
            else:
                self._settled -= point.is_settled
        while self._saved and (self._saved[0].is_settled or self._saved[0].row is not None):
            self._settled -= self._saved.popleft().is_settled

    def _settle(self, points: Sequence[WaitingPoint]) -> None:
        for point in points:
            if point.row is None and not point.is_settled:
                point.is_settled = True
                self._settled += 1
        self._sort_out()

    def _released(self) -> int | None:
        """Up to which number the log need not keep its points; None for all."""
        numbers = (point.number for point in self._saved if point.number is not None)
        first = next(numbers, None)
        return None if first is None else first - 1

    def _count_in_file(self, change: int) -> None:
        self._in_file += change
        if change > 0:
            self.added.set()

    def _count_gone(self, number: int) -> None:
        self._count_in_file(-number)

    def _count_less_aside(self, number: int) -> None:
        self._set_aside -= number

    # bounds

    def _make_room(self) -> None:
        """In memory, where the disk takes nothing: thin the oldest points there, or drop some."""
        points = list(itertools.islice(self._fresh, _LOOKED_AT))
        stored = {index for index, point in enumerate(points) if point.is_settled}
        if stored:
            self._remove_fresh(points, stored)
            self._settled -= len(stored)
            return
        enough = max(1, len(points) // 10)
        for width in WIDTHS:
            gone = thinned([point.point for point in points], width)
            if len(gone) >= enough:
                self._remove_fresh(points, gone)
                self._count_thinned(len(gone))
                return
        expendable = [index for index, point in enumerate(points) if is_expendable(point.point)]
        gone = set((expendable or range(len(points)))[:enough])
        self._remove_fresh(points, gone)
        self._count_dropped(len(gone))

    def _remove_fresh(self, points: Sequence[WaitingPoint], gone: set[int]) -> None:
        for _ in points:
            self._fresh.popleft()
        for index in gone:
            points[index].is_settled = True  # some may be on their way: nobody is to count them once more
        self._fresh.extendleft(points[index] for index in reversed(range(len(points))) if index not in gone)

    async def _keep_to_budget(self) -> None:
        await self._catch_up()
        while self._in_file and await self._local.read(waiting.bytes_used) > _NEAR * self._budget:
            self._advanced()
            try:
                await self._make_room_in_file()
            except ValueError:
                await self._drop_unreadable()

    async def _make_room_in_file(self) -> None:
        place, width = self._thinning.place, self._thinning.width
        if width is None and self._set_aside:
            self._count_dropped(await self._local.write(waiting.drop_rejected, self._count_less_aside))
            return
        if width is None:
            self._count_dropped(await self._local.write(waiting.drop_oldest, self._count_gone))
            self._thinning.begin_again()
            return
        last, gone = await self._local.write(
            lambda file: waiting.thin(file, place, width), lambda outcome: self._count_gone(outcome[1])
        )
        self._count_thinned(gone)
        self._thinning.go_on(last)

    def _count_thinned(self, number: int) -> None:
        if number and not self.thinned:
            _log.warning("there is little room for points that wait: they are thinned, extremes stay")
        self.thinned += number

    def _count_dropped(self, number: int) -> None:
        if number and not self.dropped:
            _log.error("there is no room for the points that wait: the oldest are dropped")
        self.dropped += number
        if number:
            self.lost.set()


class _Thinning:
    """How far the file's points are thinned: row by row, and when all are, over a longer time.

    What was thinned over the longest time is not looked at again.
    """

    def __init__(self) -> None:
        self.place = 0
        self.width: float | None = WIDTHS[0]
        self._done = 0
        self._newest = 0

    def go_on(self, last: int) -> None:
        """The rows up to `last` were looked at; 0: there were no more."""
        if last:
            self.place = last
            self._newest = max(self._newest, last)
            return
        self.place = self._done
        wider = [width for width in WIDTHS if self.width is not None and width > self.width]
        self.width = wider[0] if wider else None

    def begin_again(self) -> None:
        """Some were dropped: look whether those that came since can be thinned before more are."""
        self._done = self.place = self._newest
        self.width = WIDTHS[0]


def _is_kept(point: WaitingPoint) -> bool:
    return point.number is not None or point.row is not None


def _read_notes(text: str) -> dict[str, list[Any]]:
    """Those of a log, none where they can't be read."""
    try:
        return msgspec.json.decode(text, type=dict[str, list[Any]])
    except ValueError:
        return {}


def newer_log(path: Path) -> str:
    """A sentence where the log at `path` was written by a newer growd, "" where not. Blocking."""
    try:
        with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
            version = newer_format(file.read())
    except OSError:
        return ""  # there is none yet, or it is for the start to say what is wrong with it
    if version is None:
        return ""
    return f"{path} was written by a newer growd: its format is {version}, this growd knows up to {FORMAT}"


def _open_log(path: Path) -> tuple[PointLog, list[str]]:
    """The log at `path`, and what had to be said of it."""
    if newer := newer_log(path):
        raise LocalStoreError(newer)
    try:
        try:
            log = _log_at(path)
        except ValueError as error:
            kept = set_aside(path)
            return _log_at(path), [f"{path} can't be read ({error}); it is kept as {kept}"]
    except OSError as error:
        raise LocalStoreError(f"{path} can't be opened: {error.strerror or error}") from error
    if not log.damage:
        return log, []
    try:
        kept_as = f"it is kept as {set_aside(path, copy=True)}"
    except OSError as error:
        kept_as = f"no copy of it could be made: {error.strerror or error}"
    return log, [f"{path} was damaged: {log.damage}; {kept_as}"]


def _log_at(path: Path) -> PointLog:
    file = BlockFile.open(path, LOG_BYTES)
    try:
        return PointLog(file)
    except BaseException:
        file.close()
        raise
