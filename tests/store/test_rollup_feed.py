"""Rollups follow the points of the database: late ones, changed ones, and other databases."""

import copy

import pytest

from growd.runtime.pauses import LONGEST_REST_S, Pace
from growd.store.couch import Couch
from growd.store.errors import CouchRefusedError, RollupError
from growd.store.rollups.feed import StillArrivingError
from support.rollups import (
    DAY,
    DELAY_S,
    ENVIRONMENT,
    START,
    Killed,
    KilledCouch,
    make_databases,
    measured,
)

HOUR = 3_600
MONTH = 2_592_000
MONTH_START = START // MONTH * MONTH
TEMPERATURE = "air_temperature"
NEXT_DAY = START + DAY + HOUR


def counts(rollups):
    """The counts of each document by variable, width and start."""
    return {(each.variable, each.width, each.start - START): each.count for each in rollups.values()}


async def test_an_hour_is_rolled_up_when_it_is_over_also_over_a_restart(bench):
    await bench.store(
        measured(TEMPERATURE, 20.5, START + 10),
        measured(TEMPERATURE, 23.5, START + 20),
        measured(TEMPERATURE, 22.0, START + 310),
        measured(TEMPERATURE, 1.0, START + HOUR),
    )
    await bench.catch_up(START + HOUR + DELAY_S - 1)
    assert await bench.rollups() == {}
    bench.restart()
    await bench.catch_up(START + HOUR + DELAY_S)  # no change has come
    [rollup] = (await bench.rollups()).values()
    assert rollup == await bench.rollup(TEMPERATURE, 300, START)
    assert (rollup.at, rollup.count, rollup.is_sealed) == ([0, 1], [2, 1], False)
    assert (rollup.min, rollup.mean, rollup.max) == ([20.5, 22.0], [22.0, 22.0], [23.5, 22.0])
    assert (rollup.last, rollup.last_at) == ([23.5, 22.0], [START + 20, START + 310])


async def test_days_and_months_follow_when_they_are_over_with_points_that_are_late(bench):
    await bench.store(
        measured(TEMPERATURE, 1.0, MONTH_START),
        measured(TEMPERATURE, 3.0, MONTH_START + HOUR),
        measured(TEMPERATURE, 8.0, MONTH_START + 2 * DAY),
    )
    await bench.catch_up(MONTH_START + MONTH)
    assert {each.width for each in (await bench.rollups()).values()} == {300, 3_600}
    await bench.catch_up(MONTH_START + MONTH + DELAY_S)
    month = await bench.rollup(TEMPERATURE, 86_400, MONTH_START)
    assert (month.at, month.count, month.mean, month.max) == ([0, 2], [2, 1], [2.0, 8.0], [3.0, 8.0])
    await bench.store(measured(TEMPERATURE, 9.0, MONTH_START + 5), measured("ph", 6.0, MONTH_START))
    await bench.catch_up()
    for width in (300, 3_600, 86_400):
        assert (await bench.rollup(TEMPERATURE, width, MONTH_START)).max[0] == 9.0
        assert (await bench.rollup("ph", width, MONTH_START)).count == [1]


async def test_all_numbers_and_releases_are_rolled_up_and_nothing_else(bench):
    await bench.store(
        measured(TEMPERATURE, 20.0, START),
        measured(TEMPERATURE, 30.0, START + 1, is_manual=True),
        measured("light_illuminance", 8000, START, is_desired=True),
        measured("light_illuminance", None, START + 400, is_desired=True),
        measured("recipe_start", "lettuce_basic", START, is_desired=True),
        measured("air_flush_on", True, START, category="commanded"),
        measured("air_flush_on", None, START + 1, category="commanded"),
        measured(TEMPERATURE, "ok", START, category="quality"),
        measured("note", "watered", START, category="event"),
    )
    await bench.catch_up(START + HOUR + DELAY_S)
    found = (await bench.rollups()).values()
    columns = {(one.category, one.variable): (one.count, one.max, one.last, one.last_at) for one in found}
    assert columns == {
        ("measured", TEMPERATURE): ([2], [30.0], [30.0], [START + 1]),
        ("desired", "light_illuminance"): ([1, 0], [8000, None], [8000, None], [START, START + 400]),
        ("commanded", "air_flush_on"): ([1], [1.0], [None], [START + 1]),
    }


