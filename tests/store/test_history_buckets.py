"""Buckets of points: exact for every width, whatever is known already and whatever came meanwhile."""

import asyncio
import json
import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growd.store.history.buckets import as_number
from growd.store.history.cache import BucketCache, SeriesKey
from growd.store.history.grid import LEVELS, WIDTHS, Grid
from growd.store.history.remembered import RememberedBuckets
from growd.store.points import PointMaker
from growd.store.reading.source import Changes, ExportBrokenError
from support.waiting import until

SERIES = SeriesKey("points", "environment_1", "measured", "air_temperature")
DAY = 86_400
EPOCH = 1_790_000_000 // (10 * DAY) * 10 * DAY  # a chunk of each level begins here
EACH_DAY = 288  # points
MAKER = PointMaker("0123456789ab")


class PlayedReader:
    """Plays the database: points of one series, and their changes. `read` counts the rows that it gave."""

    def __init__(self):
        self.points = []  # time, id, value
        self.log = []
        self.read = 0
        self.meanwhile = []  # points to add after the next page
        self.hangs = None  # an event that is set once a request for changes hangs
        self.failure = None  # of requests for changes
        self.written = {}  # the times of other documents

    def add(self, time, value):
        made = MAKER.make("environment_1", "air_temperature", None, time).id
        self.points.append((time, made, value))
        self.log.append({"id": made, "changes": [{"rev": "1-a"}]})

    async def pages(self, span, start, end, first_rows):
        rows = [point for point in sorted(self.points, key=lambda one: one[:2]) if start <= point[0] <= end]
        for n in range(0, len(rows), 3):
            self.read += len(rows[n : n + 3])
            yield [self.row(*point) for point in rows[n : n + 3]], None
        self.add_meanwhile()

    def add_meanwhile(self):
        while self.meanwhile:
            self.add(*self.meanwhile.pop())

    @staticmethod
    def row(time, made, value):
        key = ["environment_1", "measured", "air_temperature", time]
        return msgspec.Raw(json.dumps({"id": made, "key": key, "value": {"value": value}}).encode())

    async def rollup_state(self, database):
        return None

    async def times(self, database, ids):
        return [self.written[one] for one in ids]

    async def changes(self, database, since, limit):
        if self.failure is not None:
            raise self.failure
        if self.hangs is not None:
            self.hangs.set()
            await asyncio.Event().wait()
        place = len(self.log) if since is None else int(since)
        come = self.log[place : place + limit]
        return msgspec.convert({"results": come, "last_seq": place + len(come)}, Changes)


def by_hand(points, grid):
    """The columns, computed in the plainest way."""
    buckets = {}
    for time, _, value in sorted(points, key=lambda one: one[:2]):
        if grid.start <= time < grid.end and not isinstance(value, str):
            buckets.setdefault(math.floor(time / grid.width) * grid.width, []).append(value)
    columns = {name: [] for name in ("time", "min", "mean", "max", "last", "count")}
    for start, values in sorted(buckets.items()):
        numbers = [float(value) for value in values if value is not None]
        columns["time"].append(start)
        columns["count"].append(len(numbers))
        columns["min"].append(min(numbers, default=None))
        columns["max"].append(max(numbers, default=None))
        columns["mean"].append(pytest.approx(math.fsum(numbers) / len(numbers)) if numbers else None)
        columns["last"].append(None if values[-1] is None else float(values[-1]))
    return columns


TIMES = st.one_of(
    st.integers(0, 40 * 60).map(float),
    st.floats(0, 3_000, allow_nan=False),
    st.integers(0, 30 * 24).map(lambda hour: hour * 3_600.0),
    st.floats(0, 30 * DAY),
)
VALUES = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-5, 5), st.booleans(), st.none(), st.sampled_from(["text"])
)
RANGES = st.tuples(TIMES, st.sampled_from([30, 600, 3_600, DAY, 7 * DAY, 30 * DAY]), st.integers(2, 900))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=15)),
        st.tuples(st.just("ask"), RANGES),
        st.tuples(st.just("meanwhile"), st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=3)),
    ),
    min_size=2,
    max_size=12,
)


