"""Points are deleted a day at a time, once they are rolled up; everything else stays."""

import asyncio

import pytest

from growd.runtime.pauses import Pace
from growd.store.retention.far_end import UnconfirmedError
from support.retention import HOUR, a_day, check_day, documents, retire_all, retirements, tombstones
from support.rollups import DAY, START, make_databases, measured
from support.waiting import until

NOW = START + 10 * DAY


@pytest.fixture
def bench(bench, database_server):
    bench.now = NOW
    bench.is_embedded = database_server.is_embedded
    return bench


async def left_of(bench):
    """The documents of both databases."""
    return [*await documents(bench, bench.names.points), *await documents(bench, bench.names.events)]


@pytest.mark.long
async def test_measured_values_and_commands_of_a_day_are_deleted_and_their_rollups_stay(bench):
    day, next_day = a_day(START), a_day(START + DAY)
    await bench.store(*map(dict, day), *map(dict, next_day))
    found = retirements(bench, is_embedded=bench.is_embedded)
    assert [await one.oldest_day(START + DAY - 1) for one in found] == [None, None]  # it is not over
    assert [await one.oldest_day(NOW) for one in found] == [START, START]
    assert await retire_all(found, START + DAY) == len(day)
    left = sorted(one["timestamp"] for one in await left_of(bench))
    assert left == sorted(one["timestamp"] for one in next_day)
    check_day(await bench.rollups(), day, START)
    check_day(await bench.rollups(), next_day, START + DAY)
    assert [feed.state.retired_until for feed in (bench.feed.points, bench.feed.events)] == [START + DAY] * 2
    late = [measured("air_temperature", 99.0, START + 8.5), measured("water_ph", 6.0, START + 40_000)]
    await bench.store(*map(dict, late))
    assert await retire_all(retirements(bench, is_embedded=bench.is_embedded), START + DAY) == 2
    await bench.catch_up()
    check_day(await bench.rollups(), [*day, *late], START)


async def test_set_points_events_manual_and_changed_measurements_and_texts_stay(bench):
    kept = [
        measured("air_temperature", 21.0, START + 5, is_desired=True),
        measured("harvest_fresh_mass", 120.0, START + 6, is_manual=True),
        measured("state", "open", START + 7),
        measured("air_temperature", "fault", START + 8, category="quality"),
        measured("note", "a note", START + 9, category="event", is_manual=True),
        measured("air_temperature", 20.0, START + 10),  # changed below
    ]
    *_, stored = await bench.store(*map(dict, kept))
    present = await bench.couch.get(bench.names.points, stored["_id"])
    await bench.couch.put(bench.names.points, present | {"value": 21.0})
    await bench.store(measured("air_temperature", 20.0, START + 11))
    assert await retire_all(retirements(bench, is_embedded=bench.is_embedded), NOW) == 1
    left = sorted(one["timestamp"] for one in await left_of(bench))
    assert left == sorted(one["timestamp"] for one in kept)


async def test_manual_measurements_before_and_between_do_not_hide_points(bench):
    by_hand = [measured("air_temperature", 20.0, START + n, is_manual=True) for n in range(45)]
    sensed = [measured("air_temperature", 20.0, START + DAY + n * 0.5) for n in range(31)]
    mixed = [measured("air_temperature", 20.0, START + DAY + n, is_manual=True) for n in range(15)]
    await bench.store(*by_hand, *sensed, *mixed)
    found = retirements(bench, is_embedded=bench.is_embedded)
    assert await retire_all(found, NOW) == 31
    assert len(await documents(bench, bench.names.points)) == 60
    assert await found[0].oldest_day(NOW) is None
    await bench.store(measured("air_temperature", 20.0, START - 10))  # before them
    await bench.catch_up()
    assert await found[0].oldest_day(NOW) == START - DAY


async def test_couchdb_keeps_no_tombstones_of_retired_points_and_those_of_others(bench):
    if bench.is_embedded:
        pytest.skip("the embedded database has no purge")
    await bench.store(*map(dict, a_day(START)))
    [deleted] = await bench.store(measured("air_temperature", 1.0, START + 1))
    stored = await bench.couch.get(bench.names.points, deleted["_id"])
    await bench.couch.put(bench.names.points, stored | {"_deleted": True})
    await retire_all(retirements(bench, is_embedded=False), NOW)
    assert await tombstones(bench, bench.names.points) == 1
    assert await tombstones(bench, bench.names.events) == 0


async def test_a_batch_that_waits_for_the_rollups_says_so(bench):
    await bench.store(*map(dict, a_day(START)))
    pace = Pace(0.0)
    [points, _] = retirements(bench, is_embedded=bench.is_embedded, pace=pace)
    async with bench.feed._lock:  # as while the rollups are brought up to date
        retiring = asyncio.create_task(points.retire(START))
        await until(lambda: pace.waits_for)
        assert pace.waits_for == "the rollups"
    await retiring
    assert pace.waits_for == ""


async def test_no_point_is_deleted_whose_rollup_does_not_have_it(bench):
    await bench.store(*map(dict, a_day(START)))
    await bench.catch_up()
    found = retirements(bench, is_embedded=bench.is_embedded)
    await bench.feed.seal(START + DAY)
    humidity = await bench.rollup("air_humidity", 300, START)
    fan = await bench.rollup("fan_on", 300, START, "commanded")
    for rollup, change in ((humidity, {"count": [0] * len(humidity.count)}), (fan, {"_deleted": True})):
        document = await bench.couch.get(bench.names.rollups, rollup.id)
        await bench.couch.put(bench.names.rollups, document | change)
    assert await retire_all(found, NOW) > 0
    left = await left_of(bench)
    assert {one["variable"] for one in left} == {"air_humidity", "fan_on"}
    assert {one["timestamp"] // HOUR for one in left} == {START // HOUR}
    assert [each.unrolled for each in found] == [{humidity.id}, {fan.id}]
    await bench.store(measured("air_temperature", 20.0, START + DAY))
    assert await retire_all(found, NOW) == 1  # the days after go on


async def test_rollups_that_began_again_within_a_day_are_sealed_before_its_points_are_deleted(bench):
    await bench.store(*map(dict, a_day(START)))
    [points, _] = retirements(bench, is_embedded=bench.is_embedded)
    confirm, left = points._far_end.confirm, []

    async def replaced(*arguments):
        if points._sealed_until:
            points._far_end.confirm = confirm
            await bench.couch.delete(bench.names.rollups)
            await make_databases(bench.couch, bench.names)
            left.extend(await documents(bench, bench.names.points))

    points._far_end.confirm = replaced
    await points.retire(START)
    await bench.catch_up()
    hours = [one for one in (await bench.rollups()).values() if one.width == 300]
    assert sum(sum(one.count) for one in hours if one.category == "measured") == len(left) > 0


async def test_a_database_that_refuses_deletions_is_reported(bench):
    if bench.is_embedded:
        pytest.skip("the function would have to be that of growd")
    await bench.store(*map(dict, a_day(START)))
    refusal = "function (after) { if (after._deleted) { throw ({ forbidden: 'append only' }); } }"
    await bench.couch.put(bench.names.points, {"_id": "_design/keep", "validate_doc_update": refusal})
    [points, _] = retirements(bench, is_embedded=False)
    with pytest.raises(UnconfirmedError, match="refuses to delete points: append only"):
        await points.retire(START)
