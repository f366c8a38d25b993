"""Each calibration leaves a record, which is stored before it is reported as done; overdue ones are told."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from growd.bus.errors import NotKeptError
from growd.config import Config, Light, Sensor
from growd_hwsim.faults import Fault
from support.memory import ShortRecords
from support.rig import rigged

DAY_S = 86_400.0
SCD30 = Sensor(name="air", kind="scd30")


class Stage:
    def __init__(self, rig):
        self.rig = rig
        for chip in rig.machine.chips.values():
            chip.follow_at_once()

    async def calibrate(self, reference, who="grower"):
        return await self.rig.call("samplers/air/calibrate", {"reference": reference}, who)

    @property
    def node(self):
        return self.rig.bus.find_node("environment_1/calibrations").details()

    @property
    def problems(self):
        return [each["text"] for each in self.node["problems"]]


@asynccontextmanager
async def stage(keeper, sensor=SCD30):
    async with rigged(Config(sensor=(sensor,), light=Light(enabled=False)), records=keeper) as rig:
        yield Stage(rig)


async def test_a_calibration_leaves_a_record_with_who_when_before_after_and_reference():
    keeper = ShortRecords()
    async with stage(keeper) as on:
        await on.rig.clock.advance(130)
        assert (await on.calibrate(450))["success"]
        (record,) = keeper.records
        assert (record.device, record.service, record.variable) == ("air", "calibrate", "air_carbon_dioxide")
        assert record.before == pytest.approx(420, abs=30)
        assert (record.reference, record.unit) == (450, "ppm")
        assert record.after == pytest.approx(450, abs=30)
        assert record.after != 450  # a reading
        assert (record.by, record.time) == ("grower", pytest.approx(on.rig.clock.time(), abs=2))
        assert "calibrate of air_carbon_dioxide: before 4" in str(record)
        assert [each["by"] for each in on.node["calibrations"]] == ["grower"]


async def test_a_sensor_that_is_silent_after_its_calibration_has_a_record_all_the_same():
    keeper = ShortRecords()
    async with stage(keeper) as on:
        await on.rig.clock.advance(130)
        service = on.rig.bus.services.get("environment_1/samplers/air/calibrate")
        calibrating = asyncio.create_task(service.call({"reference": 450}, "grower"))
        await on.rig.clock.advance(0.1)
        on.rig.machine.faults.inject(Fault("absent", "scd30"))
        await on.rig.clock.advance(10)
        assert (await calibrating)["success"]
        (record,) = keeper.records
        assert (record.after, record.reference) == (None, 450)


async def test_a_calibration_without_a_record_on_the_disk_is_no_success(said):
    keeper = ShortRecords()
    async with stage(keeper) as on:
        await on.rig.clock.advance(130)
        keeper.fails = "the disk is full"
        with said.raises(NotKeptError):
            await on.calibrate(450)


async def test_nothing_is_calibrated_before_the_records_are_read(said):
    keeper = ShortRecords()
    keeper.fails = "the card is slow"
    async with stage(keeper) as on:
        await on.rig.clock.advance(130)
        with said.raises(NotKeptError):
            await on.calibrate(450)
        assert on.rig.machine.sensor("scd30").memory.calibration_ppm == 0.0
        keeper.fails = ""
        await on.rig.clock.advance(20)
        assert (await on.calibrate(450))["success"]


async def test_an_overdue_calibration_is_told_until_it_is_done_also_after_a_restart(said):
    sensor, keeper = Sensor(name="air", kind="scd30", calibrate_every_days=30, interval_s=5.0), ShortRecords()
    async with stage(keeper, sensor) as on:
        await on.rig.clock.advance(130)
        assert on.problems == []
        assert keeper.states["since"]["air"] == pytest.approx(on.rig.clock.time() - 130, abs=5)
        now = on.rig.clock.time()
    keeper.states["since"]["air"] = now - 31 * DAY_S
    async with stage(keeper, sensor) as on:
        await on.rig.clock.advance(130)
        (problem,) = on.problems
        said(problem)
        assert on.node["calibrations_due"][0]["is_due"] is True
        assert (await on.calibrate(450))["success"]
        assert on.problems == []
    keeper.states["records"]["air"]["time"] = now - 40 * DAY_S
    async with stage(keeper, sensor) as on:
        await on.rig.clock.advance(5)
        said(on.problems)


async def test_a_calibration_of_the_lamp_leaves_a_record_of_its_full_light():
    keeper = ShortRecords()
    lux = Sensor(name="lux", kind="bh1750", interval_s=1.0)
    config = Config(sensor=(lux, Sensor(name="air", kind="scd30", bus=3)), light=Light(full_scale_lux=5_000))
    controller = "environment_1/controllers/light_illuminance"
    async with rigged(config, records=keeper) as rig:
        await rig.clock.advance(5)
        answer = await rig.bus.services.get(f"{controller}/calibrate_light").call(None, "grower")
        assert answer["success"]
        outcome = rig.bus.topics.get(f"{controller}/calibration")
        await rig.clock.until(lambda: outcome.last.value["state"] != "running", within=300.0)
        assert outcome.last.value["state"] == "done"
        (record,) = keeper.records
        assert (record.device, record.service, record.by) == ("light", "calibrate_light", "grower")
        assert (record.before, record.reference) == (5_000, None)
        assert record.after == outcome.last.value["curve"][-1][1]
