"""Outputs of every kind, from a command to what they move in the simulated chamber."""

import msgspec
import pytest

from growd.config import ChannelOptions, Config, Light, Output, Sensor
from growd.device_kinds import OUTPUT_KINDS
from growd.output_roles import ROLES
from growd.status.model import OutputStatus
from growd_hwsim.actuators import ACTUATORS
from support.memory import ShortMemory
from support.refusals import check_config
from support.rig import rigged

E = "environment_1"
SENSORS = (Sensor(name="air", kind="scd30"), Sensor(name="lux", kind="bh1750"))
PLACES = {
    "relay": {"pin": 17},
    "ssr": {"pin": 17},
    "pwm": {"pin": 17},
    "hardware_pwm": {"pin": 12},
    "http": {"url": "http://plug", "protocol": "shelly_gen2"},
    "mqtt": {"topic": "plug", "protocol": "tasmota"},
    "topic": {},
}


def heater(kind, **options):
    options = {"drives": ("air_temperature",), "stale_after_s": 30.0, **PLACES[kind], **options}
    return Output(name="it", kind=kind, **options)


def chamber_with(*outputs, **options):
    return Config(sensor=SENSORS, output=outputs, **options)


async def commanded(rig, variable, level, seconds=3.0):
    """Command a level as a client does, and let time pass."""
    client = rig.bus.find_node("client") if "client" in rig.bus.node_names() else rig.bus.node("client")
    client.publish_arguments(f"{E}/commanded/{variable}", [level])
    await rig.clock.advance(seconds)


@pytest.mark.parametrize("kind", OUTPUT_KINDS)
async def test_a_heater_of_each_kind_follows_commands_and_is_off_without(kind):
    async with rigged(chamber_with(heater(kind))) as rig:
        chamber = rig.machine.chamber
        await rig.clock.advance(10)
        await commanded(rig, "air_heater", 0.7)
        dims = kind in ("pwm", "hardware_pwm", "topic")
        assert rig.last("outputs/it").value == (0.7 if dims else 1.0)
        if kind != "topic":
            assert chamber.level("heater") == pytest.approx(0.7 if dims else 1.0)
        await commanded(rig, "air_heater", None, 31.0)
        assert rig.last("outputs/it").value == 0.0
        assert chamber.level("heater") == 0.0


@pytest.mark.parametrize("variable", ROLES)
async def test_every_role_moves_its_part_of_the_chamber(variable):
    role = ROLES[variable]
    assert role.moves in ACTUATORS or not role.drives
    flow = 100.0 if role.output_class == "dosing" else None
    output = Output(name="it", pin=17, variable=variable, needs="", flow_ml_min=flow, minimum_off_s=0.0)
    config = chamber_with(output)
    check_config(config)
    async with rigged(config) as rig:
        await rig.clock.advance(10)
        await commanded(rig, variable, 1)
        assert rig.last("outputs/it").value == rig.last("switches/it").value == 1.0
        level = rig.machine.chamber.level
        assert {name for name in ACTUATORS if level(name)} == ({role.moves} if role.moves else set())


async def test_an_output_in_the_network_is_told_again_while_nothing_changes():
    async with rigged(chamber_with(heater("http", stale_after_s=600.0))) as rig:
        await rig.clock.advance(10)
        (plug,) = rig.machine.network.switches.values()
        await commanded(rig, "air_heater", 1)
        await rig.clock.advance(120)
        assert plug.is_on()
        plug.restart()
        assert not plug.is_on()
        await rig.clock.advance(16)
        assert plug.is_on()


async def test_channels_of_the_lamp_on_other_devices_or_one_dimmed_output():
    lamp = (
        Output(name="white", kind="http", drives=("light_illuminance",), url="http://w", protocol="tasmota"),
        Output(name="red", kind="pwm", drives=("light_intensity_red",), pin=17, mix=0.5),
    )
    config = chamber_with(*lamp, light=Light())
    check_config(config)
    async with rigged(config) as rig:
        await rig.clock.advance(10)
        assert rig.last("light_channels").value == {"x": 0.0, "y": 0.0, "z": 0.0}
        await commanded(rig, "light_illuminance", 0.8)
        assert rig.last("light_channels").value == {"x": 1.0, "y": pytest.approx(0.4), "z": 0.0}
        assert rig.machine.chamber.illuminance_lux() > 0
        assert rig.machine.pins.high(17) == pytest.approx(0.4)
        assert {event.pin for event in rig.machine.pins.history} == {17}
    panel = Output(name="panel", kind="pwm", drives=("light_illuminance",), pin=17)
    async with rigged(chamber_with(panel)) as rig:
        await rig.clock.advance(10)
        await commanded(rig, "light_illuminance", 0.4)
        assert rig.last("light_channels").value["x"] == pytest.approx(0.4)
        assert rig.machine.pins.high(17) == pytest.approx(0.4)


async def test_what_outputs_did_is_in_the_status_and_outlasts_a_restart():
    memory = ShortMemory()
    relay = Output(name="valve", pin=23, variable="air_carbon_dioxide_valve_on", flow_ml_min=500.0)
    lamp = Light(channel=(ChannelOptions(name="white", pin=12, power_w=60.0),))
    config = chamber_with(heater("relay", power_w=200.0), relay, light=lamp)
    levels = {"air_heater": 1, "air_carbon_dioxide_valve_on": 1, "light_intensity_white": 0.5}
    for life in (1, 2):
        async with rigged(config, memory) as rig:
            await rig.clock.advance(10)
            for commands in (levels, dict.fromkeys(levels)):
                for variable, level in commands.items():
                    await commanded(rig, variable, level, 0)
                await rig.clock.advance(60)
            described = rig.bus.find_node(f"{E}/outputs").information()["outputs"]
            found = {each["name"]: msgspec.convert(each, OutputStatus) for each in described}
            it, valve, white = (found[name] for name in ("it", "valve", "light white"))
            assert {each.cycles for each in found.values()} == {life}
            assert it.on_s == pytest.approx(60 * life, abs=15 * life)
            for each, watts in ((it, 200), (white, 30)):
                assert each.energy_kwh == pytest.approx(each.on_s * watts / 3.6e6, abs=1e-4)
            assert valve.volume_l == pytest.approx(valve.on_s * 0.5 / 60, abs=1e-3)
