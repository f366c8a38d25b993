"""Points are deleted a day at a time, once they are rolled up; everything else stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.retention import a_day, check_day, documents, retire_all, retirements, tombstones
from support.rollups import DAY, DELAY_S, START, RollupBench, measured, rollup_bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = START + 10 * DAY


@pytest.fixture
async def bench(database_server) -> AsyncIterator[RollupBench]:
    async with rollup_bench(database_server) as bench:
        bench.now = NOW
        yield bench


async def test_measured_values_and_commands_of_a_day_are_deleted_and_their_rollups_stay(
    bench, database_server
):
    day, next_day = a_day(START), a_day(START + DAY)
    await bench.store(*map(dict, day), *map(dict, next_day))
    found = retirements(bench, is_embedded=database_server.is_embedded)
    assert [await one.oldest_day(NOW) for one in found] == [START, START]
    assert await retire_all(found, START + DAY) == len(day)
    left = [*await documents(bench, bench.names.points), *await documents(bench, bench.names.events)]
    assert sorted(one["timestamp"] for one in left) == sorted(one["timestamp"] for one in next_day)
    check_day(await bench.rollups(), day, START)
    check_day(await bench.rollups(), next_day, START + DAY)
    assert [feed.state.retired_until for feed in (bench.feed.points, bench.feed.events)] == [START + DAY] * 2


async def test_set_points_events_manual_measurements_and_texts_stay(bench, database_server):
    kept = [
        measured("air_temperature", 21.0, START + 5, is_desired=True),
        measured("harvest_fresh_mass", 120.0, START + 6, is_manual=True),
        measured("state", "open", START + 7),
        measured("air_temperature", "fault", START + 8, category="quality"),
        measured("note", "a note", START + 9, category="event", is_manual=True),
    ]
    await bench.store(*map(dict, kept), measured("air_temperature", 20.0, START + 10))
    assert await retire_all(retirements(bench, is_embedded=database_server.is_embedded), NOW) == 1
    left = [*await documents(bench, bench.names.points), *await documents(bench, bench.names.events)]
    assert sorted(one["timestamp"] for one in left) == sorted(one["timestamp"] for one in kept)


async def test_manual_measurements_before_and_between_do_not_hide_points(bench, database_server):
    by_hand = [measured("air_temperature", 20.0, START + n, is_manual=True) for n in range(45)]
    sensed = [measured("air_temperature", 20.0, START + DAY + n * 0.5) for n in range(31)]
    mixed = [measured("air_temperature", 20.0, START + DAY + n, is_manual=True) for n in range(15)]
    await bench.store(*by_hand, *sensed, *mixed)
    found = retirements(bench, is_embedded=database_server.is_embedded)
    assert await retire_all(found, NOW) == 31
    assert len(await documents(bench, bench.names.points)) == 60
    assert await retire_all(found, NOW) == 0


async def test_couchdb_keeps_no_tombstones_of_retired_points_and_those_of_others(bench, database_server):
    if database_server.is_embedded:
        pytest.skip("the embedded database has no purge")
    await bench.store(*map(dict, a_day(START)))
    [deleted] = await bench.store(measured("air_temperature", 1.0, START + 1))
    stored = await bench.couch.get(bench.names.points, deleted["_id"])
    assert stored is not None
    await bench.couch.put(bench.names.points, stored | {"_deleted": True})
    await retire_all(retirements(bench, is_embedded=False), NOW)
    assert await tombstones(bench, bench.names.points) == 1
    assert await tombstones(bench, bench.names.events) == 0


async def test_a_late_point_of_a_retired_day_is_rolled_up_once_and_deleted(bench, database_server):
    day = a_day(START)
    await bench.store(*map(dict, day))
    is_embedded = database_server.is_embedded
    await retire_all(retirements(bench, is_embedded=is_embedded), NOW)
    late = [measured("air_temperature", 99.0, START + 8.5), measured("water_ph", 6.0, START + 40_000)]
    await bench.store(*map(dict, late))
    assert await retire_all(retirements(bench, is_embedded=is_embedded), NOW) == 2
    await bench.catch_up()
    assert await documents(bench, bench.names.points) == []
    check_day(await bench.rollups(), [*day, *late], START)


async def test_a_day_that_is_not_over_stays(bench, database_server):
    await bench.store(*map(dict, a_day(START)))
    [points, _] = retirements(bench, is_embedded=database_server.is_embedded)
    assert await points.oldest_day(START + DAY - 1) is None
    assert await points.oldest_day(START + DAY) == START
    assert DELAY_S < DAY


async def test_a_point_that_was_changed_after_it_was_written_stays(bench, database_server):
    [stored] = await bench.store(measured("air_temperature", 20.0, START + 1))
    present = await bench.couch.get(bench.names.points, stored["_id"])
    assert present is not None
    await bench.couch.put(bench.names.points, present | {"value": 21.0})
    await bench.store(measured("air_temperature", 22.0, START + 2))
    assert await retire_all(retirements(bench, is_embedded=database_server.is_embedded), NOW) == 1
    assert [one["value"] for one in await documents(bench, bench.names.points)] == [21.0]
