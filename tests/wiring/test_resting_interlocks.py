"""Interlocks that rest trip and release as if they were updated each time."""

from __future__ import annotations

import asyncio
import math
import random
from datetime import UTC
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from growd.bus import Bus
from growd.bus.messages import FLOAT64, Quality
from growd.config import Chamber, load
from growd.control.interlocks.base import Interlock, SensorReadings
from growd.control.interlocks.node import Interlocks
from growd.control.topics import desired, raw
from growd.wiring.chambers_node import declare_topics
from growd.wiring.interlocks import interlocks_of
from growd.wiring.pumps import pumps_of
from support.clock import ManualClock
from support.memory import ShortMemory

if TYPE_CHECKING:
    from growd.config import Config

pytestmark = pytest.mark.long

STEPS = 700
READ = {
    "air_temperature": (10.0, 50.0, 25.0),
    "air_humidity": (20.0, 90.0, 60.0),
    "air_carbon_dioxide": (100.0, 6_000.0, 800.0),
    "water_potential_hydrogen": (4.0, 8.0, 5.8),
    "water_electrical_conductivity": (0.5, 4.0, 1.6),
    "water_level": (0.0, 100.0, 60.0),
}
"""The lowest and the highest reading, and a set point."""
OUTPUTS = {
    "valve": "air_carbon_dioxide_valve_on",
    "fan": "air_flush_on",
    "heater": "air_heater",
    "humidifier": "air_humidifier",
    "circulation": "water_circulation",
    "acid": "nutrient_ph_down",
    "nutrient": "nutrient_a",
    "tap_water": "water_fill",
}
WAITS_S = (0.01, 0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 5.0, 60.0)


class Rack:
    """The interlocks of the shipped chamber, with their inputs."""

    def __init__(self, config: Config) -> None:
        self.clock = ManualClock()
        chamber = Chamber(config, "environment_1")
        self.bus = Bus(self.clock)
        declare_topics(config, self.bus)
        pumps = pumps_of(chamber, self.clock.monotonic)
        self.node = interlocks_of(chamber, self.bus, ShortMemory(), UTC, hold=None, pumps=pumps)
        device = self.bus.node("device")
        self.raw = {name: device.publisher(raw("environment_1", name)) for name in READ}
        self.desired = {name: device.publisher(desired("environment_1", name)) for name in READ}
        self.guards = {name: self.node.guard(name, {output: 0.0}) for name, output in OUTPUTS.items()}
        self.lamp = self.node.guard("light", dict.fromkeys(("white", "red", "blue"), 0.0))

    def write(self, device: str, level: float | None) -> float:
        output = OUTPUTS[device]
        permitted = self.guards[device].permit(output, 1.0 if level is None else level)
        self.guards[device].wrote(output, None if level is None else permitted, was_on_s=None)
        return permitted

    def light(self, level: float) -> list[float]:
        permitted = [min(level, self.lamp.permit(each, 1.0)) for each in ("white", "red", "blue")]
        for channel, each in zip(("white", "red", "blue"), permitted, strict=True):
            self.lamp.wrote(channel, each)
        return permitted

    def state(self) -> list[tuple[object, ...]]:
        return [
            (each.name, each.reason, each.is_quiet, each.has_tripped, each.problem, each.is_failure)
            for each in self.node._interlocks
        ]


