"""Autotune and the calibration of the lamp: in the status, one at a time, and never during a hold."""

import pytest

from growd.config import Config, Light, Output, Sensor
from growd.status.status_node import StatusNode
from growd_cli.status_table import report
from support.rig import rigged
from support.scene import UNHINDERED

pytestmark = pytest.mark.long

AIR = Sensor(name="air", kind="scd30")
LUX = Sensor(name="lux", kind="bh1750", bus=3, interval_s=1.0)
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
CONFIG = Config(sensor=(AIR, LUX), output=(VALVE,), light=Light(), interlock=UNHINDERED)
CONTROLLERS = "environment_1/controllers"
AUTOTUNE = f"{CONTROLLERS}/air_carbon_dioxide/autotune"
CALIBRATION = f"{CONTROLLERS}/light_illuminance/calibrate_light"
WORDS = {AUTOTUNE: "the autotune of air_carbon_dioxide", CALIBRATION: "the calibration of the lamp"}


@pytest.mark.parametrize(("first", "second"), [(AUTOTUNE, CALIBRATION), (CALIBRATION, AUTOTUNE)])
async def test_a_running_experiment_is_in_the_status_and_refuses_the_other(first, second):
    async with rigged(CONFIG) as rig:
        status = StatusNode(rig.bus, ["environment_1"])
        await rig.clock.advance(30)
        assert (await rig.bus.services.get(first).call())["success"]
        await rig.clock.advance(20)
        (found,) = status.snapshot().experiments
        assert (found.environment, found.name) == ("environment_1", WORDS[first])
        assert f"environment_1: {WORDS[first]} is running: {found.text}" in report(status.snapshot())
        refusal = await rig.bus.services.get(second).call()
        assert not refusal["success"]
        assert refusal["message"].endswith(f"{WORDS[first]} is running; wait for its end")
        await rig.clock.until(lambda: not status.snapshot().experiments, within=1_200)
        assert (await rig.bus.services.get(second).call())["success"]


@pytest.mark.parametrize("service", [AUTOTUNE, CALIBRATION])
async def test_a_hold_ends_and_refuses_an_experiment(service, tmp_path):
    async with rigged(CONFIG, data=tmp_path) as rig:
        await rig.hold.read()
        await rig.clock.advance(30)
        assert (await rig.bus.services.get(service).call())["success"]
        await rig.clock.advance(5)
        await rig.bus.services.get("hold/set").call(["cleaning"], "ann")
        await rig.clock.advance(5)
        assert StatusNode(rig.bus, ["environment_1"]).snapshot().experiments == []
        refusal = await rig.bus.services.get(service).call()
        assert not refusal["success"]
        assert "all outputs are safe since " in refusal["message"]
