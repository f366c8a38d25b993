"""Every interlock trips, through real drivers on simulated hardware, against every source of commands."""

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from copy import deepcopy

import pytest
from msgspec.structs import replace

from growd.bus.errors import InvalidValueError, NotOpenError
from growd.bus.messages import Quality
from growd.config import Config, Light, Output, Sensor
from growd.status.status_node import StatusNode
from growd_cli.status_table import report
from growd_hwsim.faults import Fault
from support.memory import ShortMemory
from support.scene import UNHINDERED
from support.stage import WHO, stage, with_events

AIR = Sensor(name="air", kind="scd30")
LUX = Sensor(name="lux", kind="bh1750", bus=3, interval_s=1.0)
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
FAN = Output(name="fan", pin=20, variable="air_flush_on")

CO2, VALVE_ON, FAN_ON, LIGHT = "air_carbon_dioxide", VALVE.variable, FAN.variable, "light_illuminance"
KNOWN_S = 20.0


def chamber(*sensors, interlock=UNHINDERED, relays=(VALVE, FAN), light=None):
    light = light or Light(enabled=False)
    return Config(sensor=sensors or (AIR,), output=relays, light=light, interlock=interlock)


class TestCarbonDioxideCeiling:
    NAME = "carbon_dioxide_ceiling"

    async def test_the_ceiling_shuts_the_valve_and_runs_the_fan(self, caplog):
        caplog.set_level(logging.INFO, "growd")
        async with stage(chamber()) as on:
            on.change(valve_flow_l_min=2.0)
            on.machine.sensor("scd30").follow_at_once()
            await on.clock.advance(KNOWN_S)
            async with with_events(on) as published:
                on.want(VALVE_ON, 1)
                await on.until(lambda: on.has_tripped(self.NAME), 60)
                assert on.air().carbon_dioxide_ppm < 6_000
                assert not on.is_on(VALVE)
                assert on.is_on(FAN)
                on.change(fan_flow_l_min=20.0)  # so that every source has time to try
                on.want(VALVE_ON, 0)
                await on.holds_against_all(FAN_ON, 0, FAN, state=True, each_s=5)
                await on.holds_against_all(VALVE_ON, 1, VALVE, state=False, each_s=5)
                on.want(VALVE_ON, 0)
                on.command("client", VALVE_ON, 0)
                await on.until(lambda: not on.has_tripped(self.NAME), 600)
                assert 4_400 < on.air().carbon_dioxide_ppm < 4_520
                await on.clock.advance(20)
                assert not on.is_on(FAN)
        assert [(event["kind"], event["source"]) for event in published] == [("interlock", self.NAME)] * 2
        assert published[0]["message"].startswith("air_carbon_dioxide was 5")
        assert published[0]["message"].endswith(
            " ppm at the trip; the limit is 5000 ppm; releases below 4500 ppm"
        )
        assert published[1]["message"] == "released"
        said = [record for record in caplog.records if self.NAME in record.getMessage()]
        assert [record.levelname for record in said] == ["WARNING", "INFO"]

    async def test_one_sensor_above_the_ceiling_is_enough(self):
        spare = replace(AIR, name="spare", bus=2)
        async with stage(chamber(AIR, spare)) as on:
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            await on.clock.advance(2)
            assert on.is_on(VALVE)
            on.machine.chips[2, 0x61].memory.calibration_ppm = 6_000.0
            await on.until(lambda: on.has_tripped(self.NAME), 10)
            assert not on.is_on(VALVE)
            on.machine.faults.inject(Fault("absent", "i2c-2:0x61"))  # its reading becomes unknown
            await on.until(lambda: not on.has_tripped(self.NAME), 10)


