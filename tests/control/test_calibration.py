"""Calibrations of CO2 sensors: probable mistakes are refused, and none lifts the ceiling."""

import asyncio
import dataclasses
from contextlib import asynccontextmanager

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from growd.bus.errors import InvalidValueError, NotKeptError
from growd.config import Config, InterlockOptions, Light, Output, Sensor
from growd.control.calibration import UNKNOWN, Calibration, Correction, steady_reading
from growd_hwsim.chips.scd30 import SimulatedScd30
from growd_hwsim.faults import Fault
from support.memory import ShortMemory, SlowMemory
from support.rig import rigged

SCD30 = Sensor(name="air", kind="scd30")
MHZ19 = Sensor(name="air", kind="mhz19", port="/dev/serial0")
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
CO2, CEILING = "air_carbon_dioxide", "carbon_dioxide_ceiling"
STEADY_S, SHUT_S = 120.0, 1200.0
PPM = st.floats(380, 8_000)


def chamber(*sensors, **options):
    return Config(sensor=sensors or (SCD30,), output=(VALVE,), light=Light(enabled=False), **options)


class Stage:
    def __init__(self, rig):
        self.rig = rig
        self.clock, self.bus = rig.clock, rig.bus
        self.client = self.bus.node("client")
        for chip in rig.machine.chips.values():
            if isinstance(chip, SimulatedScd30):
                chip.follow_at_once()

    async def advance(self, seconds):
        await self.clock.advance(seconds)

    def air(self, ppm):
        """Set the CO2 of the room and the chamber, without losses."""
        model = self.rig.machine.chamber
        model.parameters = dataclasses.replace(
            model.parameters, ambient_carbon_dioxide_ppm=ppm, leak_per_h=600, growing_area_m2=1e-6
        )

    def valve(self, value):
        self.client.publish_arguments(f"environment_1/commanded/{VALVE.variable}", [value])

    @property
    def measured(self):
        return self.rig.last(f"measured/{CO2}").value

    @property
    def has_tripped(self):
        return self.rig.last(f"interlocks/{CEILING}").value["tripped"]

    @property
    def problems(self):
        return [each["text"] for each in self.bus.find_node("environment_1/interlocks").details()["problems"]]

    async def calibrate(self, reference=None, service="calibrate"):
        arguments = {} if reference is None else {"reference": reference}
        answer = await self.rig.call(f"samplers/air/{service}", arguments)
        return "" if answer["success"] else answer["message"]


@asynccontextmanager
async def stage(config=None, memory=None):
    async with rigged(config or chamber(), memory) as rig:
        on = Stage(rig)
        on.air(420)
        yield on


async def test_an_scd30_needs_two_minutes_of_steady_air():
    async with stage() as on:
        await on.advance(60)
        assert (await on.calibrate(450)).startswith("air must measure for 120 s without a gap before")
        await on.advance(STEADY_S)
        assert await on.calibrate(450) == ""
        await on.advance(30)
        assert on.measured == pytest.approx(450, abs=10)
        assert "must measure for 120 s" in await on.calibrate(450)  # its readings start again
        await on.advance(STEADY_S)
        on.air(1_000)
        await on.advance(30)
        assert "in the last 120 s: the air must be steady" in await on.calibrate(950)
        on.rig.machine.faults.inject(Fault("absent", "scd30"))
        await on.advance(20)
        on.rig.machine.faults.clear()
        await on.advance(100)
        assert "must measure for 120 s" in await on.calibrate(950)


async def test_the_node_of_a_sensor_says_what_a_calibration_waits_for():
    async with stage() as on:
        node = on.rig.bus.find_node("environment_1/samplers/air")

        def waiting():
            (calibration,) = node.details()["calibrations"]
            return calibration

        await on.advance(60)
        now = waiting()
        assert now["service"] == "environment_1/samplers/air/calibrate"
        assert now["reference_range_ppm"] == (400, 2000)
        assert now["reason"].startswith("air must measure for 120 s without a gap before")
        assert now["wait_s"] == pytest.approx(STEADY_S - now["lasted_s"])
        assert now["reading_ppm"] is None
        assert [ppm for _, ppm in now["recent"]] == pytest.approx([420] * len(now["recent"]), abs=40)
        refused = await on.calibrate(450)
        assert waiting()["last"]["message"] == refused
        await on.advance(STEADY_S)
        now = waiting()
        assert (now["reason"], now["wait_s"]) == ("", 0)
        assert now["reading_ppm"] == pytest.approx(420, abs=10)
        on.valve(1)
        await on.advance(2)
        assert "the valve is open" in waiting()["reason"]
        assert waiting()["wait_s"] is None
        assert "the valve is open, and a calibration needs steady air for 1200 s" in await on.calibrate(450)
        on.valve(0)
        await on.advance(SHUT_S - 60)
        assert "the valve has been closed for" in waiting()["reason"]
        await on.advance(waiting()["wait_s"] - 2)
        assert "the valve has been closed for" in waiting()["reason"]
        assert "stop the recipe or release the set point, and wait" in await on.calibrate(450)
        await on.advance(3)
        assert await on.calibrate(450) == ""
        last = waiting()["last"]
        assert (last["success"], last["reference"]) == (True, 450)
        assert on.rig.clock.time() - 1 <= last["time"] <= on.rig.clock.time()
        assert waiting()["reading_ppm"] is None  # the readings start again


