"""Counters of outputs: what they count, and that restarts and kills neither lose much nor count twice."""

import json

import msgspec
import pytest

from growd.bus import Bus
from growd.control.wear import DAY_S, RETRY_S, SAVE_S, OutputCounters, Rated
from support.clock import ManualClock
from support.memory import ShortMemory
from support.running import running

HEATER = Rated("heater", "heater", "air_heater", "heater", "relay", power_w=200.0)
PUMP = Rated("pump", "pump for nutrient A", "nutrient_a", "dosing", "pwm", flow_ml_min=60.0)
FAN = Rated("fan", "exhaust fan", "air_flush_on", "fan", "relay")


class Life:
    """One run of growd."""

    def __init__(self, memory, *outputs):
        self.clock = ManualClock()
        self.bus = Bus(self.clock)
        self.counters = OutputCounters(self.bus, "e", outputs or (HEATER, PUMP, FAN), memory)

    def status(self, name):
        described = self.bus.find_node("e/outputs").information()["outputs"]
        return next(each for each in described if each["name"] == name)

    def problems(self):
        return self.bus.find_node("e/outputs").information()["problems"]

    async def on_for(self, name, seconds, level=1.0):
        self.counters.wrote(name, level)
        await self.clock.advance(seconds)
        self.counters.wrote(name, 0.0)


async def test_it_counts_switchings_time_energy_and_volume():
    life = Life(ShortMemory())
    async with running(life.clock, life.counters):
        for _ in range(3):
            await life.on_for("heater", 600.0)
            await life.clock.advance(100)
        heater = life.status("heater")
        assert (heater["cycles"], heater["on_s"], heater["level"]) == (3, 1800.0, 0.0)
        assert heater["energy_kwh"] == pytest.approx(0.1)
        assert heater["volume_l"] is None
        await life.on_for("pump", 60.0, 0.5)
        assert life.status("pump")["volume_l"] == pytest.approx(0.03)
        assert life.status("pump")["energy_kwh"] is None
        assert (life.status("fan")["cycles"], life.status("fan")["energy_kwh"]) == (0, None)


async def test_another_level_is_no_new_switching_and_an_unknown_one_does_not_count():
    life = Life(ShortMemory())
    async with running(life.clock, life.counters):
        life.counters.wrote("heater", 0.5)
        await life.clock.advance(10)
        life.counters.wrote("heater", 1.0)
        life.counters.wrote("heater", 1.0)  # repeated
        await life.clock.advance(10)
        life.counters.wrote("heater", None)
        await life.clock.advance(1000)
        assert life.status("heater")["level"] is None
        life.counters.wrote("heater", 0.0)
        heater = life.status("heater")
        assert (heater["cycles"], heater["on_s"]) == (1, 20.0)
        assert heater["energy_kwh"] == pytest.approx(15 * 200 / 3.6e6, abs=1e-4)
        await life.clock.advance(10)
        life.counters.wrote("fan", 1.0, 3.0)  # a slow write counts from its begin when it switches on
        await life.clock.advance(5)
        life.counters.wrote("fan", 0.0, 2.0)
        assert life.status("fan")["on_s"] == 8.0


async def test_a_clean_restart_loses_nothing_and_a_kill_only_the_time_since_the_last_save():
    memory = ShortMemory()
    for life_number in (1, 2, 3):
        life = Life(memory)
        async with running(life.clock, life.counters):
            await life.on_for("heater", 100.0)
        await life.counters.close()
        heater = life.status("heater")
        assert (heater["cycles"], heater["on_s"]) == (life_number, 100.0 * life_number)
    life = Life(memory)
    async with running(life.clock, life.counters):
        life.counters.wrote("heater", 1.0)
        await life.clock.advance(SAVE_S + 100)  # and then the power fails
    after = Life(memory)
    async with running(after.clock, after.counters):
        found = after.status("heater")
        assert (found["cycles"], found["on_s"], found["since"]) == (4, 300.0 + SAVE_S, heater["since"])


async def test_what_was_counted_before_the_counters_were_read_is_added():
    memory = ShortMemory()
    before = Life(memory)
    async with running(before.clock, before.counters):
        await before.on_for("heater", 50.0)
    await before.counters.close()
    life = Life(memory)
    memory.fails = True
    async with running(life.clock, life.counters):
        await life.on_for("heater", 5.0)
        assert life.status("heater")["energy_kwh"] is None  # a meter at 0 would seem to begin anew
        memory.fails = False
        await life.clock.advance(RETRY_S)
        assert (life.status("heater")["cycles"], life.status("heater")["on_s"]) == (2, 55.0)
        assert life.status("heater")["energy_kwh"] == pytest.approx(55 * 200 / 3.6e6, abs=1e-4)


async def test_counters_are_never_saved_over_ones_that_could_not_be_read_and_damaged_ones_begin_anew(caplog):
    memory = ShortMemory()
    memory.texts["e/outputs"] = json.dumps({"heater": {"since": 1.0, "cycles": 9}})
    life = Life(memory)
    memory.fails = True
    async with running(life.clock, life.counters):
        await life.on_for("heater", 50.0)
        await life.counters.close()
        memory.fails = False
        assert json.loads(memory.texts["e/outputs"])["heater"]["cycles"] == 9
    memory.texts["e/outputs"] = json.dumps({"heater": {"cycles": "many"}})
    life = Life(memory)
    async with running(life.clock, life.counters):
        await life.on_for("heater", 5.0)
        assert life.status("heater")["cycles"] == 1
    assert "the counters begin anew: the saved counters are damaged" in caplog.text


async def test_an_output_that_leaves_the_configuration_keeps_its_counters():
    memory = ShortMemory()
    for outputs in ((HEATER, PUMP), (HEATER,), (HEATER, PUMP)):
        life = Life(memory, *outputs)
        async with running(life.clock, life.counters):
            if len(outputs) > 1:
                await life.on_for("pump", 60.0)
        await life.counters.close()
    assert life.status("pump")["cycles"] == 2


RELAY = Rated("heater", "heater", "air_heater", "heater", "relay", rated_starts=1_000)


async def test_the_life_of_a_relay_that_is_left():
    life = Life(ShortMemory(), RELAY, FAN)
    assert life.status("heater")["life_left"] is None  # earlier starts are not read yet
    async with running(life.clock, life.counters):
        for _ in range(250):
            await life.on_for("heater", 4.0)
        heater = life.status("heater")
        assert (heater["rated_starts"], heater["life_left"], heater["days_left"]) == (1_000, 0.75, None)
        await life.clock.advance(5 * DAY_S - 1_000.0)
        assert life.status("heater")["days_left"] == pytest.approx(15.0, abs=0.1)
        assert (life.status("fan")["life_left"], life.status("fan")["days_left"]) == (None, None)


async def test_a_worn_relay_is_a_problem():
    memory = ShortMemory()
    memory.texts["e/outputs"] = json.dumps({"heater": {"since": 1.0, "cycles": 899}})
    life = Life(memory, RELAY, FAN)
    async with running(life.clock, life.counters):
        assert life.problems() == []
        await life.on_for("heater", 4.0)
        (problem,) = life.problems()
        assert problem["code"] == "output_worn"
        assert "e/heater has used 90% of the 1000 starts" in problem["text"]
        for _ in range(200):
            await life.on_for("heater", 4.0)
        assert (life.status("heater")["life_left"], len(life.problems())) == (0.0, 1)
    renamed = Life(memory, msgspec.structs.replace(RELAY, name="heater_2"), FAN)
    async with running(renamed.clock, renamed.counters):
        assert (renamed.status("heater_2")["life_left"], renamed.problems()) == (1.0, [])
