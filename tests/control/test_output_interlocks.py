"""Every interlock of heaters, coolers, humidifiers, pumps, dosing and conditions, on simulated hardware."""

import logging
import math
from contextlib import asynccontextmanager
from copy import deepcopy

import pytest
from msgspec.structs import replace

from growd.bus.errors import InvalidValueError
from growd.config import Config, InterlockOptions, Light, Output, Sensor
from growd.config.conditions import Condition
from growd.control.interlocks.base import SensorReadings
from growd.control.interlocks.feedback import NotConfirmed
from growd.control.interlocks.heat import StillRising
from growd.control.interlocks.limits import MinimumOff
from growd.control.interlocks.on_times import OnTimes
from growd.output_roles import ROLES
from growd.status.notices import notices_of
from growd.status.status_node import StatusNode
from growd.variables import VALVE
from growd_cli.status_table import report
from growd_hwsim.faults import Fault
from support.memory import ShortMemory
from support.refusals import check_config
from support.stage import stage, with_events
from support.status import told

AIR = Sensor(name="air", kind="scd30")
DOOR = Sensor(name="door", kind="gpio", pin=4, variable="door_open", interval_s=1.0)
LEVEL = Sensor(name="level", kind="topic", variable="water_level", stale_after_s=600)
LOW = Sensor(name="low", kind="topic", variable="water_level_low", stale_after_s=600)
HIGH = Sensor(name="high", kind="topic", variable="water_level_high", stale_after_s=600)
ACIDITY = Sensor(name="ph", kind="topic", variable="water_potential_hydrogen", stale_after_s=86_400)
SALT = Sensor(name="ec", kind="topic", variable="water_electrical_conductivity", stale_after_s=86_400)
WARMTH = Sensor(name="warmth", kind="topic", variable="water_temperature", stale_after_s=86_400)
DAMP = Sensor(name="damp", kind="topic", variable="air_humidity", stale_after_s=86_400)
HEAT = Sensor(name="heat", kind="topic", variable="air_temperature", stale_after_s=86_400)
NO_LIGHT = Light(enabled=False)
KNOWN_S = 20.0
DAY_S = 86_400


def output(variable, pin=17, **options):
    """An output named after its own variable, for long commands by hand."""
    role = ROLES[variable]
    if role.output_class == "dosing":
        options = {"flow_ml_min": 60.0, **options}
    return Output(name=options.pop("name", variable), pin=pin, variable=variable, **options)


@asynccontextmanager
async def on_stage(*outputs, sensors=(AIR,), memory=None, light=NO_LIGHT, **options):
    """A stage of these outputs, each on a pin that the lamp does not use; the configuration is valid."""
    placed = tuple(replace(each, pin=pin) for each, pin in zip(outputs, (17, *range(19, 28)), strict=False))
    config = Config(sensor=sensors, output=placed, light=light, **options)
    check_config(config)
    async with stage(config, memory) as on:
        on.outputs = {each.name: each for each in placed}
        if any(sensor.kind == "scd30" for sensor in sensors):
            on.machine.sensor("scd30").follow_at_once()
        on.status = StatusNode(on.bus, ["environment_1"])
        await on.clock.advance(2)
        yield on


def runs(on, name):
    return on.is_on(on.outputs[name])


async def by_hand(on, variable, value, seconds=3.0):
    """Command an output by hand, which must last, and let time pass."""
    on.want(variable, value)
    await on.clock.advance(seconds)


async def post(on, sensor, value, seconds=1.0):
    """Send the value of a sensor as a client."""
    on.people["client"].publish_arguments(f"environment_1/posted/{sensor.name}", [value])
    await on.clock.advance(seconds)


def reason(on, name):
    return on.state(name)["reason"]


def status(on):
    return on.status.snapshot()


def held_by(on, variable):
    return next((each.held_by for each in status(on).variables if each.variable == variable), "")


class TestHeaterOverTemperature:
    NAME = "heater_over_temperature"

    async def test_the_heater_is_off_until_the_air_has_cooled(self):
        limits = InterlockOptions(heater_off_degc=28)
        async with on_stage(output("air_heater"), interlock=limits) as on:
            await on.clock.advance(KNOWN_S)
            on.want("air_heater", 1)
            await on.until(lambda: runs(on, "air_heater"), 10)
            await on.until(lambda: on.has_tripped(self.NAME), 7_200)
            await on.clock.advance(1)
            assert on.air().temperature_degc < 29
            assert "the limit for heaters is 28.0 degC; releases below 25 degC" in reason(on, self.NAME)
            await on.holds_against_all("air_heater", 1, on.outputs["air_heater"], state=False, each_s=2)
            await on.until(lambda: not on.has_tripped(self.NAME), 7_200)
            assert on.air().temperature_degc < 25.3

    async def test_one_sensor_is_enough_one_spike_is_not_and_a_heater_by_any_name_is_a_heater(self):
        heater = output("auxiliary_1", drives=("air_temperature",))
        cooler, other = output("air_cooler", minimum_off_s=0.0), replace(HEAT, name="other")
        async with on_stage(heater, cooler, sensors=(HEAT, other)) as on:
            await by_hand(on, "auxiliary_1", 1)
            assert not runs(on, "auxiliary_1")  # nothing has been measured
            for value in (20.0, 20.1):
                await post(on, HEAT, value)
                await post(on, other, value)
            await by_hand(on, "air_cooler", 1)
            assert runs(on, "auxiliary_1")
            assert held_by(on, "air_cooler") == "auxiliary_1_or_air_cooler"
            await post(on, other, 41.0)
            assert runs(on, "auxiliary_1")
            await post(on, other, 41.5)
            assert on.has_tripped(self.NAME)
            assert not runs(on, "auxiliary_1")
            for value, has_tripped in ((38.0, True), (36.0, False)):
                await post(on, other, value)
                await post(on, other, value)
                assert on.has_tripped(self.NAME) == has_tripped