async def test_environments_and_odd_names_do_not_mix(bench):
    names = ["_design", "a/b", "a%2Fb", "ä ö", "x" * 300, "a?b#c", "A", "a", "e\u0301", "\u00e9"]
    for n, name in enumerate(names):
        await bench.store(measured(name, n, START), measured(TEMPERATURE, n, START, environment=name))
    await bench.catch_up(NEXT_DAY)
    found = [each for each in (await bench.rollups()).values() if each.width == 300]
    assert len(found) == 2 * len(names)
    by_names = {(each.environment, each.variable): (each.count, each.last) for each in found}
    for n, name in enumerate(names):
        assert by_names[ENVIRONMENT, name] == by_names[name, TEMPERATURE] == ([1], [n])


async def test_points_of_the_future_do_not_wait(bench):
    later = START + 400 * DAY
    await bench.store(measured(TEMPERATURE, 20.0, later))
    await bench.catch_up(START)
    await bench.store(measured(TEMPERATURE, 21.0, later + 1))
    await bench.catch_up()
    assert (await bench.rollup(TEMPERATURE, 300, later)).count == [2]


async def test_a_deleted_or_changed_point_changes_its_hour(bench):
    kept, deleted, changed = await bench.store(
        measured(TEMPERATURE, 20.0, START),
        measured(TEMPERATURE, 90.0, START + 1),
        measured(TEMPERATURE, 50.0, START + 2),
    )
    [alone] = await bench.store(measured("ph", 6.0, START))
    await bench.catch_up(NEXT_DAY)
    assert (await bench.rollup(TEMPERATURE, 3_600, START)).max == [90.0]
    documents = await bench.couch.documents(
        bench.names.points, [each["_id"] for each in (kept, deleted, changed, alone)]
    )
    gone = [documents[each["_id"]] | {"_deleted": True} for each in (deleted, alone)]
    moved = documents[changed["_id"]] | {"timestamp": START + HOUR, "value": 5.0}
    await bench.store_documents([*gone, moved])
    await bench.catch_up()
    assert counts(await bench.rollups()) == {
        (TEMPERATURE, 300, 0): [1],
        (TEMPERATURE, 300, HOUR): [1],
        (TEMPERATURE, 3_600, 0): [1, 1],
    }
    assert (await bench.rollup(TEMPERATURE, 3_600, START)).max == [20.0, 5.0]


async def test_nothing_is_written_again_without_a_reason(bench):
    async def revisions():
        return {row["id"]: row["value"]["rev"] for row in await bench.couch.all_docs(bench.names.rollups)}

    [point] = await bench.store(measured(TEMPERATURE, 20.0, START))
    await bench.catch_up(NEXT_DAY)
    before = await revisions()
    document = (await bench.couch.documents(bench.names.points, [point["_id"]]))[point["_id"]]
    await bench.store_documents([document | {"by": "somebody"}])  # its hour is computed again
    await bench.store(measured("ph", 6.0, START))
    await bench.catch_up()
    after = await revisions()
    assert {each: after[each] for each in before} == before
    assert len(after) == len(before) + 2


async def test_a_long_past_is_read_in_pages(bench, monkeypatch):
    monkeypatch.setattr("growd.store.rollups.feed._CHANGES", 7)
    monkeypatch.setattr("growd.store.rollups.feed._MOST_PENDING", 5)
    monkeypatch.setattr("growd.store.rollups.writing._ROWS", 3)
    monkeypatch.setattr("growd.store.rollups.writing._DOCUMENTS", 2)
    times = [START] * 6 + [START + 600 * n for n in range(60)]  # some at one time, over the end of a page
    await bench.store(*(measured(TEMPERATURE, n, time) for n, time in enumerate(times)))
    await bench.catch_up(NEXT_DAY)
    found = await bench.rollups()
    assert sum(sum(each.count) for each in found.values() if each.width == 300) == len(times)
    assert sum((await bench.rollup(TEMPERATURE, 3_600, START)).count) == len(times)
    first = await bench.rollup(TEMPERATURE, 300, START)
    assert (first.count[0], first.mean[0], first.last[0]) == (7, 3.0, 6)