async def test_an_scd30_with_a_long_interval_is_not_calibrated():
    async with stage(chamber(replace(SCD30, interval_s=8.0))) as on:
        await on.advance(3 * STEADY_S)
        assert "set its interval_s to 6 or less" in await on.calibrate(450)


async def test_a_reference_far_below_the_reading_is_refused_with_advice():
    async with stage() as on:
        on.air(1_000)
        await on.advance(SHUT_S)
        refusal = await on.calibrate(420)
        assert "ppm; a reference of 420 ppm is more than 250 ppm lower" in refusal
        assert "in steps, first to 75" in refusal
        assert on.measured == pytest.approx(1_000, abs=10)
        assert await on.calibrate(760) == ""


async def test_after_a_kill_the_valve_counts_as_just_shut():
    memory = ShortMemory()
    async with stage(memory=memory) as on:
        await on.advance(10)
        running = dict(memory.texts)
    memory.texts = running
    async with stage(memory=memory) as on:
        await on.advance(2 * STEADY_S)
        assert "the valve has been closed for" in await on.calibrate(400)
        await on.advance(SHUT_S)
        assert await on.calibrate(400) == ""


async def test_the_ceiling_uses_readings_without_calibrations_also_after_a_restart():
    memory, config = ShortMemory(), chamber(interlock=InterlockOptions(ceiling_ppm=1_500.0))
    async with stage(config, memory) as on:
        on.air(1_200)
        await on.advance(SHUT_S)
        assert await on.calibrate(1_050) == ""
        killed = dict(memory.texts)
        await on.advance(30)
        assert (on.has_tripped, on.measured) == (False, pytest.approx(1_050, abs=10))
        on.air(1_530)
        await on.advance(60)
        assert on.has_tripped
        assert "(15" in on.rig.last(f"interlocks/{CEILING}").value["reason"]
        assert on.measured == pytest.approx(1_380, abs=10)
        chip = on.rig.machine.sensor("scd30").memory
    memory.texts = killed
    async with stage(config, memory) as on:
        on.rig.machine.sensor("scd30").memory = chip
        on.air(1_530)
        await on.advance(60)
        assert on.has_tripped


async def test_a_failed_calibration_that_lowers_readings_counts_as_done():
    memory = ShortMemory()
    async with stage(memory=memory) as on:
        on.air(1_000)
        await on.advance(SHUT_S)
        on.rig.machine.faults.inject(Fault("nak", "scd30"))
        assert await on.calibrate(800) != ""
        on.rig.machine.faults.clear()
        memory.fails = True
        await on.advance(STEADY_S + 60)
        with pytest.raises(NotKeptError, match=r"air was not calibrated.*: the disk is gone"):
            await on.calibrate(800)
        memory.fails = False
        on.air(4_830)
        await on.advance(120)
        assert on.has_tripped


async def test_calibrations_have_a_limit_which_is_assumed_if_their_record_is_lost():
    memory = ShortMemory()
    memory.texts["environment_1/interlocks"] = "no JSON"
    async with stage(memory=memory) as on:
        await on.advance(2 * SHUT_S)
        problem = next(each for each in on.problems if "ceiling" in each)
        assert "the ceiling of 5000 ppm trips at 2500 ppm of air, because calibrations" in problem
        assert "another name in [[sensor]]" in problem
        assert "would lower its readings by more than 1000 ppm or by half" in await on.calibrate(401)
        on.air(2_530)
        await on.advance(60)
        assert on.has_tripped
    other = chamber(replace(SCD30, name="new"))
    async with stage(other, memory) as on:
        on.air(2_530)
        await on.advance(60)
        assert not on.has_tripped
        assert not any("ceiling" in each for each in on.problems)


