"""The history from rollups is that of the points: at the edge, with late points, and after retirement."""

import math
import random
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growd.store.history.cache import BucketCache, SeriesKey
from growd.store.history.coverage import Coverage
from growd.store.history.grid import Grid
from growd.store.history.history import History
from growd.store.reading.source import SourceReader
from growd.store.rollups.document import WIDTHS, RollupSeries
from growd.store.rollups.state import EVERY_SERIES
from support.history import stored_past
from support.rollups import measured

pytestmark = pytest.mark.long

HOUR, DAY, MONTH = 3_600, 86_400, 2_592_000
T = 1_790_000_000 // MONTH * MONTH  # a span of each width begins here
NOW = T + 45 * DAY + 5 * HOUR + 1_234
WARMTH, LIGHT, CO2 = "air_temperature", "light_illuminance", "air_carbon_dioxide"
SERIES = RollupSeries("environment_1", "measured", WARMTH)
RANGES = [  # days from `T`, and buckets
    (-3_600, 46, 300),
    (-300, 46, 300),
    (-20, 46, 60),
    (0, 46, 300),
    (3.3, 44.9, 50),
    (10, 20, 3_000),
    (38, 45.3, 300),
    (44.2, 45.2, 300),
    (45, 45.2, 16),
    (45.1, 45.3, 70),
    (70, 90, 100),
]


@pytest.fixture
async def past(database_server):
    """Points of 45 days, dense in some hours, and their rollups, as at `NOW`."""
    async with rolled_up(database_server, points()) as stored:
        yield stored


@pytest.fixture
async def day(database_server):
    """Only those of day 30."""
    begin, end = T + 30 * DAY, T + 31 * DAY
    of_day = [point for point in points() if begin <= point["timestamp"] < end]
    assert len(of_day) > 30
    async with rolled_up(database_server, of_day) as stored:
        yield stored


@asynccontextmanager
async def rolled_up(server, made):
    async with stored_past(server) as stored:
        await stored.store(*made)
        stored.now = NOW
        await stored.feed.catch_up()
        yield stored


def points():
    chance = random.Random(17)
    dense = [(day, chance.randrange(24)) for day in (0, 1, 12, 29, 30, 31, 44)]
    times = [T + chance.random() * 45.2 * DAY for _ in range(50)]
    times += [T + day * DAY + (hour + chance.random()) * HOUR for day, hour in dense for _ in range(25)]
    times += [NOW - 3_000 + 50 * n for n in range(40)]
    found = [
        measured(WARMTH, round(chance.gauss(20, 5), 2), at, is_manual=n % 7 == 0)
        for n, at in enumerate(times)
    ]
    found += [measured(LIGHT, chance.choice([0, 8_000, None]), at, is_desired=True) for at in times[::3]]
    found += [
        measured(CO2, chance.choice([True, False, None]), at, category="commanded") for at in times[1::3]
    ]
    return [*found, measured("gone", 7, T + 12.5, category="commanded"), measured("note", "a", T + 5)]


async def of_points(past, start, end, number):
    """The answer from points alone, with nothing remembered."""
    source = msgspec.structs.replace(past.source, rollups="")
    history = History(lambda: source, past.history._ship, past.history._known, cache=BucketCache(0))
    async with history:
        asked, past.history = past.history, history
        try:
            return await past.ask(start, end, points=number)
        finally:
            past.history = asked


def assert_alike(answer, expected):
    """The same, but for means in their seventh digit."""
    assert [one["variable"] for one in answer["series"]] == [one["variable"] for one in expected["series"]]
    for one, other in zip(answer["series"], expected["series"], strict=True):
        for category in ("measured", "desired", "commanded"):
            found, wanted = one[category], other[category]
            assert found | {"mean": 0} == wanted | {"mean": 0}, (one["variable"], category)
            for mean, right in zip(found["mean"], wanted["mean"], strict=True):
                assert mean == right or math.isclose(mean, right, rel_tol=1e-6, abs_tol=1e-6)


