"""The node `rollups` and its task, which brings the rollups up to date after each hour."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.bus.errors import counted
from growd.runtime.sentence import plain
from growd.runtime.supervisor import TaskFault
from growd.runtime.text import duration
from growd.store.errors import CouchRefusedError, CouchUnavailableError
from growd.store.rollups.document import WIDTHS
from growd.store.rollups.feed import DAY
from growd.store.rollups.writing import HOUR_WIDTH
from growd.store.work import DatabaseWork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from growd.bus import Bus
    from growd.store.rollups.feed import RollupFeed

FIRST_S: Final = 60.0
"""After the start, which has more to do than this."""

_FAILURES: Final = 3  # in a row, before they are shown: the database may just be busy
_log = logging.getLogger(__name__)


class RollupStatus(msgspec.Struct, frozen=True):
    """How far the rollups are. Times are UNIX seconds, 0 for never.

    `looked_at`: when they had all points of both databases. `changes_left` of the databases were not read
    yet when the last answer came. All hours before `sealed_until` are sealed in both, and points before
    `retired_until` were retired in one of them. `fault` says why the last step failed, "" if it did not.
    """

    looked_at: float
    changes_left: int
    is_running: bool
    sealed_until: int
    retired_until: int
    fault: str


class RollupTask:
    """Keeps the rollups of `feed` up to date. `delay` is how long after an hour its points are there."""

    def __init__(
        self,
        bus: Bus,
        feed: RollupFeed,
        *,
        prepare: Callable[[], Awaitable[None]],
        delay: Callable[[], float],
    ) -> None:
        self.feed = feed
        self._clock = bus.clock
        self._prepare = prepare
        self._delay = delay
        self._started = self._clock.time()
        self._is_running = False
        self._fault = TaskFault(
            _log, "rollups wait for the database", "rollups are written again", shown_after=_FAILURES
        )
        self.work = DatabaseWork(bus.clock, self._look, self._fault, first_s=FIRST_S)
        feed.points.on_progress = feed.events.on_progress = self._progressed
        self.node = bus.node("rollups")
        self.node.describe("rollups", lambda: plain(self.status()))
        self.node.describe("problems", self._problems)

    def look_now(self) -> None:
        """The database is up again: do not wait for the next attempt."""
        if self._fault.failures:
            self.work.retry_now()

    def status(self) -> RollupStatus:
        """The present state."""
        points, events = self.feed.points, self.feed.events
        return RollupStatus(
            looked_at=min(points.state.looked_at, events.state.looked_at),
            changes_left=points.changes_left + events.changes_left,
            is_running=self._is_running,
            sealed_until=min(points.state.sealed_until, events.state.sealed_until),
            retired_until=max(points.state.retired_until, events.state.retired_until),
            fault=str(self._fault),
        )

    async def _look(self) -> float:
        """Bring the rollups up to date; seconds until the points of the next hour are there."""
        self._is_running = True
        try:
            await self._catch_up()
        finally:
            self._is_running = False
        hour = WIDTHS[HOUR_WIDTH]
        return hour - (self._clock.time() - self._delay()) % hour

    async def _catch_up(self) -> None:
        if self._fault.failures or not self.feed.points.is_known:
            try:
                await self._prepare()
            except CouchRefusedError as error:  # an account that may not set it up; all may be there
                _log.debug("can't set up the database for rollups: %s", error)
        await self.feed.catch_up()

    def _progressed(self, *, is_written: bool) -> None:
        """Reading changes shows that the database answers, not that it takes rollups."""
        if is_written or _is_away(self._fault.reason):
            self._fault.succeeded()

    def _problems(self) -> list[dict[str, Any]]:
        status = self.status()
        age = self._clock.time() - (status.looked_at or self._started)
        left = f"{counted(status.changes_left, 'change')} of the database left to read"
        if self._fault.is_lasting and (age > DAY or not _is_away(self._fault.reason)):
            text, code = f"rollups can't be written: {status.fault}", "rollups_not_written"
        elif age > DAY:
            text, code = f"rollups are {duration(age)} behind: {left}", "rollups_behind"
        elif not status.looked_at and status.changes_left:
            text = f"rollups of stored points are made for the first time: {left}"
            code = "rollups_begin"
        else:
            return []
        fields = {"changes_left": status.changes_left, "age_s": age, "reason": status.fault}
        return [{"text": text, "code": code, "fields": fields}]


def _is_away(error: object) -> bool:
    """Whether the database gives no answer; growd reports that elsewhere."""
    return isinstance(error, CouchUnavailableError) and error.status is None
