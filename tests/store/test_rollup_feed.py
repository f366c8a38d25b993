"""Rollups follow the points of the database: late ones, changed ones, and other databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.rollups import DELAY_S, START, RollupBench, measured, rollup_bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOUR = 3_600
MONTH = 2_592_000
MONTH_START = START // MONTH * MONTH


@pytest.fixture
async def bench(database_server) -> AsyncIterator[RollupBench]:
    async with rollup_bench(database_server) as bench:
        yield bench


async def test_an_hour_is_rolled_up_when_it_is_over(bench):
    await bench.store(
        measured("air_temperature", 20.5, START + 10),
        measured("air_temperature", 23.5, START + 20),
        measured("air_temperature", 22.0, START + 310),
        measured("air_temperature", 1.0, START + HOUR),
    )
    await bench.catch_up(START + HOUR + DELAY_S - 1)
    assert await bench.rollups() == {}
    await bench.catch_up(START + HOUR + DELAY_S)
    [rollup] = (await bench.rollups()).values()
    assert rollup == await bench.rollup("air_temperature", 300, START)
    assert (rollup.at, rollup.count, rollup.is_sealed) == ([0, 1], [2, 1], False)
    assert (rollup.min, rollup.mean, rollup.max) == ([20.5, 22.0], [22.0, 22.0], [23.5, 22.0])
    assert (rollup.last, rollup.last_at) == ([23.5, 22.0], [START + 20, START + 310])
