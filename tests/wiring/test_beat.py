"""Loops wake up together, on whole seconds of the monotonic clock, whenever they began: this spares CPU."""

import asyncio
from collections import defaultdict
from datetime import UTC

from growd.config import Config, Light, Output, Sensor
from growd.recipes.library import Library
from growd.recipes.runner import RecipeRunner
from growd.wiring.derived import derived_of
from support.memory import ShortMemory
from support.recipes import MemoryJournal
from support.rig import rigged
from support.running import in_tasks

ENV = "environment_1"
CONFIG = Config(
    sensor=(Sensor(name="air", kind="scd30"), Sensor(name="lux", kind="bh1750", interval_s=1.0)),
    light=Light(),
    output=(
        Output(name="heat", kind="pwm", pin=17, variable="air_heater"),
        Output(name="fog", pin=23, variable="air_humidifier"),
        Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on"),
    ),
)
LOOPS = {
    *("attainment", "interlocks", "samplers/air", "samplers/lux", "filters/air_temperature: staleness"),
    *("derived: sums", "planners/air_humidity: tick", "planners/light_illuminance: tick"),
    *("RecipeRunner", "recipe_runner: progress"),
    *("actuators/heat", "actuators/fog", "actuators/valve", "actuators/light"),
    "controllers/light_illuminance",
}


def noting(clock):
    """Note by task when it wakes up from now on, as a part of a second."""
    woken, sleep, call_later = defaultdict(set), clock.sleep, clock.call_later

    def note(name):
        name = name.removeprefix(f"{ENV}/").removeprefix("running ")
        woken[name].add(round(clock.monotonic() % 1.0, 6) % 1.0)

    async def noted_sleep(seconds):
        await sleep(seconds)
        note(asyncio.current_task().get_name())

    def noted_call(seconds, callback):
        name = asyncio.current_task().get_name()
        return call_later(seconds, lambda: (note(name), callback()))

    clock.sleep, clock.call_later = noted_sleep, noted_call
    return woken


async def test_all_loops_of_a_chamber_wake_up_on_whole_seconds():
    async with rigged(CONFIG, begins_s=1_000.3) as rig:
        (derived,) = derived_of(CONFIG, rig.bus, ShortMemory(), UTC)

        async def fetch(_):
            raise LookupError

        runner = RecipeRunner(rig.bus, ENV, library=Library(fetch, None), journal=MemoryJournal(), zone=UTC)
        async with in_tasks(runner, *derived.nodes):
            await rig.clock.advance(10)
            client = rig.bus.node("client")
            client.publish_arguments(f"{ENV}/desired/light_illuminance", [5_000])
            await rig.clock.advance(10)
            woken = noting(rig.clock)
            await rig.clock.advance(120)
    assert woken.keys() >= LOOPS
    assert {name: parts for name, parts in woken.items() if parts != {0.0}} == {}
