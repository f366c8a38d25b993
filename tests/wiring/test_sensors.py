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


def test_a_bridge_and_a_chip_at_one_address_are_refused(said):
    other = Sensor(name="lux", kind="bh1750", bus=3, address=0x4D)
    with said.raises(ConfigError):
        check_config(Config(sensor=(BRIDGED, other)))


def test_a_serial_port_has_one_sensor_of_all_environments():
    at_any = replace(PORT, port="/dev/serial*")
    config = Config(sensor=(PORT,), chamber={"shelf_2": ChamberOptions(sensor=(at_any,))})
    both = "environment_1/at_a_port and shelf_2/at_a_port are both at /dev/serial0"
    with pytest.raises(ConfigError, match=re.escape(f"[chamber.shelf_2.sensor] port: {both}")):
        check_config(config)


@pytest.mark.parametrize("first", [LUX, BRIDGED])
def test_a_bus_is_taken_over_with_the_lines_of_its_bridges(machine, first):
    bridged, lux = SensorDevice(machine, BRIDGED), SensorDevice(machine, LUX)
    with pytest.raises(NotReadyError):
        bridged.read()
    lux.read()

    def use():
        machine.take_over(first.line)
        lux.read()
        with pytest.raises(NotReadyError):
            bridged.read()

    in_another_thread(use)
    for device, words in ((bridged, "taken the line over"), (lux, "taken the bus over")):
        with pytest.raises(TransferError, match=words):
            device.read()


def test_a_serial_line_is_taken_over_alone(machine, said):
    at_a_port, lux = SensorDevice(machine, PORT), SensorDevice(machine, LUX)
    with pytest.raises(NotReadyError):
        at_a_port.read()
    lux.read()

    def use():
        machine.take_over(PORT.line)
        with pytest.raises(NotReadyError):
            at_a_port.read()

    in_another_thread(use)
    with said.raises(TransferError):
        at_a_port.read()
    lux.read()


@pytest.mark.parametrize("kind", ["gpio", "mqtt", "topic", "ads1115"])
@pytest.mark.parametrize("name", ["air_heater", "air_carbon_dioxide"])
def test_the_state_of_an_output_may_stay_for_days_whatever_its_name(kind, name):
    judge = plausibility_of(Sensor(name="clamp", kind=kind, pin=5, topic="t", confirms=name))
    for day in range(4):
        judge.check({name: 0.0}, day * 86_400.0)
        judge.missed(day * 86_400.0 + 1)
        judge.check({name: 1.0}, day * 86_400.0 + 2)
