"""Set points that are not reached, in the simulated chamber: reported after 15 minutes, with the reason."""

import logging
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from climate_loop import ClimateLoop, climate_config, output
from closed_loop import (
    CO2,
    ENVIRONMENT,
    FAN,
    LUX,
    VALVE,
    Lamp,
    LightLoop,
    Loop,
    Setting,
    co2_controller,
    valve_controller,
)

from growd.bus.messages import Quality
from growd.control.attainment import MISSED_S, REASON_S, AttainmentWatch
from growd.control.health import Health
from growd.control.missed_reasons import UNKNOWN
from growd.control.topics import LIGHT_CHANNELS, OUTPUT_LEVEL, output_level
from growd.control.watched_loops import light_loop, output_loop
from growd.runtime.sentence import Sentence
from growd.status.notices import with_names
from growd.status.status_node import StatusNode
from growd.variables import ACIDITY, HUMIDITY, TEMPERATURE
from growd.wiring.loops import watched_loop
from growd_alerts.defaults import DEFAULT_ALERTS
from growd_alerts.watch import QUIET_S, Watch
from support.bus_rig import BusRig
from support.running import running

pytestmark = pytest.mark.long

SOON_S = MISSED_S + 180
RULES = [rule for rule in DEFAULT_ALERTS if rule.kind == "set_point_missed"]