class TestValveOpenTooLong:
    async def test_the_valve_rests_after_its_longest_time_open(self):
        limits = replace(UNHINDERED, valve_open_s=60)
        async with stage(chamber(interlock=limits)) as on:
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            await on.until(lambda: on.is_on(VALVE), 5)
            took = await on.until(lambda: not on.is_on(VALVE), 70)
            assert took == pytest.approx(60, abs=2)
            assert on.has_tripped("valve_open_too_long")
            assert "open for 60 s without a pause" in on.state("valve_open_too_long")["reason"]
            await on.holds_against_all(VALVE_ON, 1, VALVE, state=False, each_s=8)
            await on.until(lambda: on.is_on(VALVE), 40)
            assert not on.has_tripped("valve_open_too_long")

    async def test_a_valve_whose_output_fails_counts_as_open(self):
        async with stage(chamber(interlock=replace(UNHINDERED, valve_open_s=60, dose_s=60))) as on:
            await on.clock.advance(KNOWN_S)
            on.machine.faults.inject(Fault("refused", f"gpio-{VALVE.pin}"))
            on.want(VALVE_ON, 1)
            for name in ("valve_open_too_long", "dose_per_hour"):
                await on.until(lambda name=name: on.has_tripped(name), 70)
                assert "the valve may have been open (its output failed) for 60 s" in on.state(name)["reason"]
            assert on.state("valve_open_too_long")["reason"].endswith(
                "; it may be open until its output works: close the bottle; it is then closed for 60 s"
            )
            on.machine.faults.clear()
            stays = "; it stays closed for 60 s"
            await on.until(lambda: on.state("valve_open_too_long")["reason"].endswith(stays), 30)


class TestDosePerHour:
    NAME = "dose_per_hour"
    LIMITS = replace(UNHINDERED, dose_s=120)

    @pytest.mark.long
    async def test_the_valve_stays_shut_after_the_dose_of_an_hour(self):
        valve = replace(VALVE, flow_ml_min=250.0)  # for the litres in the reason
        async with stage(chamber(interlock=self.LIMITS, relays=(valve,))) as on:
            on.change(valve_flow_l_min=0.01)
            await on.clock.advance(KNOWN_S)
            for _ in range(12):  # many small ones add up
                on.want(VALVE_ON, 1)
                await on.clock.advance(10.0)
                on.want(VALVE_ON, 0)
                await on.clock.advance(10.0)
            on.want(VALVE_ON, 1)
            await on.until(lambda: on.has_tripped(self.NAME), 10)
            assert not on.is_on(VALVE)
            assert on.state(self.NAME)["reason"].startswith("the valve was open for 12")
            assert on.state(self.NAME)["reason"].endswith(
                "of the last hour at the trip; the limit is 120 s (0.5 l); releases below 108 s (0.45 l)"
            )
            await on.holds_against_all(VALVE_ON, 1, VALVE, state=False, each_s=200)
            await on.until(lambda: not on.has_tripped(self.NAME), 3_600)

    async def test_it_has_no_volume_if_the_flow_of_one_valve_is_not_known(self):
        valve, spare = replace(VALVE, flow_ml_min=250.0), replace(VALVE, name="spare", pin=22)
        for relays, has_volume in (((valve,), True), ((valve, spare), False)):
            async with stage(chamber(interlock=self.LIMITS, relays=relays)) as on:
                (found,) = [
                    each
                    for each in on.bus.find_node("environment_1/interlocks").information()["interlocks"]
                    if each["name"].endswith(self.NAME)
                ]
                assert ("limit_litres" in {each["name"] for each in found["limits"]}) == has_volume

    @pytest.mark.parametrize("is_killed", [False, True])
    async def test_a_restart_gives_no_second_dose(self, is_killed):
        memory = ShortMemory()
        async with stage(chamber(interlock=self.LIMITS), memory) as on:
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            await on.clock.advance(100.0)
            at_the_kill = deepcopy(memory)
        assert memory.saves < 15  # not one for each dose
        async with stage(chamber(interlock=self.LIMITS), at_the_kill if is_killed else memory) as on:
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            await on.until(lambda: on.is_on(VALVE), 5)
            assert await on.until(lambda: on.has_tripped(self.NAME), 40) <= 22


