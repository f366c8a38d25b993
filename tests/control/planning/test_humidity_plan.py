"""A set point of the vapour pressure deficit moves that of humidity."""

import pytest

from growd.bus.messages import Quality
from growd.control.attainment import MISSED_S, AttainmentWatch
from growd.control.derived.psychrometrics import vapour_pressure_deficit_kpa
from growd.control.planning.humidity import PERIOD_S, HumidityPlanner
from growd.control.watched_loops import output_loop, planned_loop
from support.bus_rig import BusRig
from support.running import running

DEFICIT, HUMIDITY = "air_vapour_pressure_deficit", "air_humidity"


class Rig(BusRig):
    def __init__(self):
        super().__init__("air_temperature", HUMIDITY, derived=[DEFICIT])
        self.planner = HumidityPlanner(self.bus, "e")

    async def measure(self, degc, quality=Quality.OK):
        self.publish("measured/air_temperature", degc, quality)
        await self.clock.settle()

    async def want(self, variable, value):
        message = self.node.publish_arguments(f"e/desired/{variable}", [value])
        hint = await self.bus.topics.get(f"e/desired/{variable}").answer(message, "a client")
        await self.clock.settle()
        return hint

    async def pass_time(self, degc, seconds=PERIOD_S):
        await self.clock.advance(seconds)
        await self.measure(degc)
        await self.clock.advance(PERIOD_S)

    @property
    def humidity(self):
        last = self.last(f"desired/{HUMIDITY}")
        return None if last is None else last.value

    @property
    def problems(self):
        return [each["text"] for each in self.planner.node.details()["problems"]]


@pytest.fixture
async def rig():
    rig = Rig()
    async with running(rig.clock, rig.planner):
        yield rig


@pytest.mark.parametrize(("degc", "deficit"), [(25, 1.0), (20, 0.6), (30, 1.5)])
async def test_humidity_has_the_set_point_with_which_the_air_has_the_deficit(rig, degc, deficit):
    await rig.measure(degc)
    assert await rig.want(DEFICIT, deficit) == ""
    assert vapour_pressure_deficit_kpa(degc, rig.humidity) == pytest.approx(deficit)
    assert rig.problems == []


async def test_it_follows_the_temperature_in_steps(rig):
    await rig.measure(25)
    await rig.want(DEFICIT, 1.0)
    count = rig.bus.topics.get(f"e/desired/{HUMIDITY}").count
    await rig.pass_time(25.05)
    assert rig.bus.topics.get(f"e/desired/{HUMIDITY}").count == count  # each set point is a stored point
    await rig.pass_time(28)
    assert vapour_pressure_deficit_kpa(28, rig.humidity) == pytest.approx(1.0)


async def test_a_release_releases_humidity_too(rig):
    await rig.measure(25)
    await rig.want(DEFICIT, 1.0)
    await rig.want(DEFICIT, None)
    assert rig.humidity is None


@pytest.mark.parametrize("quality", [Quality.FAULT, Quality.STALE])
async def test_without_a_temperature_humidity_has_no_set_point(rig, quality):
    await rig.measure(25)
    await rig.want(DEFICIT, 1.0)
    await rig.measure(None, quality)
    await rig.clock.advance(PERIOD_S)
    assert rig.humidity is None
    assert "no temperature is known" in rig.problems[0]
    await rig.pass_time(25)
    assert rig.humidity == pytest.approx(68.4, abs=0.1)


async def test_a_wall_clock_that_is_set_does_not_take_the_set_point_away(rig):
    await rig.measure(25)
    await rig.want(DEFICIT, 1.0)
    rig.clock.step(3_600)
    await rig.clock.advance(PERIOD_S)
    assert rig.humidity == pytest.approx(68.4, abs=0.1)


async def test_a_temperature_that_is_not_renewed_is_not_known(rig):
    await rig.measure(25)
    await rig.want(DEFICIT, 1.0)
    await rig.clock.advance(60)
    assert rig.humidity is None