@settings(max_examples=3 * settings.default.max_examples)
@given(STEPS, st.sampled_from([300_000, 60]))
def test_every_answer_is_that_of_all_points_at_the_time_of_the_question(steps, most):
    async def run():
        reader, cache = PlayedReader(), BucketCache(most)
        remembered = RememberedBuckets(cache)
        for what, given_ in steps:
            if what == "ask":
                start, length, points = given_
                grid = Grid.covering(EPOCH + start, EPOCH + start + length, points)
                await remembered.follow(reader, SERIES.database)
                expected = by_hand(reader.points, grid)
                is_disturbed = bool(reader.meanwhile)  # the new points may be in this answer or not
                found = await remembered.read(reader, SERIES, grid)
                assert is_disturbed or found.columns() == expected
                assert cache.held <= most
                reader.add_meanwhile()
            elif what == "add":
                for time, value in given_:
                    reader.add(EPOCH + time, value)
            else:
                reader.meanwhile = [(EPOCH + time, value) for time, value in given_]

    asyncio.run(run())


@pytest.fixture
def reader():
    """A point each five minutes for ten days."""
    reader = PlayedReader()
    for n in range(0, 10 * DAY, DAY // EACH_DAY):
        reader.add(EPOCH + n + 0.25, n % 977)
    return reader


@pytest.fixture
def remembered():
    return RememberedBuckets(BucketCache())


async def asked(remembered, reader, start, end, points=300):
    """The number of rows that one answer took."""
    before = reader.read
    await remembered.follow(reader, SERIES.database)
    grid = Grid.covering(EPOCH + start, EPOCH + end, points)
    found = await remembered.read(reader, SERIES, grid)
    assert found.columns() == by_hand(reader.points, grid)
    return reader.read - before


async def test_the_same_points_are_read_once(reader):
    remembered = RememberedBuckets(BucketCache())
    assert await asked(remembered, reader, 0, 10 * DAY) == 10 * EACH_DAY
    assert await asked(remembered, reader, 0, 10 * DAY) == 0
    assert await asked(remembered, reader, DAY, 8 * DAY, 200) == 0
    assert await asked(remembered, reader, 3 * DAY, 4 * DAY) == EACH_DAY  # a day is shown in finer buckets
    assert await asked(remembered, reader, 3 * DAY + 3_600, 3 * DAY + 30_000, 200) == 0
    remembered = RememberedBuckets(BucketCache())
    assert await asked(remembered, reader, 4 * DAY, 5 * DAY) == EACH_DAY
    assert await asked(remembered, reader, 0, 7 * DAY) == 7 * EACH_DAY  # that day too, in wider buckets
    assert await asked(remembered, reader, 0, 7 * DAY) == 0
    assert await asked(remembered, reader, 4 * DAY, 5 * DAY) == 0


async def test_little_is_read_for_a_late_point_though_a_client_went_away_before(remembered, reader):
    await asked(remembered, reader, 0, 10 * DAY)
    reader.add(EPOCH + 9 * DAY + 30, 5_000.0)
    reader.hangs = asyncio.Event()
    following = asyncio.create_task(remembered.follow(reader, SERIES.database))
    await reader.hangs.wait()
    following.cancel()
    await asyncio.wait({following})
    reader.hangs = None
    assert await asked(remembered, reader, 0, 10 * DAY) == EACH_DAY + 1


async def test_a_database_that_failed_is_read_again(remembered, reader):
    await asked(remembered, reader, 0, DAY)
    reader.failure = ExportBrokenError("reset")
    with pytest.raises(ExportBrokenError):
        await remembered.follow(reader, SERIES.database)
    reader.failure = None
    assert await asked(remembered, reader, 0, DAY) == EACH_DAY


async def test_a_range_that_follows_now_reads_new_points_only(remembered, reader):
    for width in (3_600, DAY, 9 * DAY):
        await asked(remembered, reader, 10 * DAY - width, 10 * DAY)
        for minute in range(1, 4):
            end = 10 * DAY + 60 * minute
            reader.add(EPOCH + end, 1.0)
            assert await asked(remembered, reader, end - width, end) < 20


async def test_points_that_another_question_heard_of_during_a_reading(remembered, reader):
    await remembered.follow(reader, SERIES.database)
    grid = Grid.covering(EPOCH, EPOCH + DAY, 300)
    reading = asyncio.create_task(remembered.read(reader, SERIES, grid))
    await until(lambda: reader.read)
    reader.add(EPOCH + 5_000, -40.0)
    await remembered.follow(reader, SERIES.database)
    assert -40.0 not in (await reading).columns()["min"]
    await asked(remembered, reader, 0, DAY)


async def test_two_questions_at_once_read_each_point_once(remembered, reader):
    await remembered.follow(reader, SERIES.database)
    grid = Grid.covering(EPOCH, EPOCH + DAY, 300)
    one, other = await asyncio.gather(*(remembered.read(reader, SERIES, grid) for _ in range(2)))
    assert one.columns() == other.columns()
    assert reader.read == EACH_DAY


@pytest.mark.parametrize("more", [{}, {"deleted": True}])
async def test_everything_is_read_again_after_changes_to_points_of_other_programs(remembered, reader, more):
    """What they were before is not known."""
    await asked(remembered, reader, 0, DAY)
    reader.log.append({"id": "someone's", "changes": [{"rev": "2-a"}], **more})
    assert await asked(remembered, reader, 0, DAY) == EACH_DAY


MADE = f"0123456789ab:{EPOCH + 9 * DAY}000-0123456789"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "someone's", "changes": [{"rev": "1-a"}]},
        {"id": MADE, "changes": [{"rev": "2-a"}]},  # such as a photo that was added to a note
        {"id": MADE, "changes": [{"rev": "2-b"}], "deleted": True},
        {"id": "_design/other", "changes": [{"rev": "2-b"}]},
    ],
)
async def test_little_is_read_again_after_a_change_whose_time_is_known(remembered, reader, change):
    await asked(remembered, reader, 0, 10 * DAY)
    reader.log.append(change)
    reader.written = {"someone's": EPOCH + 9 * DAY + 5.0, MADE: EPOCH + 9 * DAY}
    assert 0 <= await asked(remembered, reader, 0, 10 * DAY) <= EACH_DAY + 20
    assert await asked(remembered, reader, 0, 10 * DAY) == 0


