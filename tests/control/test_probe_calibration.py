"""Calibrations of probes in water: what they wait for, what is refused, and what they change."""

import pytest

from growd.config import Config, Light, Output, Sensor
from support.rig import rigged

VARIABLE = "water_potential_hydrogen"
ACIDITY = Sensor(name="ph", kind="ezo_ph", interval_s=2.0)
WARMTH = Sensor(name="warmth", kind="ezo_rtd", bus=3)
EC = Sensor(name="ec", kind="ezo_ec", bus=3)


async def call(rig, service, **arguments):
    answer = await rig.call(f"samplers/{service}", arguments or None, "grower")
    return answer["success"], answer["message"]


def waiting(rig, device, name):
    found = rig.bus.find_node(f"environment_1/samplers/{device}").information()["calibrations"]
    return next(each for each in found if each["service"].endswith(f"/{name}"))


async def test_a_probe_is_calibrated_after_a_minute_of_steady_readings():
    async with rigged(Config(sensor=(ACIDITY,))) as rig:
        await rig.clock.advance(30)
        success, message = await call(rig, "ph/calibrate_mid", reference=7.0)
        assert not success
        assert message.startswith("ph must measure for 60 s without a gap before it is calibrated")
        assert 0 < waiting(rig, "ph", "calibrate_mid")["wait_s"] <= 32
        await rig.clock.advance(40)
        success, message = await call(rig, "ph/calibrate_high", reference=10.0)
        assert not success
        assert "10 pH is more than 1.5 away: check the solution and the probe" in message
        assert rig.machine.sensor("ezo_ph").calibrated == []
        now = waiting(rig, "ph", "calibrate_mid")
        assert (now["unit"], now["reference_range"], now["reason"]) == ("pH", (6.0, 8.0), "")
        assert "reading_ppm" not in now
        truth = rig.machine.chamber.water().potential_hydrogen
        assert now["reading"] == pytest.approx(truth, abs=0.05)
        done = (True, "the sensor now reads what is around it as 7 pH")
        assert await call(rig, "ph/calibrate_mid", reference=7.0) == done
        await rig.clock.advance(10)
        assert rig.last("raw/water_potential_hydrogen").value == pytest.approx(7.0, abs=0.05)
        success, message = await call(rig, "ph/calibrate_low", reference=4.0)
        assert not success  # the readings begin anew
        assert "must measure for 60 s" in message
        await rig.clock.advance(60)
        rig.machine.sensor("ezo_ph").correction = 0.2
        await rig.clock.advance(10)
        success, message = await call(rig, "ph/calibrate_mid", reference=7.0)
        assert not success
        assert "pH in the last 60 s: the reading must be steady for a calibration" in message


async def test_a_probe_is_not_calibrated_while_its_loop_has_a_set_point():
    acid = Output(
        name="acid",
        variable="nutrient_ph_down",
        drives=(VARIABLE,),
        direction="lowers",
        pin=5,
        flow_ml_min=30,
    )
    async with rigged(Config(sensor=(ACIDITY,), output=(acid,), light=Light(enabled=False))) as rig:
        client = rig.bus.node("client")
        client.publish_arguments(f"environment_1/desired/{VARIABLE}", [5.8])
        await rig.clock.advance(70)
        reason = waiting(rig, "ph", "calibrate_mid")["reason"]
        assert reason.startswith(f"{VARIABLE} has a set point, so its outputs would follow")
        assert await call(rig, "ph/calibrate_mid", reference=7.0) == (False, reason)
        client.publish_arguments(f"environment_1/desired/{VARIABLE}", [None])
        await rig.clock.advance(1)
        assert waiting(rig, "ph", "calibrate_mid")["reason"] == ""


async def test_a_dry_probe_has_no_reference():
    async with rigged(Config(sensor=(EC,))) as rig:
        await rig.clock.advance(70)
        success, message = await call(rig, "ec/calibrate_dry")
        assert not success  # it is in the water
        assert "0 mS/cm is more than 0.2 away" in message
        rig.machine.sensor("ezo_ec").true = lambda _: 0.0
        await rig.clock.advance(100)
        assert await call(rig, "ec/calibrate_dry") == (True, "the probe is calibrated")


async def test_ph_is_compensated_by_the_measured_temperature_of_the_water():
    async with rigged(Config(sensor=(ACIDITY, WARMTH))) as rig:
        await rig.clock.advance(20)
        truth = rig.machine.chamber.water().temperature_degc
        assert rig.machine.sensor("ezo_ph").water_degc == pytest.approx(truth, abs=0.2)
    async with rigged(Config(sensor=(ACIDITY,))) as rig:
        await rig.clock.advance(20)
        assert b"T," not in b"".join(rig.machine.sensor("ezo_ph").written)