class TestHeaterWithoutEffect:
    NAME = "air_temperature_no_rise"

    @pytest.mark.long
    async def test_a_broken_heater_is_off_until_a_reset(self):
        async with on_stage(output("air_heater")) as on:
            await on.clock.advance(KNOWN_S)
            on.machine.faults.inject(Fault("without_effect", "heater"))
            on.want("air_heater", 1)
            after = await on.until(lambda: not runs(on, "air_heater") and on.clock.monotonic() > 1_000, 4_000)
            assert after >= 1_790
            assert not on.has_tripped(self.NAME)
            assert held_by(on, "air_heater") == self.NAME
            assert await on.until(lambda: on.has_tripped(self.NAME), 700) == pytest.approx(600, abs=5)
            await on.clock.advance(2)
            assert not runs(on, "air_heater")
            assert "air_temperature did not rise by 0.5 degC: it may be broken" in reason(on, self.NAME)
            assert any("until it is reset" in text for text in told(status(on), "failure"))
            assert (await on.call(f"{self.NAME}/reset"))["success"]
            await on.clock.advance(2)
            assert runs(on, "air_heater")

    @pytest.mark.soak
    async def test_a_working_heater_in_a_cold_room_never_trips(self):
        async with on_stage(output("air_heater")) as on:
            on.change(ambient_temperature_degc=5.0)
            await on.clock.advance(KNOWN_S)
            on.want("air_heater", 1)
            minutes_on = 0
            for _ in range(45):  # a broken one trips in 40
                await on.clock.advance(60)
                assert not on.has_tripped(self.NAME)
                minutes_on += runs(on, "air_heater")
            assert minutes_on > 30
            on.change(ambient_temperature_degc=12.0)
            await by_hand(on, "air_heater", None)
            for set_point in (24, 18):  # and while it holds its set point
                on.want("air_temperature", set_point)
                await on.clock.advance(1_800)
                assert not on.has_tripped(self.NAME)


@pytest.mark.parametrize(("begin", "has_tripped"), [(15.0, False), (24.0, True)])
async def test_only_water_that_warms_beyond_the_room_is_a_welded_heater(begin, has_tripped):
    async with on_stage(output("water_heater"), sensors=(WARMTH,)) as on:
        for step in range(182):  # half an hour as it is, and half an hour that warms it
            await post(on, WARMTH, begin + 5.0 * max(0, step - 91) / 90)
            await on.clock.advance(20)
        assert on.has_tripped("water_temperature_still_rising") == has_tripped


class TestStillRising:
    NAME = "air_temperature_still_rising"
    OUTPUTS = (output("air_heater"), output("air_cooler", minimum_off_s=0.0), output("air_flush_on"))

    async def all_off(self, on):
        for variable in ("air_heater", "air_cooler", "air_flush_on"):
            await by_hand(on, variable, 0)

    async def test_everything_that_cools_runs_while_a_welded_heater_heats_and_a_reset_releases_it(self):
        memory = ShortMemory()
        async with on_stage(*self.OUTPUTS, memory=memory) as on:
            async with with_events(on) as published:
                on.change(ambient_temperature_degc=20.0)
                await on.clock.advance(KNOWN_S)
                await self.all_off(on)
                await on.clock.advance(1_300)
                on.machine.faults.inject(Fault("welded", "heater"))
                await on.until(lambda: on.has_tripped(self.NAME), 1_500)
                await on.clock.advance(2)
            assert "its relay may be welded" in reason(on, self.NAME)
            assert {"interlock"} == {event["kind"] for event in published}
            assert not runs(on, "air_heater")
            for cooling in ("air_cooler", "air_flush_on"):
                assert runs(on, cooling)
                await on.holds_against_all(cooling, 0, on.outputs[cooling], state=True, each_s=2)
            await on.holds_against_all("air_heater", 1, on.outputs["air_heater"], state=False, each_s=2)
            assert any(self.NAME in text for text in told(status(on), "failure"))
            on.machine.faults.clear()
            for variable in ("air_heater", "air_cooler", "air_flush_on"):
                on.people["client"].publish_arguments(f"environment_1/commanded/{variable}", [None])
            await self.all_off(on)
            await on.until(lambda: not runs(on, "air_cooler"), 7_200)  # only while it is too warm
            why = reason(on, self.NAME)
        async with on_stage(*self.OUTPUTS, memory=deepcopy(memory)) as on:
            await on.clock.advance(KNOWN_S)
            assert reason(on, self.NAME) == why
            assert (await on.call(f"{self.NAME}/reset"))["success"]
            assert not on.has_tripped(self.NAME)

    @pytest.mark.long
    async def test_a_cooler_that_hides_a_welded_heater_is_told(self):
        def is_told():
            return any(
                "relay of the heater may be welded, or" in each for each in told(status(on), "warning")
            )

        async with on_stage(*self.OUTPUTS) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "air_heater", 0)
            await by_hand(on, "air_flush_on", 1, 4_000)
            assert not is_told(), "a fan may always run"
            await by_hand(on, "air_cooler", 1, 3_500)
            assert not is_told()
            await on.clock.advance(200)
            assert is_told()
            await by_hand(on, "air_cooler", 0)
            assert not is_told()

    @pytest.mark.long
    async def test_the_heat_of_the_lamp_is_no_welded_heater(self):
        async with on_stage(*self.OUTPUTS, sensors=(AIR,), light=Light()) as on:
            on.change(wall_heat_capacity_j_k=1_400.0, outer_conductance_w_k=4.0)
            await on.clock.advance(KNOWN_S)
            await self.all_off(on)
            await on.clock.advance(3_000)
            before = on.air().temperature_degc
            on.want("light_intensity_white", 1)
            on.want("light_intensity_red", 1)
            await on.clock.advance(2_000)
            assert on.air().temperature_degc > before + 3
            assert not on.has_tripped(self.NAME)
            on.want("light_intensity_white", 0)
            on.want("light_intensity_red", 0)
            await on.clock.advance(1_200)
            assert not on.has_tripped(self.NAME)

    async def test_a_welded_heater_is_found_when_the_lamp_goes_dark_for_its_heat(self):
        async with on_stage(*self.OUTPUTS, sensors=(AIR,), light=Light()) as on:
            await on.clock.advance(KNOWN_S)
            await self.all_off(on)
            on.want("light_intensity_white", 1)
            await on.clock.advance(1_300)
            on.machine.faults.inject(Fault("welded", "heater"))
            await on.until(lambda: not any(on.lit()), 1_500)
            await on.until(lambda: on.has_tripped(self.NAME), 1_200)
            await on.clock.advance(2)
            assert runs(on, "air_cooler")

    async def test_after_its_state_was_lost_nothing_cools_below_the_temperature_of_the_start(self):
        memory = ShortMemory()
        memory.texts["environment_1/interlocks"] = "no JSON"
        for _ in range(2):
            async with on_stage(*self.OUTPUTS, memory=memory) as on:
                await on.clock.advance(KNOWN_S)
                await self.all_off(on)
                await on.clock.advance(60)
                assert on.has_tripped(self.NAME)
                assert not runs(on, "air_cooler")
                now = status(on)
                (lost,) = [each for each in notices_of(now) if each.code == "interlocks_lost"]
                assert lost.severity == "failure"
                (rising,) = [each for each in lost.effects if each.name.endswith(self.NAME)]
                assert (rising.fields["cause"], rising.fields["stays_on"]) == ("check_held", False)
                assert not now.has_unsafe_output
                on.machine.faults.inject(Fault("welded", "heater"))
                await on.until(lambda: runs(on, "air_cooler"), 1_500)
                on.machine.faults.clear()
        async with on_stage(*self.OUTPUTS, memory=memory) as on:
            await on.clock.advance(KNOWN_S)
            for name in (self.NAME, "air_temperature_no_rise"):
                assert (await on.call(f"{name}/reset"))["success"]
            assert not any(each.code == "interlocks_lost" for each in notices_of(status(on)))

    @pytest.mark.parametrize("is_cooled_on", [False, True])
    def test_a_rise_after_a_cooler_has_stopped_is_no_welded_heater(self, is_cooled_on):
        readings = SensorReadings({"air_temperature": 60.0})
        heating, cooling = OnTimes(), OnTimes()
        times = {"lamps": OnTimes(), "cooling": cooling, "chilling": OnTimes()}
        limits = {"window_s": 1_200.0, "rise_degc": 3.0}
        outputs = (["air_heater"], ["air_cooler"])
        rising = StillRising("air_temperature", *outputs, heating, readings, **times, **limits)
        rising.restore(None, 0.0, 0.0, was_clean=True)
        heating.wrote("heater", 0.0, 0.0)
        cooling.wrote("cooler", 1.0, 0.0)
        for now in range(0, 6_000, 10):
            after = max(0, now - 3_000)
            if after and not is_cooled_on:
                cooling.wrote("cooler", 0.0, now)
            value = 22.9 + 3.7 * (1 - math.exp(-after / 200))
            readings.take("air_temperature", "", value, now)
            rising.on_reading("air_temperature", "", value, now)
            rising.update(now, now)
        assert rising.has_tripped == is_cooled_on