async def all_of_points(past, ranges=RANGES):
    return [await of_points(past, T + start * DAY, T + end * DAY, number) for start, end, number in ranges]


async def assert_right(past, expected, ranges=RANGES):
    for (start, end, number), wanted in zip(ranges, expected, strict=True):
        assert_alike(await past.ask(T + start * DAY, T + end * DAY, points=number), wanted)


async def test_years_read_no_points_but_those_of_the_last_hours(past):
    answer = await past.ask(T - 3_600 * DAY, NOW, WARMTH)
    (series,) = answer["series"]
    assert sum(series["measured"]["count"]) > 200
    assert past.history.buckets.read_rows < 60
    assert past.history.buckets.read_rollups < 150
    before = past.history.buckets.read_rows, past.history.buckets.read_rollups
    await past.ask(T - 3_600 * DAY, NOW, WARMTH)
    assert (past.history.buckets.read_rows, past.history.buckets.read_rollups) == before


async def test_answers_from_rollups_are_those_from_points(past):
    expected = await all_of_points(past)
    await assert_right(past, expected)
    await assert_right(past, expected)  # from memory, in part
    # new and late ones, also of another program
    foreign = {"environment": "environment_1", "variable": WARMTH, "is_desired": False, "is_manual": False}
    document = {"_id": "mine", **foreign, "value": 99.5, "timestamp": T + 3 * DAY}
    await past.store_documents([document])
    await past.store(
        measured(WARMTH, -40, NOW - 10),
        measured(WARMTH, 99, T + 12 * DAY + 7),
        measured(LIGHT, 5, T + 30 * DAY + HOUR - 0.5, is_desired=True),
    )
    expected = await all_of_points(past)
    await assert_right(past, expected)
    past.now += 2 * HOUR
    await past.feed.catch_up()
    await assert_right(past, expected)
    # one that changed
    stored = await past.couch.get(past.names.points, "mine")
    await past.store_documents([{**stored, "value": 98.5}])
    expected = await all_of_points(past)
    for later in (0, 31 * DAY):
        past.now += later
        await past.feed.catch_up()
        await assert_right(past, expected)


async def test_rollups_that_are_behind_by_everything_are_not_read(database_server):
    async with stored_past(database_server) as stored:
        await stored.store(*points())
        stored.now = NOW
        await stored.feed.load()
        await stored.feed.points.save()  # no change was followed yet
        await assert_right(stored, await all_of_points(stored, RANGES[::4]), RANGES[::4])
        assert stored.history.buckets.read_rollups == 0