async def test_a_calibration_that_is_being_saved_refuses_others_and_an_open_valve():
    memory = SlowMemory()
    async with stage(memory=memory) as on:
        on.air(1_000)
        await on.advance(SHUT_S)
        memory.answers.clear()
        service = on.bus.services.get("environment_1/samplers/air/calibrate")
        lowering = asyncio.create_task(service.call([800]))
        await on.clock.settle()
        assert "still busy" in await on.calibrate(1_900)
        on.valve(1)
        await on.advance(2)
        memory.answers.set()
        await on.clock.settle()
        assert (
            "the valve is open, and a calibration needs steady air for 1200 s" in (await lowering)["message"]
        )
        assert on.rig.machine.sensor("scd30").memory.calibration_ppm == 0


@pytest.mark.long
async def test_an_mhz19_needs_twenty_minutes_and_refuses_an_automatic_baseline():
    async with stage(chamber(MHZ19)) as on:
        on.air(470)
        await on.advance(SHUT_S)
        chip = on.rig.machine.serial_chips["/dev/serial0"]
        assert (chip.memory.range_ppm, chip.memory.self_calibration) == (10_000, False)
        assert "must measure for 1200 s" in await on.calibrate(service="calibrate_zero")
        await on.advance(300)
        assert await on.calibrate(service="calibrate_zero") == ""
        await on.advance(30)
        assert on.measured == pytest.approx(400, abs=8)
        on.air(1_600)
        await on.advance(2 * SHUT_S)
        assert await on.calibrate(1_400, service="calibrate_span") == ""
        await on.advance(60)
        assert on.measured == pytest.approx(1_400, abs=20)
        baseline = on.bus.services.get("environment_1/samplers/air/set_automatic_baseline")
        answer = await baseline.call({"data": True})
        assert "set self_calibration = true in the configuration" in answer["message"]
        on.air(4_550)
        await on.advance(120)
        assert on.has_tripped


async def test_an_automatic_baseline_can_be_switched_on_without_a_valve():
    async with rigged(Config(sensor=(MHZ19,), light=Light(enabled=False))) as rig:
        await rig.clock.advance(10)
        answer = await rig.call("samplers/air/set_automatic_baseline", [True])
        assert "is on until growd starts again" in answer["message"]
        assert rig.machine.serial_chips["/dev/serial0"].memory.self_calibration
        with pytest.raises(InvalidValueError, match="reference must be a whole number from 1000 to 10000"):
            await rig.call("samplers/air/calibrate_span", [999])
        rig.machine.faults.inject(Fault("unplugged", "mhz19"))
        await rig.clock.advance(20)
        answer = await rig.call("samplers/air/set_automatic_baseline", [False])
        assert (answer["success"], "MH-Z19 on /dev/serial0" in answer["message"]) == (False, True)


@given(st.lists(st.tuples(PPM, PPM), max_size=6), PPM)
def test_a_correction_undoes_any_calibrations_of_a_chip_that_shifts_or_scales(calibrations, air):
    correction, shift, scale = Correction(), 0.0, 1.0
    shifting, scaling = correction, correction
    for true, reference in calibrations:
        assume(true + shift >= 1)  # no sensor reads less
        shifting = shifting.after(Calibration(true + shift, reference))
        shift = reference - true
        scaling = scaling.after(Calibration(true * scale, reference))
        scale = reference / true
    for made, reading in ((shifting, air + shift), (scaling, air * scale)):
        assert made.judged(reading) >= air * (1 - 1e-9)
        assert made.judged(made.reading_of(5_000)) >= 5_000 * (1 - 1e-9)
        assert made.judged(reading) >= reading


@given(st.lists(st.tuples(PPM, st.floats(0.5, 1.2)), max_size=8), st.floats(0, 20_000))
def test_a_correction_within_the_limit_is_below_the_worst_case(calibrations, reading):
    correction = Correction()
    for ppm, share in calibrations:
        correction = correction.after(Calibration(ppm, ppm * share, scales=share > 1))
    if correction.is_within():
        assert correction.judged(reading) <= UNKNOWN.judged(reading) + 1e-6


def test_the_steady_reading_of_slowly_rising_air_is_its_end():
    rising = [400 + number / 2 for number in range(60)]
    assert steady_reading(rising) == pytest.approx(426, abs=1)
    assert steady_reading(rising[::-1]) == pytest.approx(414.75)
    assert steady_reading([400.0, 460.0]) is None
