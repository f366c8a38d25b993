"""How long outputs were on, against slow and obvious sums."""

import json
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.control.interlocks.on_times import BIN_S, HOUR_S, OnTimes, RollingDose
from growd.control.interlocks.wall_time import OnTimeOfDay, SteadyWallClock
from support.clock import ManualClock

SECONDS = st.floats(0.0, 600.0)
DOSES = st.lists(st.tuples(SECONDS, st.floats(0.0, 60.0)), max_size=200)  # a pause, then what is given


class Given:
    """Doses, with all of them remembered."""

    def __init__(self, doses, now=0.0):
        self.dose, self.now, self.all = RollingDose(), now, []
        for pause, amount in doses:
            self.now += pause
            self.dose.add(amount, self.now)
            self.all.append((self.now, amount))

    def since(self, begin):
        return sum(amount for at, amount in self.all if at > begin)


@given(DOSES, SECONDS)
def test_the_dose_of_an_hour_is_never_too_low_and_at_most_a_minute_too_high(doses, pause):
    given = Given(doses)
    now = given.now + pause
    dose = given.dose.amount(now)
    assert dose >= given.since(now - HOUR_S) - 1e-6
    assert dose <= given.since(now - HOUR_S - BIN_S - 1e-6) + 1e-6


@given(DOSES, SECONDS, st.floats(0.0, 2 * HOUR_S))
def test_a_dose_survives_a_restart(doses, pause, away):
    before = Given(doses)
    now = before.now + pause
    after = RollingDose()
    after.restore(json.loads(json.dumps(before.dose.state(now))), 50.0, away)
    for later in (0.0, 700.0, HOUR_S):
        began = now + away + later - HOUR_S
        dose = after.amount(50.0 + later)
        assert dose >= before.since(began + 1e-6) - 1e-6
        assert dose <= before.since(began - BIN_S - 1e-6) + 1e-6


@given(DOSES)
def test_the_memory_of_doses_is_bounded(doses):
    given = Given(doses * 3)
    assert len(given.dose.state(given.now)) <= HOUR_S / BIN_S + 2


def test_invalid_saved_doses_days_and_times_are_refused():
    doses = (3, "x", [3], [[1]], [[1, "x"]], [[1, -1]], [[1, float("nan")]], {"a": 1})
    days = (None, 3, [], ["2026-11-22"], [1, 2], ["a", "b"], ["a", -1], ["a", float("inf")])
    times = (None, "x", -1.0, 1e300, float("nan"))
    wall = SteadyWallClock(Steps(NINE))
    for restore, saved in (
        *((lambda saved: RollingDose().restore(saved, 0.0), each) for each in doses),
        *((OnTimeOfDay().restore, each) for each in days),
        *((wall.restore, wall.state() | {"time": each}) for each in times),
    ):
        with pytest.raises((TypeError, ValueError)):
            restore(saved)


WRITES = st.lists(
    st.tuples(SECONDS, st.sampled_from("ab"), st.sampled_from([0.0, 1.0, None])), min_size=1, max_size=60
)


@given(WRITES, st.floats(1.0, 600.0))
def test_open_times_add_up(writes, after):
    times, now = OnTimes(), 100.0
    now_level, total, certain, began = dict.fromkeys("ab", 0.0), 0.0, 0.0, None
    for pause, output, level in [*writes, (after, "a", 1.0)]:
        total += pause * sum(each != 0.0 for each in now_level.values())
        certain += pause * sum(each == 1.0 for each in now_level.values())
        now += pause
        assert times.total(now) == pytest.approx(total)
        assert times.certain_total(now) == pytest.approx(certain)
        assert times.stretch(now) == pytest.approx(0.0 if began is None else now - began)
        times.wrote(output, level, now)
        now_level[output] = level
        is_open = any(each != 0.0 for each in now_level.values())
        began = (now if began is None else began) if is_open else None
        assert times.is_on == is_open


def test_the_rest_counts_from_the_last_output_that_was_shut():
    times = OnTimes()
    assert times.rest(5.0) == float("inf")
    times.wrote("a", 1.0, 10.0)
    times.wrote("b", None, 11.0)
    times.wrote("a", 0.0, 12.0)
    assert times.rest(20.0) == 0.0
    times.wrote("b", 0.0, 21.0)
    assert times.rest(30.0) == 9.0
    slow = OnTimes()  # on since the begin of the write, and off since its end
    slow.wrote("plug", 1.0, 13.0, 3.0)
    assert slow.stretch(13.0) == 3.0
    slow.wrote("plug", 1.0, 15.0, 2.0)  # repeated
    slow.wrote("plug", 0.0, 22.0, 3.0)
    assert (slow.total(30.0), slow.rest(30.0)) == (12.0, 8.0)


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield ZoneInfo("Europe/Berlin")
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("day", [datetime(2026, 3, 29), datetime(2026, 10, 25), datetime(2026, 11, 22)])  # noqa: DTZ001
@pytest.mark.parametrize("zone", [None, ZoneInfo("America/New_York")])
def test_a_day_starts_at_local_midnight_also_when_summer_time_changes(berlin, day, zone):
    midnight = day.replace(tzinfo=zone or berlin).timestamp()
    hours = OnTimeOfDay(zone)
    hours.add(1000.0, midnight - 3600.0)
    assert hours.seconds(midnight - 1.0) == 1000.0
    assert hours.seconds(midnight) == 0.0
    end = day.replace(day=day.day + 1, tzinfo=zone or berlin).timestamp()
    hours.add(500.0, midnight + 1800.0)
    assert hours.seconds(end - 1.0) == 500.0
    assert hours.seconds(end) == 0.0


