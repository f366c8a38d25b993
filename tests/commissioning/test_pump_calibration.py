"""Pumps are calibrated in a session: measured doses into a cylinder, and what follows from them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced

from growd.bus.errors import NotKeptError
from growd.config import Config, InterlockOptions, Light, Output, Sensor
from growd.config.loops import LoopOptions
from growd.host.hold import Hold, Holder, save_hold
from growd_commissioning.pump_calibration import IDLE_S, PLAN
from growd_hwsim.faults import Fault
from support.memory import ShortRecords
from support.rig import rigged

PH = "water_potential_hydrogen"
PROBE = Sensor(name="ph", kind="ezo_ph")
TRUE_ML_MIN, TRUE_DEAD_S = 80.0, 0.3


def pump(name, variable, pin, **options):
    options = {"flow_ml_min": 100.0, "direction": "lowers", **options}
    return Output(name=name, variable=variable, drives=(PH,), pin=pin, **options)


ACID = pump("acid", "nutrient_ph_down", 5)
BASE = pump("base", "nutrient_ph_up", 6, direction="raises")
BLIND = replaced(ACID, drives=(), needs="")  # without a probe, whose limits hold it by hand


class Stage:
    def __init__(self, rig):
        self.rig = rig
        chamber = rig.machine.chamber
        tank = replace(chamber.parameters.tank, dosing_ml_min=TRUE_ML_MIN, dosing_dead_s=TRUE_DEAD_S)
        chamber.parameters = replace(chamber.parameters, tank=tank)

    async def call(self, name, **arguments):
        return await self.rig.call(f"pump_calibration/{name}", arguments, "grower")

    async def done(self, name, **arguments):
        answer = await self.call(name, **arguments)
        assert answer["success"], answer["message"]
        return answer["message"]

    async def refused(self, name, **arguments):
        answer = await self.call(name, **arguments)
        assert not answer["success"], answer["message"]
        return answer["message"]

    async def dose(self, seconds=0.0):
        """Give a dose and wait for its end; returns what is in the cylinder."""
        await self.done("dose", seconds=seconds)
        await self.rig.clock.until(lambda: not self.session["is_dosing"], within=60)
        return self.session["simulated_ml"]

    async def measured_dose(self, seconds=0.0):
        await self.done("measured", ml=await self.dose(seconds))

    async def calibrate(self, name="acid"):
        await self.done("begin", pump=name)
        for _ in PLAN:
            await self.measured_dose()
        return await self.done("save")

    @property
    def session(self):
        return self.rig.bus.find_node("environment_1/pump_calibration").detail("session")

    def flow(self, name="acid"):
        pumps = self.rig.bus.find_node("environment_1/pump_calibration").detail("pumps")
        return next(each for each in pumps if each["pump"] == name)

    def due(self, name="acid"):
        return self.flow(name)["due"]

    def given_ml(self, name="acid"):
        """What growd counted."""
        outputs = self.rig.bus.find_node("environment_1/outputs").detail("outputs")
        return 1000 * next(each["volume_l"] for each in outputs if each["name"] == name)

    def command(self, topic, value):
        self.rig.bus.find_node("client").publish_arguments(f"environment_1/{topic}", [value])

    def is_on(self, name="acid"):
        return bool(self.rig.last(f"outputs/{name}").value)

    def held_by(self, variable):
        held = self.rig.bus.find_node("environment_1/interlocks").detail("held")
        return next((each["by"] for each in held if each["variable"] == variable), "")


@asynccontextmanager
async def stage(keeper=None, data=None, outputs=(ACID, BASE), sensor=(PROBE,), **options):
    config = Config(sensor=sensor, output=outputs, light=Light(enabled=False), **options)
    async with rigged(config, data=data, records=keeper or ShortRecords()) as rig:
        rig.bus.node("client")
        if rig.hold is not None:
            await rig.hold.read()
        made = Stage(rig)
        await rig.clock.advance(60)
        yield made


async def test_the_flow_and_the_dead_time_of_a_pump_are_found_saved_and_used():
    """It is configured with 100 ml/min, and gives 80 ml/min after 0.3 s."""
    keeper = ShortRecords()
    async with stage(keeper) as on:
        began = on.rig.machine.chamber.water().potential_hydrogen
        await on.done("begin", pump="acid")
        for _ in PLAN:
            await on.measured_dose()
        keeper.fails = "the disk is full"
        with pytest.raises(NotKeptError, match="nothing has changed: the disk is full"):
            await on.call("save")
        assert on.flow()["ml_min"] == 100
        keeper.fails = ""
        message = await on.done("save")
        assert message.startswith("acid gives 80 ml/min and a dead time of 0.30 s")
        assert on.session is None
        assert (on.flow()["ml_min"], on.flow()["dead_s"]) == pytest.approx((80, 0.3), abs=0.1)
        assert on.flow("base")["ml_min"] == 100
        (record,) = keeper.records
        assert (record.device, record.by, record.unit, record.before) == ("acid", "grower", "ml/min", 100)
        assert (record.after, record.dead_s) == pytest.approx((80, 0.3), abs=0.1)
        assert [point.seconds for point in record.points][:3] == sorted(p.seconds for p in record.points[:3])
        assert len(record.points) == len(PLAN)
        # nothing went into the tank
        assert on.rig.machine.chamber.water().potential_hydrogen == pytest.approx(began, abs=0.02)


async def test_doses_are_right_after_a_calibration():
    loop = LoopOptions(tank_litres=16.0, lowering_ml_per_unit_litre=0.5)
    async with stage(control={PH: loop}) as on:
        await on.calibrate()
        await on.rig.clock.advance(400)  # the pause for mixing
        on.rig.machine.chamber.collect("ph_down")  # to measure the dose of the loop
        counted = on.given_ml()
        on.command(f"desired/{PH}", 5.0)
        await on.rig.clock.until(on.is_on, within=60)
        await on.rig.clock.until(lambda: not on.is_on(), within=60)
        given = on.rig.machine.chamber.collected_ml()
        assert given == pytest.approx(0.7 * 0.5 * 16 * 0.5, rel=0.01)
        assert on.given_ml() - counted == pytest.approx(given, rel=0.02)


async def test_a_dose_has_its_length_and_the_limits_of_volume_count_what_the_pump_really_gives():
    limits = InterlockOptions(mixing_pause_s=1, dosing_ml_per_hour=200, dosing_ml_per_day=1_000)
    async with stage(sensor=(), outputs=(BLIND,), interlock=limits) as on:
        await on.done("begin", pump="acid")
        for seconds in (1.25, 7.5, 20.1):
            await on.dose(seconds)
            assert on.session["doses"][-1]["ran_s"] == pytest.approx(seconds, abs=0.01)
        assert on.rig.last("commanded/nutrient_ph_down").value is None
        assert on.session["note"] == ""
        await on.done("cancel")
        await on.rig.clock.advance(3_700)
        began = on.given_ml()
        await on.calibrate()
        for _ in range(8):  # 8 * 26.3 ml: 210 by the calibration, 263 by the configuration
            on.command("commanded/nutrient_ph_down", 1.0)
            await on.rig.clock.advance(20)
            on.command("commanded/nutrient_ph_down", None)
            await on.rig.clock.advance(5)
        assert on.given_ml() - began == pytest.approx(200, abs=3)
        assert on.rig.last("interlocks/acid_ml_per_hour").value["tripped"]


async def test_a_calibration_outlasts_a_restart_until_the_configuration_has_another_flow():
    keeper = ShortRecords()
    async with stage(keeper) as on:
        await on.calibrate()
        await on.done("begin", pump="base")
        await on.dose()
    async with stage(keeper) as on:
        assert on.session is None  # which does not
        assert on.flow()["ml_min"] == pytest.approx(80, rel=0.01)
        assert on.flow("base")["ml_min"] == 100
        assert on.flow()["last"]["by"] == "grower"
        on.command("commanded/nutrient_ph_up", 1.0)
        await on.rig.clock.until(lambda: on.is_on("base"), within=20)
    async with stage(keeper, outputs=(replaced(ACID, flow_ml_min=30.0), BASE)) as on:
        assert (on.flow()["ml_min"], on.flow()["dead_s"], on.flow()["last"]) == (30, 0, None)


async def test_dosing_pumps_wait_until_the_calibrations_are_read():
    keeper = ShortRecords()
    keeper.fails = "the disk does not answer"
    async with stage(keeper) as on:
        on.command("commanded/nutrient_ph_down", 1.0)
        await on.rig.clock.advance(5)
        assert not on.is_on()
        assert on.held_by("nutrient_ph_down") == "calibrations that have not been read yet"
        with pytest.raises(NotKeptError, match="could not be read yet"):
            await on.call("begin", pump="acid")
        keeper.fails = ""
        await on.rig.clock.until(on.is_on, within=120)


async def test_no_other_dose_is_given_during_a_session():
    loop = LoopOptions(tank_litres=16.0, lowering_ml_per_unit_litre=0.5)
    async with stage(control={PH: loop}) as on:
        on.command(f"desired/{PH}", 5.0)
        await on.done("begin", pump="acid")
        for topic in ("commanded/nutrient_ph_down", "commanded/nutrient_ph_up"):
            on.command(topic, 1.0)
        await on.rig.clock.advance(30)
        assert not on.is_on("acid")
        assert not on.is_on("base")
        assert on.held_by("nutrient_ph_up") == "the calibration of acid"
        for topic in ("commanded/nutrient_ph_down", "commanded/nutrient_ph_up"):
            on.command(topic, None)
        await on.measured_dose()
        await on.rig.clock.advance(400)
        assert on.given_ml("base") == 0
        await on.done("cancel")
        await on.rig.clock.until(on.is_on, within=30)  # the loop goes on


async def test_pumps_of_one_own_variable_are_calibrated_one_by_one():
    twin = replaced(ACID, name="acid_2", pin=13)
    async with stage(outputs=(ACID, twin)) as on:
        await on.calibrate("acid_2")
        assert on.given_ml("acid") == 0
        assert on.given_ml("acid_2") > 0
        assert on.flow("acid_2")["ml_min"] == pytest.approx(80, rel=0.01)
        assert on.flow("acid")["ml_min"] == 100


async def test_a_dose_that_is_not_measured_does_not_count():
    async with stage() as on:
        await on.done("begin", pump="acid")
        await on.dose(10)  # fills the hose
        for _ in PLAN:
            await on.measured_dose()
        assert len(on.session["doses"]) == len(PLAN)
        await on.done("measured", ml=99)  # a slip
        assert "not on a line" in await on.refused("save")
        assert "dose: there are 6 doses, not 7" in await on.refused("measured", ml=1, dose=7)
        await on.done("measured", ml=on.session["simulated_ml"], dose=len(PLAN))
        await on.done("save")


async def test_the_interlocks_of_a_pump_hold_during_a_session():
    async with stage(interlock=InterlockOptions(dosing_ml_per_hour=20, dose_longest_s=15)) as on:
        await on.done("begin", pump="acid")
        on.rig.machine.faults.inject(Fault("absent", "ezo_ph"))
        await on.rig.clock.advance(60)
        assert f"{PH} is unknown" in await on.refused("dose")
        on.rig.machine.faults.clear()
        await on.rig.clock.advance(120)
        assert on.session["longest_s"] == 15
        words = await on.refused("dose", seconds=16)
        assert words.startswith("seconds: must be from 0.5 to 15 s (dose_longest_s), not 16")
        await on.dose(14)  # 23 ml by the configuration
        assert "acid ran for 12" in on.session["note"]
        assert "acid_ml_per_hour" in on.session["note"]
        words = await on.refused("dose", seconds=1)
        assert words.startswith("acid is held: acid had ")
        assert not on.is_on()


async def test_doses_into_the_cylinder_do_not_count_as_doses_without_effect():
    limits = InterlockOptions(mixing_pause_s=30, dosing_ml_per_hour=1_000, dosing_ml_per_day=1_000)
    async with stage(interlock=limits) as on:
        for _ in range(4):
            await on.calibrate()
            await on.rig.clock.advance(120)
        assert not on.rig.last(f"interlocks/{PH}_no_fall").value["tripped"]


async def test_a_pump_is_calibrated_before_the_tank_is_filled():
    low = Sensor(name="low", kind="topic", variable="water_level_low", stale_after_s=600)
    async with stage(sensor=(PROBE, low), outputs=(ACID,)) as on:
        on.command("posted/low", 1)
        await on.rig.clock.advance(60)
        assert on.rig.last("interlocks/water_too_low").value["tripped"]
        await on.done("begin", pump="acid")
        assert await on.dose(5) > 0


async def test_a_hold_ends_a_dose_and_refuses_the_next(tmp_path):
    async with stage(data=tmp_path) as on:
        await on.done("begin", pump="acid")
        await on.done("dose", seconds=10)
        await on.rig.clock.advance(2)
        assert on.is_on()
        await asyncio.to_thread(save_hold, tmp_path, Hold(Holder.PERSON, "smoke", "grower", 0.0))
        await on.rig.hold.read()
        await on.rig.clock.advance(15)
        assert not on.is_on()
        assert on.session["doses"][-1]["ran_s"] == pytest.approx(2, abs=0.2)
        assert "safe by grower: smoke" in await on.refused("dose")
        await on.done("cancel")
        assert "safe by grower: smoke" in await on.refused("begin", pump="acid")


@pytest.mark.parametrize("ends", ["cancel", "idle"])
async def test_a_session_ends_without_a_change(ends):
    keeper = ShortRecords()
    async with stage(keeper) as on:
        await on.done("begin", pump="acid")
        for _ in PLAN:
            await on.measured_dose()
        if ends == "cancel":
            await on.done("dose", seconds=20)
            await on.rig.clock.advance(2)
            await on.done("cancel")
            await on.rig.clock.advance(1)
        else:
            await on.rig.clock.advance(IDLE_S + 1)
        assert on.session is None
        assert not on.is_on()
        assert (on.flow()["ml_min"], keeper.records) == (100, [])
        assert "no pump is being calibrated" in await on.refused("save")


async def test_an_error_in_a_dose_ends_the_session(monkeypatch):
    async with stage() as on:
        await on.done("begin", pump="acid")
        monkeypatch.setattr("growd_commissioning.pump_calibration.PumpCalibration._run_pump", None)
        await on.done("dose", seconds=1)
        await on.rig.clock.advance(3)
        assert on.session is None
        assert on.held_by("nutrient_ph_up") == ""


async def test_what_is_asked_at_the_wrong_time_is_refused():
    async with stage() as on:
        for name, arguments in (("dose", {}), ("measured", {"ml": 1}), ("save", {}), ("cancel", {})):
            assert "no pump is being calibrated" in await on.refused(name, **arguments)
        words = await on.refused("begin", pump="heater")
        assert words == "pump: there is no dosing pump heater; there is acid, base"
        await on.done("begin", pump="acid")
        assert "grower calibrates acid" in await on.refused("begin", pump="base")
        assert "no dose to measure" in await on.refused("measured", ml=1)
        assert "0 doses measured" in await on.refused("save")
        await on.done("dose", seconds=5)
        for name, arguments in (("dose", {}), ("measured", {"ml": 1}), ("save", {})):
            assert "still gives a dose" in await on.refused(name, **arguments)
        await on.rig.clock.advance(10)
        assert "from 0.5 to 30 s (shortest dose), not 0.1" in await on.refused("dose", seconds=0.1)


@pytest.mark.long
async def test_a_calibration_is_due_again_after_its_time_or_its_volume(monkeypatch):
    monkeypatch.setattr("growd.wiring.pumps.PUMP_DAYS", 10.0)
    monkeypatch.setattr("growd.wiring.pumps.PUMP_LITRES", 0.1)
    base = replaced(BASE, drives=(), needs="")
    outputs = (BLIND, base)
    async with stage(sensor=(), outputs=outputs, interlock=InterlockOptions(mixing_pause_s=1)) as on:
        await on.calibrate("acid")
        await on.calibrate("base")
        assert not on.due("acid")["is_due"]
        assert not on.due("base")["is_due"]
        on.rig.clock.step(11 * 86_400)
        assert "was calibrated 11 days ago; calibrate it every 10 days and 0.1 l" in on.due("acid")["text"]
        assert on.due("acid")["is_due"]
        for _ in range(3):
            await on.rig.clock.advance(3_700)
            on.command("commanded/nutrient_ph_up", 1.0)
            await on.rig.clock.advance(29)
            on.command("commanded/nutrient_ph_up", None)
        problems = on.rig.bus.find_node("environment_1/calibrations").detail("problems")
        assert any("base has given 0.1" in each["text"] for each in problems)