class TestNeverTogether:
    async def test_two_that_work_against_each_other_are_never_on_together(self):
        heater, cooler = "air_heater", "air_cooler"
        both = [output(name, minimum_off_s=0.0, needs="", longest_on_s=DAY_S) for name in (heater, cooler)]
        async with on_stage(*both, sensors=(AIR,)) as on:
            await on.clock.advance(KNOWN_S)
            async with with_events(on) as published:
                on.want(heater, 1)
                on.want(cooler, 1)
                for _ in range(30):
                    await on.clock.advance(1)
                    assert runs(on, heater) != runs(on, cooler)
            assert published == []
            assert not on.has_tripped(f"{heater}_or_{cooler}")
            on.want(heater, 0)
            await by_hand(on, cooler, 0, 70)
            await by_hand(on, cooler, 1)
            assert runs(on, cooler)
            await by_hand(on, heater, 1)
            assert not runs(on, heater)
            assert held_by(on, heater) == f"{heater}_or_{cooler}"
            await by_hand(on, cooler, 0, 50)
            assert not runs(on, heater)
            await on.clock.advance(15)
            assert runs(on, heater)

    async def test_a_failing_output_counts_as_on(self):
        both = (output("air_heater"), output("air_cooler", minimum_off_s=0.0))
        async with on_stage(*both) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "air_heater", 1)
            on.machine.faults.inject(Fault("refused", f"gpio-{on.outputs['air_heater'].pin}"))
            await by_hand(on, "air_heater", 0)
            await by_hand(on, "air_cooler", 1, 120)
            assert not runs(on, "air_cooler")


WET = ("water_circulation", "nutrient_a", "water_heater")


@pytest.mark.parametrize(
    ("outputs", "sensor", "values", "name"),  # good ones, bad ones, and good ones again
    [
        (WET, LEVEL, (50, (9,), (12, 14)), "water_too_low"),
        (WET[:2], LOW, (0, (1,), (0,)), "water_too_low"),
        (("water_fill",), LEVEL, (80, (95,), (90,)), "water_too_high"),
        (("water_fill",), HIGH, (0, (1,), (0,)), "water_too_high"),
        (("water_heater",), WARMTH, (24.0, (32.5, 32.6), (29.9, 29.8)), "water_heater_over_temperature"),
    ],
    ids=["low", "float switch below", "high", "float switch above", "warm"],
)
async def test_outputs_of_the_water_are_off_beyond_a_limit(outputs, sensor, values, name, said):
    good, bad, back = values
    made = [output(each, needs="") for each in outputs]
    async with on_stage(*made, sensors=(sensor,)) as on:
        await post(on, sensor, good)
        first = outputs[0]
        await by_hand(on, first, 1)
        assert runs(on, first)
        for value in bad:
            await post(on, sensor, value, 3)
        assert on.has_tripped(name)
        said(reason(on, name))
        assert not any(runs(on, each) for each in outputs)
        await on.holds_against_all(first, 1, on.outputs[first], state=False, each_s=2)
        is_warned = any(name in text for text in told(status(on), "warning"))
        assert is_warned == (name != "water_too_high")
        for value in back:
            assert on.has_tripped(name)
            await post(on, sensor, value, 3)
        assert not on.has_tripped(name)
        assert runs(on, first)


async def test_an_unknown_level_is_safe():
    async with on_stage(output("water_circulation"), sensors=(LEVEL,)) as on:
        await by_hand(on, "water_circulation", 1)
        assert not runs(on, "water_circulation")
        await post(on, LEVEL, 50, 3)
        assert runs(on, "water_circulation")
        await on.clock.advance(700)
        assert reason(on, "water_too_low") == "water_level is unknown"
        assert not runs(on, "water_circulation")


