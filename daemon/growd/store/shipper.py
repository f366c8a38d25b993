"""Sends points from the outbox to the database, in batches, through outages of the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted
from growd.runtime.liveness import SHIPPING_S, Liveness
from growd.runtime.pauses import Pauses
from growd.runtime.supervisor import TaskFault
from growd.store.couch_answers import is_stored, is_transient, reason_of
from growd.store.errors import (
    CouchError,
    CouchRefusedError,
    CouchUnavailableError,
    DiskFullError,
    StoreError,
)
from growd.store.work import forget_silence

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch, Document
    from growd.store.outbox import Outbox, WaitingPoint

PAUSES: Final = Pauses(1.0, 60.0)
"""Between attempts while the database fails."""

_log = logging.getLogger(__name__)

_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500
_REFUSED: Final = frozenset({401, 403, _NOT_FOUND})  # a database, and not a document in it
# One document may be the cause if a whole batch gets one of these: JSON that the database does not accept, or
# a document or body that is too large (docs.couchdb.org/en/3.5.x/config/couchdb.html, `max_document_size`).
_ABOUT_CONTENT: Final = frozenset({400, 413})
WATCHED_AGE_S: Final = 5.0  # when a batch leaves while a client reads
CATCH_UP_S: Final = 0.5  # how long a reader waits for points that are not in the database yet

_ATTEMPTS: Final = 3  # answers 500 in a row before the documents are suspected, not the server
_MAX_SUSPECTS: Final = 8  # documents refused alone, with none stored, before the server is suspected


class Shipper:
    """Sends the points of the outbox, oldest first, with `_bulk_docs`.

    A batch leaves when `batch` points wait or the oldest has waited `max_age` seconds of the clock: a batch
    costs the card the same few blocks, whatever its size. While a client reads the points (`reading`), it
    leaves after `WATCHED_AGE_S` seconds. After an outage, batches have `max_batch` points. `prepare` (the
    bootstrap) runs before the first batch, and again if the database is gone. Pauses after failures are in
    real seconds.

    A document with the outcome `ok` is delivered, and so is one with `conflict`: its `_id` is fixed, so an
    earlier try has stored it. A refused document is rejected with the reason. If a whole batch is refused for
    what one document may have caused, it is halved until that document is found. That one is rejected once
    the server has stored another; a server that stores nothing is faulty, and all points wait.

    Measured and desired points go into `database`, the other categories into `events`. If the server stores
    the former and refuses growd access to `events`, the points for `events` are rejected and delay no other.
    """

    def __init__(
        self,
        couch: Couch,
        outbox: Outbox,
        clock: Clock,
        *,
        database: str = "environmental_data_point",
        events: str = "environmental_event",
        prepare: Callable[[], Awaitable[None]] | None = None,
        liveness: Liveness | None = None,
        batch: int = 500,
        max_batch: int = 500,
        max_age: float = 600.0,
        pauses: Pauses = PAUSES,
    ) -> None:
        self.fault = TaskFault(
            _log, "points wait, the database does not store them", "the database stores points again"
        )
        self.failing_since = 0.0  # UNIX seconds of the clock; 0 without a fault
        self.delivered = 0  # points
        self._couch = couch
        self._outbox = outbox
        self._clock = clock
        self._liveness = liveness or Liveness()
        self._beat: Callable[[], None] = lambda: None
        self._is_resting = False
        self._database = database
        self._events = events
        self._prepare = prepare
        self._batch = batch
        self._max_batch = max_batch
        self._max_age = max_age
        self._readers = 0
        self._oldest_since: float | None = None  # since when a point waits
        self._caught_up = asyncio.Event()
        self._pauses = pauses
        self._server_errors = 0
        self._transient: Counter[str] = Counter()
        self._prepared = prepare is None
        self._refusal = ""
        self._is_due = True
        self._wake = asyncio.Event()

    def reconfigure(self, *, max_age: float) -> None:
        """Change the age; a batch that is due by it leaves."""
        self._max_age = max_age
        self._outbox.added.set()

    async def run(self) -> None:
        """Send until cancelled. Points that wait from before leave at once."""
        with self._liveness.heartbeat("shipper", SHIPPING_S, lambda: self._is_resting) as heart:
            self._beat = heart.beat
            while True:
                await self._rest()
                self._is_due = False
                self._wake.clear()
                while not await self._send_waiting():
                    await self._back_off()

    async def _rest(self) -> None:
        """Return when a batch is due."""
        self._is_resting = True
        try:
            await self._until_due()
        finally:
            self._is_resting = False
            self._beat()

    async def drain(self, deadline: float) -> int:
        """Send waiting points for at most `deadline` real seconds; how many are left. Call it after `run`.

        The rest is on the disk and leaves after the next start.
        """
        try:
            async with asyncio.timeout(deadline):
                await self._send_waiting()
        except TimeoutError:
            waiting = counted(self._outbox.sendable, "point")
            _log.info("%s on disk, to be sent after the next start", waiting)
        return self._outbox.sendable

    def ship_now(self) -> None:
        """Send the waiting points without waiting for more."""
        self._is_due = True
        self._outbox.added.set()

    async def has_sent(self, time: float) -> bool:
        """Whether all points up to this UNIX time are in the database; if not, they are sent now."""
        oldest = await self._outbox.oldest_at()
        if oldest is None or oldest > time:
            return True
        self.ship_now()
        return False

    def retry_now(self) -> None:
        """End the pause after a failure: the database answers again."""
        forget_silence(self.fault)
        self._wake.set()

    @contextlib.asynccontextmanager
    async def reading(self, begins_now: bool = False) -> AsyncIterator[None]:  # noqa: FBT001, FBT002
        """A client reads the points, and must see those that are older than `WATCHED_AGE_S` seconds.

        Enters once they are delivered, at the latest after `CATCH_UP_S` real seconds. For a feed that
        `begins_now`, they leave only after that time, so that the feed sees them arrive.
        """
        self._readers += 1
        due: asyncio.TimerHandle | None = None
        if begins_now:
            due = asyncio.get_running_loop().call_later(CATCH_UP_S, self._outbox.added.set)
        else:
            self._outbox.added.set()  # the waiting points are due sooner now
        try:
            if not begins_now and self._is_behind(WATCHED_AGE_S) and not self.fault.failures:
                self._caught_up.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CATCH_UP_S):
                        await self._caught_up.wait()
            yield
        finally:
            if due is not None:
                due.cancel()
            self._readers -= 1

    async def _until_due(self) -> None:
        if self._is_due:
            return
        added = self._outbox.added
        while not self._outbox.sendable:
            self._oldest_since = None
            added.clear()
            await added.wait()
        self._oldest_since = self._clock.monotonic()
        while self._outbox.sendable < self._batch and not self._is_due:
            age = min(WATCHED_AGE_S, self._max_age) if self._readers else self._max_age
            left = self._oldest_since + age - self._clock.monotonic()
            if left <= 0:
                return
            added.clear()
            timer = self._clock.call_later(left, added.set)
            try:
                await added.wait()
            finally:
                timer.cancel()

    def _is_behind(self, age: float) -> bool:
        """Whether a point has waited for so long."""
        since = self._oldest_since
        return since is not None and self._clock.monotonic() - since >= age

    async def _send_waiting(self) -> bool:
        """Send all waiting points. False if that failed; `fault` says why."""
        try:
            await self._prepare_once()
            while batch := await self._outbox.next_batch(self._max_batch):
                await self._send_batch(batch)
                self._report_success()  # only here: both databases took their part
        except StoreError as error:
            self._report_failure(error)
            return False
        self._report_success()
        self._oldest_since = None
        self._caught_up.set()
        return True

    async def _prepare_once(self) -> None:
        if self._prepared or self._prepare is None:
            return
        try:
            await self._prepare()
        except CouchRefusedError as error:
            # An account without the right to set up the server is enough if all is set up.
            if str(error) != self._refusal:
                _log.warning("can't set up the database: %s", error)
            self._refusal = str(error)
        else:
            self._refusal = ""
        self._prepared = True

    async def _send_batch(self, batch: list[WaitingPoint]) -> None:
        """Send each point to its database; the measured and desired ones first."""
        events = [waiting for waiting in batch if waiting.point.category]
        points = [waiting for waiting in batch if not waiting.point.category]
        stored_points = await self._deliver(points) if points else False
        if not events:
            return
        try:
            await self._deliver(events, any_stored=stored_points)
        except CouchRefusedError as error:
            is_missing = error.status == _NOT_FOUND
            if not stored_points or error.status not in _REFUSED or (is_missing and not self._refusal):
                raise
            _log.warning("%d commands, qualities and events were rejected: %s", len(events), error)
            for event in events:
                await self._outbox.reject(event, str(error))

    async def _deliver(self, points: list[WaitingPoint], *, any_stored: bool = False) -> bool:
        """Send points of one database. Whether the server has stored any, now or before (`any_stored`)."""
        try:
            outcomes = await self._send(points)
        except CouchError as error:
            # One answer 500 has its cause more often in the server than in a document.
            if not _may_be_content(error) or 0 < self._server_errors < _ATTEMPTS:
                raise
            return await self._deliver_in_parts(points, any_stored=any_stored)
        return await self._take_outcomes(points, outcomes) or any_stored

    async def _send(self, points: list[WaitingPoint]) -> dict[str, Document]:
        """The outcome of each point, by `_id`; all belong into one database."""
        self._beat()
        database = self._events if points[0].point.category else self._database
        try:
            outcomes = await self._couch.bulk_docs(database, [point.document for point in points])
        except CouchUnavailableError as error:
            if error.status == _SERVER_ERROR:
                await self._check_room(database)
            self._server_errors = self._server_errors + 1 if error.status == _SERVER_ERROR else 0
            raise
        except CouchRefusedError as error:
            self._server_errors = 0
            if error.status == _NOT_FOUND:
                self._prepared = False  # the database is gone: make it again
            raise
        self._server_errors = 0
        return outcomes

    async def _check_room(self, database: str) -> None:
        """Find out whether a full disk is the reason of an answer that has none. Raises `DiskFullError`."""
        try:
            await self._couch.check_room(database)
        except DiskFullError:
            raise
        except CouchError as error:
            _log.debug("can't find out whether the database has room: %s", error)

    async def _deliver_in_parts(self, points: list[WaitingPoint], *, any_stored: bool) -> bool:
        """Halve the batch until the documents that cause the refusal are found; reject them."""
        parts = deque(_halves(points))
        suspects: list[WaitingPoint] = []
        while parts:
            part = parts.popleft()
            try:
                outcomes = await self._send(part)
            except CouchError as error:
                if not _may_be_content(error):
                    raise
                if len(part) > 1:
                    parts.extendleft(reversed(_halves(part)))
                    continue
                suspects += part
                if not any_stored and len(suspects) >= min(_MAX_SUSPECTS, len(points)):
                    raise
            else:
                any_stored = True
                await self._take_outcomes(part, outcomes)
        for point in suspects:
            await self._retry_suspect(point)
        return any_stored

    async def _retry_suspect(self, point: WaitingPoint) -> None:
        """Send it once more, now that the server has stored others: the fault may have passed."""
        try:
            outcomes = await self._send([point])
        except CouchError as error:
            if not _may_be_content(error):
                raise
            await self._reject(point, str(error))
        else:
            await self._take_outcomes([point], outcomes)

    async def _take_outcomes(self, points: list[WaitingPoint], outcomes: dict[str, Document]) -> bool:
        """Mark stored points as delivered and reject refused ones; whether any is stored."""
        stored = [point for point in points if is_stored(outcomes[point.id])]
        refused = [point for point in points if not is_stored(outcomes[point.id])]
        await self._outbox.mark_delivered(stored)
        self.delivered += len(stored)
        for point in stored:
            self._transient.pop(point.id, None)
        undecided = 0
        for point in refused:
            if self._is_final(point, outcomes[point.id], any_stored=bool(stored)):
                await self._reject(point, reason_of(outcomes[point.id]))
            else:
                undecided += 1
        if undecided:
            raise CouchUnavailableError(f"the database could not store {undecided} of {len(points)} points")
        return bool(stored)

    def _is_final(self, point: WaitingPoint, outcome: Document, *, any_stored: bool) -> bool:
        """Whether a refusal is final. A transient one is, after a few tries in which others were stored."""
        if not is_transient(outcome):
            return True
        self._transient[point.id] += any_stored
        return self._transient[point.id] >= _ATTEMPTS

    async def _reject(self, point: WaitingPoint, reason: str) -> None:
        _log.warning("the database refused the point %s: %s", point.id, reason)
        await self._outbox.reject(point, reason)
        self._transient.pop(point.id, None)

    async def _back_off(self) -> None:
        self._beat()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pauses.after(self.fault.failures)):
                await self._wake.wait()
        self._wake.clear()  # only now: the database may have come up during the try

    def _report_failure(self, error: StoreError) -> None:
        if not self.fault.failures:
            self.failing_since = self._clock.time()
        self.fault.failed(error)

    def _report_success(self) -> None:
        self.failing_since = 0.0
        self.fault.succeeded()


def _halves(points: list[WaitingPoint]) -> list[list[WaitingPoint]]:
    middle = len(points) // 2
    return [part for part in (points[:middle], points[middle:]) if part]


def _may_be_content(error: CouchError) -> bool:
    """Whether one document may be the cause of the answer."""
    if isinstance(error, CouchRefusedError):
        return error.status in _ABOUT_CONTENT
    is_full = isinstance(error, DiskFullError)
    return isinstance(error, CouchUnavailableError) and error.status == _SERVER_ERROR and not is_full