class TestInputUnknown:
    NAME = "air_carbon_dioxide_unknown"

    @pytest.mark.parametrize(("interval_s", "slowest", "too_slow"), [(2.0, 15.0, 15.1), (60.0, 60.0, 90.0)])
    async def test_no_interval_that_a_client_may_set_trips_it(self, interval_s, slowest, too_slow):
        async with stage(chamber(replace(AIR, interval_s=interval_s))) as on:
            parameter = "environment_1/samplers/air/interval"
            with pytest.raises(InvalidValueError, match=f"to {slowest:g} s, not {too_slow:g}"):
                await on.bus.parameters.set(parameter, too_slow)
            with pytest.raises(InvalidValueError, match="must be a number from"):
                await on.bus.parameters.set(parameter, 0.05)
            await on.clock.advance(KNOWN_S + 2 * interval_s)
            on.want(VALVE_ON, 1)
            for interval in (slowest, interval_s / 2):
                await on.bus.parameters.set(parameter, max(2.0, interval))
                for _ in range(300):
                    await on.clock.advance(1.0)
                    assert not on.has_tripped(self.NAME)
                    assert on.rig.last(f"measured/{CO2}").quality is Quality.OK

    @pytest.mark.parametrize("fault", ["absent", "hang", "frozen"])
    async def test_the_valve_is_shut_without_a_fresh_reading(self, fault):
        async with stage(chamber()) as on:
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            await on.until(lambda: on.is_on(VALVE), 5)
            on.machine.faults.inject(Fault(fault, "scd30" if fault != "hang" else "i2c-1"))
            await on.until(lambda: on.has_tripped(self.NAME), 60)
            await on.clock.advance(1.0)
            assert not on.is_on(VALVE)
            await on.holds_against_all(VALVE_ON, 1, VALVE, state=False)

    async def test_the_valve_is_shut_before_the_first_reading_which_no_client_can_publish(self):
        async with stage(chamber()) as on:
            with pytest.raises(NotOpenError, match="environment_1/samplers/air"):
                on.people["client"].publish_arguments(f"environment_1/raw/{CO2}", [500])
            for who in WHO:
                on.command(who, VALVE_ON, 1)
                await on.clock.advance(0.5)
                assert on.state(self.NAME)["reason"] == f"{CO2} has not been measured yet"
                assert not on.is_on(VALVE)
            assert not any(event.high for event in on.machine.pins.history)

    async def test_a_sensor_that_never_answers_is_reported_after_the_longest_warm_up(self, caplog):
        caplog.set_level(logging.INFO, "growd")
        async with stage(chamber()) as on, with_events(on) as published:
            on.machine.faults.inject(Fault("absent", "i2c-1"))
            await on.clock.advance(290)
            assert self.NAME not in caplog.text
            await on.clock.advance(600)
            assert not on.is_on(VALVE)
            on.machine.faults.clear()
            await on.until(lambda: not on.has_tripped(self.NAME), 120)
        said = "air_carbon_dioxide is unknown: its sensor is silent, faulty or warming up"
        assert [each["message"] for each in published if each["source"] == self.NAME] == [said, "released"]
        (record,) = (each for each in caplog.records if said in each.getMessage())
        assert record.levelno == logging.INFO  # the warning is that of the sensor


