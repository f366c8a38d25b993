from contextlib import asynccontextmanager

import pytest
from closed_loop import CO2, FAN, VALVE, Loop, Setting, co2_controller, fan_controller, valve_controller

from growd.bus.errors import InvalidValueError
from growd.bus.messages import Quality
from growd.control.pid import Gains
from support.bus_rig import BusRig
from support.running import running

NO_VALUE = [Quality.STALE, Quality.FAULT, Quality.WARM_UP]


class Rig(BusRig):
    """The controllers of CO2 on a bus, without a chamber."""

    def __init__(self, **options):
        super().__init__(CO2)
        self.actuators = {name: self.bus.node(name) for name in ("valve", "fan")}
        self.controller = co2_controller(self.bus, fans=("fan",), **{"gains": Gains(0.002, 1000.0)} | options)
        self.valve = valve_controller(self.bus, minimum_on_s=2.0, minimum_off_s=2.0)
        self.fan = fan_controller(self.bus, minimum_on_s=10.0, minimum_off_s=10.0)
        self.parts = (self.controller, self.valve, self.fan)

    def last(self, variable=CO2):
        return self.bus.topics.get(f"e/commanded/{variable}").last

    async def set(self, name, value):
        await self.bus.parameters.set(f"e/controllers/{CO2}/{name}", value)

    async def measure(self, ppm, seconds=2):
        """The same reading each 2 s."""
        for _ in range(seconds // 2):
            self.publish(f"measured/{CO2}", ppm)
            await self.clock.advance(2)

    async def want(self, set_point, ppm):
        """A set point, while that much is measured."""
        self.publish(f"desired/{CO2}", set_point)
        await self.measure(ppm)


@asynccontextmanager
async def rigged(**options):
    rig = Rig(**options)
    async with running(rig.clock, *rig.parts):
        yield rig


@pytest.fixture
async def rig():
    async with rigged() as rig:
        yield rig


# --- The controller


async def test_the_valve_opens_with_the_error_and_the_fan_runs_only_beyond_its_band(rig):
    await rig.want(1000.0, 1025.0)
    assert rig.last().value == 0.0
    await rig.measure(1200.0)
    assert rig.last().value == pytest.approx(-0.4, abs=0.01)
    await rig.measure(900.0)
    assert rig.last().value == pytest.approx(0.2, abs=0.01)
    await rig.measure(420.0)
    assert rig.last().value == 1.0


async def test_without_a_fan_the_command_is_never_negative():
    rig = Rig()
    rig.controller.node.close()
    async with running(rig.clock, co2_controller(rig.bus, environment="e")):
        await rig.want(1000.0, 3000.0)
        assert rig.last().value == 0.0


@pytest.mark.parametrize("quality", NO_VALUE)
async def test_a_released_set_point_shuts_the_valve_at_once(rig, quality):
    await rig.want(1000.0, 420.0)
    await rig.measure(420.0, 10)
    assert rig.last(VALVE).value == 1.0
    rig.publish(f"desired/{CO2}", None, quality)
    await rig.clock.settle()
    assert (rig.last().value, rig.last().quality) == (None, Quality.STALE)
    assert (rig.last(VALVE).value, rig.last(VALVE).quality) == (None, Quality.STALE)


@pytest.mark.parametrize("quality", [*NO_VALUE, "silence"])
async def test_while_co2_is_unknown_nothing_is_commanded_and_the_integral_holds(rig, quality):
    await rig.want(1000.0, 990.0)
    before = rig.last().value
    if quality == "silence":
        await rig.clock.advance(27)
        assert rig.last().value is not None
        await rig.clock.advance(2)
    else:
        rig.publish(f"measured/{CO2}", None, quality)
        await rig.clock.settle()
    assert rig.last().quality is rig.last(VALVE).quality is Quality.STALE
    await rig.clock.advance(3600)
    await rig.measure(990.0)
    assert rig.last().value == pytest.approx(before, abs=0.001)


async def test_a_new_recipe_starts_with_an_integral_of_0(rig):
    rig.actuators["valve"].publisher("e/outputs/valve").publish(1.0)
    await rig.want(1000.0, 900.0)
    await rig.measure(900.0, 2000)
    assert rig.last().value > 0.8
    rig.publish(f"desired/{CO2}", None, Quality.STALE)
    await rig.clock.advance(10)
    await rig.want(1000.0, 900.0)
    assert rig.last().value == pytest.approx(0.2, abs=0.02)


async def test_a_valve_that_an_interlock_holds_shut_does_not_wind_up_the_integral(rig):
    await rig.want(1000.0, 420.0)
    await rig.measure(420.0, 1000)  # its actuator says nothing of an open valve
    await rig.measure(1020.0)
    assert rig.last().value == 0.0


async def test_co2_above_the_set_point_that_the_fan_ignores_lowers_the_integral(rig):
    valve = rig.actuators["valve"].publisher("e/outputs/valve")
    await rig.want(1000.0, 1000.0)
    valve.publish(1.0)
    await rig.measure(1000.0, 40)
    valve.publish(0.0)
    await rig.measure(1000.0)
    before = rig.last().value
    await rig.measure(1025.0, 300)
    await rig.measure(1000.0)
    # kp x error x time / ti: the part that the fan does not get is no limit of the actuator
    assert rig.last().value - before == pytest.approx(0.002 * -25 * 300 / 1000, abs=0.001)


async def test_a_fan_that_the_controller_runs_counts_as_its_output():
    after = []
    for fan_on in (0.0, 1.0):
        async with rigged(gains=Gains(0.002, 1000.0, weight=0.5)) as rig:
            await rig.want(1000.0, 1500.0)
            assert rig.last().value < 0
            rig.actuators["fan"].publisher("e/outputs/fan").publish(fan_on)
            await rig.measure(1500.0, 400)
            await rig.measure(500.0)  # the proportional term is 0
            after.append(rig.last().value)
    assert after[1] < after[0] - 0.1


@pytest.mark.parametrize("method", ["pid", "on_off"])
@pytest.mark.parametrize("set_point", [0.0, 400.0])
async def test_the_fan_does_not_run_for_a_set_point_below_fresh_air(set_point, method):
    async with rigged(method=method) as rig:
        await rig.want(set_point, 445.0)
        assert rig.last().value == 0.0
        await rig.measure(460.0)
        assert rig.last().value < 0
        await rig.measure(430.0)
        assert rig.last().value == 0.0


async def test_a_changed_method_takes_effect_within_a_second_and_an_experiment_ends_by_itself(rig):
    await rig.measure(420.0)
    rig.controller.experiment(1.0, 10.0)
    await rig.measure(420.0, 8)
    assert rig.last().value == 1.0
    await rig.measure(420.0, 4)
    assert rig.last().quality is Quality.STALE
    await rig.want(1000.0, 990.0)
    assert 0 < rig.last().value < 1
    await rig.set("on_off", True)
    await rig.measure(970.0)
    assert rig.last().value == 1.0
    with pytest.raises(InvalidValueError):
        await rig.set("kp", -1)


async def test_on_off_opens_below_its_band_and_shuts_at_the_set_point():
    async with rigged(method="on_off", band=20.0, lowers_band=100.0) as rig:
        said = []
        for ppm in (990.0, 979.0, 995.0, 1000.0, 990.0, 1050.0):
            await rig.want(1000.0, ppm)
            said.append(rig.last().value)
        await rig.measure(990.0, 122)
        for ppm in (1050.0, 1101.0, 1060.0, 1050.0):
            await rig.measure(ppm)
            said.append(rig.last().value)
        assert said == [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0, -1.0, 0.0]


async def test_on_off_does_not_use_the_fan_against_its_own_overshoot():
    async with rigged(method="on_off") as rig:
        await rig.want(1000.0, 420.0)
        await rig.measure(1000.0)
        await rig.measure(1180.0, 60)
        await rig.measure(1100.0, 3_600)
        assert rig.last().value == 0.0
        await rig.measure(1215.0)
        assert rig.last().value == -1.0
        await rig.measure(1010.0, 10)
        await rig.measure(1035.0)
        assert rig.last().value == -1.0  # the overshoot is over
        await rig.measure(970.0)
        await rig.measure(1010.0)
        await rig.want(900.0, 1010.0)
        assert rig.last().value == -1.0  # what a lower set point leaves is no overshoot


# --- The switches


async def test_the_edges_of_a_dose_are_more_precise_than_a_second():
    async with rigged(gains=Gains(0.002, 1e5)) as rig:
        edges, was = [], 0.0
        rig.publish(f"desired/{CO2}", 1000.0)
        with rig.node.subscribe(f"e/commanded/{VALVE}", depth=1024) as inbox:
            for _ in range(60):
                rig.publish(f"measured/{CO2}", 850.0)  # 0.3: 2 s / 0.7 on, 2 s / 0.3 off
                await rig.clock.advance(1)
                while (message := inbox.get_nowait()) is not None:
                    if message.value != was:
                        edges.append((message.time, message.value))
                        was = message.value
    on = [end - begin for (begin, _), (end, _) in zip(edges[::2], edges[1::2], strict=False)]
    assert len(on) > 4
    assert on == pytest.approx([2 / 0.7] * len(on), abs=0.05)


async def test_the_valve_and_the_fan_are_never_on_together(rig):
    for ppm in (420.0, 900.0, 1100.0, 5000.0, 1000.0, 300.0):
        await rig.want(1000.0, ppm)
        for _ in range(60):
            await rig.measure(ppm)
            assert not (rig.last(VALVE).value and rig.last(FAN).value and rig.last().value)
    assert rig.last(FAN).value == 0.0


async def test_a_command_that_is_not_repeated_ends_the_doses():
    rig = Rig()
    async with running(rig.clock, rig.valve):  # and no controller of CO2
        rig.publish(f"commanded/{CO2}", 1.0)
        await rig.clock.advance(4)
        assert rig.last(VALVE).value == 1.0
        await rig.clock.advance(3)
        assert rig.last(VALVE).quality is Quality.STALE


async def test_an_override_of_the_valve_drops_the_doses_that_were_due(rig):
    await rig.want(1000.0, 990.0)
    rig.publish(f"commanded/{VALVE}", 0.0)
    await rig.measure(990.0, 300)
    assert rig.last(VALVE).value == 0.0
    rig.publish(f"commanded/{VALVE}", None, Quality.STALE)
    await rig.measure(990.0, 4)  # 2 % of the time: a dose is due after a minute and a half
    assert rig.last(VALVE).value == 0.0


async def test_no_edge_comes_after_the_controller_has_ended():
    rig = Rig()
    async with running(rig.clock, *rig.parts):
        await rig.want(1000.0, 850.0)
        while not rig.last(VALVE).value:
            await rig.clock.advance(0.01)
        await rig.clock.advance(2.8)  # of a dose of 2.9 s
        before = rig.last(VALVE).number
    await rig.clock.advance(10)
    assert rig.last(VALVE).number == before


# --- With a chamber


LOOK_S = 5


async def controlled(setting, *steps, seconds=1200, fan=None, **options):
    """Control CO2 for `seconds` at each set point. Returns CO2 each `LOOK_S` of each step, and the fan's."""
    loop, courses, fans_on = Loop(setting), [], []
    controllers = [
        co2_controller(loop.bus, fans=loop.fans, **options),
        valve_controller(loop.bus),
        fan_controller(loop.bus, minimum_on_s=10.0),
    ]
    async with loop.running(controllers):
        if fan is not None:
            loop.want(FAN, fan)
        for set_point in steps:
            loop.want(CO2, set_point)
            course = []
            for _ in range(0, seconds, LOOK_S):
                await loop.clock.advance(LOOK_S)
                course.append(loop.ppm)
                fans_on.append(loop.fan_on)
            courses.append(course)
    return courses, fans_on


@pytest.mark.long
@pytest.mark.parametrize("response_s", [0.0, 20.0])
async def test_the_chamber_reaches_its_set_points_without_overshoot(response_s):
    (up, further, down), _ = await controlled(Setting(response_s=response_s), 1000.0, 1500.0, 800.0)
    assert max(up) < 1000 + 0.05 * 580
    assert max(further) < 1500 + 0.05 * 500
    assert min(down) > 800 - 0.05 * 700
    for set_point, course in ((1000, up), (1500, further), (800, down)):
        assert course[-60:] == pytest.approx([set_point] * 60, abs=30 + 0.03 * set_point)


@pytest.mark.long
async def test_on_off_control_stays_near_the_set_point_without_the_fan():
    (course,), fans_on = await controlled(Setting(), 1000.0, seconds=3_600, method="on_off")
    assert course[-360:] == pytest.approx([1000] * 360, abs=150)
    assert not any(fans_on)
