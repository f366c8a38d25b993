import pytest

from growd.bus.messages import Quality
from growd.control.filters import Filter
from support.bus_rig import BusRig
from support.running import running

VARIABLE = "air_carbon_dioxide"


class Rig(BusRig):
    def __init__(self):
        super().__init__(VARIABLE)
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
    assert (await rig.give(1100.0)).value == pytest.approx(0.3 * 1100 + 0.7 * 1000)
    assert (await rig.give(930.0)).value == pytest.approx(0.3 * 930 + 0.7 * 1030)
    rig.raw.publish(1000.0, time=123.0)
    await rig.clock.settle()
    assert rig.measured.last.time == 123.0
    for _ in range(40):
        last = await rig.give(1000.0)
    assert last.value == 1000.0  # exactly
    await rig.bus.parameters.set(f"e/filters/{VARIABLE}/weight", 1)
    assert (await rig.give(1100.0)).value == 1100.0


async def test_a_bad_sample_passes_without_a_value_and_leaves_the_average(rig):
    await rig.give(1000.0)
    for value, quality, passed in (
        (410.0, Quality.FAULT, Quality.FAULT),
        (410.0, Quality.WARM_UP, Quality.WARM_UP),
        (410.0, Quality.STALE, Quality.STALE),
        (1e9, Quality.OK, Quality.FAULT),  # out of range
    ):
        bad = await rig.give(value, quality)
        assert (bad.value, bad.quality) == (None, passed)
    assert (await rig.give(1100.0)).value == pytest.approx(1030)


async def test_silence_is_one_stale_message_and_a_long_outage_resets_the_average(rig):
    await rig.give(1000.0)
    await rig.clock.advance(29)
    assert rig.measured.last.quality is Quality.OK
    await rig.clock.advance(2)
    assert (rig.measured.last.quality, rig.measured.last.value) == (Quality.STALE, None)
    await rig.clock.advance(300)
    assert rig.measured.count == 2
    assert (await rig.give(1100.0)).value == 1100.0


@pytest.mark.parametrize("spike", [0.0, 1250.0])
async def test_a_spike_is_not_published(rig, spike):
    before = await rig.give(1000.0)
    assert await rig.give(spike) is before
    assert (await rig.give(1010.0)).value == pytest.approx(1003.0)
    assert await rig.give(spike) is rig.measured.last  # and is not confirmed by one long ago
    assert rig.measured.count == 2
    last = await rig.give(1000.0)
    for other in (1500.0, 400.0, 2500.0, 0.0):  # of different height
        assert await rig.give(other) is last


async def test_a_jump_that_the_next_sample_confirms_is_accepted(rig):
    await rig.give(1000.0)
    await rig.give(1500.0)
    assert (await rig.give(1550.0)).value == pytest.approx(0.3 * 1550 + 0.7 * 1000)
    assert (await rig.give(1600.0)).value == pytest.approx(0.3 * 1600 + 0.7 * 1165)


async def test_samples_a_minute_apart_may_differ_more(rig):
    await rig.give(400.0)
    await rig.clock.advance(60)
    await rig.give(800.0)  # a valve is open
    await rig.clock.advance(60)
    assert (await rig.give(1200.0)).value == 1200.0


async def test_a_spike_after_an_outage_is_not_published(rig):
    await rig.give(1000.0)
    fault = await rig.give(None, Quality.FAULT)
    await rig.clock.advance(3600)
    assert await rig.give(5000.0) is fault
    assert (await rig.give(1000.0)).value == 1000.0


@pytest.mark.parametrize("quality", [Quality.FAULT, Quality.WARM_UP])
async def test_a_fault_or_warm_up_does_not_become_stale(rig, quality):
    await rig.give(None, quality)
    await rig.clock.advance(300)
    assert (rig.measured.last.quality, rig.measured.count) == (quality, 1)


async def test_a_restarted_filter_takes_a_fault_published_meanwhile():
    rig = Rig()
    async with running(rig.clock, rig.filter):
        await rig.give(1000.0)
    rig.raw.publish(None, Quality.FAULT)
    async with running(rig.clock, rig.filter):
        assert rig.measured.last.quality is Quality.FAULT


async def test_samples_that_only_jump_become_stale(rig):
    await rig.give(1000.0)
    for number in range(10):
        await rig.clock.advance(4)
        await rig.give(5000.0 * (number % 3))
    assert (rig.measured.last.quality, rig.measured.last.value) == (Quality.STALE, None)


async def test_a_changed_time_limit_takes_effect_within_5_s(rig):
    await rig.bus.parameters.set(f"e/filters/{VARIABLE}/stale_after", 3600)
    await rig.give(1000.0)
    await rig.clock.advance(100)
    assert rig.measured.last.quality is Quality.OK
    await rig.bus.parameters.set(f"e/filters/{VARIABLE}/stale_after", 10)
    await rig.clock.advance(5)
    assert rig.measured.last.quality is Quality.STALE