async def test_progress_is_saved_while_rollups_are_computed(bench, monkeypatch):
    monkeypatch.setattr("growd.store.rollups.feed._SPANS", 1)
    monkeypatch.setattr("growd.store.rollups.feed._BATCHES", 2)
    await bench.store(*(measured(TEMPERATURE, n, START + n * HOUR) for n in range(20)))
    bench.restart(_KilledWriting(bench.couch, 12))
    progress = []
    bench.feed.points.on_progress = lambda *, is_written: progress.append(is_written)
    with pytest.raises(Killed):
        await bench.catch_up(NEXT_DAY)
    assert progress == [False] + [True] * 5
    bench.restart()
    await bench.feed.load()
    assert sum(len(starts) for starts in bench.feed.points.state.pending["300"].values()) == 10


class _KilledWriting:
    """A client whose process ends at the write number `at` of rollups."""

    def __init__(self, couch, at):
        self._couch = couch
        self._left = at

    def __getattr__(self, name):
        self._left -= name == "bulk_docs"
        if not self._left:
            raise Killed
        return getattr(self._couch, name)


async def test_it_rests_for_its_own_work_only(bench, monkeypatch):
    monkeypatch.setattr("growd.store.rollups.feed._CHANGES", 7)
    monkeypatch.setattr("growd.store.rollups.feed._MOST_PENDING", 5)
    monkeypatch.setattr("growd.store.rollups.feed._SPANS", 3)
    times = [START + 600 * n for n in range(100)]
    await bench.store(*(measured(TEMPERATURE, n, time) for n, time in enumerate(times)))
    busy = _Working(bench.couch)
    bench.restart(busy, Pace(monotonic=lambda: busy.now, sleep=busy.sleep))
    await bench.catch_up(NEXT_DAY)
    assert busy.rested <= busy.worked
    assert busy.longest == LONGEST_REST_S


class _Working:
    """A client whose requests take a second each, and one of them very long, of a time of its own."""

    def __init__(self, couch):
        self._couch = couch
        self.worked = self.rested = self.longest = 0.0

    @property
    def now(self):
        return self.worked + self.rested

    async def sleep(self, seconds):
        self.rested += seconds
        self.longest = max(self.longest, seconds)

    def __getattr__(self, name):
        self.worked += 1.0 if self.worked else 100.0
        return getattr(self._couch, name)


async def test_a_large_answer_is_asked_for_in_parts(bench, database_server):
    notes = [measured("note", "x" * 20_000, START, category="event") for _ in range(20)]
    await bench.store(*notes, measured("air_flush_on", 1.0, START, category="commanded"))
    session, login = bench.couch._session, database_server.auth
    bench.restart(Couch(session, database_server.url, credentials=login, max_answer=50_000))
    await bench.catch_up(START + HOUR + DELAY_S)
    assert (await bench.rollup("air_flush_on", 300, START, "commanded")).count == [1]


# sealed hours


async def sealed(bench, *points):
    """Store points, and seal the first day."""
    documents = await bench.store(*points)
    bench.now = NEXT_DAY + 0.0
    await bench.feed.seal(START + DAY)
    return documents


async def delete(bench, *points):
    names = bench.names
    for database in (names.points, names.events):
        ids = [each["_id"] for each in points if (database == names.events) is ("category" in each)]
        found = await bench.couch.documents(database, ids)
        await bench.store_documents([each | {"_deleted": True} for each in found.values()], database)


async def test_a_sealed_hour_keeps_points_that_are_deleted(bench):
    points = await sealed(
        bench,
        measured(TEMPERATURE, 20.0, START),
        measured(TEMPERATURE, 30.0, START + HOUR),
        measured("air_flush_on", 1.0, START, category="commanded"),
    )
    before = await bench.rollups()
    assert [each.width for each in before.values() if each.is_sealed] == [300, 300, 300]
    assert bench.feed.points.state.sealed_until == bench.feed.events.state.sealed_until == START + DAY
    await delete(bench, *points)
    await bench.catch_up()
    bench.restart()
    await bench.catch_up(NEXT_DAY + DAY)
    assert await bench.rollups() == before


