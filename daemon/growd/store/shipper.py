"""Ships points from the outbox into the database, in batches, and outlives whatever the database does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from growd.bus.errors import counted
from growd.runtime.liveness import SHIPPING_S, Liveness
from growd.store.errors import CouchError, CouchRefusedError, CouchUnavailableError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from growd.runtime.clock import Clock
    from growd.store.couch import Couch, Document
    from growd.store.outbox import Outbox, WaitingPoint

_log = logging.getLogger(__name__)

_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500
_REFUSED: Final = frozenset({401, 403, _NOT_FOUND})  # a database, and not a document in it
# A whole batch answered so may be the fault of one document in it: JSON that the database can't take, and a
# document or body too large (docs.couchdb.org/en/3.5.x/config/couchdb.html, `max_document_size`).
_ABOUT_CONTENT: Final = frozenset({400, 413})
# What CouchDB says of one document when it is not the document's fault (fabric_doc_update.erl).
_TRANSIENT: Final = frozenset({"internal_server_error", "timeout"})
CATCH_UP_S: Final = 0.5  # for which a reader waits for what is not in the database yet

_ATTEMPTS: Final = 3  # answers 500 in a row before the documents are suspected, not the server
_MAX_SUSPECTS: Final = 8  # documents refused alone, with none stored, before the server is suspected


class Shipper:
    """Takes points out of the outbox, oldest first, and puts them into the database with `_bulk_docs`.

    A batch leaves when `batch` points wait or the oldest has waited `max_age` seconds of the clock, for each
    batch costs the card the same few blocks, whatever is in it. While somebody reads the points (`reading`)
    it leaves after `watched_age` seconds. What piled up leaves in batches of `max_batch`. `prepare` (the
    bootstrap) runs before the first batch, and again when the database is gone. Back-off is in real seconds,
    for the far side is real.

    What becomes of a document: `ok`, or `conflict` under its own fixed `_id` (an earlier try whose answer got
    lost): forgotten. Refused: set aside with the reason. When a whole batch is refused for what may be in it,
    it is halved until the document is found, and that one is set aside only once the same server took
    another: a server that takes nothing is unwell, and all points wait.

    Measured and desired points go into `database`, those of another category into `events`. Where the server
    takes the first and refuses growd the second (the account may not make it or write to it), what belongs
    there is set aside and holds up no point.
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
        watched_age: float = 5.0,
        first_backoff: float = 1.0,
        max_backoff: float = 60.0,
    ) -> None:
        self.fault: str | None = None  # why nothing can be shipped at present
        self.failing_since = 0.0  # UNIX seconds of the clock; 0 while all goes well
        self.shipped = 0  # points that the database has said that it has
        self._couch = couch
        self._outbox = outbox
        self._clock = clock
        self._liveness = liveness or Liveness()
        self._advanced: Callable[[], None] = lambda: None
        self._is_resting = False
        self._database = database
        self._events = events
        self._prepare = prepare
        self._batch = batch
        self._max_batch = max_batch
        self._max_age = max_age
        self._watched_age = watched_age
        self._readers = 0
        self._oldest_since: float | None = None  # since when some point waits
        self._caught_up = asyncio.Event()
        self._first_backoff = first_backoff
        self._max_backoff = max_backoff
        self._failures = 0
        self._failing_since = 0.0
        self._server_errors = 0
        self._transient: Counter[str] = Counter()
        self._prepared = prepare is None
        self._refusal = ""
        self._is_due = True
        self._wake = asyncio.Event()

    def reconfigure(self, *, batch: int, max_batch: int, max_age: float, watched_age: float) -> None:
        """Go by other numbers from now on; what is due by them leaves."""
        self._batch, self._max_batch = batch, max_batch
        self._max_age, self._watched_age = max_age, watched_age
        self._outbox.added.set()

    async def run(self) -> None:
        """Ship until cancelled. Points that wait from before leave at once."""
        with self._liveness.heartbeat("shipper", SHIPPING_S, lambda: self._is_resting) as heart:
            self._advanced = heart.beat
            while True:
                await self._rest()
                self._is_due = False
                self._wake.clear()
                while not await self._ship_waiting():
                    await self._back_off()

    async def _rest(self) -> None:
        """Until something is due, which may never be."""
        self._is_resting = True
        try:
            await self._until_due()
        finally:
            self._is_resting = False
            self._advanced()

    async def drain(self, deadline: float) -> int:
        """Ship what waits, for at most `deadline` real seconds; how many are left. Call it after `run`.

        Best effort: what is left is on the disk and leaves after the next start.
        """
        try:
            async with asyncio.timeout(deadline):
                await self._ship_waiting()
        except TimeoutError:
            waiting = counted(self._outbox.waiting, "point")
            _log.info("in the outbox until the next start: %s", waiting)
        return self._outbox.waiting

    def ship_now(self) -> None:
        """Ship what waits without waiting for more."""
        self._is_due = True
        self._outbox.added.set()

    def retry_now(self) -> None:
        """End a back-off at once: the database is known to be there again."""
        self._wake.set()

    @contextlib.asynccontextmanager
    async def reading(self, begins_now: bool = False) -> AsyncIterator[None]:  # noqa: FBT001, FBT002  a fact
        """Somebody reads the points, and is to see all that was measured until `watched_age` seconds ago.

        Begins once the database has what is older, and no later than after `CATCH_UP_S` real seconds. What a
        feed that `begins_now` is to see leaves only once it has had that time to begin.
        """
        self._readers += 1
        due: asyncio.TimerHandle | None = None
        if begins_now:
            due = asyncio.get_running_loop().call_later(CATCH_UP_S, self._outbox.added.set)
        else:
            self._outbox.added.set()  # those that wait are due sooner from now on
        try:
            if not begins_now and self._is_behind(self._watched_age) and self.fault is None:
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
        while not self._outbox.waiting:
            self._oldest_since = None
            added.clear()
            await added.wait()
        self._oldest_since = self._clock.monotonic()
        while self._outbox.waiting < self._batch and not self._is_due:
            age = min(self._watched_age, self._max_age) if self._readers else self._max_age
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
        """Whether some point has waited for so long."""
        since = self._oldest_since
        return since is not None and self._clock.monotonic() - since >= age

    async def _ship_waiting(self) -> bool:
        """Ship all that waits. False, and `fault` says why, if that did not go."""
        try:
            await self._prepare_once()
            while batch := await self._outbox.next_batch(self._max_batch):
                await self._ship_batch(batch)
        except StoreError as error:
            self._note_failure(error)
            return False
        self._note_success()
        self._oldest_since = None
        self._caught_up.set()
        return True

    async def _prepare_once(self) -> None:
        if self._prepared or self._prepare is None:
            return
        try:
            await self._prepare()
        except CouchRefusedError as error:
            # An account that may write points but not set up the server is enough where all is set up.
            if str(error) != self._refusal:
                _log.warning("can't set up the database: %s", error)
            self._refusal = str(error)
        else:
            self._refusal = ""
        self._prepared = True

    async def _ship_batch(self, batch: list[WaitingPoint]) -> None:
        """Each point into its database; the measured and desired ones first."""
        events = [waiting for waiting in batch if waiting.point.category]
        points = [waiting for waiting in batch if not waiting.point.category]
        took_points = await self._ship(points) if points else False
        if not events:
            return
        try:
            await self._ship(events, any_stored=took_points)
        except CouchRefusedError as error:
            is_missing = error.status == _NOT_FOUND
            if not took_points or error.status not in _REFUSED or (is_missing and not self._refusal):
                raise
            _log.warning("%d commands, qualities and events are set aside: %s", len(events), error)
            for event in events:
                await self._outbox.reject(event, str(error))

    async def _ship(self, points: list[WaitingPoint], *, any_stored: bool = False) -> bool:
        """Send points of one database. Whether it has stored some, or the server has (`any_stored`)."""
        try:
            outcomes = await self._send(points)
        except CouchError as error:
            # One answer 500 is the server's trouble more often than a document's.
            if not _may_be_content(error) or 0 < self._server_errors < _ATTEMPTS:
                raise
            return await self._ship_in_parts(points, any_stored=any_stored)
        return await self._settle(points, outcomes) or any_stored

    async def _send(self, points: list[WaitingPoint]) -> dict[str, Document]:
        """Points that all belong into one database."""
        self._advanced()
        database = self._events if points[0].point.category else self._database
        try:
            outcomes = await self._couch.bulk_docs(database, [point.document for point in points])
        except CouchUnavailableError as error:
            self._server_errors = self._server_errors + 1 if error.status == _SERVER_ERROR else 0
            raise
        except CouchRefusedError as error:
            self._server_errors = 0
            if error.status == _NOT_FOUND:
                self._prepared = False  # the database is gone: make it again
            raise
        self._server_errors = 0
        return outcomes

    async def _ship_in_parts(self, points: list[WaitingPoint], *, any_stored: bool) -> bool:
        """Halve the batch until the documents that it is refused for stand alone; set them aside."""
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
                await self._settle(part, outcomes)
        for point in suspects:
            await self._ship_suspect(point)
        return any_stored

    async def _ship_suspect(self, point: WaitingPoint) -> None:
        """Once more alone, now that the server took others: it may have been unwell a moment before."""
        try:
            outcomes = await self._send([point])
        except CouchError as error:
            if not _may_be_content(error):
                raise
            await self._set_aside(point, str(error))
        else:
            await self._settle([point], outcomes)

    async def _settle(self, points: list[WaitingPoint], outcomes: dict[str, Document]) -> bool:
        """Forget what is stored and set aside what is refused; whether any is stored."""
        stored = [point for point in points if _is_stored(outcomes[point.id])]
        refused = [point for point in points if not _is_stored(outcomes[point.id])]
        await self._outbox.mark_stored(stored)
        self.shipped += len(stored)
        for point in stored:
            self._transient.pop(point.id, None)
        unsettled = 0
        for point in refused:
            if self._is_settled(point, outcomes[point.id], any_stored=bool(stored)):
                await self._set_aside(point, _reason(outcomes[point.id]))
            else:
                unsettled += 1
        if unsettled:
            raise CouchUnavailableError(f"the database could not store {unsettled} of {len(points)} points")
        self._note_success()
        return bool(stored)

    def _is_settled(self, point: WaitingPoint, outcome: Document, *, any_stored: bool) -> bool:
        """Whether a refusal is for good. One that may pass is, after a few tries in which others passed."""
        if not _is_transient(outcome):
            return True
        self._transient[point.id] += any_stored
        return self._transient[point.id] >= _ATTEMPTS

    async def _set_aside(self, point: WaitingPoint, reason: str) -> None:
        _log.warning("the database refused the point %s: %s", point.id, reason)
        await self._outbox.reject(point, reason)
        self._transient.pop(point.id, None)

    async def _back_off(self) -> None:
        delay = min(self._max_backoff, self._first_backoff * 2 ** min(self._failures - 1, 30))
        # Half of it at random, so that many devices do not all knock at the same moment.
        delay *= random.uniform(0.5, 1)  # noqa: S311  no secret
        self._advanced()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._wake.wait()
        self._wake.clear()  # and not before it waits: the database may have come while it was tried

    def _note_failure(self, error: StoreError) -> None:
        if self.fault is None:
            self._failing_since = time.monotonic()
            self.failing_since = self._clock.time()
            _log.warning("points wait, the database does not take them: %s", error)
        self.fault = str(error)
        self._failures += 1

    def _note_success(self) -> None:
        if self.fault is not None:
            seconds = time.monotonic() - self._failing_since
            _log.warning("the database takes points again, after %.0f s", seconds)
        self.fault = None
        self.failing_since = 0.0
        self._failures = 0


def _halves(points: list[WaitingPoint]) -> list[list[WaitingPoint]]:
    middle = len(points) // 2
    return [part for part in (points[:middle], points[middle:]) if part]


def _may_be_content(error: CouchError) -> bool:
    """Whether one document may be the cause of the whole answer."""
    if isinstance(error, CouchRefusedError):
        return error.status in _ABOUT_CONTENT
    return isinstance(error, CouchUnavailableError) and error.status == _SERVER_ERROR


def _is_stored(outcome: Document) -> bool:
    return "error" not in outcome or outcome["error"] == "conflict" or outcome.get("name") == "conflict"


def _is_transient(outcome: Document) -> bool:
    status = outcome.get("status")  # PouchDB's; CouchDB gives none
    return outcome["error"] in _TRANSIENT or (isinstance(status, int) and status >= _SERVER_ERROR)


def _reason(outcome: Document) -> str:
    return f"{outcome['error']}: {outcome.get('reason', 'no reason given')}"
