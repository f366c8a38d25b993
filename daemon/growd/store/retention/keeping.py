"""Keeps the database within its room: retires old points at night, and makes room when it is short."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from growd.bus.errors import counted
from growd.config.services import LEAST_DAYS
from growd.runtime.pauses import Pace
from growd.runtime.sentence import Sentence, plain, problem
from growd.runtime.supervisor import TaskFault
from growd.store.errors import StoreError
from growd.store.retention.budget import Budget, RetentionStatus, Shortage, budget, worth_compacting
from growd.store.retention.far_end import UnconfirmedError
from growd.store.retention.retirement import DAY_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from zoneinfo import ZoneInfo

    from growd.bus import Bus
    from growd.config import Config, Retention
    from growd.store.local import LocalStore
    from growd.store.retention.compaction import Compaction
    from growd.store.retention.retirement import Retirement
    from growd.store.retention.sizes import DiskUse

_log = logging.getLogger(__name__)

GRACE_S: Final = 7 * DAY_S
"""How long nothing is deleted after the first start with retention: time to choose to keep everything."""

_QUIET_HOURS: Final = range(1, 5)
"""Hours of the day, in the time zone of the environment, in which points are deleted."""

LOOK_S: Final = 600.0
"""How often the room is measured, and points to delete are looked for; seconds of the clock."""

_STARTED: Final = "retention"
_REMEDY: Final = {
    Shortage.COMPACTING: "the databases are compacted",
    Shortage.RETIRING_EARLY: "points are deleted before keep_days",
    Shortage.STORING_LESS: "measured values and commands are stored at most once a minute",
    Shortage.STORING_NOTHING: "no measured values and commands are stored",
}
_ADVICE: Final = "make room or raise the limit (docs/retention.md)"


class RetentionKeeper:
    """The task of retention. `store_less` and `record` change what is stored, and record an event.

    `retirements` makes those of the databases of points, which rest at the pace that it gets; `measure` gives
    what the database takes.
    """

    def __init__(
        self,
        bus: Bus,
        local: LocalStore,
        options: Retention,
        *,
        prepared: asyncio.Event,
        retirements: Callable[[Pace], Sequence[Retirement]],
        compaction: Compaction,
        measure: Callable[[], Awaitable[DiskUse]],
        store_less: Callable[[Shortage], None],
        record: Callable[[str, str], None],
        zone: ZoneInfo | None = None,
    ) -> None:
        self._clock = bus.clock
        self._local = local
        self._options = options
        self._prepared = prepared
        self._fault = TaskFault(_log, "retention could not go on, it tries again", "retention goes on")
        self._pace = Pace(on_rest=self._fault.succeeded)
        self._retirements = retirements(self._pace)
        self._compaction = compaction
        self._measure = measure
        self._store_less = store_less
        self._record = record
        self._zone = zone
        self._wake = asyncio.Event()
        self._has_finished = False
        self._started_at: float | None = None
        self._is_announced = False
        self._shortage = Shortage.NONE
        self._budget: Budget | None = None
        self._retired = 0
        self._waits_for = ""
        self.node = bus.node("retention")
        self.node.describe("retention", lambda: plain(self.status()))
        self.node.describe("problems", self._problems)

    def status(self) -> RetentionStatus:
        """The present state."""
        found = self._budget
        return RetentionStatus(
            shortage=self._shortage.name.lower(),
            text=self._shortage_text() if self._shortage else "",
            used=0 if found is None else found.used,
            needed=0 if found is None else found.needs,
            limit=None if found is None or not found.cause else found.limit,
            begins_at=0.0 if self._started_at is None else self._started_at + GRACE_S,
            waits_for=self._pace.waits_for or self._waits_for,
            retired=self._retired,
            keep_days=self._options.keep_days,
        )

    async def reconfigure(self, config: Config) -> None:
        """Take other options, and look at once."""
        self._options = config.retention
        self._wake.set()

    async def run(self) -> None:
        """Look each `LOOK_S` seconds until cancelled."""
        with self._pace.waiting("the database"):
            await self._prepared.wait()
        while True:  # without a heartbeat: the first rollups of a large database may take hours
            await self.look()
            timer = self._clock.call_later(LOOK_S, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
            self._wake.clear()

    async def look(self) -> None:
        """Make room if it is short, and delete the points that are due. Errors are shown in the status."""
        self._pace.begin()
        try:
            await self._begin()
            while await self._step():
                self._fault.succeeded()
            self._fault.succeeded()
        except (StoreError, OSError) as error:
            self._fault.failed(error)
            self._has_finished = False  # tombstones of the last batch may be left

    async def _begin(self) -> None:
        """Remember the first start, and purge what a kill or an error left."""
        if self._started_at is None and self._options.keep_days:
            saved = await self._local.state(_STARTED)
            if saved is None and self._clock.is_synchronised():
                now = self._clock.time()
                saved = {"started": now, "has_points": bool(await self._oldest(now))}
                await self._local.save_state(_STARTED, saved)
                if saved["has_points"]:
                    self._record("restart", f"growd: {self._announcement(saved['started'])}")
            if saved is not None:
                self._started_at, self._is_announced = saved["started"], saved["has_points"]
        if not self._has_finished:
            for retirement in self._retirements:
                await retirement.finish()
            self._has_finished = True

    async def _step(self) -> bool:
        """Do one thing: a compaction, or a day. Returns whether there may be more to do."""
        use = await self._measure()
        found = self._budget = budget(self._options, use)
        is_over = self._shortage <= Shortage.RETIRING_EARLY and not found.is_short
        if is_over or found.is_enough:
            self._enter(Shortage.NONE)
            return self._is_quiet() and await self._retire(self._options.keep_days)
        worth = worth_compacting(found, self._compaction.candidates(use))
        if self._compaction.is_due(worth):
            self._enter(max(self._shortage, Shortage.COMPACTING))
            with self._pace.waiting("the compaction of the database"):
                await self._compaction.run(worth)
            return True
        if found.is_full:
            self._enter(Shortage.STORING_NOTHING)
        elif found.is_storable:
            self._enter(min(self._shortage, Shortage.STORING_LESS))
        if self._options.keep_days:
            self._enter(max(self._shortage, Shortage.RETIRING_EARLY))
        if self._options.keep_days and await self._retire(LEAST_DAYS):
            return True
        self._enter(max(self._shortage, Shortage.STORING_LESS))
        return False

    async def _retire(self, days: float) -> bool:
        """Retire the oldest day that is over for so many days. Returns whether there was one."""
        oldest = await self._oldest(self._clock.time() - days * DAY_S) if days else []
        self._waits_for = self._obstacle() if oldest else ""
        if self._waits_for:
            return False
        for day, retirement in oldest:
            try:
                number = await retirement.retire(day)
            except UnconfirmedError as error:
                self._waits_for = str(error)
                continue
            self._compaction.retired(number)
            self._retired += number
            _log.info("deleted %s of %s in %s", counted(number, "point"), _date(day), retirement.database)
            if number:
                return True
        return False

    def _obstacle(self) -> str:
        """Why nothing may be deleted at present; "" if nothing is in the way."""
        if not self._clock.is_synchronised():
            return "the machine's clock is not synchronised"
        if self._started_at is None:
            return "the first seven days are not over"
        if self._clock.time() < self._started_at + GRACE_S:
            begin = datetime.fromtimestamp(self._started_at + GRACE_S, self._zone)
            return f"the first seven days are not over ({begin:%Y-%m-%d %H:%M})"
        return ""

    async def _oldest(self, before: float) -> list[tuple[int, Retirement]]:
        """The oldest day of each database that has one, the oldest first."""
        found = [(day, one) for one in self._retirements if (day := await one.oldest_day(before)) is not None]
        return sorted(found, key=lambda each: each[0])

    def _is_quiet(self) -> bool:
        """Whether it is an hour in which points are deleted."""
        return datetime.fromtimestamp(self._clock.time(), self._zone).hour in _QUIET_HOURS

    def _enter(self, shortage: Shortage) -> None:
        if shortage is self._shortage:
            return
        before, self._shortage = self._shortage, shortage
        self._store_less(shortage)
        if shortage > before:
            text = self._shortage_text()
            _log.warning("%s", text)
            self._record("fault", f"growd: {text}")
        elif not shortage:
            _log.warning("room for the database is sufficient again")
            self._record("recovery", "growd: room for the database is sufficient again")

    def _shortage_text(self) -> str:
        return f"room for the database is short: {_REMEDY[self._shortage]}; {self._budget}"

    def _announcement(self, started: float) -> str:
        begin = datetime.fromtimestamp(started + GRACE_S, self._zone)
        return (
            f"from {begin:%Y-%m-%d %H:%M} on, measured values and commands older than "
            f"{self._options.keep_days:g} days are deleted, and only their rollups stay; "
            "[retention] keep_days = 0 keeps all"
        )

    def _problems(self) -> list[dict[str, Any]]:
        problems: list[dict[str, Any]] = []
        if self._shortage:
            text = f"{self._shortage_text()}; {_ADVICE}"
            said = Sentence(text, "database_room_short", shortage=self._shortage.name.lower())
            problems.append(problem(said, is_failure=self._shortage is Shortage.STORING_NOTHING))
        if self._fault.failures:
            text, fields = f"retention does not work: {self._fault}", {"reason": str(self._fault)}
            problems.append({"text": text, "code": "retention_fails", "fields": fields})
        is_waiting = self._started_at is not None and self._clock.time() < self._started_at + GRACE_S
        if is_waiting and self._is_announced and self._options.keep_days and self._started_at is not None:
            said = Sentence(self._announcement(self._started_at), "points_will_be_deleted")
            problems.append(problem(said, is_note=True))
        elif self._waits_for and (self._shortage or not is_waiting):
            text, fields = f"old points are not deleted: {self._waits_for}", {"reason": self._waits_for}
            problems.append({"text": text, "code": "points_not_deleted", "fields": fields})
        if hours := sum(len(retirement.unrolled) for retirement in self._retirements):
            text = f"points of {counted(hours, 'hour')} are not in their rollups, so they are not deleted"
            problems.append({"text": text, "code": "rollups_missing", "fields": {"hours": hours}})
        return problems


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day, UTC):%Y-%m-%d}"
