"""The experiments of a chamber: which it has, where they run, and what their failure leaves."""

from growd.bus.messages import Quality
from growd.config import Config, Light, Output, Sensor
from support.memory import ShortRecords
from support.rig import rigged
from support.scene import UNHINDERED

E = "environment_1"
PH = "water_potential_hydrogen"
SENSORS = (
    Sensor(name="air", kind="scd30"),
    Sensor(name="lux", kind="bh1750", bus=3, interval_s=1.0),
    Sensor(name="ph", kind="ezo_ph"),
)
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
HEATER = Output(name="heater", pin=20, variable="air_heater")
ACID = Output(
    name="acid", variable="nutrient_ph_down", drives=(PH,), direction="lowers", flow_ml_min=100.0, pin=5
)
WHOLE = Config(sensor=SENSORS, output=(VALVE, HEATER, ACID), light=Light(), interlock=UNHINDERED)


async def test_experiments_come_after_the_control_of_their_outputs_and_before_sensors():
    async with rigged(WHOLE, records=ShortRecords()) as rig:
        parts = [each.node.name for each in _new_components(rig)]
    experiments = [
        f"{E}/light_calibration",
        f"{E}/autotuners/air_carbon_dioxide",
        f"{E}/autotuners/air_temperature",
        f"{E}/pump_calibration",
        f"{E}/self_test",
    ]
    first = parts.index(experiments[0])
    assert parts[first : first + len(experiments)] == experiments
    assert parts[0] == f"{E}/interlocks"
    before, after = ("actuators/", "filters/", "controllers/"), ("attainment", "calibration", "samplers/")
    assert {each for each in before if f"{E}/{each}" in "".join(parts[:first])} == set(before)
    assert all(not each.startswith(f"{E}/{first}") for each in parts[first:] for first in before)
    assert all(not each.startswith(f"{E}/{last}") for each in parts[:first] for last in after)


def _new_components(rig):
    """The components of a second life of the chamber."""
    for name in rig.bus.node_names():
        rig.bus.find_node(name).close()
    return rig.chambers.by_environment[E].components()


async def test_a_chamber_has_only_the_experiments_that_it_can_have():
    async with rigged(Config(sensor=(SENSORS[0],), light=Light())) as rig:
        names = rig.bus.services.names()
        assert f"{E}/self_test/begin" in names
        others = ("autotune", "calibrate_light", "pump_calibration/begin")
        assert not [each for each in names if each.endswith(others)]


async def test_a_chamber_runs_without_experiments_that_cannot_be_made(monkeypatch):
    monkeypatch.setattr("growd_commissioning.part.SelfTest", lambda *_: 1 / 0)
    async with rigged(Config(output=(HEATER,), light=Light(enabled=False))) as rig:
        assert f"{E}/self_test/begin" not in rig.bus.services.names()
        wanted = rig.bus.node("client").publisher(f"{E}/desired/air_heater")
        wanted.publish(1.0)
        await rig.clock.until(lambda: rig.last("outputs/heater").value == 1.0, within=10)
        wanted.publish(None, Quality.STALE)
        await rig.clock.until(lambda: rig.last("outputs/heater").value == 0.0, within=10)


async def test_the_end_of_growd_ends_an_experiment_and_leaves_its_output_safe():
    async with rigged(Config(sensor=SENSORS[:1], output=(HEATER,), light=Light(enabled=False))) as rig:
        await rig.clock.advance(60)
        await rig.bus.services.get(f"{E}/self_test/begin").call([["heater"], []], "ann")
        await rig.clock.until(lambda: rig.last("outputs/heater").value == 1.0, within=600)
    assert rig.last("self_test").value["state"] == "stopped"
    assert rig.last("outputs/heater").value == 0.0
    assert not rig.machine.pins.high(HEATER.pin)
    assert rig.complaints == []