async def test_a_late_point_is_added_to_a_sealed_hour_once(bench):
    points = await sealed(bench, measured(TEMPERATURE, 20.0, START))
    await delete(bench, *points)
    late = [
        measured(TEMPERATURE, 30.0, START + 1),
        measured(TEMPERATURE, 10.0, START + 2 * HOUR),  # an hour without a document
        measured("ph", 6.0, START),  # a series without one
    ]
    documents = await bench.store(*late)
    await bench.catch_up()
    for _ in range(2):
        assert counts(await bench.rollups()) == {
            (TEMPERATURE, 300, 0): [2],
            (TEMPERATURE, 300, 2 * HOUR): [1],
            (TEMPERATURE, 3_600, 0): [2, 1],
            ("ph", 300, 0): [1],
            ("ph", 3_600, 0): [1],
        }
        rollup = await bench.rollup(TEMPERATURE, 300, START)
        assert (rollup.min, rollup.mean, rollup.max, rollup.last) == ([20.0], [25.0], [30.0], [30.0])
        assert rollup.is_sealed
        await delete(bench, *documents)  # now they are retired, too
        bench.restart()
        await bench.catch_up()


@pytest.mark.parametrize("until", [START + 1, START + DAY])
async def test_only_days_that_are_over_can_be_sealed(bench, until):
    bench.now = START + DAY + DELAY_S - 1
    with pytest.raises(ValueError, match="until must be the end of a day that is over"):
        await bench.feed.seal(until)


class _Busy:
    """A client that stores a point after each answer of the changes."""

    def __init__(self, bench, times):
        self._bench = bench
        self._left = times

    def __getattr__(self, name):
        return getattr(self._bench.couch, name)

    async def changes(self, database, *arguments, **options):
        answer = await self._bench.couch.changes(database, *arguments, **options)
        if database == self._bench.names.points and self._left:
            self._left -= 1
            await self._bench.store(measured(TEMPERATURE, 1.0, START + self._left))
        return answer


async def test_points_that_arrive_while_a_day_is_sealed_are_counted_once(bench):
    bench.restart(_Busy(bench, 3))
    await sealed(bench, measured(TEMPERATURE, 1.0, START + 100))
    assert bench.feed.points.state.sealed_until == START + DAY
    await bench.catch_up()
    assert (await bench.rollup(TEMPERATURE, 300, START)).count == [4]


async def test_a_day_is_not_sealed_while_its_points_arrive(bench):
    bench.restart(_Busy(bench, 1_000))
    bench.now = NEXT_DAY + 0.0
    with pytest.raises(StillArrivingError):
        await bench.feed.seal(START + DAY)
    assert bench.feed.points.state.sealed_until == 0


# databases that are not what they were


async def test_a_database_that_was_made_again_is_read_from_its_beginning(bench):
    old = await sealed(bench, measured(TEMPERATURE, 20.0, START))
    await bench.store(*(measured("ph", 6.0, START + DAY + n) for n in range(5)))
    await bench.catch_up(START + 2 * DAY)
    before = await bench.rollups()
    await bench.couch.delete(bench.names.points)
    with pytest.raises(CouchRefusedError):
        await bench.catch_up()
    await make_databases(bench.couch, bench.names)
    # points that come back with a replication are in the sealed hours already
    await bench.store_documents(copy.deepcopy(old))
    await bench.store(measured("ph", 7.0, START + 2 * DAY))
    await bench.catch_up(START + 3 * DAY)
    after = await bench.rollups()
    assert {each: after[each] for each in before} == before
    assert (await bench.rollup("ph", 300, START + 2 * DAY)).count == [1]
    await bench.store(measured(TEMPERATURE, 30.0, START + 1))  # one that is new
    await bench.catch_up()
    assert (await bench.rollup(TEMPERATURE, 300, START)).count == [2]


