"""When points are deleted: in the quiet hours, after a week's notice, and earlier while room is short."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from growd.bus import Bus
from growd.config import Config, Retention
from growd.store.errors import CouchUnavailableError
from growd.store.local import LocalStore
from growd.store.retention.budget import Shortage
from growd.store.retention.far_end import UnconfirmedError
from growd.store.retention.keeping import GRACE_S, RetentionKeeper
from growd.store.retention.retirement import DAY_S
from growd.store.retention.sizes import DatabaseFile, DiskUse
from support.clock import ManualClock

NIGHT = 1_700_100_000 // DAY_S * DAY_S + 2 * 3_600.0  # 02:00 UTC
GB = 1_000_000_000


class Days:
    """Stands for a `Retirement`: days with points, which it deletes."""

    database = "points"

    def __init__(self, ages, now):
        self.days = sorted(int(now // DAY_S - age) * DAY_S for age in ages)
        self.finished = 0
        self.unrolled = set()
        self.fault = None
        self.before = lambda: None

    async def finish(self):
        self.finished += 1

    async def oldest_day(self, before):
        return next((day for day in self.days if day + DAY_S <= before), None)

    async def retire(self, day):
        self.before()
        if self.fault is not None:
            raise self.fault
        self.days.remove(day)
        return 100


class Compactions:
    """Stands for `Compaction`: frees what is unused."""

    def __init__(self, bench):
        self.bench = bench
        self.number = 0
        self.unused = 0
        self.frees = True

    def retired(self, number):
        if self.frees:
            self.unused += number * 300_000
            self.bench.size(unused=self.unused)

    def candidates(self, use):
        return use

    def is_due(self, file):
        return file is not None

    async def run(self, file):
        self.number += 1
        self.unused = 0
        self.bench.use = DiskUse(file.active, file.active, 16 * GB, self.bench.free)


class Keeping:
    """A keeper with a clock, ages of days with points, and a disk of 16 GB."""

    free = 10 * GB

    def __init__(self, local, ages, options):
        self.clock = ManualClock(NIGHT)
        self.local = local
        self.days = Days(ages, NIGHT)
        self.use = DiskUse(GB, GB // 2, 16 * GB, self.free)
        self.compaction = Compactions(self)
        self.stored = []
        self.events = []
        self.restart(options)

    def restart(self, options):
        self.prepared = asyncio.Event()
        self.prepared.set()
        self.keeper = RetentionKeeper(
            Bus(self.clock),
            self.local,
            options,
            prepared=self.prepared,
            retirements=lambda _: [self.days],
            compaction=self.compaction,
            measure=self.measure,
            store_less=self.stored.append,
            record=lambda kind, text: self.events.append((kind, text)),
        )

    async def measure(self):
        return self.use

    def size(self, *, unused=0, used=0):
        """The size of the one file, and what of it is unused."""
        size = used or self.use.used
        active = size - unused
        file = DatabaseFile("points", "", size, active)
        self.use = DiskUse(size, active, 16 * GB, self.free, (file,))

    @property
    def ages(self):
        return [int(NIGHT // DAY_S - day // DAY_S) for day in self.days.days]

    def problems(self):
        return [problem["text"] for problem in self.keeper.node.details()["problems"]]


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")


@asynccontextmanager
async def keeping(tmp_path, ages=range(0), **options):
    local = await LocalStore.open(tmp_path / "growd.sqlite3")
    try:
        yield Keeping(local, ages, Retention(**options))
    finally:
        await local.close()


async def test_nothing_is_deleted_in_the_first_seven_days_also_over_a_restart(tmp_path):
    async with keeping(tmp_path, range(100)) as it:
        await it.keeper.look()
        assert len(it.days.days) == 100
        [(kind, text)] = it.events
        assert kind == "restart"
        assert "older than 90 days are deleted" in text
        assert it.problems() == [text.removeprefix("growd: ")]
        it.clock.step(GRACE_S - 60)
        it.restart(Retention())
        await it.keeper.look()
        assert len(it.days.days) == 100
        assert len(it.events) == 1
        it.clock.step(60)
        await it.keeper.look()
        assert max(it.ages) == 83  # the day before ended 90 days ago
        assert it.problems() == []


async def test_keep_days_0_keeps_all(tmp_path):
    async with keeping(tmp_path, range(100), keep_days=0.0) as it:
        it.clock.step(GRACE_S)
        await it.keeper.look()
        it.clock.step(GRACE_S)
        it.size(used=15 * GB)
        await it.keeper.look()
        assert len(it.days.days) == 100


async def started(it):
    """Let the first seven days pass, without a look at their end."""
    before, it.days.days = it.days.days, []
    await it.keeper.look()
    it.clock.step(GRACE_S)
    it.days.days = before


@pytest.mark.parametrize(
    ("hour", "is_quiet"), [(2.0, True), (0.9, False), (4.9, True), (5.0, False), (12.0, False)]
)
async def test_points_are_deleted_in_the_quiet_hours(tmp_path, hour, is_quiet):
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        it.clock.step((hour - 2.0) * 3_600)
        await it.keeper.look()
        assert len(it.days.days) == (0 if is_quiet else 5)
        assert it.problems() == []


async def test_nothing_is_deleted_while_the_clock_is_not_synchronised(tmp_path, said):
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        it.clock.synchronised = False
        await it.keeper.look()
        assert len(it.days.days) == 5
        said(it.problems())
        it.clock.synchronised = True
        await it.keeper.look()
        assert it.days.days == []
        assert it.problems() == []


async def test_unconfirmed_points_stay_and_the_status_says_why(tmp_path):
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        it.days.fault = UnconfirmedError("the replication of points has no checkpoint yet")
        it.size(used=5 * GB)
        await it.keeper.look()
        assert len(it.days.days) == 5
        assert it.keeper.status().waits_for == "the replication of points has no checkpoint yet"
        assert "old points are not deleted: the replication of points has no checkpoint yet" in it.problems()
        assert it.stored[-1] >= Shortage.STORING_LESS


async def test_an_error_of_the_database_is_shown_and_the_next_look_goes_on(tmp_path, said):
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        it.days.fault = CouchUnavailableError("no answer")
        await it.keeper.look()
        said(it.problems())
        it.days.fault = None
        await it.keeper.look()
        assert it.problems() == []
        assert it.days.days == []
        assert it.days.finished == 2  # again after the error, which may have left tombstones


async def test_the_first_day_that_is_deleted_ends_a_fault(tmp_path):
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        it.days.fault = CouchUnavailableError("no answer")
        await it.keeper.look()
        it.days.fault = None
        shown = []
        it.days.before = lambda: shown.append(it.problems())
        await it.keeper.look()
        assert shown == [["retention does not work: no answer"], *[[]] * 4]


async def test_it_names_what_it_waits_for(tmp_path):
    async with keeping(tmp_path) as it:
        it.prepared.clear()
        task = asyncio.create_task(it.keeper.run())
        await it.clock.settle()
        assert it.keeper.status().waits_for == "the database"
        it.prepared.set()
        await it.clock.settle()
        assert it.keeper.status().waits_for == ""
        task.cancel()
        await asyncio.wait([task])


async def test_short_room_is_made_by_compaction_first(tmp_path):
    async with keeping(tmp_path, range(80)) as it:
        await started(it)
        it.size(used=10 * GB, unused=6 * GB)
        it.clock.step(10 * 3_600)  # not in the quiet hours
        await it.keeper.look()
        assert it.compaction.number == 1
        assert len(it.days.days) == 80
        assert it.stored == [Shortage.COMPACTING, Shortage.NONE]
        assert [kind for kind, _ in it.events] == ["fault", "recovery"]
        assert it.events[0][1].startswith(
            "growd: room for the database is short: the databases are compacted;"
        )
        assert it.problems() == []


async def test_then_points_are_deleted_early_down_to_least_days_and_then_less_is_stored(tmp_path):
    async with keeping(tmp_path, range(80)) as it:
        await started(it)
        it.clock.step(10 * 3_600)
        it.size(used=5 * GB)
        it.compaction.frees = False
        await it.keeper.look()
        assert max(it.ages) == 0  # the week that went by has no points
        assert it.stored == [Shortage.RETIRING_EARLY, Shortage.STORING_LESS]
        [problem] = it.problems()
        assert problem.startswith(
            "room for the database is short: measured values and commands are stored at most once a minute; "
            "the database takes 5000 MB, 10000 MB with its compaction; the limit is 11200 MB"
        )
        assert it.keeper.status().shortage == "storing_less"
        it.size(used=6 * GB)
        await it.keeper.look()
        assert it.stored[-1] == Shortage.STORING_NOTHING
        it.size(used=4 * GB)
        await it.keeper.look()
        assert it.stored[-1] == Shortage.NONE
        assert it.problems() == []


async def test_early_deletion_ends_when_there_is_room(tmp_path):
    async with keeping(tmp_path, range(80), budget_mb=2_000.0) as it:
        await started(it)
        it.clock.step(10 * 3_600)
        it.size(used=940_000_000)  # twice that is 94 % of the budget
        await it.keeper.look()
        assert len(it.days.days) == 76
        assert it.compaction.number == 1
        assert it.stored[0] == Shortage.RETIRING_EARLY
        assert it.stored[-1] == Shortage.NONE


async def test_points_are_stored_and_deleted_again_before_the_shortage_is_over(tmp_path):
    async with keeping(tmp_path, range(80)) as it:
        await started(it)
        it.clock.step(10 * 3_600)
        it.compaction.frees = False
        it.days.fault = UnconfirmedError("not confirmed")
        it.size(used=6 * GB)
        await it.keeper.look()
        assert it.stored[-1] == Shortage.STORING_NOTHING
        it.size(used=5 * GB)
        await it.keeper.look()
        assert it.stored[-1] == Shortage.STORING_LESS
        it.days.fault = None
        it.size(used=4_600_000_000)  # twice that is 82 % of the limit
        await it.keeper.look()
        assert max(it.ages) == 0
        it.size(used=4 * GB)
        await it.keeper.look()
        assert it.stored[-1] == Shortage.NONE


async def test_a_database_that_waits_does_not_stop_the_other_one(tmp_path):
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        other = Days(range(90, 95), NIGHT)
        it.keeper._retirements = [it.days, other]
        it.days.fault = UnconfirmedError("the replication of points has no checkpoint yet")
        await it.keeper.look()
        assert len(it.days.days) == 5
        assert other.days == []
        assert it.keeper.status().waits_for == "the replication of points has no checkpoint yet"


async def test_the_status_says_until_when_points_stay_while_room_is_short(tmp_path):
    async with keeping(tmp_path) as it:
        await it.keeper.look()
        it.days.days = Days(range(3, 5), it.clock.time()).days
        it.size(used=6 * GB)
        await it.keeper.look()
        assert it.problems()[1:] == []
        it.clock.step(5 * DAY_S)
        await it.keeper.look()
        begin = "the first seven days are not over (2023-11-23 02:00)"
        assert it.problems()[1:] == [f"old points are not deleted: {begin}"]


async def test_other_options_are_taken_at_once(tmp_path):
    async with keeping(tmp_path, range(80)) as it:
        await started(it)
        await it.keeper.reconfigure(Config(retention=Retention(keep_days=30.0)))
        await it.keeper.look()
        assert max(it.ages) == 23  # seven days later
