from __future__ import annotations

import pytest

from growd.bus import Bus
from growd.bus.messages import Quality
from growd.control.filters import Filter
from growd.control.topics import declare_environment
from support.clock import ManualClock
from support.running import running

VARIABLE = "air_carbon_dioxide"


class Rig:
    def __init__(self):
        self.clock = ManualClock()
        self.bus = Bus(self.clock)
        declare_environment(self.bus, "e", [VARIABLE])
        self.filter = Filter(self.bus, "e", VARIABLE, stale_after_s=30.0)
        self.raw = self.bus.node("sensor").publisher(f"e/raw/{VARIABLE}")
        self.measured = self.bus.topics.get(f"e/measured/{VARIABLE}")

    async def give(self, value, quality=Quality.OK):
        self.raw.publish(value, quality)
        await self.clock.settle()
        return self.measured.last


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, rig.filter):
        yield rig


async def test_the_first_sample_passes_and_the_next_ones_are_averaged(rig):
    assert (await rig.give(1000.0)).value == 1000.0
    assert (await rig.give(2000.0)).value == pytest.approx(0.3 * 2000 + 0.7 * 1000)
    assert (await rig.give(0.0)).value == pytest.approx(0.7 * 1300)


async def test_a_measured_value_has_the_time_of_its_sample(rig):
    rig.raw.publish(1000.0, time=123.0)
    await rig.clock.settle()
    assert rig.measured.last.time == 123.0


@pytest.mark.parametrize("quality", [Quality.FAULT, Quality.WARM_UP, Quality.STALE])
async def test_a_bad_sample_is_passed_on_without_a_value_and_does_not_poison_the_average(rig, quality):
    await rig.give(1000.0)
    bad = await rig.give(410.0, quality)
    assert (bad.value, bad.quality) == (None, quality)
    assert (await rig.give(2000.0)).value == pytest.approx(1300)


async def test_a_sample_out_of_range_is_a_fault_and_does_not_poison_the_average(rig):
    await rig.give(1000.0)
    bad = await rig.give(1e9)
    assert (bad.value, bad.quality) == (None, Quality.FAULT)
    assert (await rig.give(2000.0)).value == pytest.approx(1300)


async def test_after_a_long_outage_the_average_starts_afresh(rig):
    await rig.give(1000.0)
    await rig.give(None, Quality.FAULT)
    await rig.clock.advance(31)
    assert (await rig.give(2000.0)).value == 2000.0


async def test_when_raw_stays_away_one_message_says_stale(rig):
    await rig.give(1000.0)
    await rig.clock.advance(29)
    assert rig.measured.last.quality is Quality.OK
    await rig.clock.advance(2)
    assert (rig.measured.last.quality, rig.measured.last.value) == (Quality.STALE, None)
    await rig.clock.advance(300)
    assert rig.measured.count == 2


async def test_a_fault_stays_a_fault_while_raw_stays_away(rig):
    await rig.give(None, Quality.FAULT)
    await rig.clock.advance(300)
    assert (rig.measured.last.quality, rig.measured.count) == (Quality.FAULT, 1)


async def test_a_changed_weight_takes_effect_at_once(rig):
    await rig.give(1000.0)
    await rig.bus.parameters.set(f"e/filters/{VARIABLE}/weight", 1)
    assert (await rig.give(2000.0)).value == 2000.0


async def test_a_changed_time_limit_takes_effect_within_5_s(rig):
    await rig.bus.parameters.set(f"e/filters/{VARIABLE}/stale_after", 3600)
    await rig.give(1000.0)
    await rig.clock.advance(100)
    assert rig.measured.last.quality is Quality.OK
    await rig.bus.parameters.set(f"e/filters/{VARIABLE}/stale_after", 10)
    await rig.clock.advance(5)
    assert rig.measured.last.quality is Quality.STALE