class TestNoRiseAfterDose:
    NAME = "no_rise_after_dose"
    LIMITS = replace(UNHINDERED, no_rise_open_s=180)

    @asynccontextmanager
    async def tripped(self, memory=None):
        async with stage(chamber(interlock=self.LIMITS), memory) as on:
            on.change(valve_flow_l_min=0.0)
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            await on.until(lambda: on.has_tripped(self.NAME), 200)
            yield on

    async def test_an_empty_bottle_shuts_the_valve_until_a_reset(self):
        async with self.tripped() as on:
            assert not on.is_on(VALVE)
            assert on.state(self.NAME)["needs_reset"]
            assert on.state(self.NAME)["reason"].endswith("the valve stuck or the chamber open")
            await on.holds_against_all(VALVE_ON, 1, VALVE, state=False, each_s=30)
            await on.clock.advance(1_000)
            on.machine.faults.inject(Fault("absent", "scd30"))
            await on.clock.advance(10)
            refused = {"success": False, "message": f"{CO2} is unknown, so a rise could not be seen"}
            assert await on.call(f"{self.NAME}/reset") == refused
            assert on.has_tripped(self.NAME)
            on.machine.faults.clear()
            await on.until(lambda: not on.has_tripped(f"{CO2}_unknown"), 100)
            done = {"success": True, "message": "no_rise_after_dose has been reset"}
            assert await on.call(f"{self.NAME}/reset") == done
            assert not on.has_tripped(self.NAME)
            await on.until(lambda: on.is_on(VALVE), 5)
            on.change(valve_flow_l_min=0.05)
            await on.clock.advance(400)
            assert not on.has_tripped(self.NAME)
            answer = await on.call(f"{self.NAME}/reset")
            assert answer == {"success": False, "message": "no_rise_after_dose has not tripped"}

    async def test_the_reason_names_a_fan_that_ran(self):
        async with stage(chamber(interlock=self.LIMITS)) as on:
            on.change(valve_flow_l_min=0.0)
            await on.clock.advance(KNOWN_S)
            on.want(FAN_ON, 1)
            on.want(VALVE_ON, 1)
            await on.clock.advance(100)
            on.want(FAN_ON, 0)
            await on.until(lambda: on.has_tripped(self.NAME), 200)
            words = "or the exhaust fan removed the CO2; it was on until 1 min"
            assert words in on.state(self.NAME)["reason"]

    @pytest.mark.parametrize("is_killed", [False, True])
    async def test_it_stays_tripped_over_a_restart(self, is_killed):
        memory = ShortMemory()
        async with self.tripped(memory) as on:
            await on.clock.advance(1.0)
            at_the_kill = deepcopy(memory)
        async with stage(chamber(interlock=self.LIMITS), at_the_kill if is_killed else memory) as on:
            on.want(VALVE_ON, 1)
            await on.clock.advance(60)
            assert on.has_tripped(self.NAME)
            assert not on.is_on(VALVE)
            assert (await on.call(f"{self.NAME}/reset"))["success"]
            await on.until(lambda: on.is_on(VALVE), 5)


LAMP = Light()


def until_midnight(wall):
    local = time.localtime(wall)
    return 86_400 - local.tm_hour * 3_600 - local.tm_min * 60 - local.tm_sec


class TestLightOverTemperature:
    NAME = "light_over_temperature"

    async def test_the_lamp_is_dark_until_the_air_has_cooled(self):
        limits = replace(UNHINDERED, light_off_degc=26)
        async with stage(chamber(AIR, LUX, interlock=limits, light=LAMP, relays=())) as on:
            # it warms and cools within minutes, by more than two degrees
            on.change(wall_heat_capacity_j_k=1_400.0, outer_conductance_w_k=4.0)
            await on.clock.advance(KNOWN_S)
            on.want(LIGHT, 20_000)
            await on.until(lambda: on.lit()[0] > 0.9, 30)
            await on.until(lambda: on.has_tripped(self.NAME), 7_200)
            await on.clock.advance(1)
            assert on.air().temperature_degc == pytest.approx(26, abs=0.2)
            await on.stays_dark_against_all()
            await on.until(lambda: not on.has_tripped(self.NAME), 3_600)
            assert on.air().temperature_degc == pytest.approx(24, abs=0.4)
            await on.clock.advance(2)
            assert on.lit()[0] > 0.3

    async def test_a_reading_before_an_outage_does_not_confirm_one_after_it(self):
        limits = replace(UNHINDERED, light_off_degc=26)
        async with stage(chamber(AIR, LUX, interlock=limits, light=LAMP, relays=())) as on:
            await on.clock.advance(KNOWN_S)
            raw = on.bus.find_node("environment_1/samplers/air").publisher(
                "environment_1/raw/air_temperature"
            )
            on.machine.faults.inject(Fault("absent", "scd30"))
            await on.clock.advance(10)
            raw.publish(30.0)
            await on.clock.advance(120)
            raw.publish(30.0)
            await on.clock.advance(1)
            assert not on.has_tripped(self.NAME)
            raw.publish(30.0)
            await on.clock.advance(1)
            assert on.has_tripped(self.NAME)


