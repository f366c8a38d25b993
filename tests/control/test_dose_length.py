"""The length of a dose on its way from the loop to the command of its pump."""

from __future__ import annotations

import pytest

from growd.bus import Bus
from growd.control.output_control import SAME_END_S, Demand, OutputController
from growd.control.topics import declare_environment
from support.clock import ManualClock
from support.running import running

LENGTH_S = 3.0
PH = "e/commanded/water_potential_hydrogen"
ACID = "e/commanded/nutrient_ph_down"


@pytest.mark.parametrize(("waited_s", "length_s"), [(0.0, LENGTH_S), (0.2, LENGTH_S), (1.0, 2.25)])
async def test_a_dose_keeps_its_length_although_its_message_has_waited_for_a_moment(waited_s, length_s):
    clock = ManualClock()
    bus = Bus(clock)
    declare_environment(bus, "e", [])
    demand = Demand("water_potential_hydrogen", raises=False)
    controller = OutputController(bus, "e", "nutrient_ph_down", [demand], minimum_on_s=0.1)
    loop = bus.node("loop").publisher(PH)
    async with running(clock, controller):
        loop.publish(-1.0, time=clock.time() - waited_s, valid_s=LENGTH_S)
        await clock.settle()
        last = bus.topics.get(ACID).last
        assert last is not None
        assert last.value == 1.0
        assert last.valid_s == pytest.approx(length_s)


async def test_a_dose_ends_once_although_the_messages_of_its_loop_wait_for_different_times():
    clock = ManualClock()
    bus = Bus(clock)
    declare_environment(bus, "e", [])
    demand = Demand("water_potential_hydrogen", raises=False)
    controller = OutputController(bus, "e", "nutrient_ph_down", [demand], minimum_on_s=0.1)
    loop = bus.node("loop").publisher(PH)
    async with running(clock, controller):
        began = clock.monotonic()
        loop.publish(-1.0, time=clock.time() - SAME_END_S, valid_s=LENGTH_S)
        await clock.settle()
        await clock.advance(1.0)
        loop.publish(-1.0, valid_s=LENGTH_S - 1.0 - SAME_END_S)
        await clock.settle()
        last = bus.topics.get(ACID).last
        assert last is not None
        assert last.valid_s == pytest.approx(began + LENGTH_S - clock.monotonic())
