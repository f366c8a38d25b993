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


@pytest.fixture
async def due(tmp_path):
    """Five days that are due, in the quiet hours."""
    async with keeping(tmp_path, range(95, 100)) as it:
        await started(it)
        yield it


@pytest.fixture
async def by_day(tmp_path):
    """80 days, none of them due, at noon."""
    async with keeping(tmp_path, range(80)) as it:
        await started(it)
        it.clock.step(10 * 3_600)
        yield it


async def test_points_are_deleted_in_the_quiet_hours(due):
    now = 2.0
    for hour, left in ((5.0, 5), (12.0, 5), (24.9, 5), (28.9, 0)):
        due.clock.step((hour - now) * 3_600)
        now = hour
        await due.keeper.look()
        assert len(due.days.days) == left, hour
        assert due.problems() == []


async def test_nothing_is_deleted_while_the_clock_is_not_synchronised(due, said):
    due.clock.synchronised = False
    await due.keeper.look()
    assert len(due.days.days) == 5
    said(due.problems())
    due.clock.synchronised = True
    await due.keeper.look()
    assert (due.days.days, due.problems()) == ([], [])


async def test_unconfirmed_points_stay_and_the_status_says_why(due):
    other = Days(range(90, 95), NIGHT)
    due.keeper._retirements = [due.days, other]
    due.days.fault = UnconfirmedError("the replication of points has no checkpoint yet")
    await due.keeper.look()
    assert (len(due.days.days), other.days) == (5, [])  # the other database does not wait
    assert due.keeper.status().waits_for == "the replication of points has no checkpoint yet"
    due.size(used=5 * GB)
    await due.keeper.look()
    assert len(due.days.days) == 5
    assert "old points are not deleted: the replication of points has no checkpoint yet" in due.problems()
    assert due.stored[-1] >= Shortage.STORING_LESS


async def test_an_error_of_the_database_is_shown_until_the_first_day_that_is_deleted(due):
    due.days.fault = CouchUnavailableError("no answer")
    await due.keeper.look()
    due.days.fault = None
    shown = []
    due.days.before = lambda: shown.append(due.problems())
    await due.keeper.look()
    assert shown == [["retention does not work: no answer"], *[[]] * 4]
    assert (due.days.days, due.problems()) == ([], [])
    assert due.days.finished == 2  # again after the error, which may have left tombstones


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


async def test_short_room_is_made_by_compaction_first(by_day):
    by_day.size(used=10 * GB, unused=6 * GB)
    await by_day.keeper.look()
    assert by_day.compaction.number == 1
    assert len(by_day.days.days) == 80
    assert by_day.stored == [Shortage.COMPACTING, Shortage.NONE]
    assert [kind for kind, _ in by_day.events] == ["fault", "recovery"]
    assert "room for the database is short: the databases are compacted;" in by_day.events[0][1]
    assert by_day.problems() == []


async def test_then_points_are_deleted_early_down_to_least_days_and_then_less_is_stored(by_day, said):
    by_day.size(used=5 * GB)
    by_day.compaction.frees = False
    await by_day.keeper.look()
    assert max(by_day.ages) == 0  # the week that went by has no points
    assert by_day.stored == [Shortage.RETIRING_EARLY, Shortage.STORING_LESS]
    said(by_day.problems())
    assert by_day.keeper.status().shortage == "storing_less"
    for used, shortage in ((6 * GB, Shortage.STORING_NOTHING), (4 * GB, Shortage.NONE)):
        by_day.size(used=used)
        await by_day.keeper.look()
        assert by_day.stored[-1] == shortage
    assert by_day.problems() == []


async def test_early_deletion_ends_when_there_is_room(by_day):
    await by_day.keeper.reconfigure(Config(retention=Retention(budget_mb=2_000.0)))
    by_day.size(used=940_000_000)  # twice that is 94 % of the budget
    await by_day.keeper.look()
    assert len(by_day.days.days) == 76
    assert by_day.compaction.number == 1
    assert by_day.stored[0] == Shortage.RETIRING_EARLY
    assert by_day.stored[-1] == Shortage.NONE


async def test_points_are_stored_and_deleted_again_before_the_shortage_is_over(by_day):
    by_day.compaction.frees = False
    by_day.days.fault = UnconfirmedError("not confirmed")
    for used, shortage in ((6 * GB, Shortage.STORING_NOTHING), (5 * GB, Shortage.STORING_LESS)):
        by_day.size(used=used)
        await by_day.keeper.look()
        assert by_day.stored[-1] == shortage
    by_day.days.fault = None
    by_day.size(used=4_600_000_000)  # twice that is 82 % of the limit
    await by_day.keeper.look()
    assert max(by_day.ages) == 0
    by_day.size(used=4 * GB)
    await by_day.keeper.look()
    assert by_day.stored[-1] == Shortage.NONE


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


async def test_other_options_are_taken_at_once(by_day):
    by_day.clock.step(14 * 3_600)  # the next night
    await by_day.keeper.reconfigure(Config(retention=Retention(keep_days=30.0)))
    await by_day.keeper.look()
    assert max(by_day.ages) == 22  # eight days later