async def test_everything_is_read_again_after_very_many_changes(remembered, reader):
    await asked(remembered, reader, 0, DAY)
    for n in range(20_001):
        reader.add(EPOCH + 20 * DAY + n, 1.0)
    assert await asked(remembered, reader, 0, DAY) == EACH_DAY
    assert await asked(remembered, reader, 0, DAY) == 0


async def test_the_cache_is_bounded_and_keeps_what_was_used_last(reader):
    cache = BucketCache(1_000)
    remembered = RememberedBuckets(cache)
    for day in range(10):
        await asked(remembered, reader, day * DAY, (day + 1) * DAY)
        assert cache.held <= 1_000
    assert await asked(remembered, reader, 9 * DAY, 10 * DAY) == 0
    assert await asked(remembered, reader, 0, DAY) == EACH_DAY


def test_widths_are_multiples_of_their_level_and_grow():
    assert all(one < other for one, other in pairwise(WIDTHS))
    for width in WIDTHS:
        assert width % Grid(0, width, width).level == 0
    assert all(length % level == 0 for level, length in LEVELS.items())


@given(st.floats(0, 2e9), st.floats(1e-3, 20 * 366 * DAY), st.integers(2, 5_000))
def test_the_grid_is_the_finest_that_covers_the_range_with_so_many_buckets(start, length, points):
    end = start + length
    grid = Grid.covering(start, end, points)
    assert grid.start <= start < grid.start + grid.width
    assert grid.end - grid.width < end <= grid.end
    assert (grid.end - grid.start) // grid.width <= points
    finer = [width for width in WIDTHS if width < grid.width]
    if finer:
        width = finer[-1]
        assert -(-end // width) - start // width > points


@pytest.mark.parametrize("value", ["text", [1], {"a": 1}, 10**400, float("inf")])
def test_what_is_no_number_is_left_out(value):
    assert math.isnan(as_number(value))