async def test_a_tank_above_its_limit_is_told():
    async with on_stage(output("water_fill"), sensors=(LEVEL,)) as on:
        for level, seconds in ((96.0, 300), (98.0, 100)):
            await post(on, LEVEL, level, seconds)
            assert not on.has_tripped("water_overflow")
        await on.clock.advance(30)
        assert on.has_tripped("water_overflow")
        (failure,) = told(status(on), "failure")
        assert failure.startswith("environment_1/interlocks/water_overflow: ")
        assert failure.endswith("the filling valve may be stuck open: close the tap by hand")


class TestFillingWithoutEffect:
    NAME = "water_level_no_rise"

    @pytest.mark.parametrize(
        ("variable", "levels", "why"),
        [
            ("water_fill", (20.0, *[19.5] * 12), "water_level did not rise by 1 percent"),
            (
                "water_fill",
                (20.0, 30.0, 40.0, *[45.0] * 13),
                "water_level did not rise by 1 percent",
            ),  # a leak
            (
                "water_drain",
                [60.0] * 12,
                "did not fall by 1 percent: it may be blocked, the tap may be",
            ),
        ],
        ids=["nothing", "only a leak", "a drain"],
    )
    async def test_a_pump_that_does_not_move_the_level_is_off_until_a_reset(self, variable, levels, why):
        name = self.NAME if variable == "water_fill" else "water_level_no_fall"
        async with on_stage(output(variable, longest_on_s=DAY_S), sensors=(LEVEL,)) as on:
            on.want(variable, 1)
            for level in levels:
                await post(on, LEVEL, level, 60)
            assert on.has_tripped(name)
            assert why in reason(on, name)
            await on.clock.advance(1_000)
            assert not runs(on, variable)

    async def test_flow_and_tank_say_how_soon_the_level_must_follow_and_when_it_is_full(self):
        fill = output("water_fill", flow_ml_min=2_000.0)
        async with on_stage(fill, sensors=(LEVEL,)) as on:
            await post(on, LEVEL, 50.0)
            on.want("water_fill", 1)
            for _ in range(70):
                await post(on, LEVEL, 50.0, 1)
            assert on.has_tripped(self.NAME), "2 l are a tenth of the tank"
        async with on_stage(fill, sensors=(LEVEL,)) as on:
            await post(on, LEVEL, 80.0)
            on.want("water_fill", 1)
            filled = await on.until(lambda: not runs(on, "water_fill"), 600)
            assert filled == pytest.approx(90, abs=3), "3 l up to 95 %, though no reading came"
            await on.clock.advance(300)
            assert not runs(on, "water_fill")

    async def test_a_tank_that_is_emptied_by_hand_is_no_fault_of_the_drain(self):
        drain = output("water_drain", longest_on_s=DAY_S)
        async with on_stage(drain, sensors=(LEVEL,)) as on:
            on.want("water_drain", 1)
            for level in [*range(60, 4, -4), *[4] * 20]:
                await post(on, LEVEL, level, 60)
            assert runs(on, "water_drain")

    @pytest.mark.long
    async def test_a_tank_that_is_filled_and_then_held_never_trips(self):
        async with on_stage(output("water_fill"), sensors=(LEVEL,)) as on:
            level = 60.0
            on.want("water_level", 80)
            for minute in range(240):
                level += 2.0 if runs(on, "water_fill") else -0.1
                await post(on, LEVEL, min(level, 94.0), 60)
                assert not on.has_tripped(self.NAME), minute
            assert level > 75


class TestLongestRun:
    @pytest.mark.parametrize("drives", [(), ("water_circulation",)])
    async def test_a_circulation_pump_may_run_all_the_time(self, drives):
        pump = output("water_circulation", drives=drives)
        async with on_stage(pump, sensors=()) as on:
            await by_hand(on, "water_circulation", 1, 1_000)
            assert runs(on, "water_circulation")

    async def test_a_restart_or_a_kill_ends_no_rest_and_no_long_run(self):
        memory = ShortMemory()
        pump = output("water_fill", needs="", longest_on_s=100.0)
        async with on_stage(pump, memory=memory) as on:
            await by_hand(on, "water_fill", 1, 5)
            after_short_run = deepcopy(memory)
            await on.clock.advance(50)
            after_long_run = deepcopy(memory)
            await on.until(lambda: on.has_tripped("water_fill_on_too_long"), 60)
            await on.clock.advance(5)
            in_the_rest = deepcopy(memory)
        async with on_stage(pump, memory=after_short_run) as on:
            await by_hand(on, "water_fill", 1)
            assert runs(on, "water_fill")
        for saved, rest_s in ((memory, 890), (in_the_rest, 900), (after_long_run, 900)):
            async with on_stage(pump, memory=saved) as on:
                async with with_events(on) as published:
                    await by_hand(on, "water_fill", 1, rest_s - 20)
                    assert not runs(on, "water_fill")
                    assert "may have been on for long, or rested" in reason(on, "water_fill_on_too_long")
                    await on.clock.advance(30)
                assert published == []
                assert runs(on, "water_fill")


