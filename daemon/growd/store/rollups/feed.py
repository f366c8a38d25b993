"""Brings rollups up to date with the changes of the databases of points, in steps that survive a kill."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from growd.runtime.pauses import Pace
from growd.store.errors import CouchAnswerTooLargeError, CouchConflictError, CouchRefusedError, RollupError
from growd.store.rollups.document import WIDTHS, span_of
from growd.store.rollups.rolled import rolled_point, times_of_id
from growd.store.rollups.state import Pending, RollupState
from growd.store.rollups.writing import FINER, HOUR_WIDTH, RollupWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from growd.store.bootstrap import Databases
    from growd.store.couch import Couch, Document
    from growd.store.rollups.rolled import RolledPoint

DAY: Final = 86_400
IDENTITY: Final = "_local/growd-rollups"
"""The document that tells a database from another one of the same name."""

_COARSER: Final = {finer: width for width, finer in FINER.items()}
_CHANGES: Final = 500  # in one answer: some milliseconds to decode
_PAGES: Final = 20  # of changes, after which the state is saved
_MOST_PENDING: Final = 5_000  # spans, before they are computed
_SPANS: Final = 50  # to compute at once
_BATCHES: Final = 10  # of spans, after which the state is saved
_TRIES: Final = 5  # to find a day without new points


class StillArrivingError(RollupError):
    """Points of hours that are to be sealed are still arriving."""


class DatabaseFeed:
    """The rollups of one database of points. `RollupFeed` calls it, one call at a time.

    `state` is the last known one; `is_known` says whether it was ever read. `changes_left` are those that
    were not read yet when the last answer came. `earliest` is the time of the oldest point in the changes
    since `Retirement` set it.
    """

    def __init__(
        self,
        writer: RollupWriter,
        name: str,
        now: Callable[[], float],
        delay: Callable[[], float],
        pace: Pace,
    ) -> None:
        self.database = writer.points
        self.on_progress: Callable[..., None] = lambda **_: None
        """Called when changes were read, and with `is_written` when rollups were written, which is saved."""
        self.changes_left = 0
        self.is_known = False
        self.state = RollupState(id=f"_local/growd-{name}")
        self._couch = writer.couch
        self._writer = writer
        self._rollups = writer.rollups
        self._now = now
        self._delay = delay
        self._pace = pace
        self._batches = 0  # that were computed since the state was saved
        self._pending = Pending()
        self.earliest = math.inf
        self._limit = _CHANGES
        self._first_marked: int | None = None  # the first hour in which `catch_up` has found a change

    async def load(self) -> None:
        """Read the state: the database of rollups may be another one, and the last step may have failed.

        CouchDB does not compare revisions of local documents, so `save` would not notice either.
        """
        document = await self._couch.get(self._rollups, self.state.id)
        if document is None:
            sealed_until = -(-await self._writer.sealed_until() // DAY) * DAY
            state = RollupState(
                id=self.state.id, sealed_until=sealed_until, retired_until=max(0, sealed_until - DAY)
            )
        else:
            state = RollupState.of_document(document)
        self.state, self._pending = state, Pending(state.pending)
        self.is_known, self._batches = True, 0

    async def save(self) -> None:
        """Save the state."""
        self.state.pending = self._pending.saved()
        document = self.state.document()
        revision = await self._couch.put(self._rollups, document)
        if revision is None:
            raise CouchConflictError(self.state.id)
        self.state.rev = revision
        if self._batches:
            self.on_progress(is_written=True)
        self._batches = 0

    async def catch_up(self) -> None:
        """Follow the changes that there are now, and compute what is due."""
        await self._write_late()
        await self._check_identity()
        self._first_marked = None
        pages = 0
        while True:
            now, delay = self._now(), self._delay()
            is_end = await self._follow_page()
            if is_end and self.state.resume_at is None:
                break
            if is_end:
                self.state.seq, self.state.resume_at = self.state.resume_at, None
            pages += 1
            is_full = len(self._pending) > _MOST_PENDING
            if is_full:
                await self._compute(now, delay)
            if is_full or is_end or pages % _PAGES == 0:
                await self.save()
            await self._pace.rest()
        await self._compute(now, delay)
        self.state.looked_at = now
        await self.save()

    async def lacking(self, points: Iterable[RolledPoint]) -> set[str]:
        """The ids of the sealed five-minute documents that can't have all of these points."""
        return await self._writer.lacking(points)

    async def seal(self, until: int) -> None:
        """Seal all hours before `until`. Raises `StillArrivingError`."""
        for _ in range(_TRIES):
            await self.catch_up()
            if self._first_marked is None or self._first_marked >= until:
                break
        else:
            raise StillArrivingError(
                f"points before {until} still arrive in {self.database}; try again later"
            )
        # Now the documents have just the points before `seq`: those that were computed are not older than the
        # last change of their hours. Both are saved together, so each later point is added once.
        start = min(self.state.sealed_until, until - DAY)
        self.state.sealed_until = max(self.state.sealed_until, until)
        await self.save()
        await self._writer.seal(start, until)

    async def _check_identity(self) -> None:
        """Begin again if the database is another one, or was never read."""
        document = await self._couch.get(self.database, IDENTITY) or {"_id": IDENTITY}
        known = self.state.database
        if not known or document.get("database") != known:
            identity = secrets.token_hex(8)
            await self._begin(identity)
            if await self._couch.put(self.database, document | {"database": identity}) is None:
                raise CouchConflictError(IDENTITY)
            await self.save()

    async def _begin(self, identity: str) -> None:
        """Read the whole database. Sealed hours have its points, except those that come from now on."""
        now = await self._changes("now", 1)
        self.state.seq, self.state.resume_at = None, now["last_seq"]
        self.state.database = identity
        self._pending.clear(HOUR_WIDTH)

    async def _follow_page(self) -> bool:
        """Take over one page of changes. Returns whether it was the last one."""
        state, limit = self.state, self._limit
        since = 0 if state.seq is None else state.seq
        try:
            answer = await self._changes(since, limit)
        except CouchAnswerTooLargeError:
            if limit == 1:
                raise
            self._limit = max(1, limit // 8)
            return False
        except CouchRefusedError as error:
            if error.status != HTTPStatus.BAD_REQUEST or state.seq is None:
                raise
            await self._begin(state.database)  # the sequence is invalid
            return False
        rows = answer["results"]
        late = [point for row in rows if (point := self._mark(row)) is not None]
        state.seq, self._limit = answer["last_seq"], _CHANGES
        self.changes_left = int(answer.get("pending") or 0)
        if rows:
            self.on_progress(is_written=False)
        if late:
            state.late = await self._writer.with_late(late)
            await self.save()
            await self._write_late()
        return len(rows) < limit

    async def _changes(self, since: str | int, limit: int) -> Document:
        answer = await self._couch.changes(self.database, since, limit, include_docs=True)
        if not isinstance(answer.get("results"), list) or "last_seq" not in answer:
            raise RollupError(f"the changes of {self.database} are not in the expected form")
        return answer

    def _mark(self, row: Document) -> RolledPoint | None:
        """Mark the hours of a change. Returns a point to be added to a sealed hour."""
        is_deleted = bool(row.get("deleted"))
        is_new = not is_deleted and all(change["rev"].startswith("1-") for change in row["changes"])
        document = row.get("doc")
        point = None if is_deleted or not document else rolled_point(document, is_event=self._writer.is_event)
        late = None
        if point is not None:
            self.earliest = min(self.earliest, point.time)
            start = span_of(HOUR_WIDTH, point.time)
            if start >= self.state.sealed_until:
                self._mark_hour(start, point)
            elif is_new and self.state.resume_at is None:
                late = point
                self._pending.add(_COARSER[HOUR_WIDTH], point.series, span_of(_COARSER[HOUR_WIDTH], start))
        if not is_new:  # what it was before is not known, but its time may be
            for start in {span_of(HOUR_WIDTH, at) for at in times_of_id(row["id"])}:
                if start >= self.state.sealed_until:
                    self._mark_hour(start, None)
        return late

    def _mark_hour(self, start: int, point: RolledPoint | None) -> None:
        self._pending.add(HOUR_WIDTH, point.series if point is not None else None, start)
        if self._first_marked is None or start < self._first_marked:
            self._first_marked = start

    async def _write_late(self) -> None:
        """Write sealed documents that were saved with the state."""
        if self.state.late:
            await self._writer.write(self.state.late, again=True)
            self.state.late = []

    async def _compute(self, now: float, delay: float) -> None:
        """Compute all spans that are due, from the finest width to the coarsest."""
        series = None
        while starts := self._pending.due_for_every_series(HOUR_WIDTH, now, delay)[:_SPANS]:
            series = await self._writer.series() if series is None else series
            for start in starts:
                for one in series:
                    self._pending.add(HOUR_WIDTH, one, start)
                self._pending.discard(HOUR_WIDTH, None, start)
            await self._compute_due(HOUR_WIDTH, now, delay)
        for width in sorted(WIDTHS):
            await self._compute_due(width, now, delay)

    async def _compute_due(self, width: int, now: float, delay: float) -> None:
        while spans := self._pending.due(width, now, delay, _SPANS):
            await self._writer.compute(width, spans)
            for series, start in spans:
                self._pending.discard(width, series, start)
                if width in _COARSER:
                    self._pending.add(_COARSER[width], series, span_of(_COARSER[width], start))
            self._batches += 1
            if self._batches >= _BATCHES:
                await self.save()
            await self._pace.rest()


class RollupFeed:
    """The rollups of all points: `points` follows measurements and set points, `events` follows commands.

    `now` is wall time; an hour is over `delay` seconds after its end. It rests at its `pace`. Every call
    raises `StoreError`; after an error the next call goes on from the state in the database, as after a kill.
    """

    def __init__(
        self,
        couch: Couch,
        names: Databases,
        design: str,
        *,
        now: Callable[[], float],
        delay: Callable[[], float],
        pace: Pace | None = None,
    ) -> None:
        self.pace = pace or Pace()

        def feed(database: str, name: str, *, is_event: bool) -> DatabaseFeed:
            writer = RollupWriter(
                couch, points=database, rollups=names.rollups, design=design, is_event=is_event
            )
            return DatabaseFeed(writer, name, now, delay, self.pace)

        self.points = feed(names.points, "points", is_event=False)
        self.events = feed(names.events, "events", is_event=True)
        self._now = now
        self._delay = delay
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the state of both from the database, if that has never succeeded."""
        if not (self.points.is_known and self.events.is_known):
            async with self._turn():
                pass

    async def catch_up(self) -> None:
        """Bring the rollups up to date with all changes that both databases have now."""
        async with self._turn():
            await self.points.catch_up()
            await self.events.catch_up()

    async def seal(self, until: int) -> None:
        """Seal all hours before `until`, UNIX time of an end of a day that is over; safe to repeat.

        When it returns, the rollups have every point before `until` that the databases had when it began.
        They also get those that come later, with the next `catch_up`.
        """
        if until % DAY or until + self._delay() > self._now():
            raise ValueError(f"until must be the end of a day that is over, not {until!r}")
        async with self._turn():
            await self.points.seal(until)
            await self.events.seal(until)

    async def note_retired(self, feed: DatabaseFeed, until: int) -> None:
        """Set `retired_until` of the state of `points` or `events`, and save it."""
        async with self._turn():
            feed.state.retired_until = until
            await feed.save()

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._lock:
            self.pace.begin()
            await self.points.load()
            await self.events.load()
            yield
