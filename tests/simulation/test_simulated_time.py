"""Simulated time never goes back, neither after a clean end nor after a kill."""

import asyncio

import pytest

from growd.config import load
from growd.runtime.clock import RealClock
from growd.store.local import LocalStore
from growd_simulation.machine import RENEWED_S, release_time, reserve_time, simulated_clock
from growd_simulation.simulated_clock import SimulatedClock, moving
from support.program import started
from support.waiting import until_found

pytestmark = pytest.mark.long

SPEED = 500


async def opened(folder):
    return await LocalStore.open(folder / "growd.sqlite3")


async def clock_of(local, speed=SPEED):
    return await simulated_clock(load(None, ("simulator.enabled=true", f"simulator.speed={speed}")), local)


@pytest.mark.parametrize("seconds", [0.0, 5 * RENEWED_S * SPEED], ids=["at once", "after some renewals"])
async def test_after_a_kill_time_continues_later_than_it_ended(tmp_path, seconds):
    local = await opened(tmp_path)
    clock = await clock_of(local)
    assert isinstance(clock, SimulatedClock)
    with moving(clock, asyncio.get_running_loop()):
        reserving = asyncio.create_task(reserve_time(local, clock), name="reserve time")
        await clock.sleep(seconds)
        last = clock.time()
        reserving.cancel()
        await asyncio.wait([reserving])
    await local.close()  # no more writes, as after a kill
    again = await opened(tmp_path)
    kept = await again.state("simulated_time")
    assert kept > last
    assert (await clock_of(again)).time() >= kept
    await again.close()


async def test_after_a_clean_end_no_reserved_time_is_skipped(tmp_path):
    local = await opened(tmp_path)
    clock = await clock_of(local)
    assert isinstance(clock, SimulatedClock)
    await release_time(local, clock)
    assert await local.state("simulated_time") == clock.time()
    await local.close()


async def test_at_normal_speed_the_clock_of_the_machine_is_used(tmp_path):
    local = await opened(tmp_path)
    assert isinstance(await clock_of(local, speed=1), RealClock)
    assert await local.state("simulated_time") is None
    await local.close()


async def test_without_a_bound_days_pass_and_the_speed_is_told(tmp_path):
    async with started(tmp_path / "data", "--speed", "max") as program:

        async def status(after=0.0):
            found = (await program.ask("GET", "node/status"))["status"]
            return found if found["time"] > after else None

        began = (await status() or {})["time"]
        later = await until_found(lambda: status(began + 3_600))
        assert later["speed"] > 1
        assert later["machine"]["clock_simulated"]