class TestDosing:
    PUMPS = (output("nutrient_ph_down", needs=""), output("nutrient_ph_up", needs=""))

    async def test_acid_and_base_are_never_dosed_within_the_mixing_pause(self):
        async with on_stage(*self.PUMPS) as on:
            await on.clock.advance(KNOWN_S)
            on.want("nutrient_ph_down", 3_600)
            await on.until(lambda: runs(on, "nutrient_ph_down"), 10)
            on.want("nutrient_ph_up", 3_600)
            dose = await on.until(lambda: not runs(on, "nutrient_ph_down"), 60)
            assert dose == pytest.approx(30, abs=2)
            on.want("nutrient_ph_down", 0)
            pause = await on.until(lambda: runs(on, "nutrient_ph_up"), 400)
            assert 299 <= pause <= 305

    async def test_no_pump_doses_again_before_the_tank_has_mixed_also_after_a_kill(self):
        memory = ShortMemory()
        async with on_stage(*self.PUMPS, memory=memory) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "nutrient_ph_down", 3_600, 4)
            assert runs(on, "nutrient_ph_down")
            after_kill = deepcopy(memory)
            await by_hand(on, "nutrient_ph_down", 0)
            await by_hand(on, "nutrient_ph_down", 3_600, 200)
            assert not runs(on, "nutrient_ph_down")
            assert held_by(on, "nutrient_ph_down") == "mixing_pause"
        async with on_stage(*self.PUMPS, memory=after_kill) as on:
            on.want("nutrient_ph_down", 3_600)
            await on.clock.advance(250)
            assert not runs(on, "nutrient_ph_down")
            await on.clock.advance(60)
            assert runs(on, "nutrient_ph_down")

    async def test_two_nutrients_may_be_dosed_together(self):
        names = ("nutrient_a", "nutrient_b", "nutrient_ph_down")
        async with on_stage(*[output(name, needs="") for name in names]) as on:
            await on.clock.advance(KNOWN_S)
            for name in names:
                on.want(name, 3_600)
            await on.until(lambda: runs(on, "nutrient_a"), 10)  # the first one in the configuration
            await on.clock.advance(3)
            assert [runs(on, name) for name in names] == [True, True, False]

    @pytest.mark.parametrize(
        ("limits", "name"),
        [
            ({"dosing_ml_per_hour": 40.0}, "nutrient_a_ml_per_hour"),
            ({"dosing_ml_per_day": 40.0, "dosing_ml_per_hour": 1e6}, "nutrient_a_ml_per_day"),
        ],
    )
    async def test_the_volume_is_limited_also_over_a_kill(self, limits, name):
        memory = ShortMemory()
        options = InterlockOptions(mixing_pause_s=1, **limits)
        pump = output("nutrient_a", needs="")
        async with on_stage(pump, memory=memory, interlock=options) as on:
            await on.clock.advance(KNOWN_S)
            on.want("nutrient_a", 3_600)
            await on.until(lambda: on.has_tripped(name), 200)
            await on.clock.advance(60)
            assert not runs(on, "nutrient_a")
            assert reason(on, name).startswith("nutrient_a had 40")
            assert "at the trip; the limit is 40 ml; releases below 36 ml" in reason(on, name)
        async with on_stage(pump, memory=deepcopy(memory), interlock=options) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "nutrient_a", 3_600, 60)
            assert on.has_tripped(name)
            assert not runs(on, "nutrient_a")

    @pytest.mark.long
    async def test_a_pump_that_is_left_out_for_a_start_has_its_limit_afterwards(self):
        memory = ShortMemory()
        options = InterlockOptions(mixing_pause_s=1, dosing_ml_per_hour=40.0)
        pump, name = output("nutrient_a", needs=""), "nutrient_a_ml_per_hour"
        async with on_stage(pump, memory=memory, interlock=options) as on:
            await on.clock.advance(KNOWN_S)
            on.want("nutrient_a", 3_600)
            await on.until(lambda: on.has_tripped(name), 200)
        for away_s, is_held in ((100, True), (200, True), (3_600, False)):
            async with on_stage(output("air_cooler"), memory=memory) as on:
                await on.clock.advance(away_s)
            async with on_stage(pump, memory=memory, interlock=options) as on:
                assert on.has_tripped(name) == is_held

    async def test_pumps_of_one_liquid_share_the_volume_and_one_that_is_held_does_not_end_the_dose(self):
        options = InterlockOptions(mixing_pause_s=1, dosing_ml_per_hour=40.0)
        first, second = (output("nutrient_a", name=name, needs="") for name in ("first", "second"))
        async with on_stage(first, second, interlock=options) as on:
            await on.clock.advance(KNOWN_S)
            on.want("nutrient_a", 3_600)
            given = await on.until(lambda: on.has_tripped("first_ml_per_hour"), 200)
            assert given == pytest.approx(20, abs=3), "two pumps of 60 ml/min each"
            assert reason(on, "first_ml_per_hour").startswith("first and second had 4")
            await on.clock.advance(3)
            assert not runs(on, "first")
            assert not runs(on, "second")
        async with on_stage(first, replace(second, minimum_off_s=3_600.0)) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "nutrient_a", 3_600, 10)
            assert runs(on, "first")
            assert not runs(on, "second")

    OFTEN = InterlockOptions(mixing_pause_s=60, dosing_ml_per_hour=1e6, dosing_ml_per_day=1e6)

    async def doses(self, on, sensor, before, effect, *, number=1, seconds=4):
        """Doses of 1 ml/s by hand, after each of which the sensor reads another value."""
        pump = "nutrient_a" if sensor is SALT else "nutrient_ph_down"
        for _ in range(number):
            await post(on, sensor, before)
            await by_hand(on, pump, 3_600, seconds)
            on.want(pump, None)
            before += effect
            for _ in range(7):
                await post(on, sensor, before, 10)
        return before

    @pytest.mark.parametrize(
        ("effect", "number", "more", "seconds"),
        [(0.0, 2, 1, 4), (0.0, 5, 2, 2), (0.06, 1, 2, 20)],
        ids=["one after another", "small ones are parts of one", "a small effect is none"],
    )
    async def test_a_pump_without_effect_is_off_until_a_reset(self, effect, number, more, seconds):
        """Of doses of 0.05, 0.025 and 0.25 mS/cm each."""
        name = "water_electrical_conductivity_no_rise"
        pump, rich = (
            output("nutrient_a"),
            {"sensors": (SALT,), "interlock": self.OFTEN, "memory": ShortMemory()},
        )
        async with on_stage(pump, **rich) as on:
            value = await self.doses(on, SALT, 1.2, effect, number=number, seconds=seconds)
            assert not on.has_tripped(name)
            await self.doses(on, SALT, value, effect, number=more, seconds=seconds)
            assert on.has_tripped(name)
            why = reason(on, name)
        async with on_stage(pump, **rich) as on:
            await post(on, SALT, value)
            await by_hand(on, "nutrient_a", 3_600)
            assert reason(on, name) == why
            assert not runs(on, "nutrient_a")
            assert (await on.call(f"{name}/reset"))["success"]
            await on.clock.advance(2)
            assert runs(on, "nutrient_a")

    async def test_acid_must_lower_the_acidity_and_a_refill_is_no_missing_effect(self):
        name = "water_potential_hydrogen_no_fall"
        async with on_stage(output("nutrient_ph_down"), sensors=(ACIDITY,), interlock=self.OFTEN) as on:
            value = await self.doses(on, ACIDITY, 6.7, -0.2, number=2)
            value = await self.doses(on, ACIDITY, value, 0.8)
            value = await self.doses(on, ACIDITY, value, -0.2, number=2)
            assert not on.has_tripped(name)
            await self.doses(on, ACIDITY, value, 0.0, number=3)
            assert on.has_tripped(name)
            assert not runs(on, "nutrient_ph_down")

    @pytest.mark.parametrize("factor", [0.5, 1.0, 1.3])
    async def test_a_probe_that_does_not_fit_the_volumes_of_a_day_is_a_problem(self, factor):
        memory = ShortMemory()
        source = "water_electrical_conductivity_no_rise"

        def problems(on):
            return [each.text for each in on.status.snapshot().problems if "volume predicts" in each.text]

        rich = {"sensors": (SALT,), "interlock": self.OFTEN, "memory": memory}
        async with on_stage(output("nutrient_a"), **rich) as on, with_events(on) as published:
            on.bus.node("recipe").publisher(f"environment_1/desired/{SALT.variable}").publish(1.6)
            value = await self.doses(on, SALT, 1.3, 0.25 * factor, number=2, seconds=20)
            assert not problems(on)
            await self.doses(on, SALT, value, 0.25 * factor, seconds=20)
            assert bool(problems(on)) == (factor != 1)
            assert not on.has_tripped(source)
        told_of = [each["source"] for each in published if "volume predicts" in each["message"]]
        assert told_of == [source] * (factor != 1)
        async with on_stage(output("nutrient_a"), **rich) as on:
            assert bool(problems(on)) == (factor != 1), "it is known after a restart"