class TestLightHours:
    NAME = "light_hours"
    LIMITS = replace(UNHINDERED, light_hours=0.25)

    async def test_the_lamp_is_dark_for_the_rest_of_the_day(self):
        async with stage(chamber(LUX, interlock=self.LIMITS, light=LAMP, relays=())) as on:
            on.clock.step(until_midnight(on.clock.time()) + 60)
            on.want("light_intensity_red", 0.1)
            await on.clock.advance(300)
            on.want("light_intensity_red", 0.0)
            await on.clock.advance(300)
            assert not on.has_tripped(self.NAME)
            on.want("light_intensity_red", 0.5)
            took = await on.until(lambda: on.has_tripped(self.NAME), 700)
            assert took == pytest.approx(600, abs=3)
            await on.clock.advance(1)
            await on.stays_dark_against_all()
            on.clock.step(until_midnight(on.clock.time()) - 60)
            took = await on.until(lambda: not on.has_tripped(self.NAME), 100)
            assert took == pytest.approx(60, abs=2)
            await on.clock.advance(1)
            assert any(on.lit())

    async def test_the_hours_of_the_day_survive_a_kill(self):
        memory = ShortMemory()
        config = chamber(LUX, interlock=self.LIMITS, light=LAMP, relays=())
        async with stage(config, memory) as on:
            on.want("light_intensity_red", 0.1)
            await on.clock.advance(500)
            saved = memory.texts.copy()
        assert memory.saves < 12
        memory.texts = saved
        async with stage(config, memory) as on:
            on.want("light_intensity_red", 0.1)
            took = await on.until(lambda: on.has_tripped(self.NAME), 700)
            assert took <= 405


async def test_an_interlock_of_the_lamp_is_the_reason_of_a_missed_set_point():
    interlock = replace(UNHINDERED, light_off_degc=15)
    async with stage(chamber(AIR, LUX, interlock=interlock, light=LAMP, relays=())) as on:
        await on.clock.advance(KNOWN_S)
        on.want(LIGHT, 10_000)
        await on.clock.advance(90)
        light, *_ = on.bus.find_node("environment_1/attainment").information()["attainment"]
        assert "its output is held" in light["text"]
        assert "the limit for light is 15.0 degC" in light["text"]


class TestTask:
    @pytest.mark.parametrize("how", ["ended", "hanging"])
    async def test_outputs_are_safe_while_it_does_not_run(self, how):
        async with stage(chamber(AIR, LUX, light=LAMP)) as on:
            await on.clock.advance(KNOWN_S)
            on.want(VALVE_ON, 1)
            on.want(LIGHT, 8_000)
            await on.clock.advance(5)
            assert on.is_on(VALVE)
            assert any(on.lit())
            interlocks = on.rig.chambers.by_environment["environment_1"]._interlocks
            sleep, real = asyncio.Event(), interlocks._clock
            if how == "ended":
                interlocks._take = None  # an internal error at the next reading
                await on.until(lambda: not on.is_on(VALVE), 2.5)
            else:
                interlocks._clock = _Hanging(real, sleep)
                await on.clock.advance(8)
            assert not on.is_on(VALVE)
            assert on.lit() == [0, 0, 0]
            if how == "ended":
                del interlocks._take
            interlocks._clock = real
            sleep.set()
            await on.clock.advance(15)
            assert on.is_on(VALVE)

    @pytest.mark.parametrize(
        "saved",
        [
            3,
            {"time": 1.0, "clean": True, "interlocks": 3},
            {"time": 1.0, "clean": True, "interlocks": {"dose_per_hour": "x", "no_rise_after_dose": 5}},
        ],
    )
    async def test_an_invalid_saved_state_counts_as_the_worst_case(self, saved):
        memory = ShortMemory()
        await memory.save_state("environment_1/interlocks", saved)
        async with stage(chamber(interlock=replace(UNHINDERED, dose_s=100)), memory) as on:
            on.want(VALVE_ON, 1)
            await on.clock.advance(KNOWN_S)
            assert on.has_tripped("dose_per_hour")
            assert on.has_tripped("no_rise_after_dose")
            assert not on.is_on(VALVE)