async def test_a_deficit_that_no_air_has_is_told(rig, said):
    await rig.measure(20)
    hint = await rig.want(DEFICIT, 3.0)
    assert (rig.humidity, rig.problems) == (0, [f"e: {hint}"])
    (found,) = rig.planner.node.details()["problems"]
    assert found["remedy"]
    said(rig.problems)


async def test_a_set_point_of_humidity_wins_and_the_answers_say_so(rig):
    await rig.measure(25)
    hint = await rig.want(HUMIDITY, 50.0)
    assert hint == ("nothing in e controls air_humidity, so its set point is recorded and has no effect")
    hint = await rig.want(DEFICIT, 1.0)
    assert hint == (
        "has no effect while air_humidity has a set point, which wins: "
        "growd topic release e/desired/air_humidity"
    )
    await rig.pass_time(25)
    assert rig.humidity == 50.0
    assert "follows the set point of air_vapour_pressure_deficit again" in await rig.want(HUMIDITY, None)
    assert rig.humidity == pytest.approx(68.4, abs=0.1)
    hint = await rig.want(HUMIDITY, 55.0)
    assert "takes the place of the set point of air_vapour_pressure_deficit" in hint


async def test_the_answer_does_not_offer_to_release_a_set_point_of_a_recipe(rig):
    await rig.measure(25)
    rig.bus.node("e/recipe_runner").publisher(f"e/desired/{HUMIDITY}").publish(50.0)
    await rig.pass_time(25)
    assert await rig.want(DEFICIT, 1.0) == "has no effect while the recipe sets air_humidity, which wins"


async def test_set_points_of_before_the_start_count():
    rig = Rig()
    await rig.want(DEFICIT, 1.0)
    await rig.measure(25)
    async with running(rig.clock, rig.planner):
        assert rig.humidity == pytest.approx(68.4, abs=0.1)


async def test_the_deficit_is_judged_as_other_set_points_are_while_its_set_point_is_in_force():
    rig = Rig()
    humidity = output_loop(HUMIDITY, raising=["air_humidifier"])  # nothing raises the deficit
    watch = AttainmentWatch(rig.bus, "e", [planned_loop(DEFICIT, humidity, is_opposite=True)])
    deficit = rig.bus.node("derived").publisher(f"e/measured/{DEFICIT}")

    def judged():
        (found,) = watch.node.details()["attainment"]
        return found["state"], found["is_lasting"], found["reason"] and found["reason"]["code"]

    async with running(rig.clock, rig.planner, watch):
        await rig.measure(25)
        await rig.want(DEFICIT, 1.0)
        for value, state in ((None, "settling"), (1.05, "reached"), (0.5, "reached"), (1.2, "missed")):
            deficit.publish(value, Quality.WARM_UP if value is None else Quality.OK)
            await rig.clock.advance(10)
            assert judged()[:2] == (state, False)
        await rig.clock.advance(MISSED_S + 200)
        assert judged() == ("missed", True, "set_point_follows")
        deficit.publish(None, Quality.STALE)
        await rig.clock.advance(10)
        assert judged()[2] == "variable_unknown"
        await rig.want(HUMIDITY, 60.0)
        assert judged() == ("idle", False, None)
        await rig.want(HUMIDITY, None)
        assert judged()[0] == "missed"
        await rig.want(DEFICIT, None)
        assert judged() == ("idle", False, None)


async def test_a_planned_set_point_is_told_with_the_decimals_of_its_variable(rig):
    watch = AttainmentWatch(rig.bus, "e", [output_loop(HUMIDITY, raising=["air_humidifier"])])
    await rig.measure(25)
    await rig.want(DEFICIT, 1.0)
    rig.publish(f"measured/{HUMIDITY}", 30.0)
    async with running(rig.clock, watch):
        await rig.clock.advance(10)
        (found,) = watch.node.details()["attainment"]
    assert "its set point is 68.4 percent" in found["text"]