class TestDoseLimits:
    PUMPS = tuple(map(output, ("nutrient_ph_down", "nutrient_ph_up", "nutrient_a")))
    BOTH = (ACIDITY, SALT)

    @pytest.mark.parametrize(
        ("sensor", "value", "held", "free"),
        [
            (ACIDITY, 3.0, "nutrient_ph_down", "nutrient_ph_up"),
            (ACIDITY, 8.0, "nutrient_ph_up", "nutrient_ph_down"),
            (SALT, 3.6, "nutrient_a", "nutrient_ph_down"),
            (SALT, 3.6, "nutrient_ph_up", "nutrient_ph_down"),  # a base is a salt, too
        ],
    )
    async def test_no_command_doses_beyond_a_measured_limit(self, sensor, value, held, free):
        async with on_stage(*self.PUMPS, sensors=self.BOTH) as on:
            await post(on, ACIDITY, 7.0)
            await post(on, SALT, 1.6)
            await post(on, sensor, value)
            topic = f"environment_1/commanded/{held}"
            on.people["client"].publish_arguments(topic, [1.0])
            await on.clock.advance(3)
            assert not runs(on, held)
            assert any(each.tripped and held in each.holds for each in on.status.snapshot().interlocks)
            on.people["client"].publish_arguments(topic, [None])
            await by_hand(on, free, 3_600)
            assert runs(on, free)

    async def test_a_dose_ends_half_way_to_the_limit_and_none_begins_where_there_is_hardly_room(self):
        async with on_stage(output("nutrient_ph_down"), sensors=(ACIDITY,)) as on:
            await post(on, ACIDITY, 5.05)
            await by_hand(on, "nutrient_ph_down", 3_600, 30)
            assert not runs(on, "nutrient_ph_down")
            await post(on, ACIDITY, 6.0)
            await post(on, ACIDITY, 6.0, 0)
            await on.until(lambda: runs(on, "nutrient_ph_down"), 5)
            given = await on.until(lambda: not runs(on, "nutrient_ph_down"), 30)
            assert given == pytest.approx(2.0, abs=1.0), "ml: half of 1.0 pH, 20 l, 0.2 ml for a litre"

    async def test_no_dose_begins_in_still_water(self, caplog):
        caplog.set_level(logging.INFO)
        outputs = (output("nutrient_a", needs=""), output("water_circulation"))
        async with on_stage(*outputs) as on:
            await by_hand(on, "nutrient_a", 3_600, 30)
            assert not runs(on, "nutrient_a")
            assert on.has_tripped("still_water")
            assert "still_water" not in caplog.text  # a pause, and no trip
            await by_hand(on, "water_circulation", 1, 290)
            assert not runs(on, "nutrient_a")
            await on.clock.advance(20)
            assert runs(on, "nutrient_a")
            async with with_events(on) as published:
                await by_hand(on, "water_circulation", 0)
            assert [each["fields"] for each in published if each["source"] == "still_water"] == [
                {"is_expected": True}
            ]

    @pytest.mark.parametrize(
        ("variable", "beyond", "within"),
        [(ACIDITY.variable, 3.0, 5.5), (ACIDITY.variable, 8.0, 7.0), (SALT.variable, 4.0, 3.0)],
    )
    async def test_a_set_point_beyond_a_limit_is_refused_with_the_reason(self, variable, beyond, within):
        async with on_stage(*self.PUMPS, sensors=self.BOTH) as on:
            with pytest.raises(InvalidValueError, match=r"of \[interlock\]") as refused:
                on.want(variable, beyond)
            assert refused.value.value == beyond
            assert on.rig.last(f"desired/{variable}") is None
            on.want(variable, within)


