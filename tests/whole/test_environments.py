"""Several environments in one daemon have their own sensors, outputs and recipes."""

import pytest
from msgspec.structs import replace

from growd.config import ChamberOptions, ChannelOptions, Config, Environment, Light, Output, Sensor
from growd.control.actuation import SwitchActuator
from growd.control.lamp import LightActuator
from growd.wiring.actuators import ChamberOutputs
from growd_hwsim.faults import Fault
from support.rig import rigged

FIRST, SECOND = "shelf_1", "shelf_2"
VALVE = Output(name="valve", pin=21, variable="air_carbon_dioxide_valve_on")
# Equal names as in the first environment, a shared bus, and an inverted lamp.
SHELF = ChamberOptions(
    sensor=(
        Sensor(name="air", kind="scd30", bus=3),
        Sensor(name="lux", kind="bh1750", address=0x5C, interval_s=1.0),
    ),
    light=Light(channel=(ChannelOptions(name="white", pin=20),), inverted=True),
    output=(VALVE,),
)
CONFIG = Config(
    environment=Environment(id=FIRST),
    sensor=(Sensor(name="air", kind="scd30"), Sensor(name="lux", kind="bh1750", interval_s=1.0)),
    light=Light(),
    chamber={SECOND: SHELF},
)
KNOWN_S = 10.0  # from the start to the first measurement


def value(rig, topic):
    """The last value of a topic; 0 without a value."""
    last = rig.bus.topics.get(topic).last
    return 0.0 if last is None or last.value is None else float(last.value)


def want(rig, topic, wanted):
    rig.bus.find_node("client").publish_arguments(topic, [wanted])


async def test_each_environment_has_its_own_light_air_and_failures():
    async with rigged(CONFIG) as rig:
        assert sorted(rig.chambers.workers) == ["i2c-1", "i2c-3", "pins"]
        rig.bus.node("client")
        await rig.clock.advance(KNOWN_S)
        daylight = value(rig, f"{FIRST}/measured/light_illuminance")
        want(rig, f"{SECOND}/desired/light_illuminance", 10_000)
        await rig.clock.until(lambda: value(rig, f"{SECOND}/measured/light_illuminance") > 9_000, within=60)
        assert value(rig, f"{FIRST}/measured/light_illuminance") == pytest.approx(daylight, abs=50)
        want(rig, f"{FIRST}/desired/light_illuminance", 4_000)
        await rig.clock.advance(120)
        assert value(rig, f"{FIRST}/measured/light_illuminance") == pytest.approx(4_000, rel=0.1)
        assert value(rig, f"{SECOND}/measured/light_illuminance") == pytest.approx(10_000, rel=0.1)
        assert [chamber.illuminance_lux() > 3_500 for chamber in rig.machine.chambers] == [True, True]

        before = value(rig, f"{FIRST}/measured/air_carbon_dioxide")
        want(rig, f"{SECOND}/desired/air_carbon_dioxide_valve_on", 1)
        await rig.clock.until(lambda: value(rig, f"{SECOND}/measured/air_carbon_dioxide") > 800, within=300)
        assert value(rig, f"{FIRST}/measured/air_carbon_dioxide") == pytest.approx(before, abs=50)
        assert f"{FIRST}/switches/valve" not in rig.bus.topics.names()

        rig.machine.faults.inject(Fault("absent", "i2c-1:0x5c"))
        await rig.clock.advance(KNOWN_S)
        nodes = [rig.bus.find_node(f"{environment}/samplers/lux") for environment in (FIRST, SECOND)]
        assert [node.information()["device"]["state"] for node in nodes] == ["ok", "failed"]
        rig.machine.faults.clear()
    assert [chamber.illuminance_lux() < 1_000 for chamber in rig.machine.chambers] == [True, True]


async def test_all_outputs_are_made_safe_before_any_is_closed_even_after_an_internal_error(monkeypatch):
    steps = []
    make_safe, close = SwitchActuator.make_safe, ChamberOutputs.close

    async def raise_one(_):
        raise ZeroDivisionError

    async def noted_make_safe(valve):
        steps.append(f"safe: {await make_safe(valve)}")
        return True

    async def noted_close(outputs):
        steps.append("close")
        await close(outputs)

    monkeypatch.setattr(LightActuator, "make_safe", raise_one)
    monkeypatch.setattr(SwitchActuator, "make_safe", noted_make_safe)
    monkeypatch.setattr(ChamberOutputs, "close", noted_close)
    async with rigged(CONFIG) as rig:
        await rig.clock.advance(KNOWN_S)
    assert steps == ["safe: True", "close", "close"]
    assert rig.complaints == [
        f"in {environment} outputs may not be safe: ZeroDivisionError()" for environment in (FIRST, SECOND)
    ]


async def test_the_pins_of_a_disabled_lamp_are_free():
    config = replace(CONFIG, light=Light(enabled=False), output=(replace(VALVE, pin=12),))
    other = replace(SHELF, light=Light(channel=(ChannelOptions(name="white", pin=13),)), output=())
    async with rigged(replace(config, chamber={SECOND: other})) as rig:
        rig.bus.node("client")
        await rig.clock.advance(KNOWN_S)
        want(rig, f"{FIRST}/desired/air_carbon_dioxide_valve_on", 1)
        want(rig, f"{SECOND}/desired/light_illuminance", 10_000)
        await rig.clock.until(lambda: value(rig, f"{FIRST}/measured/air_carbon_dioxide") > 800, within=300)
        assert value(rig, f"{SECOND}/measured/light_illuminance") == pytest.approx(10_000, rel=0.1)
        assert value(rig, f"{FIRST}/measured/light_illuminance") < 1_000
