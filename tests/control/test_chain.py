"""From a recipe to the duty of the light, through every part in between."""

import asyncio

import pytest

from growd.bus import Bus
from growd.control.controllers import DirectController, LightController
from growd.control.lamp import LightActuator
from growd.control.topics import LIGHT_CHANNELS, declare_environment
from growd.output_roles import Lease
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.runtime.worker import Worker
from support.clock import ManualClock
from support.recipes import MemoryJournal
from support.running import running

DARK = {"white": 0.0, "red": 0.0, "blue": 0.0}
RECIPE = {
    "format": "simple",
    "operations": [
        [0, "light_illuminance", 8000],
        [0, "light_intensity_red", 0.7],
        [100, "light_intensity_red", 0.7],
    ],
}


class Rig:
    def __init__(self, ramp_s=0.0):
        self.clock = ManualClock()
        self.bus = Bus(self.clock)
        declare_environment(self.bus, "e", ["light_illuminance"])
        self.worker = Worker("gpio", monotonic=self.clock.monotonic)
        self.clock.watch(self.worker)
        self.duty = {}
        self.written = []
        self.recipe = RECIPE
        self.journal = MemoryJournal()
        self.runner = RecipeRunner(self.bus, "e", library=Library(self._fetch, None), journal=self.journal)
        actuator = LightActuator(
            self.bus, "e", write=self._write, worker=self.worker, ramp_s=ramp_s, lease=Lease(60.0)
        )
        controllers = [
            LightController(self.bus, "e"),
            *(DirectController(self.bus, "e", f"light_intensity_{c}") for c in LIGHT_CHANNELS),
        ]
        self.parts = [self.runner, *controllers, actuator]

    async def call(self, service, *arguments):
        return await self.bus.services.get(f"e/{service}").call(list(arguments))

    async def _fetch(self, recipe_id):
        return self.recipe

    def _write(self, channel, level, _valid_s):
        self.duty[channel] = level
        self.written.append((channel, level))


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, *rig.parts):
        assert (await rig.call("start_recipe", "light"))["success"]
        await rig.clock.settle()
        yield rig
    await rig.worker.close()


async def test_the_lamp_is_dark_at_once_when_the_recipe_is_stopped(rig):
    assert rig.duty == {"white": 0.4, "red": 0.7, "blue": 0.2}
    assert (await rig.call("stop_recipe"))["success"]
    await rig.clock.settle()
    assert rig.duty == DARK


async def changed(rig, white):
    """Let a recipe with this level of the white channel take over while the disk is slow."""
    operations = [[0, "light_illuminance", white * 20_000], [1000, "light_illuminance", 0]]
    rig.recipe = {"_rev": "2-b", "format": "simple", "operations": operations}
    rig.journal.hold = asyncio.Event()
    call = asyncio.create_task(rig.call("change_recipe"), name="change")
    await rig.clock.until(lambda: rig.journal.hold._waiters)
    await rig.clock.advance(10)
    rig.written.clear()
    rig.journal.hold.set()
    assert (await call)["success"]
    await rig.clock.advance(30)


async def test_a_change_of_the_recipe_writes_nothing_that_stays_the_same(rig):
    """The red channel was driven by the old recipe only."""
    await changed(rig, 0.4)
    assert rig.duty == {"white": 0.4, "red": 0.2, "blue": 0.2}
    assert rig.written == [("red", 0.2)]


async def test_a_lamp_has_no_dark_moment_when_the_recipe_is_changed():
    rig = Rig(ramp_s=20.0)
    async with running(rig.clock, *rig.parts):
        await rig.call("start_recipe", "light")
        await rig.clock.advance(60)
        assert rig.duty == {"white": 0.4, "red": 0.7, "blue": 0.2}
        await changed(rig, 0.8)
        assert rig.duty == {"white": 0.8, "red": 0.4, "blue": 0.4}
        levels = [level for channel, level in rig.written if channel == "white"]
        assert levels == sorted(levels)  # only brighter
        assert levels[0] > 0.4
        assert min(level for _, level in rig.written) >= 0.2
    await rig.worker.close()