class TestLimitsOfOutputs:
    async def test_a_cooler_stays_off_for_its_pause_also_over_a_kill_and_a_restart(self):
        memory = ShortMemory()
        async with on_stage(output("air_cooler"), memory=memory) as on:
            await by_hand(on, "air_cooler", 1, 170)
            assert not runs(on, "air_cooler")
            assert held_by(on, "air_cooler") == "air_cooler_minimum_off"
            await on.clock.advance(15)
            assert runs(on, "air_cooler")
            await by_hand(on, "air_cooler", 0)
            await by_hand(on, "air_cooler", 1, 170)
            assert not runs(on, "air_cooler")
            await on.clock.advance(15)
            assert runs(on, "air_cooler")
            await by_hand(on, "air_cooler", 0, 100)
        async with on_stage(output("air_cooler"), memory=memory) as on:
            await by_hand(on, "air_cooler", 1, 60)
            assert not runs(on, "air_cooler")
            await on.clock.advance(30)
            assert runs(on, "air_cooler"), "the pause goes on over a clean restart"
            after_kill = deepcopy(memory)
        async with on_stage(output("air_cooler"), memory=after_kill) as on:
            await by_hand(on, "air_cooler", 1, 170)
            assert not runs(on, "air_cooler"), "after a kill the pause begins at the start"

    async def test_a_cooler_that_is_dimmed_has_no_compressor_to_spare(self):
        async with on_stage(output("air_cooler", kind="pwm")) as on:
            await by_hand(on, "air_cooler", 1, KNOWN_S)
            assert runs(on, "air_cooler")

    async def test_an_output_stays_on_for_its_minimum_but_not_against_an_interlock(self):
        async with on_stage(output("air_heater", minimum_on_s=120.0)) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "air_heater", 1)
            await by_hand(on, "air_heater", 0, 100)
            assert runs(on, "air_heater")
            await on.clock.advance(25)
            assert not runs(on, "air_heater")
            await by_hand(on, "air_heater", 1)
            on.machine.faults.inject(Fault("absent", "scd30"))
            await on.until(lambda: on.has_tripped("air_temperature_unknown"), 100)
            await on.clock.advance(1)
            assert not runs(on, "air_heater")

    async def test_an_output_that_failed_is_not_switched_on_for_its_minimum(self):
        async with on_stage(output("auxiliary_1", minimum_on_s=120.0)) as on:
            pin = on.outputs["auxiliary_1"].pin
            on.machine.faults.inject(Fault("refused", f"gpio-{pin}"))
            await by_hand(on, "auxiliary_1", 1)
            await by_hand(on, "auxiliary_1", 0)
            on.machine.faults.clear()
            await on.clock.advance(60)
            assert not any(event.high for event in on.machine.pins.history if event.pin == pin)

    def test_an_output_that_fails_in_its_pause_stays_off(self):
        times = OnTimes()
        pause = MinimumOff("pause", ["air_cooler"], times, 180.0)
        pause.restore(None, 0.0, 0.0, was_clean=True)
        for level, now in ((1.0, 0.0), (0.0, 400.0), (None, 410.0)):
            times.wrote("air_cooler", level, now)
            pause.update(now, now)
        assert pause.reason
        assert pause.held_level("air_cooler", 1.0, 0.0) == 0.0


class TestCarbonDioxideOfAnyKind:
    BURNER = output("auxiliary_1", drives=("air_carbon_dioxide",))
    EXHAUST = output("auxiliary_2", drives=("air_carbon_dioxide",), direction="lowers")

    async def test_the_ceiling_and_the_rest_hold_whatever_raises_it(self):
        gas = Sensor(name="gas", kind="topic", variable="air_carbon_dioxide", stale_after_s=DAY_S)
        async with on_stage(self.BURNER, self.EXHAUST, sensors=(gas,)) as on:
            await post(on, gas, 600)
            on.want("auxiliary_1", 1)
            await on.clock.advance(5)
            assert runs(on, "auxiliary_1")
            assert await on.until(lambda: on.has_tripped("valve_open_too_long"), 400) > 290
            await on.clock.advance(70)
            await post(on, gas, 5_100)
            assert on.has_tripped("carbon_dioxide_ceiling")
            await on.clock.advance(2)
            assert not runs(on, "auxiliary_1")
            assert runs(on, "auxiliary_2")
            await post(on, gas, 600)
            for _ in range(30):
                await post(on, gas, 600, 30)
            assert on.has_tripped("no_rise_after_dose")
            assert not runs(on, "auxiliary_1")

    async def test_a_valve_that_stays_open_is_a_failure_while_it_is_written_off(self):
        sensor = Sensor(name="co2", kind="topic", variable="air_carbon_dioxide", stale_after_s=600)
        async with on_stage(output(VALVE), sensors=(sensor,)) as on:
            name = "carbon_dioxide_stays_high"
            await post(on, sensor, 800.0)
            await by_hand(on, VALVE, 1, 10)
            await post(on, sensor, 5_200.0, 280)
            assert on.has_tripped("carbon_dioxide_ceiling")
            assert not on.has_tripped(name)
            await post(on, sensor, 6_000.0, 30)
            assert "was 6000 ppm although the valve is written off" in reason(on, name)
            assert any("close the bottle" in text for text in told(status(on), "failure"))
            tripped_at = on.state(name)["since"]
            await post(on, sensor, 8_000.0)
            assert "was 8000 ppm" in reason(on, name)
            assert on.state(name)["since"] == tripped_at
            await post(on, sensor, 4_400.0)
            assert not on.has_tripped(name)