def test_a_clock_that_steps_back_or_was_never_set_starts_no_day(berlin):
    noon = datetime(2026, 11, 22, 12, tzinfo=berlin).timestamp()
    hours = OnTimeOfDay()
    hours.add(100.0, 5_000.0)
    hours.add(100.0, noon)
    assert hours.seconds(noon - 86_400.0) == 200.0
    assert hours.seconds(7_000.0) == 200.0
    assert hours.seconds(noon) == 200.0
    restored = OnTimeOfDay()
    restored.restore(hours.state())
    assert restored.seconds(5_000.0) == 200.0
    assert restored.seconds(noon + 86_400.0) == 0.0


NINE = 1_760_000_400.0  # 09:00 in UTC
H = HOUR_S


class Steps(ManualClock):
    def pass_(self, seconds):
        self._now += seconds


def hours_of(clock, wall, hours):
    """Be on for a minute if fewer than ten hours were counted."""
    wall.follow()
    now = clock.monotonic()
    is_on = hours.seconds(wall.time(now)) < 10 * H
    clock.pass_(60.0)
    hours.add(60.0 * is_on, wall.time(now + 60.0))
    return 60.0 * is_on


@given(st.lists(st.tuples(st.integers(0, 1_438), st.floats(-1e9, 1e9)), max_size=20))
def test_steps_of_an_unsynchronised_clock_are_ignored(steps):
    """A lamp gets its ten hours in 24, as without steps."""
    clock = Steps(NINE - 9 * H)
    clock.synchronised = False
    wall, hours, at, lit = SteadyWallClock(clock), OnTimeOfDay(UTC), dict(steps), 0.0
    for minute in range(24 * 60 - 1):
        clock.step(at.get(minute, 0.0))
        lit += hours_of(clock, wall, hours)
    assert lit == 10 * H


def test_a_step_into_the_future_and_back_affects_one_day():
    clock = Steps(NINE)
    wall, hours = SteadyWallClock(clock), OnTimeOfDay(UTC)
    hours.add(10 * H, clock.time())
    clock.step(80 * 365 * 24 * H)
    wall.follow()
    hours.add(10 * H, wall.time(clock.monotonic()))
    clock.step(-80 * 365 * 24 * H)
    wall.follow()
    assert hours.seconds(wall.time(clock.monotonic())) == 10 * H  # going back begins no day
    clock.pass_(16 * H)
    assert hours.seconds(wall.time(clock.monotonic())) == 0.0


def test_a_clock_that_was_never_set_is_followed_once_it_is_set():
    clock = Steps(1_000.0)
    clock.synchronised = False
    wall = SteadyWallClock(clock)
    clock.step(NINE)
    wall.follow()
    assert wall.time(clock.monotonic()) == clock.time()
    clock.step(24 * H)
    wall.follow()
    assert wall.time(clock.monotonic()) == clock.time() - 24 * H
    clock.synchronised = True
    wall.follow()
    assert wall.time(clock.monotonic()) == clock.time()


@pytest.mark.parametrize(("step", "seen"), [(-48 * H, 0.0), (48 * H, 48 * H)])
def test_after_a_reboot_a_clock_that_is_behind_continues_from_the_saved_time(step, seen):
    before = Steps(NINE)
    saved = json.loads(json.dumps(SteadyWallClock(before).state()))
    after = Steps(NINE + step)
    after.synchronised = False
    wall = SteadyWallClock(after)
    assert wall.restore(saved) == 0.0
    assert wall.time(after.monotonic()) == NINE + seen


def test_a_step_of_an_unsynchronised_clock_during_a_restart_is_ignored():
    clock = Steps(NINE)
    clock.synchronised = False
    saved = json.loads(json.dumps(SteadyWallClock(clock).state()))
    clock.pass_(100.0)
    clock.step(48 * H)
    wall = SteadyWallClock(clock)
    assert wall.restore(saved) == 100.0
    assert wall.time(clock.monotonic()) == NINE + 100.0