async def test_an_invalid_sequence_lets_all_changes_be_read_again(bench):
    await bench.store(measured(TEMPERATURE, 20.0, START))
    await bench.catch_up(START)
    state = bench.feed.points.state
    bench.feed.points.state.seq = "nonsense"
    await bench.feed.points.save()
    bench.restart()
    await bench.store(measured(TEMPERATURE, 30.0, START + 1))
    await bench.catch_up(START + HOUR + DELAY_S)
    assert (await bench.rollup(TEMPERATURE, 300, START)).count == [2]
    assert bench.feed.points.state.database == state.database


async def test_without_the_state_sealed_hours_are_found_again(bench):
    points = await sealed(
        bench,
        measured(TEMPERATURE, 20.0, START),
        measured("ph", 20.0, START + 5 * HOUR),
        measured("ph", 20.0, START + DAY + 10),
    )
    await delete(bench, points[0])
    await bench.catch_up(START + 2 * DAY)
    before = await bench.rollups()
    for name in ("points", "events"):
        document = await bench.couch.get(bench.names.rollups, f"_local/growd-{name}")
        assert document is not None
        await bench.couch.put(bench.names.rollups, document | {"_deleted": True})
    bench.restart()
    await bench.catch_up()
    assert await bench.rollups() == before
    assert bench.feed.points.state.sealed_until == START + DAY
    await bench.store(measured("ph", 10.0, START + 5 * HOUR + 1))
    await bench.catch_up()
    assert (await bench.rollup("ph", 300, START + 5 * HOUR)).count == [2]


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_rollups_of_a_deleted_database_are_made_again(bench, is_noticed):
    """Also of one that was deleted and made between two looks."""
    await bench.store(measured(TEMPERATURE, 20.0, START))
    await bench.catch_up(NEXT_DAY)
    before = await bench.rollups()
    await bench.couch.delete(bench.names.rollups)
    if is_noticed:
        with pytest.raises(CouchRefusedError):
            await bench.catch_up()
    await make_databases(bench.couch, bench.names)
    await bench.catch_up()
    assert await bench.rollups() == before


async def test_a_state_that_growd_has_not_written_is_an_error_with_a_remedy(bench, said):
    await bench.catch_up(START)
    state = await bench.couch.get(bench.names.rollups, "_local/growd-points")
    assert state is not None
    await bench.couch.put(bench.names.rollups, state | {"pending": {"abc": {"x": [1]}}})
    with said.raises(RollupError):
        await bench.catch_up()


async def test_the_state_of_the_retirement_is_kept(bench):
    await bench.catch_up(START)
    await bench.feed.note_retired(bench.feed.events, START)
    bench.restart()
    await bench.catch_up(NEXT_DAY)
    bench.restart()
    await bench.feed.load()
    assert bench.feed.events.state.retired_until == START
    assert bench.feed.points.state.retired_until == 0


async def test_a_quiet_hour_takes_few_requests(bench):
    await bench.store(*(measured(f"v{n}", 1.0, START) for n in range(10)))
    await bench.catch_up(START + 1)
    couch = KilledCouch(bench.couch)
    bench.restart(couch)
    await bench.catch_up(START + HOUR + DELAY_S)
    assert couch.requests.count("bulk_docs") == 1
    assert couch.requests.count("put") == 2
    assert len(couch.requests) < 25


@pytest.mark.long
@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
async def test_a_late_point_is_counted_once_over_a_kill_at_any_request(bench, is_sent):
    await bench.store(measured("ph", 1.0, START))
    bench.now = START + DAY + HOUR
    await bench.feed.seal(START + DAY)
    at = added = 0
    is_over = False
    while not is_over:
        at, added = at + 1, added + 1
        await bench.store(measured("ph", 1.0, START + added))
        bench.restart(KilledCouch(bench.couch, at, is_sent=is_sent))
        try:
            await bench.catch_up()
            is_over = True  # it has fewer requests
        except Killed:
            bench.restart()
            await bench.catch_up()
        assert (await bench.rollup("ph", 300, START)).count == [1 + added], f"killed at request {at}"
    assert at > 10