class Watched:
    """A loop whose set point is watched, and the default alert for that."""

    def __init__(self, loop, watched):
        self.loop = loop
        self.held = ""
        self.reported = []
        self.watch = AttainmentWatch(loop.bus, ENVIRONMENT, [watched], lambda _: self.held)
        self.alerts = Watch(
            loop.clock,
            StatusNode(loop.bus, [ENVIRONMENT]),
            RULES,
            opened=(),
            report=lambda phase, alert: self.reported.append((str(phase), alert.text)),
        )

    @property
    def problems(self):
        return [each["text"] for each in self.watch.node.details()["problems"]]

    @property
    def state(self):
        return self.watch.node.details()["attainment"][0]["state"]

    @property
    def band(self):
        """The values that count as at the set point."""
        band = self.watch.node.details()["attainment"][0]["band"]
        return band and [round(limit, 6) for limit in band]

    @property
    def is_lasting(self):
        return self.watch.node.details()["attainment"][0]["is_lasting"]

    async def advance(self, seconds):
        await self.loop.clock.advance(seconds)

    async def is_quiet(self, seconds):
        """Whether nothing is reported in `seconds`."""
        for _ in range(int(seconds // 30)):
            await self.advance(30)
            if self.problems or self.reported:
                return False
        return True

    async def misses(self, *words):
        """Status and one alert report it, with these words."""
        await self.advance(SOON_S)
        ((phase, text),) = self.reported
        (problem,) = self.problems
        assert phase == "start"
        for word in words:
            assert with_names(word) in text
            assert word in problem


@asynccontextmanager
async def light(lamp=Lamp()):  # noqa: B008  it is frozen
    loop = LightLoop(lamp)
    watched = light_loop(lamp.full_scale_lux, LIGHT_CHANNELS, is_switched=lamp.is_switched)
    on = Watched(loop, watched)
    loop.parts += [on.watch, on.alerts]
    async with loop.running():
        await loop.clock.advance(QUIET_S)
        yield on


@asynccontextmanager
async def carbon_dioxide(**setting):
    loop = Loop(Setting(**setting))
    on = Watched(loop, output_loop(CO2, raising=[VALVE], lowering=[FAN] * len(loop.fans)))
    controllers = [co2_controller(loop.bus, fans=loop.fans), valve_controller(loop.bus)]
    async with loop.running([*controllers, on.watch, on.alerts]):
        await loop.clock.advance(QUIET_S)
        yield on


async def test_the_start_and_end_of_a_missed_set_point_are_reported(caplog):
    caplog.set_level(logging.INFO, "growd.control.attainment")
    async with light(Lamp(strength=0.5)) as on:
        on.loop.want(16_000)
        assert await on.is_quiet(MISSED_S - 30)
        on.loop.want(18_000)  # a step: the time starts again
        assert await on.is_quiet(MISSED_S)
        assert (on.state, on.is_lasting) == ("missed", False)
        await on.misses(
            "light_illuminance is 10", "its set point is 18000.0 lux", "the lamp is at full light"
        )
        assert (on.state, on.is_lasting) == ("missed", True)
        on.loop.want(8_000)
        await on.advance(120)
        assert on.problems == []
        assert on.reported[1][0] == "end"
    begun, over = (record.message for record in caplog.records if record.name == "growd.control.attainment")
    assert "the lamp is at full light" in begun
    assert over == "e: light_illuminance is at its set point"


def fail(on):
    on.held = "the valve rests"
    Health(on.loop.bus.node("lamp"), ENVIRONMENT, "light", on.loop.clock).failed("GPIO busy")


def hold(on):
    on.loop.hold.set(True)
    on.held = Sentence("air_temperature is 37 degC", "interlock", interlock="e/light_over_temperature")


@pytest.mark.parametrize(
    ("lamp", "cause", "words"),
    [
        (
            Lamp(),
            lambda on: setattr(on.loop, "daylight", 9_000),
            ("light_illuminance is 9000 lux", "the lamp is dark", "daylight"),
        ),
        (Lamp(), hold, ("light_illuminance is 0 lux", "its output is held (air_temperature is 37 degC)")),
        (Lamp(strength=0.0), fail, ("its output light has failed (GPIO busy)",)),
        (
            Lamp(),
            lambda on: setattr(on.loop, "quality", Quality.STALE),  # FAULT is in the test of a long cause
            ("light_illuminance is unknown", "its sensor has no valid reading"),
        ),
    ],
)
async def test_the_cause_of_too_much_or_too_little_light_is_the_reason(lamp, cause, words):
    async with light(lamp) as on:
        cause(on)
        on.loop.want(5_000)
        await on.misses(*words)


@pytest.mark.parametrize(("node", "whose"), [("http", "by hand"), ("e/recipe_runner", "of the recipe")])
async def test_the_set_point_of_a_channel_is_the_reason(node, whose):
    async with light(Lamp(strength=0.0)) as on:
        who = on.loop.bus.node(node)
        for channel in ("red", "white"):
            who.publisher(f"{ENVIRONMENT}/desired/light_intensity_{channel}").publish(0.0)
        on.loop.want(18_000)
        await on.misses(
            f"lux: the full light is missed because the channel white is held at 0 by the set point "
            f"light_intensity_white {whose} and the channel red is held at 0 by the set point "
            f"light_intensity_red {whose}"
        )


@pytest.mark.parametrize(("output", "level", "device"), [(VALVE, 0.0, "the valve"), (FAN, 1.0, "the fan")])
async def test_the_set_point_of_the_valve_or_fan_is_the_reason(output, level, device):
    async with carbon_dioxide() as on:
        on.loop.valve_hold.set(True)
        on.loop.want(output, level)
        on.loop.want(CO2, 1000.0)
        await on.misses(f"ppm: {device} is held at {level:g} by the set point {output} by hand")


async def test_the_time_starts_again_when_a_long_cause_ends():
    async with light(Lamp(strength=0.5)) as on:
        on.loop.want(16_000)
        on.loop.quality = Quality.FAULT
        await on.misses("its sensor has no valid reading")
        on.loop.quality = Quality.OK
        await on.advance(60)
        assert on.problems == []
        await on.advance(MISSED_S - 120)
        assert on.problems == []
        await on.advance(120)
        assert "the lamp is at full light" in on.problems[0]


async def test_the_time_starts_again_when_daylight_ends():
    async with light(Lamp(strength=0.0)) as on:
        on.loop.daylight = 9_000
        on.loop.want(5_000)
        await on.misses("daylight")
        on.loop.daylight = 0.0
        await on.advance(60)
        assert on.problems == []


async def test_an_intermittent_cause_does_not_hide_a_missed_set_point():
    async with light(Lamp(strength=0.5)) as on:
        on.loop.want(16_000)
        for minute in range(18):
            on.held = Sentence("the lamp rests", "interlock", interlock="e/it") if minute % 3 == 0 else ""
            await on.advance(60)
        assert on.problems


async def test_a_switched_lamp_that_stays_dark_for_a_low_set_point_is_reported():
    async with light(Lamp(gamma=1, is_switched=True)) as on:
        on.loop.want(8_000)
        await on.misses("a switched lamp is on only from half of full_scale_lux on")
    async with light(Lamp(gamma=1, is_switched=True)) as on:
        on.loop.want(12_000)
        assert await on.is_quiet(2 * SOON_S)


async def test_ramps_steps_nights_and_releases_are_not_reported():
    async with light() as on:
        for minute in range(int(MISSED_S // 60) + 5):
            on.loop.want(400 * minute)
            on.loop.daylight = 50 * minute
            assert await on.is_quiet(60)
        for set_point in (4_000, 0, None):
            on.loop.want(set_point)
            assert await on.is_quiet(MISSED_S)


async def test_the_delay_of_a_slow_filter_is_not_reported():
    async with light() as on:
        await on.loop.bus.parameters.set(f"{ENVIRONMENT}/filters/{LUX}/weight", 0.01)
        for second in range(0, 1_800, 10):
            on.loop.want(10 * second + 100)
            await on.advance(10)
            assert on.watch.node.details()["attainment"][0]["state"] != "missed"


async def test_a_broken_lamp_is_reported_during_a_long_ramp():
    async with light(Lamp(strength=0.0)) as on:
        for minute in range(int(SOON_S // 60)):
            on.loop.want(1_000 + 100 * minute)
            await on.advance(60)
        assert [phase for phase, _ in on.reported] == ["start"]


async def test_a_warm_up_and_an_override_are_not_reported():
    async with light() as on:
        on.loop.quality = Quality.WARM_UP
        on.loop.want(5_000)
        assert await on.is_quiet(SOON_S)
        on.loop.quality = Quality.OK
        hand = on.loop.bus.node("hand").publisher(f"{ENVIRONMENT}/commanded/{LUX}")
        for _ in range(3):
            hand.publish(0.0)
            assert await on.is_quiet(450)


async def test_an_empty_bottle_is_reported_and_a_full_one_is_not():
    async with carbon_dioxide() as on:
        on.loop.want(CO2, 1000.0)
        assert await on.is_quiet(SOON_S)
        on.loop.want(CO2, 0.0)  # night: it falls slowly
        assert await on.is_quiet(2 * SOON_S)
    async with carbon_dioxide() as on:
        on.loop.valve_hold.set(True)
        on.loop.want(CO2, 1000.0)
        await on.misses("air_carbon_dioxide is 42", "the valve is open all the time", "bottle", "door")


async def test_co2_that_rises_slowly_is_not_reported():
    async with carbon_dioxide(fan=False) as on:
        parameters = on.loop.chamber.parameters
        on.loop.chamber.parameters = replace(
            parameters, volume_m3=1.0, valve_flow_l_min=0.025, leak_per_h=0.1
        )
        on.loop.want(CO2, 1500.0)
        assert await on.is_quiet(2 * MISSED_S)
        assert on.loop.ppm < 1300


async def test_a_changed_set_point_is_judged_at_once():
    async with light() as on:
        on.loop.want(3_000)
        await on.advance(300)
        assert on.state == "reached"
        assert on.band == [2_700, 3_300]
        on.loop.want(9_000)
        assert (on.state, on.band) == ("settling", [8_100, 9_900])
        on.loop.want(None)
        assert (on.state, on.band) == ("idle", None)


class ByHand(BusRig):
    """A watch on one variable whose readings, set points and demands the test publishes."""

    def __init__(self, variable, **outputs):
        super().__init__(variable)
        self.variable = variable
        self.watch = AttainmentWatch(self.bus, ENVIRONMENT, [output_loop(variable, **outputs)])

    async def at(self, set_point, value, command=0.0, seconds=10):
        for folder, given in (("desired", set_point), ("measured", value), ("commanded", command)):
            self.publish(f"{folder}/{self.variable}", given)
        await self.clock.advance(seconds)
        return self.watch.node.details()["attainment"][0]


class TestTheFreeSide:
    """The side from which no output moves a variable back: only what is much too far is missed."""

    @pytest.mark.parametrize(
        ("variable", "set_point", "near", "far", "words"),
        [
            ("water_level", 80.0, 94.0, 100.0, "lowers it: adjust it by hand, and check that the filling"),
            (TEMPERATURE, 20.0, 29.0, 31.0, "no output lowers it"),
            (HUMIDITY, 50.0, 84.0, 86.0, "no output lowers it"),
            (CO2, 900.0, 2_300.0, 2_500.0, "no output lowers it"),
            (ACIDITY, 5.5, 5.9, 6.1, "no output lowers it"),
            ("water_electrical_conductivity", 1.8, 2.2, 2.4, "no output lowers it"),
        ],
    )
    async def test_a_value_far_above_is_missed(self, variable, set_point, near, far, words):
        raising = {"water_level": "water_fill"}.get(variable, "auxiliary_1")
        on = ByHand(variable, raising=[raising])
        async with running(on.clock, on.watch):
            found = await on.at(set_point, near)
            assert found["state"] == "reached"
            assert found["band"][0] < set_point < near <= found["band"][1] < far
            found = await on.at(set_point, far)
            assert found["state"] == "missed"
            assert words in found["text"]
            await on.at(set_point, far, seconds=MISSED_S)
            assert words in on.watch.node.details()["problems"][0]["text"]

    async def test_acid_that_runs_on_is_missed_below(self):
        on = ByHand(ACIDITY, raising=[], lowering=["nutrient_ph_down"])
        async with running(on.clock, on.watch):
            assert (await on.at(5.8, 5.4))["state"] == "reached"
            found = await on.at(5.8, 1.8)
            assert found["state"] == "missed"
            words = "no output raises it: adjust it by hand, and check that the pump for acid is off"
            assert words in found["text"]
            for value, is_failure in ((1.8, True), (4.4, False)):
                await on.at(5.8, value, seconds=MISSED_S + 10)
                (problem,) = on.watch.node.details()["problems"]
                assert problem.get("is_failure", False) is is_failure
        on = ByHand(ACIDITY, raising=["nutrient_ph_up"], lowering=["nutrient_ph_down"])
        async with running(on.clock, on.watch):  # its outputs can correct it
            await on.at(5.8, 1.8, seconds=MISSED_S + 10)
            (problem,) = on.watch.node.details()["problems"]
            assert not problem.get("is_failure", False)

    async def test_more_oxygen_than_asked_for_is_never_too_much(self):
        on = ByHand("water_dissolved_oxygen", raising=["water_aeration"])
        async with running(on.clock, on.watch):
            found = await on.at(5.0, 30.0)
            assert (found["state"], found["band"]) == ("reached", (4.0, None))


class TestReasons:
    async def test_the_reason_does_not_swap_while_the_output_switches(self):
        on = ByHand(TEMPERATURE, raising=["air_heater"])
        async with running(on.clock, on.watch):
            demands = [0.5, 1.0] * 9
            texts = {(await on.at(25.0, 20.0, demand, 60))["text"] for demand in demands}
            assert len(texts) == 2  # unknown at first, then the limit
            assert "is on all the time" in (await on.at(25.0, 20.0, 0.5))["text"]
            assert UNKNOWN in (await on.at(25.0, 20.0, 0.5, 2 * REASON_S))["text"]

    async def test_pumps_that_dose_are_said_to_do_so_with_the_last_dose(self):
        on = ByHand(ACIDITY, raising=[], lowering=["nutrient_ph_down"], devices=["acid"])
        Health(on.node, ENVIRONMENT, "acid", on.clock)
        level = on.node.advertise(output_level(ENVIRONMENT, "acid"), OUTPUT_LEVEL)
        level.publish(0.0)
        async with running(on.clock, on.watch):
            words = "the pump for acid works in doses with a pause for mixing after each; the last dose"
            for command in (1.0, 0.0, -1.0):
                text = (await on.at(5.8, 7.0, command))["text"]
                assert text.endswith(f"{words} is not known")
            level.publish(1.0)
            level.publish(0.0)  # between two looks
            await on.at(5.8, 7.0)
            assert (await on.at(5.8, 7.0, seconds=185))["text"].endswith(f"{words} ended 3 min 10 s ago")

    async def test_a_fan_that_removes_the_carbon_dioxide_is_the_reason(self):
        on = ByHand(CO2, raising=[VALVE])
        async with running(on.clock, on.watch):
            on.publish(f"commanded/{FAN}", 1.0)
            assert "the exhaust fan runs, and removes the CO2" in (await on.at(800.0, 694.0, 0.5))["text"]


class TestLoopsOfAChamber:
    """Loops as a chamber is configured, whose controllers work."""

    async def test_carbon_dioxide_that_stays_with_a_closed_valve_names_the_valve(self):
        outputs = [output(VALVE, CO2), output(FAN, CO2, lowers=True)]
        async with chamber_of([CO2], outputs) as (loop, problems):
            loop.want(CO2, 500.0)
            await loop.clock.advance(60)
            loop.chamber.set_actuator("valve", 0.6)  # stuck
            await loop.clock.advance(MISSED_S + 300)
            for _ in range(10):
                await loop.clock.advance(60)
                assert "the valve may be stuck open" in problems(CO2)

    async def test_a_fan_that_dries_for_the_temperature_is_the_reason(self):
        fan, humidifier = (
            output(FAN, TEMPERATURE, HUMIDITY, lowers=True),
            output("air_humidifier", HUMIDITY),
        )
        async with chamber_of([TEMPERATURE, HUMIDITY], [fan, humidifier]) as (loop, problems):
            loop.want(TEMPERATURE, 10.0)
            loop.want(HUMIDITY, 90.0)
            loop.holds["air_humidifier"].set(True)
            await loop.clock.advance(600)
            loop.controllers[HUMIDITY].experiment(0.5, 2 * MISSED_S)
            await loop.clock.advance(MISSED_S + 300)
            assert "the fan also lowers it, and runs for air_temperature" in problems(HUMIDITY)


@asynccontextmanager
async def chamber_of(measured, outputs, parameters=None):
    """A chamber that runs, and a call that gives the problems of its set points."""
    loop = ClimateLoop(climate_config(measured, outputs), parameters)
    watched = [watched_loop(loop.config, variable) for variable in loop.config.loops]
    watch = AttainmentWatch(loop.bus, loop.config.environment, watched)
    loop.parts.append(watch)

    def problems(variable):
        return next(
            (each["text"] for each in watch.node.details()["problems"] if variable in each["text"]), ""
        )

    async with loop.running():
        loop.light(1.0)
        loop.chamber.set_actuator("water_pump", 1.0)
        yield loop, problems