class TestRetired:
    UNTIL = T + 31 * DAY

    async def test_the_answers_stay(self, past):
        ranges = [one for one in RANGES if (one[1] - one[0]) / one[2] * DAY > 300 or one[0] > 31]
        before = await all_of_points(past, ranges)
        narrow = await of_points(past, T + 30 * DAY, T + 30 * DAY + 6 * HOUR, 72)
        await past.ask(T + 12 * DAY, T + 13 * DAY, points=3_000)  # remembered in narrow buckets
        await past.retire(self.UNTIL)
        for (start, end, number), expected in zip(ranges, before, strict=True):
            answer = await past.ask(T + start * DAY, T + end * DAY, points=number)
            assert answer["retired_until"] == self.UNTIL
            assert (answer["start"], answer["bucket_s"]) == (expected["start"], expected["bucket_s"])
            assert_alike(answer, expected)
        # narrow buckets of retired points are five minutes
        answer = await past.ask(T + 30 * DAY, T + 30 * DAY + 6 * HOUR, points=3_000)
        assert answer["bucket_s"] == 300
        assert_alike(answer, narrow)
        answer = await past.ask(self.UNTIL, self.UNTIL + 6 * HOUR, points=3_000)
        assert answer["bucket_s"] == 10
        # a series without points and late points are known
        assert "gone" in [one["variable"] for one in (await past.ask(T, NOW))["series"]]
        (gone,) = (await past.ask(T + DAY, NOW, "gone"))["series"]
        assert gone["commanded"]["before"] == {"time": T + 12.5, "value": 7}
        await past.store(measured(WARMTH, 1_000, T + 20 * DAY + 5))
        await past.ask(T, NOW, WARMTH)
        await past.feed.catch_up()  # from then on
        for number in (300, 10):
            (series,) = (await past.ask(T, NOW, WARMTH, points=number))["series"]
            assert max(value for value in series["measured"]["max"] if value is not None) == 1_000

    @pytest.mark.parametrize("at", [1, 2])
    async def test_points_that_are_deleted_while_an_answer_is_read_are_in_it(self, day, monkeypatch, at):
        start = T + 30 * DAY
        expected = await of_points(day, start, start + 6 * HOUR, 72)
        follow, calls = day.history.buckets.follow, []

        async def follow_and_retire(reader, database):
            coverage = await follow(reader, database)
            calls.append(database)
            if len(calls) == at * 2:  # what follows are the readings of points
                await day.retire(self.UNTIL)
            return coverage

        monkeypatch.setattr(day.history.buckets, "follow", follow_and_retire)
        for n in range(3):
            answer = await day.ask(start, start + 6 * HOUR, points=3_000)
            if n + 1 >= at:
                assert_alike(answer, expected)

    async def test_buckets_without_deleted_points_are_not_remembered(self, day):
        """A client goes away after the points of a day were read, some of which had been deleted."""
        start = T + 30 * DAY
        expected = await of_points(day, start, start + 6 * HOUR, 72)
        buckets = day.history.buckets
        async with aiohttp.ClientSession() as session:
            reader = SourceReader(session, day.source)
            name = day.names.points
            coverage = await buckets.follow(reader, name)
            await day.retire(self.UNTIL)
            key = SeriesKey(name, "environment_1", "measured", WARMTH)
            grid = Grid.covering(start, start + 6 * HOUR, 3_000)
            for _ in range(2):  # it knows no better
                await buckets.read(reader, key, grid, coverage, NOW)
                assert_alike(await day.ask(start, start + 6 * HOUR, points=72), expected)


SPANS = st.builds(
    lambda width, number: (width, T // WIDTHS[width] * WIDTHS[width] + number * WIDTHS[width]),
    st.sampled_from([*WIDTHS]),
    st.integers(0, 100),
)


@given(
    st.lists(SPANS, max_size=6),
    st.sets(st.integers(0, 2_000).map(lambda hour: T + hour * HOUR), max_size=6),
    st.integers(0, 60),
    st.tuples(st.integers(-10, 20_000), st.integers(1, 20_000)),
    st.sampled_from([*WIDTHS]),
)
def test_parts_cover_a_range_without_gaps_and_no_rollup_that_lacks_points(
    pending, changed, sealed, place, width
):
    waiting = {}
    for each, at in pending:
        waiting.setdefault(str(each), {}).setdefault(EVERY_SERIES, []).append(at)
    coverage = Coverage(T + sealed * DAY, changed, waiting)
    begin, end = T + 300 * place[0], T + 300 * sum(place)
    parts = coverage.parts(SERIES, width, begin, end)
    assert [part.start for part in parts] == [begin, *(part.end for part in parts[:-1])]
    assert parts[-1].end == end
    lacking = [(each, at) for each, at in pending] + [(300, at) for at in changed]
    for part in parts:
        assert part.width <= width
        if part.width:
            assert part.start % part.width == part.end % part.width == 0
        else:
            assert part.end > coverage.sealed_until
        for each, at in lacking:
            is_inside = at < part.end and at + WIDTHS[each] > part.start
            is_sealed = part.width == 300 and at < coverage.sealed_until
            assert not is_inside or each > part.width or is_sealed