class _Hanging:
    """A clock whose sleepers wake only when `woken` is set."""

    def __init__(self, clock, woken):
        self.time, self.monotonic = clock.time, clock.monotonic
        self.woken = woken

    async def sleep(self, _):
        await self.woken.wait()


class TestReports:
    async def test_clients_and_status_get_the_interlock_that_holds_an_output(self):
        async with stage(chamber(AIR, LUX, light=Light(ramp_s=0.0, needs_sensor=True))) as on:
            node = StatusNode(on.bus, ["environment_1"])

            async def said(name, value):
                message = on.people["client"].publish_arguments(f"environment_1/{name}", [value])
                answer = await on.bus.topics.get(message.topic).answer(message, "anna")
                await on.clock.advance(2)
                return answer

            def row(variable):
                return next(each for each in node.snapshot().variables if each.variable == variable)

            await on.clock.advance(KNOWN_S)
            holds = "holds for 1 d, or until you release it: growd topic release environment_1/commanded"
            assert await said(f"commanded/{VALVE_ON}", 1) == f"{holds}/{VALVE_ON}"
            on.machine.faults.inject(Fault("absent", "i2c-1"))
            on.machine.faults.inject(Fault("absent", "i2c-3"))
            await on.until(lambda: on.has_tripped(f"{CO2}_unknown"), 120)
            hint = await said(f"commanded/{VALVE_ON}", 1)
            words = hint.removesuffix(f"; {holds}/{VALVE_ON}")
            assert words.startswith(f"{VALVE_ON} is held by {CO2}_unknown: ")
            assert await said(f"desired/{CO2}", 900) == words
            assert await said(f"commanded/{FAN_ON}", 1) == f"{holds}/{FAN_ON}"
            assert (row(VALVE_ON).held_by, row(VALVE_ON).written) == (f"{CO2}_unknown", 0.0)
            assert f"; held at 0% by {CO2}_unknown" in report(node.snapshot())
            assert (row(FAN_ON).held_by, row(FAN_ON).written) == ("", None)
            assert await said(f"commanded/{VALVE_ON}", 0) == f"{holds}/{VALVE_ON}"
            assert row(VALVE_ON).held_by == ""
            await on.until(lambda: on.has_tripped(f"{LIGHT}_unknown"), 120)
            assert (await said(f"desired/{LIGHT}", 9000)).startswith(f"{LIGHT} is held by {LIGHT}_unknown: ")
            assert (row(LIGHT).held_by, row(LIGHT).written) == (f"{LIGHT}_unknown", 0.0)

    async def test_a_hint_names_all_channels_that_are_held(self):
        config = chamber(light=Light(ramp_s=0.0), interlock=replace(UNHINDERED, light_off_degc=15))
        async with stage(config) as on:
            await on.until(lambda: on.has_tripped("light_over_temperature"), 60)
            message = on.people["client"].publish_arguments(f"environment_1/desired/{LIGHT}", [9000])
            hint = await on.bus.topics.get(message.topic).answer(message, "anna")
            channels = "light_intensity_blue, light_intensity_red and light_intensity_white"
            assert hint.startswith(f"{channels} are held by light_over_temperature: ")

    async def test_the_limits_are_read_only_parameters_and_a_start_publishes_no_event(self, caplog):
        async with stage(chamber()) as on, with_events(on) as published:
            parameters, name = on.bus.parameters, "environment_1/interlocks/carbon_dioxide_ceiling"
            assert parameters.get(name) == {"limit": 5_000.0, "hysteresis": 500.0}
            with pytest.raises(PermissionError):
                await parameters.set(f"{name}/limit", 30_000)
            await on.clock.advance(100)
        assert published == []
        assert "interlock" not in caplog.text