class TestConditions:
    FAN = Output(name="exhaust", pin=22, variable="air_flush_on")
    DOOR_OPEN = Condition(name="door", outputs=("air_heater",), variable="door_open", on=True)

    async def test_the_heater_is_off_while_the_door_is_open(self):
        async with on_stage(output("air_heater"), sensors=(AIR, DOOR), condition=(self.DOOR_OPEN,)) as on:
            await on.clock.advance(KNOWN_S)
            (door,) = [each for each in status(on).interlocks if each.name.endswith("condition_door")]
            assert door.holds == ["air_heater"]
            await by_hand(on, "air_heater", 1)
            assert runs(on, "air_heater")
            async with with_events(on) as published:
                on.machine.chamber.set_door(True)
                await on.clock.advance(4)
            assert not runs(on, "air_heater")
            assert reason(on, "condition_door") == "door_open is on"
            assert [event["source"] for event in published] == ["condition_door"]
            assert not any("condition_door" in text for text in told(status(on), "warning"))
            await on.holds_against_all("air_heater", 1, on.outputs["air_heater"], state=False, each_s=2)
            on.machine.chamber.set_door(False)
            await on.clock.advance(4)
            assert runs(on, "air_heater")

    async def test_an_unknown_variable_holds_unless_it_is_ignored(self):
        ignoring = replace(self.DOOR_OPEN, unknown="ignore")
        for condition, still_runs in ((self.DOOR_OPEN, False), (ignoring, True)):
            async with on_stage(output("air_heater"), sensors=(AIR, DOOR), condition=(condition,)) as on:
                await on.clock.advance(KNOWN_S)
                await by_hand(on, "air_heater", 1)
                on.machine.faults.inject(Fault("refused", f"gpio-{DOOR.pin}"))
                await on.clock.advance(60)
                assert runs(on, "air_heater") == still_runs

    async def test_a_limit_has_a_hysteresis_and_a_time(self):
        limit = {"variable": "air_temperature", "above": 30, "hysteresis": 2, "after_s": 60}
        condition = Condition(name="warm", outputs=("exhaust",), hold="on", alert=True, **limit)
        async with on_stage(self.FAN, sensors=(HEAT,), condition=(condition,)) as on:
            await post(on, HEAT, 25)
            await by_hand(on, "air_flush_on", 0)
            await post(on, HEAT, 31, 50)
            assert not runs(on, self.FAN.name)
            await on.clock.advance(15)
            assert runs(on, self.FAN.name)
            assert any("condition_warm" in text for text in told(status(on), "warning"))
            await post(on, HEAT, 28.5, 5)
            assert runs(on, self.FAN.name)
            await post(on, HEAT, 27.9, 5)
            assert not runs(on, self.FAN.name)

    async def test_a_reading_that_wanders_around_the_limit_switches_once(self):
        condition = Condition(name="warm", outputs=("air_heater",), variable="air_temperature", above=30)
        async with on_stage(output("air_heater"), sensors=(HEAT,), condition=(condition,)) as on:
            states = []
            for reading in (25, 30.1, 29.9, 30.1, 29.9, 30.1, 29.9, 29.4):
                await post(on, HEAT, reading, 5)
                states.append(on.has_tripped("condition_warm"))
            assert states == [False, *[True] * 6, False]

    @pytest.mark.parametrize("alert", [False, True])
    async def test_one_that_follows_an_output_has_events_only_with_an_alert(self, alert):
        condition = Condition(
            name="fan", outputs=("air_heater",), variable="air_flush_on", on=True, alert=alert
        )
        async with on_stage(output("air_heater"), self.FAN, sensors=(HEAT,), condition=(condition,)) as on:
            await post(on, HEAT, 25)
            await by_hand(on, "air_flush_on", 0)
            async with with_events(on) as published:
                await by_hand(on, "air_flush_on", 1)
                assert on.has_tripped("condition_fan")
                await by_hand(on, "air_flush_on", 0)
                assert not on.has_tripped("condition_fan")
            assert [event["message"] for event in published] == ["air_flush_on is on", "released"] * alert

    async def test_the_lamp_can_be_held_off(self):
        condition = Condition(name="dry", outputs=("light",), variable="air_humidity", below=40)
        async with on_stage(sensors=(DAMP,), light=Light(), condition=(condition,)) as on:
            await post(on, DAMP, 60)
            await by_hand(on, "light_intensity_white", 1)
            assert on.lit()[0] == 1
            await post(on, DAMP, 39, 3)
            assert on.lit()[0] == 0


class TestFeedback:
    HEATER = output("air_heater")
    FAN = output("air_flush_on")
    CLAMP = Sensor(name="clamp", kind="gpio", pin=5, confirms="air_heater", interval_s=1.0)
    NAME = "air_heater_not_confirmed"

    async def test_an_output_that_stays_off_is_told(self):
        async with on_stage(self.HEATER, sensors=(AIR, self.CLAMP)) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "air_heater", 1, 30)
            assert not on.has_tripped(self.NAME)
            async with with_events(on) as published:
                on.machine.faults.inject(Fault("without_effect", "heater"))
                await on.until(lambda: on.has_tripped(self.NAME), 20)
            assert [event["source"] for event in published] == [self.NAME]
            assert reason(on, self.NAME).endswith("its feedback says that it is off")
            assert runs(on, "air_heater")
            now = status(on)
            assert any(self.NAME in text for text in told(now, "warning"))
            assert self.NAME in report(now)
            on.machine.faults.clear()
            await on.until(lambda: not on.has_tripped(self.NAME), 5)

    async def test_a_heater_that_stays_on_is_a_failure_and_everything_cools(self):
        async with on_stage(self.HEATER, self.FAN, sensors=(AIR, self.CLAMP)) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "air_flush_on", 0)
            await by_hand(on, "air_heater", 0, 30)
            assert not runs(on, "air_flush_on")
            on.machine.faults.inject(Fault("welded", "heater"))
            await on.until(lambda: on.has_tripped(self.NAME), 20)
            await on.clock.advance(2)
            assert any("switch off its power" in text for text in told(status(on), "failure"))
            assert on.has_tripped("air_temperature_still_rising")
            (rising,) = [each for each in notices_of(status(on)) if each.name.endswith("_still_rising")]
            assert rising.fields["cause"] == "replace_heater_relay"
            assert "replace its relay" in rising.remedy
            assert runs(on, "air_flush_on")
            assert (await on.call("air_temperature_still_rising/reset"))["success"] is False

    async def test_an_exhaust_fan_runs_while_the_valve_stays_open(self):
        valve = output("air_carbon_dioxide_valve_on")
        contact = replace(self.CLAMP, confirms=valve.name)
        async with on_stage(valve, self.FAN, sensors=(AIR, contact)) as on:
            await on.clock.advance(KNOWN_S)
            await by_hand(on, "air_flush_on", 0)
            await by_hand(on, valve.name, 0)
            on.machine.faults.inject(Fault("welded", "valve"))
            await on.until(lambda: on.has_tripped(f"{valve.name}_not_confirmed"), 20)
            await on.clock.advance(2)
            assert runs(on, "air_flush_on")

    def test_an_old_or_a_missing_reading_proves_nothing(self):
        times = OnTimes()
        lock = NotConfirmed("it", "feedback/it", times, stale_after_s=30)
        times.wrote("it", 0.0, 0.0)
        lock.on_message("feedback/it", 1.0, 0.0)
        for now in (0.0, 15.0):
            lock.update(now, now)
        assert lock.stuck == "it"
        lock.update(31.0, 31.0)
        assert not lock.reason
        times.wrote("it", 1.0, 32.0)
        lock.on_message("feedback/it", None, 32.0)
        for now in (32.0, 60.0):
            lock.update(now, now)
        assert not lock.reason
