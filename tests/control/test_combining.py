import logging

import pytest

from growd.bus.messages import Quality
from growd.control.combining import Combiner
from support.bus_rig import BusRig
from support.running import running

VARIABLE = "air_carbon_dioxide"
NAMES = ("a", "b", "c")


class Rig(BusRig):
    def __init__(self, method):
        super().__init__(VARIABLE)
        self.combiner = Combiner(self.bus, "e", VARIABLE, NAMES, method=method, stale_after_s=30.0)
        node = self.bus.node("sensors")
        self.sensors = {name: node.publisher(f"e/raw/{VARIABLE}/{name}") for name in NAMES}
        self.combined = self.bus.topics.get(f"e/raw/{VARIABLE}")

    async def give(self, **values):
        """Publish values one after another. A quality stands for a message without a value."""
        for name, value in values.items():
            is_good = not isinstance(value, Quality)
            self.sensors[name].publish(value if is_good else None, Quality.OK if is_good else value)
            await self.clock.settle()
        last = self.combined.last
        return None if last is None else (last.value if last.quality is Quality.OK else last.quality)


@pytest.fixture
async def first():
    rig = Rig("first")
    async with running(rig.clock, rig.combiner):
        yield rig


@pytest.fixture
async def median():
    rig = Rig("median")
    async with running(rig.clock, rig.combiner):
        yield rig


async def test_the_first_good_sensor_leads_and_the_others_add_no_messages(first):
    assert await first.give(a=800.0, b=820.0, c=900.0) == 800.0
    assert await first.give(a=801.0, b=821.0, c=901.0) == 801.0
    assert first.combined.count == 2


async def test_the_second_sensor_leads_while_the_first_one_fails_or_is_silent(first, caplog):
    caplog.set_level(logging.INFO)
    await first.give(a=800.0, b=820.0)
    assert await first.give(a=Quality.FAULT) == 800.0  # nothing new is known yet
    assert await first.give(c=900.0) == 800.0  # the last of them does not lead while b is good
    assert await first.give(b=821.0) == 821.0
    assert await first.give(a=802.0, b=822.0) == 802.0
    assert caplog.messages == [
        "e/air_carbon_dioxide now comes from b, no longer from a",
        "e/air_carbon_dioxide now comes from a, no longer from b",
    ]
    await first.clock.advance(31)
    assert await first.give(b=823.0) == 823.0


@pytest.mark.parametrize(
    ("qualities", "quality"),
    [
        ((Quality.FAULT, Quality.FAULT, Quality.FAULT), Quality.FAULT),
        ((Quality.FAULT, Quality.WARM_UP, Quality.FAULT), Quality.WARM_UP),
    ],
)
async def test_without_a_good_sensor_one_message_has_the_quality(first, qualities, quality):
    await first.give(a=800.0, b=820.0, c=900.0)
    assert await first.give(**dict(zip(NAMES, qualities, strict=True))) is quality
    await first.give(**dict(zip(NAMES, qualities, strict=True)))
    assert first.combined.count == 2
    assert await first.give(b=820.0) == 820.0


async def test_the_median_outvotes_one_wrong_sensor_and_the_first_of_two_counts(median):
    await median.give(b=810.0, c=820.0)
    for value, expected in ((5000.0, 820.0), (0.0, 810.0), (815.0, 815.0)):
        assert await median.give(a=value) == expected
    assert await median.give(c=Quality.FAULT, b=700.0, a=816.0) == 816.0
    assert await median.give(a=Quality.FAULT, b=817.0) == 817.0


async def test_a_value_has_the_time_of_the_sensor_that_leads(median):
    median.sensors["b"].publish(810.0, time=100.0)
    median.sensors["a"].publish(815.0, time=123.0)
    await median.clock.settle()
    assert median.combined.last.time == 123.0


async def test_the_node_information_has_the_leader_and_each_value(median):
    await median.give(a=815.0, b=Quality.FAULT)
    logged = median.combiner.node.information()["combined"]
    assert (logged["method"], logged["leader"]) == ("median", "a")
    assert logged["sensors"] == {
        "a": {"value": 815.0, "quality": "ok", "time": 1_700_000_000.0},
        "b": {"value": None, "quality": "fault", "time": 1_700_000_000.0},
    }


async def test_good_sensors_that_disagree_for_minutes_are_a_problem(first, said):
    async def after(seconds, **values):
        """The problems after the sensors have published these values for `seconds`."""
        await first.give(**values)
        for _ in range(seconds // 20):
            await first.clock.advance(20)
            await first.give(**values)
        return [
            (problem["text"], problem.get("is_failure", False))
            for problem in first.combiner.node.details()["problems"]
        ]

    assert await after(600, a=800.0, b=950.0) == []  # as far apart as one sensor may jump
    assert await after(280, a=800.0, b=1100.0) == []
    ((text, is_failure),) = await after(20, a=800.0, b=1100.0)
    said(text)
    assert not is_failure
    await first.clock.advance(31)  # they have fallen silent
    assert first.combiner.node.details()["problems"] == []
    assert len(await after(300, a=800.0, b=1100.0)) == 1
    assert await after(0, b=Quality.FAULT) == []
    assert await after(0, b=810.0) == []
