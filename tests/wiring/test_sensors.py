"""Sensors as the configuration says, from their bus or line to the topics of the environment."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from growd.config import ChamberOptions, Config, ConfigError, Sensor
from growd.wiring.sensors import SensorDevice, plausibility_of
from growd_drivers.errors import NotReadyError, TransferError
from growd_hwsim.hardware import WiredChip, Wiring
from support.machine import SleepingTime, simulated
from support.refusals import check_config

BRIDGED = Sensor(name="bridged", kind="mhz16", bus=3, address=0x4D)
PORT = Sensor(name="at_a_port", kind="mhz19", port="/dev/serial0")
LUX = Sensor(name="lux", kind="bh1750", bus=3)


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.fixture
def machine():
    machine = simulated(
        SleepingTime(),
        wiring=Wiring(
            i2c=(WiredChip("mhz16", 3, 0x4D), WiredChip("bh1750", 3, 0x23)), serial={"/dev/serial0": "mhz19"}
        ),
    )
    yield machine
    machine.close()


def test_a_sensor_behind_a_bridge_is_in_the_thread_of_its_bus():
    assert [sensor.line for sensor in (BRIDGED, LUX, PORT)] == ["i2c-3", "i2c-3", "/dev/serial0"]


def test_two_sensors_at_one_place_are_refused_also_of_two_environments(said):
    other = Sensor(name="lux", kind="bh1750", bus=3, address=0x4D)
    with said.raises(ConfigError):
        check_config(Config(sensor=(BRIDGED, other)))
    at_any = replace(PORT, port="/dev/serial*")
    config = Config(sensor=(PORT,), chamber={"shelf_2": ChamberOptions(sensor=(at_any,))})
    both = "environment_1/at_a_port and shelf_2/at_a_port are both at /dev/serial0"
    with pytest.raises(ConfigError, match=re.escape(f"[chamber.shelf_2.sensor] port: {both}")):
        check_config(config)


@pytest.mark.parametrize("first", [LUX, BRIDGED, PORT], ids=["bus", "bridge", "serial line"])
def test_a_bus_is_taken_over_with_the_lines_of_its_bridges_and_a_serial_line_alone(machine, first):
    slow = SensorDevice(machine, PORT if first is PORT else BRIDGED)
    lux = SensorDevice(machine, LUX)
    with pytest.raises(NotReadyError):
        slow.read()
    lux.read()

    def use():
        machine.take_over(first.line)
        with pytest.raises(NotReadyError):
            slow.read()
        if first is not PORT:
            lux.read()

    in_another_thread(use)
    with pytest.raises(TransferError, match="taken the line over"):
        slow.read()
    if first is PORT:
        lux.read()
    else:
        with pytest.raises(TransferError, match="taken the bus over"):
            lux.read()


@pytest.mark.parametrize("kind", ["gpio", "mqtt", "topic", "ads1115"])
def test_the_state_of_an_output_may_stay_for_days_whatever_its_name(kind):
    for name in ("air_heater", "air_carbon_dioxide"):
        judge = plausibility_of(Sensor(name="clamp", kind=kind, pin=5, topic="t", confirms=name))
        for day in range(4):
            judge.check({name: 0.0}, day * 86_400.0)
            judge.missed(day * 86_400.0 + 1)
            judge.check({name: 1.0}, day * 86_400.0 + 2)
