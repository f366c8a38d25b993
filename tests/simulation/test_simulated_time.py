"""Simulated time never goes back, neither after a clean end nor after a kill."""

import asyncio
import re
import signal
import time
from contextlib import asynccontextmanager

import pytest

from growd.config import load
from growd.runtime.clock import RealClock
from growd.store.local import LocalStore
from growd_simulation.machine import RENEWED_S, release_time, reserve_time, simulated_clock
from growd_simulation.simulated_clock import SimulatedClock, moving
from support.program import home_on, started
from support.waiting import until_found

pytestmark = pytest.mark.long

SPEED = 500


@asynccontextmanager
async def simulated(folder, speed=SPEED):
    """The file of a data folder, and the clock of a simulation with it."""
    local = await LocalStore.open(folder / "growd.sqlite3")
    settings = ("simulator.enabled=true", f"simulator.speed={speed}")
    try:
        yield local, await simulated_clock(load(None, settings), local)
    finally:
        await local.close()  # no more writes, as after a kill


@pytest.mark.parametrize("seconds", [0.0, 5 * RENEWED_S * SPEED], ids=["at once", "after some renewals"])
async def test_after_a_kill_time_continues_later_than_it_ended(tmp_path, seconds):
    async with simulated(tmp_path) as (local, clock):
        assert isinstance(clock, SimulatedClock)
        with moving(clock, asyncio.get_running_loop()):
            reserving = asyncio.create_task(reserve_time(local, clock), name="reserve time")
            await clock.sleep(seconds)
            last = clock.time()
            reserving.cancel()
            await asyncio.wait([reserving])
    async with simulated(tmp_path) as (local, clock):
        kept = await local.state("simulated_time")
        assert clock.time() >= kept > last


async def test_after_a_clean_end_no_reserved_time_is_skipped(tmp_path):
    async with simulated(tmp_path) as (local, clock):
        await release_time(local, clock)
        assert await local.state("simulated_time") == clock.time()


async def test_at_normal_speed_the_clock_of_the_machine_is_used(tmp_path):
    async with simulated(tmp_path, speed=1) as (local, clock):
        assert isinstance(clock, RealClock)
        assert await local.state("simulated_time") is None


async def test_without_a_bound_hours_pass_and_the_speed_is_told(tmp_path, database_server):
    async with (
        home_on(database_server, shared=True) as home,
        started(tmp_path / "data", "--speed", "max", *home.arguments) as program,
    ):

        async def status(after=0.0):
            found = (await program.ask("GET", "node/status"))["status"]
            return found if found["time"] > after else None

        began = (await status() or {})["time"]
        later = await until_found(lambda: status(began + 3_600))
        assert later["speed"] > 1
        assert later["machine"]["clock_simulated"]
        _, printed = await program.end(signal.SIGTERM)
    hours, minutes, seconds = map(int, re.search(r"(\d\d):(\d\d):(\d\d) INFO +stopping", printed).groups())
    async with simulated(tmp_path / "data") as (local, _):
        saved = await local.state("simulated_time")
    end = time.gmtime(saved)  # the simulated hours of a day do not go on while growd ends
    stopped = (end.tm_hour - hours) * 3_600 + (end.tm_min - minutes) * 60 + end.tm_sec - seconds
    assert stopped % 86_400 < 3_600