class Course:
    """Random inputs: readings wander, sensors fail and fall silent, outputs are switched."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values = {name: set_point for name, (_, _, set_point) in READ.items()}
        self.silent: set[str] = set()

    async def step(self, rack: Rack) -> object:
        """One input of each kind at most, and a wait. Returns what the interlocks permit."""
        for name in READ:
            if self.random.random() < 0.01:
                self.silent ^= {name}
            elif name not in self.silent and self.random.random() < 0.5:
                self._read(rack, name)
        if self.random.random() < 0.05:
            name = self.random.choice(list(READ))
            rack.desired[name].publish(READ[name][2] * self.random.uniform(0.9, 1.1))
        permitted: object = None
        if self.random.random() < 0.05:
            permitted = rack.light(self.random.choice((0.0, 0.5, 1.0)))
        elif self.random.random() < 0.3:
            level = self.random.choice((0.0, 0.0, 0.0, 1.0, 1.0, 1.0, None))
            permitted = rack.write(self.random.choice(list(OUTPUTS)), level)
        await rack.clock.advance(self.random.choice(WAITS_S))
        return permitted

    def _read(self, rack: Rack, name: str) -> None:
        low, high, _ = READ[name]
        moved = self.values[name] + self.random.gauss(0, (high - low) / 20)
        self.values[name] = min(high, max(low, moved))
        if self.random.random() < 0.02:
            rack.raw[name].publish(None, Quality.FAULT)
        else:
            rack.raw[name].publish(self.values[name])


async def _course(config: Config, seed: int) -> list[object]:
    """What the interlocks permit, and their states, after each step."""
    rack, course, seen = Rack(config), Course(seed), []
    task = asyncio.create_task(rack.node.run())
    for _ in range(STEPS):
        permitted = await course.step(rack)
        seen.append((permitted, rack.state()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return seen


def _classes(of: type[Interlock]) -> set[type[Interlock]]:
    return {of, *(each for kind in of.__subclasses__() for each in _classes(kind))}


@pytest.fixture(scope="module")
def climate() -> Config:
    return load(Path(str(files("growd.config") / "shipped/climate.toml")))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 6))]
)
async def test_interlocks_that_rest_do_as_if_they_were_updated_each_time(climate, seed, monkeypatch):
    resting = await _course(climate, seed)
    for kind in _classes(Interlock):
        monkeypatch.setattr(kind, "unchanged_until", lambda _self, now: now)
    updated = await _course(climate, seed)
    differing = next((index for index in range(STEPS) if resting[index] != updated[index]), None)
    assert differing is None, (resting[differing], updated[differing])
    states = {(name, bool(reason)) for _, state in updated for name, reason, *_ in state}
    assert len(states) > 45, "most interlocks trip, and release"


class _Resting(Interlock):
    """Rests for ever, and counts its updates."""

    reads = follows = frozenset({"air_temperature"})
    listens = frozenset({"environment_1/feedback/heater"})

    def __init__(self) -> None:
        super().__init__("resting", {"air_heater"}, {})
        self.updates = 0

    def update(self, now: float, wall: float) -> None:
        self.updates += 1

    def unchanged_until(self, now: float) -> float:
        return math.inf


async def test_each_input_wakes_an_interlock_that_rests():
    clock, resting = ManualClock(), _Resting()
    bus = Bus(clock)
    node = bus.node("device")
    topics = {
        "reading": "environment_1/raw/air_temperature",
        "set point": "environment_1/desired/air_temperature",
        "message": "environment_1/feedback/heater",
    }
    for topic in topics.values():
        bus.topics.declare(topic, FLOAT64, is_open=True)
    readings = SensorReadings({"air_temperature": math.inf})
    interlocks = Interlocks(
        bus,
        "environment_1",
        [resting],
        readings,
        sensors={"air_temperature": ()},
        memory=ShortMemory(),
    )
    guard = interlocks.guard("heater", {"air_heater": 0.0})
    task = asyncio.create_task(interlocks.run())
    await clock.advance(3)
    assert not task.done(), task.exception()
    woken = {}
    for name, topic in topics.items():
        before = resting.updates
        node.publish_arguments(topic, [20.0])
        await clock.advance(0.5)
        woken[name] = resting.updates - before
    before = resting.updates
    guard.wrote("air_heater", 1.0)
    await clock.advance(1.5)
    assert resting.updates > before
    await clock.advance(10)
    rested = resting.updates
    await clock.advance(10)
    assert resting.updates == rested
    assert all(woken.values()), woken
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
